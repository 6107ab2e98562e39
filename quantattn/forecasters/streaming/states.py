"""What a streaming forecaster remembers of one entity, and the step that each attention takes."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from quantattn.forecasters.streaming import kernels
from quantattn.forecasters.streaming.packing import PackedNetwork

Floats = npt.NDArray[np.float32]
Clock = npt.NDArray[np.float64]


def _scratch(packed: PackedNetwork) -> Floats:
    _, _, width, _, _, inner, _ = packed.sizes
    return np.zeros((7, max(3 * width, inner, width + 1)), np.float32)


class EntityState(Protocol):
    """The memory of one entity."""

    def write(self, token: Floats, steps: Clock, *, is_start: bool) -> int:
        """Write one event; give the number of reads without a valid denominator."""

    def write_many(self, tokens: Floats, steps: Clock) -> int:
        """Write several events in order, bit for bit as one by one."""

    def read(self, token: Floats, out: Floats) -> int:
        """Read one forecast into `out`, (outputs,); give the number of reads without a valid denominator."""

    @property
    def nbytes(self) -> int:
        """Bytes that the memory of this entity holds."""


class LinearState:
    """A fixed-width state: key features against values, per layer and head.

    Parameters
    ----------
    packed : PackedNetwork
        The network that writes it.
    """

    def __init__(self, packed: PackedNetwork) -> None:
        _, _, width, heads, layers, _, _ = packed.sizes
        rank = width // heads
        self._packed = packed
        self._state = np.zeros(layers * heads * rank * (rank + 1), np.float32)
        self._scratch = _scratch(packed)

    def write(self, token: Floats, steps: Clock, *, is_start: bool) -> int:
        """Write one event `steps` half-lives (per head) after the one before."""
        decay = np.exp2(-steps).astype(np.float32)
        return int(
            kernels.linear_update(
                self._packed.weights, self._packed.sizes, self._state, token, is_start, decay, self._scratch
            )
        )

    def write_many(self, tokens: Floats, steps: Clock) -> int:
        """Write several events in order."""
        decays = np.exp2(-steps).astype(np.float32)
        return int(
            kernels.linear_update_many(
                self._packed.weights, self._packed.sizes, self._state, tokens, decays, self._scratch
            )
        )

    def read(self, token: Floats, out: Floats) -> int:
        """Read one forecast; the state stays as it is."""
        return int(
            kernels.linear_forecast(
                self._packed.weights, self._packed.sizes, self._state, token, self._scratch, out
            )
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return self._state.nbytes


class SoftmaxState:
    """A growing key/value cache; its capacity doubles when it is full.

    Parameters
    ----------
    packed : PackedNetwork
        The network that writes it.
    capacity : int, default 1024
        Events to make room for at first.
    """

    def __init__(self, packed: PackedNetwork, capacity: int = 1024) -> None:
        self._packed = packed
        self._count = 0
        self._scratch = _scratch(packed)
        self._allocate(max(1, capacity))

    def _allocate(self, capacity: int) -> None:
        _, _, width, heads, layers, _, _ = self._packed.sizes
        rank = width // heads
        self._keys = np.zeros((layers, heads, rank, capacity), np.float32)
        self._values = np.zeros((layers, heads, rank, capacity), np.float32)
        self._clock = np.zeros((heads, capacity), np.float64)
        self._logits = np.zeros(capacity, np.float32)
        self._power = np.zeros(capacity, np.float32)
        self._bits = self._power.view(np.int32)

    def _grow(self) -> None:
        keys, values, clock = self._keys, self._values, self._clock
        self._allocate(2 * clock.shape[1])
        self._keys[..., : self._count] = keys[..., : self._count]
        self._values[..., : self._count] = values[..., : self._count]
        self._clock[:, : self._count] = clock[:, : self._count]

    def write(self, token: Floats, steps: Clock, *, is_start: bool) -> int:
        """Write one event `steps` half-lives (per head) after the one before."""
        if self._count == self._clock.shape[1]:
            self._grow()
        bad = kernels.softmax_update(
            self._packed.weights, self._packed.sizes, self._keys, self._values, self._clock, self._count,
            token, is_start, steps, self._scratch, self._logits, self._power, self._bits,
        )  # fmt: skip
        self._count += 1
        return int(bad)

    def write_many(self, tokens: Floats, steps: Clock) -> int:
        """Write several events in order."""
        while self._count + len(tokens) > self._clock.shape[1]:
            self._grow()
        bad = kernels.softmax_update_many(
            self._packed.weights, self._packed.sizes, self._keys, self._values, self._clock, self._count,
            tokens, steps, self._scratch, self._logits, self._power, self._bits,
        )  # fmt: skip
        self._count += len(tokens)
        return int(bad)

    def read(self, token: Floats, out: Floats) -> int:
        """Read one forecast; the cache stays as it is."""
        return int(
            kernels.softmax_forecast(
                self._packed.weights, self._packed.sizes, self._keys, self._values, self._clock, self._count,
                token, self._scratch, self._logits, self._power, self._bits, out,
            )
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, values and clock in use."""
        per_event = (self._keys.nbytes + self._values.nbytes + self._clock.nbytes) // self._clock.shape[1]
        return per_event * self._count
