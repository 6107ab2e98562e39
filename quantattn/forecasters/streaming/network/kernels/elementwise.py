"""Layer norm, exponentials and decay on padded rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import (
    add,
    compiled,
    fma,
    least,
    load,
    most,
    multiply,
    nearest,
    number,
    power_of_two,
    spread,
    store,
    subtract,
    total,
)
from quantattn.forecasters.config import DECAY_CAP
from quantattn.forecasters.streaming.network.kernels.lanes import from_lane, where_greater
from quantattn.forecasters.streaming.network.kernels.plan import LANES
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
EPSILON = np.float32(1e-5)  # of torch's LayerNorm
LOWEST = np.float32(-87.0)  # exp of less is zero here
_WIDE = 8  # numbers of a float64 vector


@compiled
def exponential(x: Any) -> Any:
    """Give exp(x) for a float32 vector of x <= 0, to 2 ulp.

    The exponent is split as k ln(2) + r, r at most ln(2) / 2 in size; exp(r) is a Taylor polynomial of
    degree 7, whose remainder there is below 2 ** -27, and 2 ** k is assembled from its bits. Below -87 the
    result is zero; NaN stays NaN.
    """
    lowest = spread(LOWEST)
    k = nearest(multiply(most(x, lowest), spread(np.float32(1.44269504))))
    r = fma(k, spread(np.float32(-0.693359375)), x)
    r = fma(k, spread(np.float32(2.12194440e-4)), r)
    p = fma(spread(np.float32(1.0 / 5040.0)), r, spread(np.float32(1.0 / 720.0)))
    p = fma(p, r, spread(np.float32(1.0 / 120.0)))
    p = fma(p, r, spread(np.float32(1.0 / 24.0)))
    p = fma(p, r, spread(np.float32(1.0 / 6.0)))
    p = fma(p, r, spread(np.float32(0.5)))
    p = fma(p, r, spread(ONE))
    p = fma(p, r, spread(ONE))
    return where_greater(lowest, x, spread(ZERO), multiply(p, power_of_two(k)))


@compiled
def elu1(x: Any, vectors: int) -> None:
    """Replace numbers by elu(x) + 1."""
    zero = spread(ZERO)
    for at in range(0, vectors * LANES, LANES):
        value = load(x, at)
        # The lesser of NaN and zero would be zero, and hide it.
        below = where_greater(value, zero, zero, value)
        store(x, at, where_greater(value, zero, add(value, spread(ONE)), exponential(below)))


@compiled
def relu(x: Any, vectors: int) -> None:
    """Replace negative numbers by zero; NaN stays NaN."""
    zero = spread(ZERO)
    for at in range(0, vectors * LANES, LANES):
        value = load(x, at)
        store(x, at, where_greater(zero, value, zero, value))


@compiled
def add_to(x: Any, y: Any, vectors: int) -> None:
    """Add `y` to `x`."""
    for at in range(0, vectors * LANES, LANES):
        store(x, at, add(load(x, at), load(y, at)))


@compiled
def copy(x: Any, y: Any, vectors: int) -> None:
    """Copy `y` to `x`."""
    for at in range(0, vectors * LANES, LANES):
        store(x, at, load(y, at))


@compiled
def layer_norm(weights: Any, at: int, x: Any, width: int, vectors: int, out: Any) -> None:
    """Normalise a row over its width; gain and bias lie at `at`, one behind the other."""
    zero = spread(ZERO)
    size = np.float32(width)
    wide = vectors * LANES
    sums = zero
    for place in range(0, wide, LANES):
        sums = add(sums, from_lane(load(x, place), zero, width - place))
    mean = spread(total(sums) / size)
    squares = zero
    for place in range(0, wide, LANES):
        apart = from_lane(subtract(load(x, place), mean), zero, width - place)
        squares = fma(apart, apart, squares)
    scale = spread(ONE / np.float32(math.sqrt(total(squares) / size + EPSILON)))
    for place in range(0, wide, LANES):
        scaled = multiply(subtract(load(x, place), mean), scale)
        store(out, place, fma(scaled, load(weights, at + place), load(weights, at + wide + place)))


@compiled
def half_lives(elapsed: int, rates: Any, heads: int, out: Any) -> None:
    """Give how many half-lives a time in nanoseconds takes off in each head, capped."""
    days = elapsed / NANOSECONDS_PER_DAY
    for at in range(0, heads, _WIDE):
        passed = multiply(spread(days), load(rates, at))
        store(out, at, least(passed, number(passed, DECAY_CAP)))


@compiled
def decays(steps: Any, heads: int, out: Any) -> None:
    """Replace half-lives by the factor 2 ** -steps, rounded to float32 last.

    As :func:`exponential`, in float64: r is at most 1/2 in size, and a polynomial of degree 13 in r ln(2)
    leaves less than a unit in the last place.
    """
    for at in range(0, heads, _WIDE):
        x = load(steps, at)
        x = subtract(number(x, 0.0), x)
        k = nearest(x)
        r = multiply(subtract(x, k), number(x, 0.6931471805599453))
        p = number(x, 1.0 / 6227020800.0)
        p = fma(p, r, number(x, 1.0 / 479001600.0))
        p = fma(p, r, number(x, 1.0 / 39916800.0))
        p = fma(p, r, number(x, 1.0 / 3628800.0))
        p = fma(p, r, number(x, 1.0 / 362880.0))
        p = fma(p, r, number(x, 1.0 / 40320.0))
        p = fma(p, r, number(x, 1.0 / 5040.0))
        p = fma(p, r, number(x, 1.0 / 720.0))
        p = fma(p, r, number(x, 1.0 / 120.0))
        p = fma(p, r, number(x, 1.0 / 24.0))
        p = fma(p, r, number(x, 1.0 / 6.0))
        p = fma(p, r, number(x, 1.0 / 2.0))
        p = fma(p, r, number(x, 1.0))
        p = fma(p, r, number(x, 1.0))
        store(steps, at, multiply(p, power_of_two(k)))
    for head in range(heads):
        out[head] = np.float32(steps[head])
