"""Small token sequences and networks for the tests of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from quantattn.forecasters import AttentionNetwork, EntityTokens, NetworkConfig
from quantattn.forecasters.config import Attention

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
START = 1_577_923_200 * SECOND  # 2020-01-02T00:00:00Z
EVENT_WIDTH, QUERY_WIDTH = 3, 4


def tokens_of(
    event_times: Sequence[int],
    query_times: Sequence[int],
    *,
    entity: str = "A",
    rows: Sequence[int] | None = None,
    seed: int = 0,
) -> EntityTokens:
    """Tokens of random features at given times; what is visible is counted by a loop."""
    generator = np.random.default_rng(seed)
    n, m = len(event_times), len(query_times)
    counts = [sum(1 for event in event_times if event < query) for query in query_times]
    return EntityTokens(
        entity=entity,
        events=generator.standard_normal((n, EVENT_WIDTH)).astype(np.float32),
        event_times=np.array(event_times, np.int64),
        queries=generator.standard_normal((m, QUERY_WIDTH)).astype(np.float32),
        query_times=np.array(query_times, np.int64),
        counts=np.array(counts, np.int64),
        rows=np.array(range(m) if rows is None else rows, np.int64),
    )


def random_tokens(
    events: int, queries: int, *, entity: str = "A", first_row: int = 0, seed: int = 0
) -> EntityTokens:
    """Events from minutes to weeks apart, some at the same instant; some forecasts at an event's instant."""
    generator = np.random.default_rng(1000 + seed)
    gaps = (10 ** generator.uniform(-3, 1.2, events) * DAY).astype(np.int64)
    gaps[generator.random(events) < 0.2] = 0
    event_times = START + np.cumsum(gaps)
    end = int(event_times[-1]) if events else START
    query_times = generator.integers(START - DAY, end + 3 * DAY, queries)
    if events:
        query_times[::3] = generator.choice(event_times, len(query_times[::3]))
    query_times.sort()
    rows = range(first_row, first_row + queries)
    return tokens_of(event_times.tolist(), query_times.tolist(), entity=entity, rows=rows, seed=seed)


def panel(entities: int = 3, events: int = 40, queries: int = 9, *, seed: int = 0) -> list[EntityTokens]:
    """Entities of different lengths with rows of their own."""
    return [
        random_tokens(
            events + 7 * number,
            queries + number,
            entity=f"E{number}",
            first_row=100 * number,
            seed=seed + 10 * number,
        )
        for number in range(entities)
    ]


def small_config(attention: Attention = "linear", **options: Any) -> NetworkConfig:
    sizes: dict[str, Any] = {
        "width": 8,
        "heads": 2,
        "layers": 2,
        "feed_forward": 12,
        "half_lives": (5.0, None),
    }
    return NetworkConfig(attention=attention, **{**sizes, **options})


def random_network(config: NetworkConfig, *, seed: int = 0) -> AttentionNetwork:
    """A network all of whose weights are random; a fresh one forecasts zero."""
    network = AttentionNetwork(config, EVENT_WIDTH, QUERY_WIDTH).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if "norm.weight" in name:
                weight.copy_(1 + 0.2 * noise)
            else:
                weight.copy_(noise * (0.5 if weight.ndim < 2 else weight.shape[1] ** -0.5))
    return network


def in_float64(network: AttentionNetwork) -> AttentionNetwork:
    twin = AttentionNetwork(network.config, network.event_width, network.query_width)
    twin.load_state_dict(network.state_dict())
    return twin.double().eval()
