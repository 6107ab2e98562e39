"""The pieces of the compiled steps on arrays, for tests."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from quantattn.attention.backends._vectors import load, pointer, store
from quantattn.forecasters.streaming.network.kernels import elementwise, lanes, tiles

F, D = np.float32(0.0), np.float64(0.0)


@numba.njit
def affine(
    weights: Any, x: Any, x_step: int, n: int, vectors: int, out: Any, out_step: int, rows: int
) -> int:
    return tiles.affine(
        pointer(weights.ctypes.data, F), 0, pointer(x.ctypes.data, F), x_step, n, vectors,
        pointer(out.ctypes.data, F), out_step, rows,
    )  # fmt: skip


@numba.njit
def exponential(x: Any) -> None:
    """Replace each number; the size is a multiple of 16."""
    at_x = pointer(x.ctypes.data, F)
    for at in range(0, len(x), 16):
        store(at_x, at, elementwise.exponential(load(at_x, at)))


@numba.njit
def elu1(x: Any) -> None:
    elementwise.elu1(pointer(x.ctypes.data, F), len(x) // 16)


@numba.njit
def relu(x: Any) -> None:
    elementwise.relu(pointer(x.ctypes.data, F), len(x) // 16)


@numba.njit
def layer_norm(gain_and_bias: Any, x: Any, width: int, out: Any) -> None:
    elementwise.layer_norm(
        pointer(gain_and_bias.ctypes.data, F), 0, pointer(x.ctypes.data, F), width, len(x) // 16,
        pointer(out.ctypes.data, F),
    )  # fmt: skip


@numba.njit
def half_lives(elapsed: int, rates: Any, heads: int, out: Any) -> None:
    elementwise.half_lives(elapsed, pointer(rates.ctypes.data, D), heads, pointer(out.ctypes.data, D))


@numba.njit
def decays(steps: Any, heads: int, out: Any) -> None:
    elementwise.decays(pointer(steps.ctypes.data, D), heads, pointer(out.ctypes.data, F))


@numba.njit
def from_lane(a: Any, b: Any, lane: int, out: Any) -> None:
    first, second = pointer(a.ctypes.data, F), pointer(b.ctypes.data, F)
    store(pointer(out.ctypes.data, F), 0, lanes.from_lane(load(first, 0), load(second, 0), lane))


@numba.njit
def highest(x: Any) -> float:
    return lanes.highest(load(pointer(x.ctypes.data, F), 0))


@numba.njit
def fused(a: Any, b: Any, c: Any) -> Any:
    return lanes.fused(a, b, c)


@numba.njit
def aged(clock: Any, now: float, factor: float, out: Any) -> None:
    store(pointer(out.ctypes.data, F), 0, lanes.aged(pointer(clock.ctypes.data, D), 0, now, factor))
