"""The streaming forecaster as one would write it in eager torch, to be timed beside the compiled one.

The same network and weights, one event or one forecast a call, the memory carried. What a careful author
would do is done: weights taken out of their modules once, nothing recorded for gradients, tensors updated
in place, nothing computed that no later step needs, room for the cache made before. Tokens are tensors
already. Call it within ``torch.inference_mode()``.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from quantattn.forecasters.config import DECAY_CAP
from quantattn.forecasters.network import AttentionNetwork, Block
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY


class EagerStream(Protocol):
    """What is timed of an eager stream."""

    def write(self, entity: str, token: Tensor, available_at: int) -> None:
        """Write one event, shape (event_width,); the entity's name is there for likeness alone."""

    def read(self, entity: str, token: Tensor, at: int) -> Tensor:
        """Read one forecast, shape (outputs,); the memory stays as it is."""


class _Weights(NamedTuple):
    """One block's weights, each pair a matrix (out, in) or gain, and a bias."""

    norm: tuple[Tensor, Tensor]
    projection: tuple[Tensor, Tensor]
    query: tuple[Tensor, Tensor]
    key_value: tuple[Tensor, Tensor]
    mix: tuple[Tensor, Tensor]
    second_norm: tuple[Tensor, Tensor]
    expand: tuple[Tensor, Tensor]
    contract: tuple[Tensor, Tensor]


def _pair(layer: torch.nn.Module) -> tuple[Tensor, Tensor]:
    return cast(Tensor, layer.weight).detach(), cast(Tensor, layer.bias).detach()


def _weights(block: Block) -> _Weights:
    width = block.config.width
    weight, bias = _pair(block.projection)
    return _Weights(
        _pair(block.attention_norm),
        (weight, bias),
        (weight[:width], bias[:width]),
        (weight[width:], bias[width:]),
        _pair(block.mix),
        _pair(block.feed_forward_norm),
        _pair(block.expand),
        _pair(block.contract),
    )


class _Eager:
    """What both attentions share."""

    def __init__(self, network: AttentionNetwork) -> None:
        config = network.config
        self.config = config
        self._size = (config.width,)
        self._heads = (config.heads, config.head_width)
        self._events, self._queries = _pair(network.event_embedding), _pair(network.query_embedding)
        self._final_norm, self._head = _pair(network.final_norm), _pair(network.head)
        self._direct = network.direct.weight.detach()
        self._start = network.start.detach()
        self._blocks = [_weights(cast(Block, block)) for block in network.blocks]
        rates = [0.0 if life is None else 1.0 / life for life in config.half_lives]
        self._rates = torch.tensor(rates, dtype=torch.float64)
        self._last_event: int | None = None

    @property
    def last_event(self) -> int | None:
        """Nanoseconds of the last event written."""
        return self._last_event

    def _steps(self, available_at: int) -> Tensor:
        """Give the half-lives since the event before, one for each head."""
        last = self._last_event
        days = 0.0 if last is None else (available_at - last) / NANOSECONDS_PER_DAY
        self._last_event = available_at
        return (self._rates * days).clamp_(max=DECAY_CAP)

    def _finish(self, block: _Weights, hidden: Tensor, read: Tensor) -> Tensor:
        hidden = hidden + F.linear(read.reshape(self._size), *block.mix)
        normed = F.layer_norm(hidden, self._size, *block.second_norm)
        return hidden + F.linear(F.linear(normed, *block.expand).relu_(), *block.contract)

    def _answer(self, hidden: Tensor, token: Tensor) -> Tensor:
        normed = F.layer_norm(hidden, self._size, *self._final_norm)
        return F.linear(normed, *self._head) + F.linear(token, self._direct)


class EagerLinear(_Eager):
    """Linear attention with its state, elu + 1 features.

    Parameters
    ----------
    network : AttentionNetwork
        Whose weights it takes.
    """

    def __init__(self, network: AttentionNetwork) -> None:
        super().__init__(network)
        heads, rank = self._heads
        self._state = torch.zeros(len(self._blocks), heads, rank, rank + 1)
        self._layers = list(self._state.unbind())
        # A last column of ones sums the features, so that the denominator comes with the read.
        self._values = torch.ones(heads, 1, rank + 1)
        self._value_part = self._values[:, 0, :rank]
        self._write(self._start, torch.ones(heads, 1, 1))

    def write(self, entity: str, token: Tensor, available_at: int) -> None:
        """Write one event, shape (event_width,)."""
        decay = torch.exp2(-self._steps(available_at)).float()[:, None, None]
        self._write(F.linear(token, *self._events), decay)

    def _write(self, hidden: Tensor, decay: Tensor) -> None:
        heads, rank = self._heads
        last = len(self._blocks) - 1
        for place, (block, state) in enumerate(zip(self._blocks, self._layers, strict=True)):
            normed = F.layer_norm(hidden, self._size, *block.norm)
            if place == last:
                key, value = F.linear(normed, *block.key_value).view(2, heads, rank)
            else:
                query, key, value = F.linear(normed, *block.projection).view(3, heads, rank)
            self._value_part.copy_(value)
            state.mul_(decay).addcmul_((F.elu(key) + 1.0)[:, :, None], self._values)
            if place < last:
                hidden = self._finish(block, hidden, self._look(query, state))

    def _look(self, query: Tensor, state: Tensor) -> Tensor:
        found = torch.bmm((F.elu(query) + 1.0)[:, None, :], state)
        rank = self._heads[1]
        return found[..., :rank] / found[..., rank:]

    def read(self, entity: str, token: Tensor, at: int) -> Tensor:
        """Read one forecast, shape (outputs,)."""
        hidden = F.linear(token, *self._queries)
        for block, state in zip(self._blocks, self._layers, strict=True):
            normed = F.layer_norm(hidden, self._size, *block.norm)
            query = F.linear(normed, *block.query).view(self._heads)
            hidden = self._finish(block, hidden, self._look(query, state))
        return self._answer(hidden, token)


class EagerSoftmax(_Eager):
    """Softmax attention with a key/value cache, read by torch's ``scaled_dot_product_attention``.

    Parameters
    ----------
    network : AttentionNetwork
        Whose weights it takes.
    capacity : int
        Most events that it will hold, the start token counted.
    """

    def __init__(self, network: AttentionNetwork, capacity: int) -> None:
        super().__init__(network)
        heads, rank = self._heads
        self._keys = torch.zeros(len(self._blocks), 1, heads, capacity, rank)
        self._values = torch.zeros_like(self._keys)
        self._clock = torch.zeros(1, heads, 1, capacity, dtype=torch.float64)
        self._decays = any(life is not None for life in self.config.half_lives)
        self._count = 0
        self._write(self._start, torch.zeros(heads, dtype=torch.float64))

    @property
    def count(self) -> int:
        """Events in the cache; the start token is none."""
        return self._count - 1

    def fill(self, count: int, last_event: int) -> None:
        """Make the cache hold so many events, random ones where none was written; also forgets later ones.

        What a step costs depends on how many keys there are, not on what they are.
        """
        more = count + 1 - self._count
        if more > 0:
            generator = torch.Generator().manual_seed(7)
            heads, rank = self._heads
            for kept in (self._keys, self._values):
                drawn = torch.randn(len(self._blocks), 1, heads, more, rank, generator=generator)
                kept[..., self._count : count + 1, :] = drawn
            self._clock[..., self._count : count + 1] = self._clock[..., self._count - 1 : self._count]
        self._count, self._last_event = count + 1, last_event

    def write(self, entity: str, token: Tensor, available_at: int) -> None:
        """Write one event, shape (event_width,)."""
        self._write(F.linear(token, *self._events), self._steps(available_at))

    def _write(self, hidden: Tensor, steps: Tensor) -> None:
        at, (heads, rank) = self._count, self._heads
        clock = self._clock[0, :, 0]
        if at:
            torch.add(clock[:, at - 1], steps, out=clock[:, at])
        self._count = at + 1
        bias = self._bias()
        last = len(self._blocks) - 1
        for place, block in enumerate(self._blocks):
            normed = F.layer_norm(hidden, self._size, *block.norm)
            if place == last:
                key, value = F.linear(normed, *block.key_value).view(2, heads, rank)
            else:
                query, key, value = F.linear(normed, *block.projection).view(3, heads, rank)
            self._keys[place, 0, :, at] = key
            self._values[place, 0, :, at] = value
            if place < last:
                hidden = self._finish(block, hidden, self._look(query, place, bias))

    def _bias(self) -> Tensor | None:
        """Give what decay takes off the logits of each key; the instant of the last event is now."""
        if not self._decays:
            return None
        clock = self._clock[..., : self._count]
        return (clock - clock[..., -1:]).mul_(math.log(2.0)).float()

    def _look(self, query: Tensor, place: int, bias: Tensor | None) -> Tensor:
        end = self._count
        return F.scaled_dot_product_attention(
            query[None, :, None, :],
            self._keys[place, :, :, :end],
            self._values[place, :, :, :end],
            attn_mask=bias,
        )

    def read(self, entity: str, token: Tensor, at: int) -> Tensor:
        """Read one forecast, shape (outputs,)."""
        hidden = F.linear(token, *self._queries)
        bias = self._bias()
        for place, block in enumerate(self._blocks):
            normed = F.layer_norm(hidden, self._size, *block.norm)
            query = F.linear(normed, *block.query).view(self._heads)
            hidden = self._finish(block, hidden, self._look(query, place, bias))
        return self._answer(hidden, token)
