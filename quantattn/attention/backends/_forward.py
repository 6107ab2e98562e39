"""The forward sweep: keys are written in their order, queries read on the way."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from quantattn.attention.backends._panels import READ, READ_WRITE, WRITE, WRITE_READ, scan
from quantattn.attention.backends._rows import (
    dot,
    fetch,
    fetch_keys,
    fetch_rows,
    padded,
    put,
    queries_to_features,
    work_space,
)
from quantattn.attention.backends._vectors import VECTOR_BYTES, fma, load, multiply, spread, store

BLOCK = 32
"""Rows fetched at a time: queries, keys, values and results of a block stay in the nearest cache."""
COUNTED = 4
"""Order of a sweep in which every query reads at its own count of keys."""

_compile = numba.njit(nogil=True, error_model="numpy")


@_compile  # type: ignore[untyped-decorator]
def _scan_mass(
    order: int,
    decays: bool,
    mass: Any,
    width: int,
    keys: Any,
    queries: Any,
    g: Any,
    read: Any,
    first: int,
    steps: int,
    ld: int,
) -> None:
    """Do to the sums of key features what :func:`scan` does to the state."""
    lanes = VECTOR_BYTES // mass.itemsize
    one = spread(mass.dtype.type(1))
    for step in range(first, first + steps):
        if order == READ_WRITE or order == READ:
            read[step] = dot(queries, step * ld, mass, 0, width)
        if decays:
            factor = spread(g[step])
            for i in range(0, width, lanes):
                store(mass, i, multiply(load(mass, i), factor))
        if order != READ:
            for i in range(0, width, lanes):
                store(mass, i, fma(load(keys, step * ld + i), one, load(mass, i)))
        if order == WRITE_READ:
            read[step] = dot(queries, step * ld, mass, 0, width)


@_compile  # type: ignore[untyped-decorator]
def load_state(given: Any, at: int, rank: int, width: int, state: Any, ldm: int, mass: Any) -> None:
    """Unpack a state ``(rank, width + 1)``; an empty one is zero."""
    for i in range(rank):
        row = at + i * (width + 1)
        if given.size:
            fetch(given, row, width, state, i * ldm)
            mass[i] = given[row + width]


@_compile  # type: ignore[untyped-decorator]
def forward_sweep(
    task: int,
    heads: int,
    strips: int,
    shape: Any,
    code: int,
    order: int,
    decays: bool,
    ratio: bool,
    query: Any,
    query_strides: Any,
    key: Any,
    key_strides: Any,
    value: Any,
    value_strides: Any,
    mask: Any,
    factors: Any,
    seen: Any,
    place: Any,
    start: Any,
    out: Any,
    below: Any,
    final: Any,
    lost: Any,
    spoilt: Any,
) -> None:
    """Read one strip of value columns of one head of one batch row; see :mod:`.fused` for the arguments."""
    reads, keys, rank, width = shape
    lanes = VECTOR_BYTES // query.itemsize
    pair, strip = task // strips, task % strips
    batch, head = pair // heads, pair % heads
    columns, features = padded(width, lanes), padded(rank, lanes)
    vectors = columns // lanes
    begin, end = vectors * strip // strips * lanes, vectors * (strip + 1) // strips * lanes
    ld = max(features, padded(width + 1, lanes))
    kf, qf = work_space(BLOCK * ld, query), work_space(BLOCK * ld, query)
    vv, oo = work_space(BLOCK * ld, query), work_space(BLOCK * ld, query)
    state, mass, sums = work_space(rank * columns, query), work_space(features, query), work_space(BLOCK, query)
    dead, dead_query = np.zeros(BLOCK, np.bool_), np.zeros(BLOCK, np.bool_)
    load_state(start, pair * rank * (width + 1), rank, width, state, columns, mass)
    q_at = batch * query_strides[0] + head * query_strides[1]
    k_at = batch * key_strides[0] + head * key_strides[1]
    v_at = batch * value_strides[0] + head * value_strides[1]
    own = order == WRITE_READ
    first_bad = keys
    read = block = 0
    while True:
        size = min(BLOCK, keys - block)
        bad = fetch_keys(
            code,
            key,
            k_at + block * key_strides[2],
            key_strides[2],
            value,
            v_at + block * value_strides[2],
            value_strides[2],
            mask,
            batch * keys + block,
            1,
            size,
            rank,
            width,
            ld,
            kf,
            vv,
            dead,
        )
        if bad < size and first_bad == keys:
            first_bad = block + bad
        g = factors[pair * keys + block : pair * keys + block + size] if decays else sums
        done = 0
        while True:
            if order == COUNTED:
                # The reads between two keys, a block of them at most.
                due, group = size, 0
                if read < reads and seen[batch * reads + read] <= block + size:
                    due = seen[batch * reads + read] - block
                    while (
                        group < BLOCK and read + group < reads and seen[batch * reads + read + group] == block + due
                    ):
                        at = q_at + place[batch * reads + read + group] * query_strides[2]
                        fetch(query, at, rank, qf, group * ld)
                        group += 1
                scan(WRITE, decays, state, columns, rank, begin, end, kf, vv, qf, g, oo, done, due - done, ld)
                _scan_mass(WRITE, decays, mass, features, kf, qf, g, sums, done, due - done, ld)
                done = due
            else:
                group = size
                fetch_rows(query, q_at + block * query_strides[2], query_strides[2], size, rank, qf, ld)
            some = queries_to_features(code, qf, group, ld, rank, dead_query)
            if order == COUNTED:
                scan(READ, False, state, columns, rank, begin, end, kf, vv, qf, g, oo, 0, group, ld)
                _scan_mass(READ, False, mass, features, kf, qf, g, sums, 0, group, ld)
            else:
                scan(order, decays, state, columns, rank, begin, end, kf, vv, qf, g, oo, 0, group, ld)
                _scan_mass(order, decays, mass, features, kf, qf, g, sums, 0, group, ld)
            for step in range(group):
                if order == COUNTED:
                    to = pair * reads + place[batch * reads + read + step]
                    count = block + done
                else:
                    to, count = pair * reads + block + step, block + step + own
                gone = count > first_bad or (some and dead_query[step])
                if ratio:
                    _divide(oo, step * ld, begin, end, sums[step])
                    if gone:
                        sums[step] = np.nan
                        for i in range(begin, end):
                            oo[step * ld + i] = np.nan
                    put(oo, step * ld, begin, min(end, width), out, to * width)
                    if strip == 0:
                        below[to] = sums[step]
                else:
                    put(oo, step * ld, begin, min(end, width), out, to * (width + 1))
                    if strip == 0:
                        out[to * (width + 1) + width] = sums[step]
                        lost[to] = gone
            read += group
            if order != COUNTED or group == 0:
                break
        block += size
        if block >= keys:
            break
    for i in range(rank):
        row = (pair * rank + i) * (width + 1)
        put(state, i * columns, begin, min(end, width), final, row)
        if strip == 0:
            final[row + width] = mass[i]
    if strip == 0:
        spoilt[pair] = first_bad < keys


@_compile  # type: ignore[untyped-decorator]
def _divide(room: Any, at: int, begin: int, end: int, divisor: Any) -> None:
    lanes = VECTOR_BYTES // room.itemsize
    inverse = spread(room.dtype.type(1) / divisor)
    for i in range(begin, end, lanes):
        store(room, at + i, multiply(load(room, at + i), inverse))
