"""One event and one forecast at a time, compiled: the arithmetic of the streaming path.

Everything is float32 in an order that depends on the sizes alone, so that a step gives the same bits
whether it runs in a backtest, live, or beside other entities (on one type of processor). Weights are one
flat array, laid out by :mod:`quantattn.forecasters.streaming.packing`. The loops run over the output
index inside, which vectorises without changing any sum's order.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numba
import numpy as np

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
EPSILON = np.float32(1e-5)  # of torch's LayerNorm
LOWEST = np.float32(-87.0)  # exp of less is zero here
ROUNDING = np.float32(12582912.0)

_compile = numba.njit(cache=True, nogil=True, error_model="numpy")
# Sums over a cache may be taken in vector lanes: another order, but the same one at every call.
_compile_sums = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})


def _njit(function: Any) -> Any:
    return cast(Any, _compile(function))


def _njit_sums(function: Any) -> Any:
    return cast(Any, _compile_sums(function))


@_njit
def _affine(weights: Any, at: int, x: Any, n: int, m: int, out: Any) -> int:
    """Write ``x @ W + b`` to `out`; W is (n, m), b follows. Give the offset behind them."""
    bias = at + n * m
    for j in range(m):
        out[j] = weights[bias + j]
    for i in range(n):
        factor = x[i]
        row = at + i * m
        for j in range(m):
            out[j] += factor * weights[row + j]
    return bias + m


@_njit
def _layer_norm(weights: Any, at: int, x: Any, n: int, out: Any) -> int:
    """Normalise `x` over its width; gain and bias follow each other. Give the offset behind them."""
    mean = ZERO
    for i in range(n):
        mean += x[i]
    mean /= np.float32(n)
    variance = ZERO
    for i in range(n):
        variance += (x[i] - mean) * (x[i] - mean)
    scale = ONE / np.float32(math.sqrt(variance / np.float32(n) + EPSILON))
    for i in range(n):
        out[i] = (x[i] - mean) * scale * weights[at + i] + weights[at + n + i]
    return at + 2 * n


@_njit
def _elu1(x: Any, n: int) -> None:
    for i in range(n):
        if x[i] > ZERO:
            x[i] = x[i] + ONE
        else:
            x[i] = np.float32(math.exp(x[i]))


@_njit
def _exponentials(x: Any, power: Any, bits: Any, n: int) -> None:
    """Replace x <= 0 by exp(x), in float32 to 2 ulp, in loops that vectorise.

    The exponent is split as k ln(2) + r, r at most ln(2) / 2 in size; exp(r) is a Taylor polynomial of
    degree 7, whose remainder there is below 2 ** -27, and 2 ** k is assembled from its bits. Below -87 the
    result is zero, and so it is for NaN. `power` is work space and `bits` the same memory seen as int32.
    """
    for i in range(n):
        value = x[i] if x[i] > LOWEST else LOWEST
        # Adding 1.5 * 2 ** 23 rounds to a whole number, which then stands in the lowest bits.
        shifted = value * np.float32(1.44269504) + ROUNDING
        whole = shifted - ROUNDING
        power[i] = shifted
        r = (value - whole * np.float32(0.693359375)) + whole * np.float32(2.12194440e-4)
        p = np.float32(1.0 / 5040.0)
        p = p * r + np.float32(1.0 / 720.0)
        p = p * r + np.float32(1.0 / 120.0)
        p = p * r + np.float32(1.0 / 24.0)
        p = p * r + np.float32(1.0 / 6.0)
        p = p * r + np.float32(0.5)
        p = p * r + ONE
        p = p * r + ONE
        x[i] = p if x[i] >= LOWEST else ZERO
    for i in range(n):
        bits[i] = (bits[i] << 23) + 1065353216
    for i in range(n):
        x[i] *= power[i]


@_njit_sums
def _total(x: Any, n: int) -> Any:
    """Sum the first `n` elements."""
    total = ZERO
    for j in range(n):
        total += x[j]
    return total


@_njit_sums
def _dot(x: Any, y: Any, n: int) -> Any:
    """Sum the products of the first `n` elements."""
    total = ZERO
    for j in range(n):
        total += x[j] * y[j]
    return total


@_njit
def _finish_block(
    weights: Any, at: int, hidden: Any, read: Any, width: int, inner: int, a: Any, b: Any
) -> int:
    """Mix the read into `hidden` and add the feed-forward part; give the offset behind the block."""
    at = _affine(weights, at, read, width, width, a)
    for i in range(width):
        hidden[i] += a[i]
    at = _layer_norm(weights, at, hidden, width, a)
    at = _affine(weights, at, a, width, inner, b)
    for i in range(inner):
        b[i] = max(b[i], ZERO)
    at = _affine(weights, at, b, inner, width, a)
    for i in range(width):
        hidden[i] += a[i]
    return at


@_njit
def _linear_read(state: Any, at: int, query: Any, q0: int, rank: int, row: Any, read: Any, r0: int) -> int:
    """Read one head's state; give 1 where the denominator is not positive and finite."""
    for j in range(rank + 1):
        row[j] = ZERO
    for i in range(rank):
        factor = query[q0 + i]
        source = at + i * (rank + 1)
        for j in range(rank + 1):
            row[j] += factor * state[source + j]
    denominator = row[rank]
    bad = 0 if denominator > ZERO and math.isfinite(denominator) else 1
    for j in range(rank):
        read[r0 + j] = row[j] / denominator
    return bad


@_njit
def linear_update(
    weights: Any, sizes: Any, state: Any, token: Any, is_start: bool, decay: Any, scratch: Any
) -> int:
    """Write one event into the state of a linear forecaster.

    Parameters
    ----------
    weights : ndarray of float32
        Packed weights.
    sizes : tuple of int, length 7
        event width, query width, width, heads, layers, feed-forward width, outputs.
    state : ndarray of float32, shape (layers * heads * rank * (rank + 1),)
        Per layer and head the matrix of key features against values and a last column of ones.
    token : ndarray of float32, shape (event_width,)
        The event token; ignored for the start token.
    is_start : bool
        Whether this is the start token.
    decay : ndarray of float32, shape (heads,)
        Factor over the time since the event before.
    scratch : ndarray of float32, shape (7, n)
        Work space.

    Returns
    -------
    int
        How many reads met a denominator that was not positive and finite.
    """
    events, queries, width, heads, layers, inner, outputs = sizes
    rank = width // heads
    hidden, normed, projected, read = scratch[0], scratch[1], scratch[2], scratch[3]
    a, b, row = scratch[4], scratch[5], scratch[6]
    if is_start:
        start = events * width + width
        for i in range(width):
            hidden[i] = weights[start + i]
    else:
        _affine(weights, 0, token, events, width, hidden)
    at = events * width + width + width + queries * width + width + queries * outputs
    bad = 0
    for layer in range(layers):
        at = _layer_norm(weights, at, hidden, width, normed)
        at = _affine(weights, at, normed, width, 3 * width, projected)
        _elu1(projected, 2 * width)
        for head in range(heads):
            block = (layer * heads + head) * rank * (rank + 1)
            key = width + head * rank
            value = 2 * width + head * rank
            for i in range(rank):
                factor = projected[key + i]
                target = block + i * (rank + 1)
                for j in range(rank):
                    state[target + j] = state[target + j] * decay[head] + factor * projected[value + j]
                state[target + rank] = state[target + rank] * decay[head] + factor
            if layer + 1 < layers:
                bad += _linear_read(state, block, projected, head * rank, rank, row, read, head * rank)
        if layer + 1 < layers:
            at = _finish_block(weights, at, hidden, read, width, inner, a, b)
    return bad


@_njit
def linear_update_many(weights: Any, sizes: Any, state: Any, tokens: Any, decays: Any, scratch: Any) -> int:
    """Write several events in order: :func:`linear_update` for each row; give the number of bad reads."""
    bad = 0
    for row in range(tokens.shape[0]):
        bad += linear_update(weights, sizes, state, tokens[row], False, decays[row], scratch)
    return bad


@_njit
def _embed_query(weights: Any, sizes: Any, token: Any, hidden: Any) -> None:
    """Embed a query token."""
    events, queries, width = sizes[0], sizes[1], sizes[2]
    _affine(weights, events * width + width + width, token, queries, width, hidden)


@_njit
def _head(weights: Any, sizes: Any, at: int, hidden: Any, token: Any, normed: Any, out: Any) -> None:
    """Write what the head and the direct weights say of a query; the latter lie as (out, in)."""
    events, queries, width, outputs = sizes[0], sizes[1], sizes[2], sizes[6]
    at = _layer_norm(weights, at, hidden, width, normed)
    _affine(weights, at, normed, width, outputs, out)
    row = events * width + width + width + queries * width + width
    for j in range(outputs):
        direct = ZERO
        for i in range(queries):
            direct += token[i] * weights[row + i]
        out[j] = out[j] + direct
        row += queries


@_njit
def linear_forecast(weights: Any, sizes: Any, state: Any, token: Any, scratch: Any, out: Any) -> int:
    """Read a forecast from the state of a linear forecaster, leaving the state as it is.

    Parameters are those of :func:`linear_update`; the decay up to the read cancels in the ratio.
    `out`, shape (outputs,), receives the forecast in units of the scaled target.

    Returns
    -------
    int
        How many reads met a denominator that was not positive and finite.
    """
    events, queries, width, heads, layers, inner, outputs = sizes
    rank = width // heads
    hidden, normed, projected, read = scratch[0], scratch[1], scratch[2], scratch[3]
    a, b, row = scratch[4], scratch[5], scratch[6]
    _embed_query(weights, sizes, token, hidden)
    at = events * width + width + width + queries * width + width + queries * outputs
    bad = 0
    for layer in range(layers):
        at = _layer_norm(weights, at, hidden, width, normed)
        at = _affine(weights, at, normed, width, 3 * width, projected)
        _elu1(projected, width)
        for head in range(heads):
            block = (layer * heads + head) * rank * (rank + 1)
            bad += _linear_read(state, block, projected, head * rank, rank, row, read, head * rank)
        at = _finish_block(weights, at, hidden, read, width, inner, a, b)
    _head(weights, sizes, at, hidden, token, normed, out)
    return bad


@_njit
def _softmax_read(
    keys: Any,
    values: Any,
    clock: Any,
    layer: int,
    head: int,
    count: int,
    now: float,
    query: Any,
    q0: int,
    rank: int,
    logits: Any,
    power: Any,
    bits: Any,
    read: Any,
    r0: int,
) -> int:
    """Read one head's cache of `count` keys; the bias of a key is its decay since it was written.

    Give 1 where the sum of weights is not positive or the read not finite: a query, key or value was not.
    """
    scale = ONE / np.float32(math.sqrt(np.float32(rank)))
    nats = 0.6931471805599453
    for j in range(count):
        logits[j] = np.float32(nats * (clock[head, j] - now))
    for i in range(rank):
        factor = query[q0 + i] * scale
        line = keys[layer, head, i]
        for j in range(count):
            logits[j] += factor * line[j]
    top = logits[0]
    for j in range(count):
        top = max(top, logits[j])
    for j in range(count):
        logits[j] -= top
    _exponentials(logits, power, bits, count)
    total = _total(logits, count)
    bad = 0 if total > ZERO else 1
    for i in range(rank):
        value = _dot(logits, values[layer, head, i], count) / total
        if not math.isfinite(value):
            bad = 1
        read[r0 + i] = value
    return bad


@_njit
def softmax_update(
    weights: Any,
    sizes: Any,
    keys: Any,
    values: Any,
    clock: Any,
    count: int,
    token: Any,
    is_start: bool,
    steps: Any,
    scratch: Any,
    logits: Any,
    power: Any,
    bits: Any,
) -> int:
    """Write one event into the key/value cache of a softmax forecaster.

    Parameters
    ----------
    weights, sizes, token, is_start, scratch
        As in :func:`linear_update`.
    keys : ndarray of float32, shape (layers, heads, rank, capacity)
        Cached keys, the event index innermost.
    values : ndarray of float32, shape (layers, heads, rank, capacity)
        Cached values.
    clock : ndarray of float64, shape (heads, capacity)
        When each event was written, in half-lives.
    count : int
        Events in the cache; less than the capacity.
    steps : ndarray of float64, shape (heads,)
        Half-lives since the event before.
    logits, power : ndarray of float32, shape (capacity,)
        Work space.
    bits : ndarray of int32, shape (capacity,)
        The memory of `power`.

    Returns
    -------
    int
        How many reads met a query, key or value that was not finite.
    """
    events, queries, width, heads, layers, inner, outputs = sizes
    rank = width // heads
    hidden, normed, projected, read = scratch[0], scratch[1], scratch[2], scratch[3]
    a, b = scratch[4], scratch[5]
    if is_start:
        start = events * width + width
        for i in range(width):
            hidden[i] = weights[start + i]
    else:
        _affine(weights, 0, token, events, width, hidden)
    for head in range(heads):
        clock[head, count] = steps[head] + (clock[head, count - 1] if count else 0.0)
    at = events * width + width + width + queries * width + width + queries * outputs
    bad = 0
    for layer in range(layers):
        at = _layer_norm(weights, at, hidden, width, normed)
        at = _affine(weights, at, normed, width, 3 * width, projected)
        for head in range(heads):
            for i in range(rank):
                keys[layer, head, i, count] = projected[width + head * rank + i]
                values[layer, head, i, count] = projected[2 * width + head * rank + i]
            if layer + 1 < layers:
                bad += _softmax_read(
                    keys, values, clock, layer, head, count + 1, clock[head, count],
                    projected, head * rank, rank, logits, power, bits, read, head * rank,
                )  # fmt: skip
        if layer + 1 < layers:
            at = _finish_block(weights, at, hidden, read, width, inner, a, b)
    return bad


@_njit
def softmax_update_many(
    weights: Any,
    sizes: Any,
    keys: Any,
    values: Any,
    clock: Any,
    count: int,
    tokens: Any,
    steps: Any,
    scratch: Any,
    logits: Any,
    power: Any,
    bits: Any,
) -> int:
    """Write several events in order: :func:`softmax_update` for each row; the capacity must suffice."""
    bad = 0
    for row in range(tokens.shape[0]):
        bad += softmax_update(
            weights, sizes, keys, values, clock, count + row,
            tokens[row], False, steps[row], scratch, logits, power, bits,
        )  # fmt: skip
    return bad


@_njit
def softmax_forecast(
    weights: Any,
    sizes: Any,
    keys: Any,
    values: Any,
    clock: Any,
    count: int,
    token: Any,
    scratch: Any,
    logits: Any,
    power: Any,
    bits: Any,
    out: Any,
) -> int:
    """Read a forecast from the cache of a softmax forecaster, leaving the cache as it is.

    Parameters are those of :func:`softmax_update`. `out`, shape (outputs,), receives the
    forecast in units of the scaled target.

    Returns
    -------
    int
        How many reads met a query, key or value that was not finite.
    """
    events, queries, width, heads, layers, inner, outputs = sizes
    rank = width // heads
    hidden, normed, projected, read = scratch[0], scratch[1], scratch[2], scratch[3]
    a, b = scratch[4], scratch[5]
    _embed_query(weights, sizes, token, hidden)
    at = events * width + width + width + queries * width + width + queries * outputs
    bad = 0
    for layer in range(layers):
        at = _layer_norm(weights, at, hidden, width, normed)
        at = _affine(weights, at, normed, width, 3 * width, projected)
        for head in range(heads):
            # The time from the last event to the read shifts all logits alike and cancels.
            bad += _softmax_read(
                keys, values, clock, layer, head, count, clock[head, count - 1],
                projected, head * rank, rank, logits, power, bits, read, head * rank,
            )  # fmt: skip
        at = _finish_block(weights, at, hidden, read, width, inner, a, b)
    _head(weights, sizes, at, hidden, token, normed, out)
    return bad
