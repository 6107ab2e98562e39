"""What a step does to rows of tokens: one, or several that share each row of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import beyond, compiled, pointer, prefetch_write
from quantattn.forecasters.streaming.network.kernels.elementwise import (
    add_to,
    copy,
    decays,
    elu1,
    half_lives,
    layer_norm,
    relu,
)
from quantattn.forecasters.streaming.network.kernels.linear import linear_ratio, linear_sums, linear_write
from quantattn.forecasters.streaming.network.kernels.plan import (
    CAPACITY,
    CLOCK,
    COUNT,
    EVENTS,
    HEADS,
    INNER,
    IS_SOFTMAX,
    LANES,
    LAST_EVENT,
    LAYERS,
    LEAST_READ,
    LEAST_WRITTEN,
    LOGITS,
    OUTPUTS,
    QUERIES,
    RATES,
    STATE,
    VALUES,
    WEIGHTS,
    WIDTH,
)
from quantattn.forecasters.streaming.network.kernels.softmax import softmax_read, softmax_write
from quantattn.forecasters.streaming.network.kernels.tiles import affine

FLOAT = np.float32(0.0)
DOUBLE = np.float64(0.0)
WHOLE = np.int64(0)


@compiled
def _wide(numbers: int) -> Any:
    """Give how many vectors hold so many numbers."""
    return (numbers + LANES - 1) // LANES


@compiled
def _blocks_start(plan: Any) -> Any:
    """Give the offset of the first block in the weights."""
    wide = _wide(plan[WIDTH]) * LANES
    above = (plan[QUERIES] + 1) * _wide(plan[OUTPUTS]) * LANES
    return (plan[EVENTS] + 1) * wide + wide + (plan[QUERIES] + 1) * wide + above


@compiled
def _row_size(plan: Any) -> Any:
    """Give the work space of one row, as plan.room_for_a_row does."""
    vectors = 7 * _wide(plan[WIDTH]) + _wide(plan[INNER]) + 2 * _wide(plan[OUTPUTS]) + 4 * _wide(plan[HEADS])
    return LANES * vectors


@compiled
def _small(plan: Any) -> Any:
    """Give where a row's decay lies; denominators and half-lives follow."""
    return LANES * (7 * _wide(plan[WIDTH]) + _wide(plan[INNER]) + 2 * _wide(plan[OUTPUTS]))


@compiled
def _norm_rows(weights: Any, at: int, room: Any, step: int, width: int, wide: int, rows: int) -> int:
    """Normalise the hidden rows; give the offset behind gain and bias."""
    for row in range(rows):
        own = beyond(room, row * step)
        layer_norm(weights, at, own, width, wide, beyond(own, wide * LANES))
    return at + 2 * wide * LANES


@compiled
def _finish_block(weights: Any, at: int, room: Any, step: int, width: int, inner: int, rows: int) -> int:
    """Mix what was read into the hidden rows and add the feed-forward part; give the offset behind."""
    wide, within = _wide(width), _wide(inner)
    size = wide * LANES
    normed, read, mixed, between = size, 5 * size, 6 * size, 7 * size
    at = affine(weights, at, beyond(room, read), step, width, wide, beyond(room, mixed), step, rows)
    for row in range(rows):
        own = beyond(room, row * step)
        add_to(own, beyond(own, mixed), wide)
    at = _norm_rows(weights, at, room, step, width, wide, rows)
    at = affine(weights, at, beyond(room, normed), step, width, within, beyond(room, between), step, rows)
    for row in range(rows):
        relu(beyond(room, row * step + between), within)
    at = affine(weights, at, beyond(room, between), step, inner, wide, beyond(room, mixed), step, rows)
    for row in range(rows):
        own = beyond(room, row * step)
        add_to(own, beyond(own, mixed), wide)
    return at


@compiled
def _take_place(plan: Any, header: Any, at: int, room: int, small: int) -> Any:
    """Let the time up to a token pass and give the place that it takes in its sequence."""
    heads = plan[HEADS]
    count = header[COUNT]
    # Unsigned, for the ends of time lie further apart than a signed number reaches.
    elapsed = np.uint64(at) - np.uint64(header[LAST_EVENT]) if count > 1 else np.uint64(0)
    steps = pointer(room + 4 * (small + 2 * _wide(heads) * LANES), DOUBLE)
    half_lives(elapsed, pointer(plan[RATES], DOUBLE), heads, steps)
    if plan[IS_SOFTMAX]:
        clock, capacity = pointer(header[CLOCK], DOUBLE), header[CAPACITY]
        for head in range(heads):
            before = clock[head * capacity + count - 1] if count else 0.0
            clock[head * capacity + count] = before + steps[head]
    else:
        decays(steps, heads, pointer(room + 4 * small, FLOAT))
    header[LAST_EVENT] = at
    header[COUNT] = count + 1
    return count


@compiled
def _softmax_heads(
    plan: Any, header: Any, layer: int, place: int, own: Any, writes: bool, reads: bool, least: Any
) -> Any:
    """Write a token into one layer's cache, or read its tokens up to a place; give the bad reads."""
    width, heads = plan[WIDTH], plan[HEADS]
    rank, size, capacity = width // heads, _wide(width) * LANES, header[CAPACITY]
    scaled, key, value, query, read = size, 2 * size, 3 * size, 4 * size, 5 * size
    bad = 0
    for head in range(heads):
        start = (layer * heads + head) * capacity * rank * 4
        keys, values = pointer(header[STATE] + start, FLOAT), pointer(header[VALUES] + start, FLOAT)
        if writes:
            softmax_write(
                keys, values, place, rank, beyond(own, key + head * rank), beyond(own, value + head * rank)
            )
        if reads:
            bad += softmax_read(
                keys,
                values,
                pointer(header[CLOCK] + head * capacity * 8, DOUBLE),
                place + 1,
                beyond(own, query + head * rank),
                rank,
                pointer(header[LOGITS], FLOAT),
                beyond(own, scaled),
                beyond(own, read + head * rank),
                least,
            )
    return bad


@compiled
def _linear_heads(
    plan: Any, header: Any, layer: int, own: Any, small: int, writes: bool, reads: bool, least: Any
) -> Any:
    """Write a token into one layer's state, and read it; give the number of bad reads."""
    width, heads = plan[WIDTH], plan[HEADS]
    rank, wide = width // heads, _wide(width)
    size = wide * LANES
    key, value, query, read = 2 * size, 3 * size, 4 * size, 5 * size
    state = pointer(header[STATE] + layer * size * (rank + 1) * 4, FLOAT)
    if reads:
        elu1(beyond(own, query), wide)
    if writes:
        elu1(beyond(own, key), wide)
        linear_write(
            state,
            beyond(own, key),
            beyond(own, value),
            beyond(own, query),
            beyond(own, small),
            heads,
            rank,
            wide,
            reads,
            beyond(own, read),
        )
    else:
        linear_sums(state, beyond(own, query), heads, rank, wide, beyond(own, read))
    if not reads:
        return 0
    below = beyond(own, small + _wide(heads) * LANES)
    return linear_ratio(state, beyond(own, query), heads, rank, wide, below, beyond(own, read), least)


@compiled
def _fetch(plan: Any, headers: Any, row: int, rows: int, layer: int) -> None:
    """Ask for the state of the next row's entity, which many entities push out of the nearer caches."""
    if row + 1 < rows and headers[row + 1] != headers[row]:
        width = plan[WIDTH]
        numbers = (width // plan[HEADS] + 1) * _wide(width) * LANES
        state = pointer(pointer(headers[row + 1], WHOLE)[STATE], FLOAT)
        for at in range(layer * numbers, (layer + 1) * numbers, LANES):
            prefetch_write(state, at)


@compiled
def write_rows(
    plan: Any, headers: Any, tokens: Any, times: Any, rows: int, is_start: bool, room: int, notes: Any
) -> None:
    """Write `rows` tokens in order, each into the memory of its header, which has room for them.

    ``notes[2 * row]`` receives the number of bad reads, and ``notes[2 * row + 1]`` the token's place.
    """
    weights, hidden = pointer(plan[WEIGHTS], FLOAT), pointer(room, FLOAT)
    width, layers, events = plan[WIDTH], plan[LAYERS], plan[EVENTS]
    wide, step, small = _wide(width), _row_size(plan), _small(plan)
    size = wide * LANES
    key, query = 2 * size, 4 * size
    if is_start:
        copy(hidden, beyond(weights, (events + 1) * size), wide)
    else:
        affine(weights, 0, tokens, events, events, wide, hidden, step, rows)
    for row in range(rows):
        notes[2 * row] = 0
        notes[2 * row + 1] = _take_place(
            plan, pointer(headers[row], WHOLE), times[row], room + 4 * row * step, small
        )
    at = _blocks_start(plan)
    for layer in range(layers):
        reads = layer + 1 < layers
        at = _norm_rows(weights, at, hidden, step, width, wide, rows)
        normed = beyond(hidden, size)
        at = affine(weights, at, normed, step, width, 2 * wide, beyond(hidden, key), step, rows)
        if reads:
            at = affine(weights, at, normed, step, width, wide, beyond(hidden, query), step, rows)
        for row in range(rows):
            header = pointer(headers[row], WHOLE)
            least = pointer(headers[row] + 8 * LEAST_WRITTEN, DOUBLE)
            own = beyond(hidden, row * step)
            if plan[IS_SOFTMAX]:
                place = notes[2 * row + 1]
                notes[2 * row] += _softmax_heads(plan, header, layer, place, own, True, reads, least)
            else:
                _fetch(plan, headers, row, rows, layer)
                notes[2 * row] += _linear_heads(plan, header, layer, own, small, True, reads, least)
        if reads:
            at = _finish_block(weights, at, hidden, step, width, plan[INNER], rows)


@compiled
def read_rows(plan: Any, headers: Any, tokens: Any, rows: int, room: int, out: Any, notes: Any) -> None:
    """Read the numbers of the head for `rows` tokens; ``notes[2 * row]`` receives the number of bad reads."""
    weights, hidden = pointer(plan[WEIGHTS], FLOAT), pointer(room, FLOAT)
    width, queries, outputs = plan[WIDTH], plan[QUERIES], plan[OUTPUTS]
    wide, above, step, small = _wide(width), _wide(outputs), _row_size(plan), _small(plan)
    size = wide * LANES
    query, head, direct = 4 * size, small - 2 * above * LANES, small - above * LANES
    at = (plan[EVENTS] + 1) * size + size
    at = affine(weights, at, tokens, queries, queries, wide, hidden, step, rows)
    at = affine(weights, at, tokens, queries, queries, above, beyond(hidden, direct), step, rows)
    for row in range(rows):
        notes[2 * row] = 0
    for layer in range(plan[LAYERS]):
        at = _norm_rows(weights, at, hidden, step, width, wide, rows)
        at += 2 * (width + 1) * size
        at = affine(weights, at, beyond(hidden, size), step, width, wide, beyond(hidden, query), step, rows)
        for row in range(rows):
            header = pointer(headers[row], WHOLE)
            least = pointer(headers[row] + 8 * LEAST_READ, DOUBLE)
            own = beyond(hidden, row * step)
            if plan[IS_SOFTMAX]:
                place = header[COUNT] - 1
                notes[2 * row] += _softmax_heads(plan, header, layer, place, own, False, True, least)
            else:
                _fetch(plan, headers, row, rows, layer)
                notes[2 * row] += _linear_heads(plan, header, layer, own, small, False, True, least)
        at = _finish_block(weights, at, hidden, step, width, plan[INNER], rows)
    at = _norm_rows(weights, at, hidden, step, width, wide, rows)
    affine(weights, at, beyond(hidden, size), step, width, above, beyond(hidden, head), step, rows)
    for row in range(rows):
        own = beyond(hidden, row * step)
        for j in range(outputs):
            out[row * outputs + j] = own[head + j] + own[direct + j]
