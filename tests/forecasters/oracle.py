"""The forecaster as DESIGN says it, for one sequence: plain loops over numpy rows in float64.

Events write and forecasts read; nothing is merged, padded, batched or carried in a state. Only the weights
come from the package.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quantattn.forecasters import AttentionNetwork, EntityTokens

DAY = 86_400 * 10**9


def half_lives_between(older: int, newer: int, life: float | None) -> float:
    """Half-lives that one gap takes off, at most 32."""
    return 0.0 if life is None else min((newer - older) / DAY / life, 32.0)


class _Weights:
    def __init__(self, network: AttentionNetwork) -> None:
        self.all = {name: value.double().numpy() for name, value in network.state_dict().items()}

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        y = self.all[f"{name}.weight"] @ x
        return y + self.all[f"{name}.bias"] if f"{name}.bias" in self.all else y

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean()
        scaled = centred / math.sqrt((centred**2).mean() + 1e-5)
        return scaled * self.all[f"{name}.weight"] + self.all[f"{name}.bias"]


def similarity(attention: str, query: np.ndarray, key: np.ndarray) -> float:
    """Weight of a key before any decay: features for linear, the exponential for softmax."""
    if attention == "softmax":
        return math.exp(float(query @ key) / math.sqrt(len(query)))

    def feature(x: np.ndarray) -> np.ndarray:
        return np.array([value + 1 if value > 0 else math.exp(value) for value in x])

    return float(feature(query) @ feature(key))


def naive_forecasts(network: AttentionNetwork, tokens: EntityTokens) -> np.ndarray:
    """Forecast every query from the events whose time is strictly earlier."""
    config, weights = network.config, _Weights(network)
    width, heads = config.width, config.heads
    rank = width // heads
    times = [None, *tokens.event_times.tolist()]  # the start token has no time

    def aged(j: int, last: int, head: int) -> float:
        """Decay of memory j once token `last` has been written."""
        spans = range(j + 1, last + 1)
        lost = 0.0
        for k in spans:
            if times[k - 1] is not None:
                lost += half_lives_between(times[k - 1], times[k], config.half_lives[head])
        return 0.5**lost

    def block(layer: int, x: np.ndarray, memory: list[Any], last: int) -> np.ndarray:
        """Read the memories up to `last`; the time from it to the read cancels."""
        query = weights.linear(
            f"blocks.{layer}.projection", weights.norm(f"blocks.{layer}.attention_norm", x)
        )
        read = np.zeros(width)
        for head in range(heads):
            own = slice(head * rank, (head + 1) * rank)
            above, below = np.zeros(rank), 0.0
            for j in range(last + 1):
                key, value = memory[j]
                weight = similarity(config.attention, query[:width][own], key[own]) * aged(j, last, head)
                above, below = above + weight * value[own], below + weight
            read[own] = above / below
        x = x + weights.linear(f"blocks.{layer}.mix", read)
        inner = weights.linear(f"blocks.{layer}.expand", weights.norm(f"blocks.{layer}.feed_forward_norm", x))
        return x + weights.linear(f"blocks.{layer}.contract", np.maximum(inner, 0))

    def written(layer: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = weights.linear(f"blocks.{layer}.projection", weights.norm(f"blocks.{layer}.attention_norm", x))
        return y[width : 2 * width], y[2 * width :]

    hidden = [weights.all["start"]]
    hidden += [weights.linear("event_embedding", event.astype(float)) for event in tokens.events]
    memories: list[list[Any]] = []
    for layer in range(config.layers):
        memories.append([written(layer, x) for x in hidden])
        hidden = [block(layer, x, memories[layer], place) for place, x in enumerate(hidden)]
    forecasts = []
    for query, at in zip(tokens.queries, tokens.query_times.tolist(), strict=True):
        last = sum(1 for time in tokens.event_times.tolist() if time < at)
        x = weights.linear("query_embedding", query.astype(float))
        for layer in range(config.layers):
            x = block(layer, x, memories[layer], last)
        read = weights.linear("head", weights.norm("final_norm", x))
        forecasts.append(float((read + weights.linear("direct", query.astype(float)))[0]))
    return np.array(forecasts)
