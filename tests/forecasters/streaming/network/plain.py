"""A stream in a page of plain torch in float64: one token at a time, nothing batched, padded or compiled."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quantattn.forecasters import AttentionNetwork
from tests.forecasters.oracle import half_lives_between
from tests.forecasters.sequences import in_float64


class PlainMemory:
    """What one entity has written: for each layer keys and values, and when each came, in half-lives."""

    def __init__(self, layers: int, heads: int) -> None:
        self.keys: list[list[Tensor]] = [[] for _ in range(layers)]
        self.values: list[list[Tensor]] = [[] for _ in range(layers)]
        self.clock: list[np.ndarray] = []
        self.now = np.zeros(heads)
        self.last: int | None = None
        self.count = 0


class PlainStream:
    """The same calls as a NetworkStream has, for events and queries in order."""

    def __init__(self, network: AttentionNetwork) -> None:
        self.network: Any = in_float64(network)
        self.config = network.config
        self.memories: dict[str, PlainMemory] = {}

    @torch.no_grad()
    def _pass(self, memory: PlainMemory, hidden: Tensor, writes: bool) -> Tensor:
        heads, width = self.config.heads, self.config.width
        if writes:
            memory.clock.append(memory.now.copy())
        for layer, block in enumerate(self.network.blocks):
            query, key, value = (
                part.view(heads, -1) for part in block.projection(block.attention_norm(hidden)).chunk(3)
            )
            if writes:
                memory.keys[layer].append(key)
                memory.values[layer].append(value)
            keys, values = torch.stack(memory.keys[layer]), torch.stack(memory.values[layer])
            age = torch.from_numpy(np.stack(memory.clock) - memory.now)
            if self.config.attention == "linear":
                features = [torch.nn.functional.elu(x) + 1 for x in (query, keys)]
                weights = (features[0] * features[1]).sum(-1) * torch.exp2(age)
            else:
                logits = (query * keys).sum(-1) / (width // heads) ** 0.5 + age * float(np.log(2))
                weights = torch.exp(logits - logits.max(0).values)
            read = (weights[..., None] * values).sum(0) / weights.sum(0)[:, None]
            hidden = hidden + block.mix(read.reshape(width))
            inner = block.expand(block.feed_forward_norm(hidden))
            hidden = hidden + block.contract(torch.relu(inner))
        return hidden

    def add(self, entity: str, like: str | None = None) -> None:
        if like is not None:
            self.memories[entity] = copy.deepcopy(self.memories[like])
            return
        memory = PlainMemory(self.config.layers, self.config.heads)
        self._pass(memory, self.network.start.detach(), writes=True)
        self.memories[entity] = memory

    @torch.no_grad()
    def write(self, entity: str, token: np.ndarray, at: int) -> None:
        if entity not in self.memories:
            self.add(entity)
        memory = self.memories[entity]
        if memory.last is not None:
            gaps = [half_lives_between(memory.last, at, life) for life in self.config.half_lives]
            memory.now = memory.now + np.array(gaps)
        self._pass(memory, self.network.event_embedding(torch.from_numpy(token).double()), writes=True)
        memory.last, memory.count = at, memory.count + 1

    @torch.no_grad()
    def read(self, entity: str, token: np.ndarray) -> np.ndarray:
        if entity not in self.memories:
            self.add(entity)
        query = torch.from_numpy(token).double()
        hidden = self._pass(self.memories[entity], self.network.query_embedding(query), writes=False)
        answer = self.network.head(self.network.final_norm(hidden)) + self.network.direct(query)
        return np.asarray(answer.numpy())
