"""A step of the linear attention: the sums of key features against values, of one layer and entity.

A state lies in panels of one vector of columns, for each column the values' sums in the rows of its head
(rank of them); the sums of the key features alone, the denominators' weights, come behind.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import add, compiled, divide, fma, load, multiply, spread, store
from quantattn.forecasters.streaming.network.kernels.lanes import from_lane, fused
from quantattn.forecasters.streaming.network.kernels.plan import LANES

ZERO = np.float32(0.0)


@compiled
def _by_head(numbers: Any, at: int, step: int, column: int, first: int, last: int, rank: int) -> Any:
    """Give a vector of columns with ``numbers[at + head * step]`` in each head's lanes."""
    vector = spread(numbers[at + first * step])
    for head in range(first + 1, last + 1):
        vector = from_lane(vector, spread(numbers[at + head * step]), head * rank - column)
    return vector


@compiled
def linear_write(
    state: Any,
    key: Any,
    value: Any,
    query: Any,
    decay: Any,
    heads: int,
    rank: int,
    vectors: int,
    reads: bool,
    out: Any,
) -> None:
    """Decay a layer's state and add a key and value; with `reads` also write the query's sums to `out`."""
    sums = vectors * LANES * rank
    for column in range(0, vectors * LANES, LANES):
        first, last = column // rank, min((column + LANES - 1) // rank, heads - 1)
        kept = _by_head(decay, 0, 1, column, first, last, rank)
        store(state, sums + column, add(multiply(load(state, sums + column), kept), load(key, column)))
        values = load(value, column)
        at = column * rank
        read = spread(ZERO)
        if first == last:
            own = first * rank
            for i in range(rank):
                row = fma(spread(key[own + i]), values, multiply(load(state, at), kept))
                store(state, at, row)
                if reads:
                    read = fma(spread(query[own + i]), row, read)
                at += LANES
        else:
            for i in range(rank):
                feature = _by_head(key, i, rank, column, first, last, rank)
                row = fma(feature, values, multiply(load(state, at), kept))
                store(state, at, row)
                if reads:
                    read = fma(_by_head(query, i, rank, column, first, last, rank), row, read)
                at += LANES
        if reads:
            store(out, column, read)


@compiled
def linear_sums(state: Any, query: Any, heads: int, rank: int, vectors: int, out: Any) -> None:
    """Write the query's sums to `out`: what :func:`linear_write` gives, on a state that stays as it is."""
    for column in range(0, vectors * LANES, LANES):
        first, last = column // rank, min((column + LANES - 1) // rank, heads - 1)
        at = column * rank
        read = spread(ZERO)
        if first == last:
            own = first * rank
            for i in range(rank):
                read = fma(spread(query[own + i]), load(state, at), read)
                at += LANES
        else:
            for i in range(rank):
                read = fma(_by_head(query, i, rank, column, first, last, rank), load(state, at), read)
                at += LANES
        store(out, column, read)


@compiled
def linear_ratio(
    state: Any, query: Any, heads: int, rank: int, vectors: int, denominators: Any, out: Any, least: Any
) -> int:
    """Divide the query's sums in `out` by their denominators.

    Give the number of heads whose denominator is not positive and finite; the least of all is kept in
    ``least[0]``.
    """
    sums = vectors * LANES * rank
    bad = 0
    for head in range(heads):
        denominator = ZERO
        for i in range(head * rank, (head + 1) * rank):
            denominator = fused(query[i], state[sums + i], denominator)
        denominators[head] = denominator
        if not (denominator > ZERO and math.isfinite(denominator)):
            bad += 1
        least[0] = min(least[0], np.float64(denominator))
    for column in range(0, vectors * LANES, LANES):
        first, last = column // rank, min((column + LANES - 1) // rank, heads - 1)
        below = _by_head(denominators, 0, 1, column, first, last, rank)
        store(out, column, divide(load(out, column), below))
    return bad
