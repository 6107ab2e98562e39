"""The forward sweep: keys are written in their order, queries read on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantattn.attention.backends._panels import READ, READ_WRITE, WRITE, WRITE_READ, scan
from quantattn.attention.backends._rows import (
    dot,
    expect,
    expect_to_put,
    fetch,
    fetch_keys,
    fetch_rows,
    padded,
    put,
    queries_to_features,
    release,
    work_space,
)
from quantattn.attention.backends._vectors import (
    as_element,
    beyond,
    bytes_of,
    compiled,
    divide,
    fma,
    lanes_of,
    load,
    multiply,
    pointer,
    spread,
    store,
    total,
)

BLOCK = 32
"""Rows fetched at a time: queries, keys, values and results of a block stay in the nearest cache."""
COUNTED = 4
"""Order of a sweep in which every query reads at its own count of keys."""


@compiled
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
    lanes = lanes_of(mass)
    one = spread(as_element(mass, 1.0))
    for step in range(first, first + steps):
        if order in (READ_WRITE, READ):
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


@compiled
def load_state(given: Any, at: int, rank: int, width: int, state: Any, ldm: int, mass: Any) -> None:
    """Unpack a state ``(rank, width + 1)``."""
    for i in range(rank):
        row = at + i * (width + 1)
        fetch(given, row, width, state, i * ldm)
        mass[i] = given[row + width]


@compiled
def forward_sweep(task: int, like: Any, sizes: Any, strides: Any, inputs: Any, outputs: Any) -> None:
    """Read one strip of value columns of one head of one batch row.

    Parameters
    ----------
    task : int
        Counts strips, then heads, then batch rows.
    like : float
        Number of the dtype of all floats.
    sizes : tuple of int
        See :class:`.fused.Sizes`.
    strides : tuple of int
        Distances between batch rows, heads and rows of queries, then of keys, then of values.
    inputs, outputs : tuple of int
        Addresses; see :class:`.fused.Inputs` and :class:`.fused.Outputs`.
    """
    heads, strips, reads, keys, rank, width, code, order, decays, ratio, masked, starts = sizes
    query, key, value = pointer(inputs[0], like), pointer(inputs[1], like), pointer(inputs[2], like)
    mask, factors = pointer(inputs[3], np.uint8(0)), pointer(inputs[4], like)
    seen, place = pointer(inputs[5], np.int64(0)), pointer(inputs[6], np.int64(0))
    out, below, final = pointer(outputs[0], like), pointer(outputs[1], like), pointer(outputs[2], like)
    lost, spoilt = pointer(outputs[3], np.uint8(0)), pointer(outputs[4], np.uint8(0))
    burst = pointer(outputs[5], np.uint8(0))
    lanes = lanes_of(query)
    pair, strip = task // strips, task % strips
    batch, head = pair // heads, pair % heads
    columns, features = padded(width, lanes), padded(rank, lanes)
    vectors = columns // lanes
    begin, end = vectors * strip // strips * lanes, vectors * (strip + 1) // strips * lanes
    stop = min(end, width)
    ld = max(features, padded(width + 1, lanes))
    room, kf = work_space(BLOCK * (4 * ld + 3) + rank * columns + features, like)
    qf, vv, oo = beyond(kf, BLOCK * ld), beyond(kf, 2 * BLOCK * ld), beyond(kf, 3 * BLOCK * ld)
    state = beyond(kf, 4 * BLOCK * ld)
    mass = beyond(state, rank * columns)
    sums = beyond(mass, features)
    dead, dead_query = bytes_of(beyond(sums, BLOCK)), bytes_of(beyond(sums, 2 * BLOCK))
    if starts:
        load_state(pointer(inputs[7], like), pair * rank * (width + 1), rank, width, state, columns, mass)
    q_at = batch * strides[0] + head * strides[1]
    k_at = batch * strides[3] + head * strides[4]
    v_at = batch * strides[6] + head * strides[7]
    own = order == WRITE_READ
    first_bad = keys
    read = block = 0
    while True:
        size = min(BLOCK, keys - block)
        bad = fetch_keys(
            code,
            key,
            k_at + block * strides[5],
            strides[5],
            value,
            v_at + block * strides[8],
            strides[8],
            masked != 0,
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
        ahead = block + size
        soon = min(BLOCK, keys - ahead)
        expect(key, k_at + ahead * strides[5], strides[5], soon, rank)
        expect(value, v_at + ahead * strides[8], strides[8], soon, width)
        if order != COUNTED:
            expect(query, q_at + ahead * strides[2], strides[2], soon, rank)
            row = width if ratio else width + 1
            expect_to_put(out, (pair * reads + block) * row, row, size, row)
        if bad < size and first_bad == keys:
            first_bad = block + bad
        g = beyond(factors, pair * keys + block) if decays else sums
        done = 0
        while True:
            if order == COUNTED:
                # The reads between two keys, a block of them at most.
                due, group = size, 0
                if read < reads and seen[batch * reads + read] <= block + size:
                    due = seen[batch * reads + read] - block
                    while (
                        group < BLOCK
                        and read + group < reads
                        and seen[batch * reads + read + group] == block + due
                    ):
                        at = q_at + place[batch * reads + read + group] * strides[2]
                        fetch(query, at, rank, qf, group * ld)
                        group += 1
                scan(WRITE, decays, state, columns, rank, begin, end, kf, vv, qf, g, oo, done, due - done, ld)
                _scan_mass(WRITE, decays, mass, features, kf, qf, g, sums, done, due - done, ld)
                done = due
            else:
                group = size
                fetch_rows(query, q_at + block * strides[2], strides[2], size, rank, qf, ld)
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
                    if not _divide(oo, step * ld, begin, end, sums[step]):
                        burst[pair] = 1
                    if gone:
                        sums[step] = np.nan
                        for i in range(begin, end):
                            oo[step * ld + i] = np.nan
                    put(oo, step * ld, begin, stop, out, to * width)
                    if strip == 0:
                        below[to] = sums[step]
                else:
                    put(oo, step * ld, begin, stop, out, to * (width + 1))
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
        put(state, i * columns, begin, stop, final, row)
        if strip == 0:
            final[row + width] = mass[i]
    if strip == 0:
        spoilt[pair] = first_bad < keys
    release(room)


@compiled
def _divide(room: Any, at: int, begin: int, end: int, divisor: Any) -> bool:
    """Divide a row and return whether it is finite.

    By the number itself: its inverse may overflow where the ratio does not.
    """
    lanes = lanes_of(room)
    below, zero = spread(divisor), spread(as_element(room, 0.0))
    sums = zero
    for i in range(begin, end, lanes):
        part = divide(load(room, at + i), below)
        store(room, at + i, part)
        sums = fma(part, zero, sums)
    return bool(total(sums) == as_element(room, 0.0))
