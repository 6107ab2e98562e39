"""The backward sweeps: one forwards for the queries, one backwards for keys and values.

States are recomputed, never undone. Both sweeps are recurrences of the same form as the forward one, with
the roles exchanged. With u the gradient of a read's sums (that of the sum of similarities in a last column)
and ``[v, 1]`` a value with its column of ones:

- going forwards, ``[v, 1] k`` is written and a query reads with ``u``: the gradient of its features;
- going backwards, ``q u`` is written and a key reads with itself: the gradient of its value;
- going backwards, ``u q`` is written and a key reads with ``[v, 1]``: the gradient of its features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quantattn.attention.backends._forward import BLOCK, COUNTED
from quantattn.attention.backends._panels import READ, READ_WRITE, WRITE, WRITE_READ, scan
from quantattn.attention.backends._rows import (
    clear,
    dot,
    expect,
    expect_to_put,
    fetch,
    fetch_keys,
    padded,
    pull_back,
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
    lanes_of,
    load,
    multiply,
    pointer,
    spread,
    store,
)


@compiled
def _pull_read(
    ratio: bool,
    grad: Any,
    grad_at: int,
    out: Any,
    below: Any,
    read: int,
    width: int,
    known: bool,
    slopes: Any,
    at: int,
    room: Any,
    to: int,
    spare: Any,
) -> None:
    """Write the gradient of one read's sums: the columns of values, and that of similarities behind them.

    `slopes` keeps the last column from one sweep to the next.
    """
    if ratio:
        lanes = lanes_of(room)
        inverse = as_element(room, 1.0) / below[read]
        factor = spread(inverse)
        fetch(grad, grad_at, width, room, to)
        room[to + width] = as_element(room, 0.0)
        if not known:
            fetch(out, read * width, width, spare, 0)
            slopes[at] = -dot(room, to, spare, 0, width) * inverse
        for i in range(0, width, lanes):
            store(room, to + i, multiply(load(room, to + i), factor))
        room[to + width] = slopes[at]
    else:
        fetch(grad, grad_at, width + 1, room, to)


@compiled
def backward_sweeps(
    task: int, like: Any, sizes: Any, strides: Any, inputs: Any, outputs: Any, asked: Any, results: Any
) -> None:
    """Pull gradients back through one strip of one head of one batch row.

    Parameters
    ----------
    task, like, sizes, strides, inputs, outputs
        See :func:`.forward_sweep`; at the end of `strides` come those of the gradient of the reads.
    asked : tuple of int
        Addresses of the gradients of the reads and of the final state.
    results : tuple of int
        Addresses of the gradients of queries, keys, values, gaps and initial state.
    """
    heads, strips, reads, keys, rank, width, code, order, decays, ratio, masked, starts = sizes
    query, key, value = pointer(inputs[0], like), pointer(inputs[1], like), pointer(inputs[2], like)
    mask, factors = pointer(inputs[3], np.uint8(0)), pointer(inputs[4], like)
    seen, place = pointer(inputs[5], np.int64(0)), pointer(inputs[6], np.int64(0))
    out, below, final = pointer(outputs[0], like), pointer(outputs[1], like), pointer(outputs[2], like)
    grad, grad_final = pointer(asked[0], like), pointer(asked[1], like)
    grad_query, grad_key = pointer(results[0], like), pointer(results[1], like)
    grad_value, grad_gaps = pointer(results[2], like), pointer(results[3], np.float64(0.0))
    grad_start = pointer(results[4], like)
    lanes = lanes_of(query)
    pair, strip = task // strips, task % strips
    batch, head = pair // heads, pair % heads
    columns, features = padded(width, lanes), padded(rank, lanes)
    vectors = features // lanes
    begin, end = vectors * strip // strips * lanes, vectors * (strip + 1) // strips * lanes
    stop = min(end, rank)
    vectors = columns // lanes
    begin_v, end_v = vectors * strip // strips * lanes, vectors * (strip + 1) // strips * lanes
    stop_v = min(end_v, width)
    ld = max(features, padded(width + 1, lanes))
    kept = reads if ratio else 1
    room, kf = work_space(BLOCK * (6 * ld + 3) + ld + (width + 1) * features + rank * columns + kept, like)
    size = BLOCK * ld
    qf, vv, uu = beyond(kf, size), beyond(kf, 2 * size), beyond(kf, 3 * size)
    oo, ov = beyond(kf, 4 * size), beyond(kf, 5 * size)
    across = beyond(kf, 6 * size)
    down = beyond(across, (width + 1) * features)
    spare = beyond(down, rank * columns)
    g = beyond(spare, ld)
    dead, dead_query = bytes_of(beyond(g, BLOCK)), bytes_of(beyond(g, 2 * BLOCK))
    slopes = beyond(g, 3 * BLOCK)
    weights = np.zeros(reads if decays else 1)
    q_at = batch * strides[0] + head * strides[1]
    k_at = batch * strides[3] + head * strides[4]
    v_at = batch * strides[6] + head * strides[7]
    g_at = batch * strides[9] + head * strides[10]

    # Forwards: the state, transposed, and the queries that read it.
    if starts:
        start = pointer(inputs[7], like)
        for i in range(rank):
            for j in range(width + 1):
                across[j * features + i] = start[(pair * rank + i) * (width + 1) + j]
    read = block = 0
    while True:
        size = min(BLOCK, keys - block)
        fetch_keys(
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
            expect(grad, g_at + ahead * strides[11], strides[11], soon, width)
            if ratio:
                expect(out, (pair * reads + ahead) * width, width, soon, width)
            expect_to_put(grad_query, (pair * reads + block) * rank, rank, size, rank)
        if decays:
            for step in range(size):
                g[step] = factors[pair * keys + block + step]
        done = 0
        while True:
            if order == COUNTED:
                due, group = size, 0
                if read < reads and seen[batch * reads + read] <= block + size:
                    due = seen[batch * reads + read] - block
                    while (
                        group < BLOCK
                        and read + group < reads
                        and seen[batch * reads + read + group] == block + due
                    ):
                        group += 1
                scan(
                    WRITE,
                    decays,
                    across,
                    features,
                    width + 1,
                    begin,
                    end,
                    vv,
                    kf,
                    uu,
                    g,
                    oo,
                    done,
                    due - done,
                    ld,
                )
                done = due
            else:
                group = size
            for step in range(group):
                at = place[batch * reads + read + step] if order == COUNTED else read + step
                fetch(query, q_at + at * strides[2], rank, qf, step * ld)
                _pull_read(
                    ratio,
                    grad,
                    g_at + at * strides[11],
                    out,
                    below,
                    pair * reads + at,
                    width,
                    False,
                    slopes,
                    at if ratio else 0,
                    uu,
                    step * ld,
                    spare,
                )
            some = queries_to_features(code, qf, group, ld, rank, dead_query)
            if order == COUNTED:
                scan(READ, False, across, features, width + 1, begin, end, vv, kf, uu, g, oo, 0, group, ld)
            else:
                scan(order, decays, across, features, width + 1, begin, end, vv, kf, uu, g, oo, 0, group, ld)
            for step in range(group):
                at = place[batch * reads + read + step] if order == COUNTED else read + step
                if decays:
                    weights[at] = dot(qf, step * ld, oo, step * ld, rank)
                if some and dead_query[step]:
                    clear(oo, step * ld, ld)
                pull_back(code, oo, qf, step * ld, rank)
                put(oo, step * ld, begin, stop, grad_query, (pair * reads + at) * rank)
            read += group
            if order != COUNTED or group == 0:
                break
        block += size
        if block >= keys:
            break

    # Backwards: what later reads ask of the state, in both layouts, and the keys that answer.
    through = 0.0
    for i in range(rank):
        for j in range(width + 1):
            asked = grad_final[(pair * rank + i) * (width + 1) + j]
            across[j * features + i] = asked
            if j < width:
                down[i * columns + j] = asked
            if decays:
                through += np.float64(asked) * np.float64(final[(pair * rank + i) * (width + 1) + j])
    own = order == WRITE_READ
    read = reads
    left = keys
    while True:
        size = min(BLOCK, left)
        fetch_keys(
            code,
            key,
            k_at + (left - 1) * strides[5],
            -strides[5],
            value,
            v_at + (left - 1) * strides[8],
            -strides[8],
            masked != 0,
            mask,
            batch * keys + left - 1,
            -1,
            size,
            rank,
            width,
            ld,
            kf,
            vv,
            dead,
        )
        soon = min(BLOCK, left - size)
        ahead = left - size - soon
        expect(key, k_at + ahead * strides[5], strides[5], soon, rank)
        expect(value, v_at + ahead * strides[8], strides[8], soon, width)
        if order != COUNTED:
            expect(query, q_at + ahead * strides[2], strides[2], soon, rank)
            expect(grad, g_at + ahead * strides[11], strides[11], soon, width)
        expect_to_put(grad_key, (pair * keys + left - size) * rank, rank, size, rank)
        expect_to_put(grad_value, (pair * keys + left - size) * width, width, size, width)
        if decays:
            for step in range(size):
                # A write follows the decay of the next key when a key is among its own reads.
                at = left - 1 - step + own
                g[step] = factors[pair * keys + at] if at < keys else as_element(query, 1.0)
        done = 0
        while True:
            if order == COUNTED:
                # The reads that see all keys left and no other, a block of them at most.
                group = 0
                while (
                    group < BLOCK and read > group and seen[batch * reads + read - 1 - group] == left - done
                ):
                    group += 1
            else:
                group = size
            for step in range(group):
                at = read - 1 - step
                at = place[batch * reads + at] if order == COUNTED else at
                fetch(query, q_at + at * strides[2], rank, qf, step * ld)
                _pull_read(
                    ratio,
                    grad,
                    g_at + at * strides[11],
                    out,
                    below,
                    pair * reads + at,
                    width,
                    True,
                    slopes,
                    at if ratio else 0,
                    uu,
                    step * ld,
                    spare,
                )
                if decays and order == COUNTED:
                    through += weights[at]
            queries_to_features(code, qf, group, ld, rank, dead_query)
            if order == COUNTED:
                scan(WRITE, False, down, columns, rank, begin_v, end_v, qf, uu, kf, g, ov, 0, group, ld)
                scan(WRITE, False, across, features, width + 1, begin, end, uu, qf, vv, g, oo, 0, group, ld)
                read -= group
                if group == BLOCK:
                    continue
                # Keys down to the next count that is read at, or to the end of the block.
                low = left - size
                if read > 0:
                    low = max(low, seen[batch * reads + read - 1])
                first, steps = done, left - done - low
                scan(READ, decays, down, columns, rank, begin_v, end_v, qf, uu, kf, g, ov, first, steps, ld)
                scan(
                    READ, decays, across, features, width + 1, begin, end, uu, qf, vv, g, oo, first, steps, ld
                )
            else:
                first, steps = 0, size
                scan(order, decays, down, columns, rank, begin_v, end_v, qf, uu, kf, g, ov, 0, size, ld)
                scan(order, decays, across, features, width + 1, begin, end, uu, qf, vv, g, oo, 0, size, ld)
                read -= size
            for step in range(first, first + steps):
                at = left - 1 - step
                if decays:
                    if order == WRITE_READ:
                        through += weights[at]
                    through -= np.float64(dot(kf, step * ld, oo, step * ld, rank))
                    grad_gaps[pair * keys + at] = through
                    if order == READ_WRITE:
                        through += weights[at]
                if dead[step]:
                    clear(oo, step * ld, ld)
                    clear(ov, step * ld, ld)
                pull_back(code, oo, kf, step * ld, rank)
                put(oo, step * ld, begin, stop, grad_key, (pair * keys + at) * rank)
                put(ov, step * ld, begin_v, stop_v, grad_value, (pair * keys + at) * width)
            done += steps
            if done == size and (left - size > 0 or order != COUNTED or read == 0):
                break
        left -= size
        if left <= 0:
            break
    if own and decays and keys:
        factor = factors[pair * keys]
        for i in range(rank):
            for j in range(width + 1):
                across[j * features + i] *= factor
                if j < width:
                    down[i * columns + j] *= factor
    for i in range(rank):
        row = (pair * rank + i) * (width + 1)
        put(down, i * columns, begin_v, stop_v, grad_start, row)
    for i in range(begin, stop):
        grad_start[(pair * rank + i) * (width + 1) + width] = across[width * features + i]
    release(room)
