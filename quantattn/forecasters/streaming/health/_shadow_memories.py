"""What a float64 shadow remembers of one entity: the sums of the linear attention, or every key and value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import StateError

Floats64 = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]

_FIRST_CAPACITY = 64


def _features(x: Floats64) -> Floats64:
    """Give elu(x) + 1."""
    features: Floats64 = np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))
    return features


class LinearMemory:
    """Key features against values and a last column of ones, by layer and head."""

    def __init__(self, layers: int, heads: int, rank: int) -> None:
        self._state = np.zeros((layers, heads, rank, rank + 1))

    def age(self, steps: Floats64) -> None:
        """Let half-lives pass, by head."""
        self._state *= np.exp2(-steps)[None, :, None, None]

    def add(self, layer: int, key: Floats64, value: Floats64) -> None:
        """Add the key and value of the newest token, (heads, rank) each."""
        ones = np.ones((len(value), 1))
        self._state[layer] += _features(key)[:, :, None] * np.concatenate([value, ones], 1)[:, None, :]

    def read(self, layer: int, query: Floats64) -> Floats64:
        """Read a layer, (heads, rank)."""
        sums = (_features(query)[:, None, :] @ self._state[layer])[:, 0]
        ratio: Floats64 = sums[:, :-1] / sums[:, -1:]
        return ratio

    def arrays(self) -> Arrays:
        """Give copies of what is remembered."""
        return {"state": self._state.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], events: int) -> None:
        """Put back what :meth:`arrays` gave after so many events."""
        self._state = _fitting(arrays, "state", self._state.shape).copy()


class SoftmaxMemory:
    """Every key and value by layer and head, and when each was written, in half-lives by head."""

    def __init__(self, layers: int, heads: int, rank: int) -> None:
        self._count = 0
        self._now = np.zeros(heads)
        self._keys = np.zeros((layers, heads, _FIRST_CAPACITY, rank))
        self._values = np.zeros_like(self._keys)
        self._clock = np.zeros((heads, _FIRST_CAPACITY))

    def age(self, steps: Floats64) -> None:
        """Let half-lives pass, by head, and make room for one more token."""
        if self._count == self._clock.shape[1]:
            self._keys = np.concatenate([self._keys, np.zeros_like(self._keys)], 2)
            self._values = np.concatenate([self._values, np.zeros_like(self._values)], 2)
            self._clock = np.concatenate([self._clock, np.zeros_like(self._clock)], 1)
        self._now = self._now + steps
        self._clock[:, self._count] = self._now
        self._count += 1

    def add(self, layer: int, key: Floats64, value: Floats64) -> None:
        """Add the key and value of the newest token, (heads, rank) each."""
        self._keys[layer, :, self._count - 1] = key
        self._values[layer, :, self._count - 1] = value

    def read(self, layer: int, query: Floats64) -> Floats64:
        """Read a layer, (heads, rank)."""
        keys, values = self._keys[layer, :, : self._count], self._values[layer, :, : self._count]
        logits = (keys @ query[:, :, None])[:, :, 0] / math.sqrt(query.shape[1])
        logits += math.log(2.0) * (self._clock[:, : self._count] - self._now[:, None])
        weights = np.exp(logits - logits.max(1, keepdims=True))
        mean: Floats64 = (weights[:, None, :] @ values)[:, 0] / weights.sum(1, keepdims=True)
        return mean

    def arrays(self) -> Arrays:
        """Give copies of what is remembered."""
        used = slice(0, self._count)
        return {
            "keys": self._keys[:, :, used].copy(),
            "values": self._values[:, :, used].copy(),
            "clock": self._clock[:, used].copy(),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], events: int) -> None:
        """Put back what :meth:`arrays` gave after so many events."""
        count = events + 1  # the start token
        layers, heads, _, rank = self._keys.shape
        keys = _fitting(arrays, "keys", (layers, heads, count, rank))
        values = _fitting(arrays, "values", (layers, heads, count, rank))
        clock = _fitting(arrays, "clock", (heads, count))
        self._keys, self._values, self._clock = keys.copy(), values.copy(), clock.copy()
        self._count, self._now = count, clock[:, -1].copy()


def _fitting(arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...]) -> Floats64:
    array = arrays[name]
    if array.dtype != np.float64 or array.shape != shape:
        raise StateError(
            f"the shadow's {name!r} is {array.dtype} of shape {array.shape}, this network's is float64 of "
            f"shape {shape}; restore what memory() of the same network gave"
        )
    if not np.isfinite(array).all():
        raise StateError(f"the shadow's {name!r} holds numbers that are not finite; start the shadow anew")
    return array
