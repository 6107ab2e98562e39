"""Rows of queries, keys and values on their way into and out of a sweep's work space."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import (
    VECTOR_BYTES,
    add,
    as_element,
    compiled,
    fma,
    lanes_of,
    least,
    load,
    most,
    multiply,
    nearest,
    number,
    pointer,
    power_of_two,
    prefetch_read,
    prefetch_write,
    spread,
    store,
    total,
)

FEATURES = 0
"""What comes in are features already."""
ELU1 = 1
"""What comes in are queries and keys; the features are ``elu(x) + 1``."""


@compiled
def padded(width: int, lanes: int) -> int:
    """Return the least multiple of `lanes` that is at least `width`."""
    return (width + lanes - 1) // lanes * lanes


@compiled
def work_space(size: int, like: Any) -> Any:
    """Return zeros, and a pointer to `size` numbers of `like`'s type among them, on a vector's boundary.

    A pointer does not keep its memory: pass the zeros to :func:`release` when done.
    """
    room = np.zeros(8 * size + VECTOR_BYTES, np.uint8)
    address = (room.ctypes.data + VECTOR_BYTES - 1) // VECTOR_BYTES * VECTOR_BYTES
    return room, pointer(address, like)


@compiled
def release(room: Any) -> None:
    """Mark the end of a work space's use."""
    room[0] = 0


@compiled
def fetch(source: Any, at: int, width: int, room: Any, to: int) -> None:
    """Copy one row."""
    lanes = lanes_of(room)
    whole = width // lanes * lanes
    for i in range(0, whole, lanes):
        store(room, to + i, load(source, at + i))
    for i in range(whole, width):
        room[to + i] = source[at + i]


@compiled
def expect(source: Any, at: int, stride: int, steps: int, width: int) -> None:
    """Ask for rows that will be fetched soon; the memory has time until then."""
    lanes = lanes_of(source)
    for step in range(steps):
        for i in range(0, width, lanes):
            prefetch_read(source, at + step * stride + i)


@compiled
def expect_to_put(target: Any, at: int, stride: int, steps: int, width: int) -> None:
    """Ask for rows that will be written soon."""
    lanes = lanes_of(target)
    for step in range(steps):
        for i in range(0, width, lanes):
            prefetch_write(target, at + step * stride + i)


@compiled
def put(room: Any, at: int, begin: int, end: int, target: Any, to: int) -> None:
    """Copy columns `begin` to `end` of one row out."""
    lanes = lanes_of(room)
    whole = begin + (end - begin) // lanes * lanes
    for i in range(begin, whole, lanes):
        store(target, to + i, load(room, at + i))
    for i in range(whole, end):
        target[to + i] = room[at + i]


@compiled
def clear(room: Any, at: int, width: int) -> None:
    """Set one row, padding included, to zero."""
    for i in range(width):
        room[at + i] = as_element(room, 0.0)


@compiled
def dot(x: Any, at: int, y: Any, start: int, width: int) -> Any:
    """Return the inner product of two rows whose padding is zero."""
    lanes = lanes_of(x)
    sums = multiply(load(x, at), load(y, start))
    for i in range(lanes, width, lanes):
        sums = fma(load(x, at + i), load(y, start + i), sums)
    return total(sums)


@compiled
def is_finite(room: Any, at: int, steps: int, ld: int, width: int) -> bool:
    """Return whether rows without NaN or infinity stand there; their padding must be finite."""
    lanes = lanes_of(room)
    zero = spread(as_element(room, 0.0))
    sums = zero
    for step in range(steps):
        for i in range(0, width, lanes):
            sums = fma(load(room, at + step * ld + i), zero, sums)
    return bool(total(sums) == as_element(room, 0.0))


@compiled
def _decayed_exponential(x: Any) -> Any:
    """Return exp(x) of float32 x <= 0 to about one unit in the last place, below 2 ** -126 too.

    The exponent is split as n ln(2) + r, r at most ln(2) / 2 in size; exp(r) is its Taylor polynomial of
    degree 7, whose remainder is below 2 ** -27. The power is raised by 64 while it is assembled from bits,
    since that of a denormal number would not fit.
    """
    x = most(x, number(x, -150.0))
    n = nearest(multiply(x, number(x, 1.44269504)))
    r = fma(n, number(x, -0.693145752), x)
    r = fma(n, number(x, -1.42860677e-6), r)
    one = number(x, 1.0)
    p = fma(number(x, 1.0 / 5040.0), r, number(x, 1.0 / 720.0))
    p = fma(p, r, number(x, 1.0 / 120.0))
    p = fma(p, r, number(x, 1.0 / 24.0))
    p = fma(p, r, number(x, 1.0 / 6.0))
    p = fma(p, r, number(x, 0.5))
    p = fma(p, r, one)
    p = fma(p, r, one)
    n = most(add(n, number(x, 64.0)), number(x, -126.0))
    return multiply(multiply(p, power_of_two(n)), number(x, 2.0**-64))


@compiled
def map_rows(code: int, room: Any, at: int, steps: int, ld: int, width: int) -> None:
    """Replace rows by their features; the padding behind them becomes zero."""
    if code != ELU1:
        return
    lanes = lanes_of(room)
    zero = spread(as_element(room, 0.0))
    for step in range(steps):
        start = at + step * ld
        for i in range(0, width, lanes):
            x = load(room, start + i)
            store(room, start + i, add(_decayed_exponential(least(x, zero)), most(x, zero)))
        for i in range(width, padded(width, lanes)):
            room[start + i] = as_element(room, 0.0)


@compiled
def pull_back(code: int, grad: Any, features: Any, at: int, width: int) -> None:
    """Turn the gradient of one row of features into that of what they were made from."""
    if code == ELU1:
        lanes = lanes_of(grad)
        one = spread(as_element(grad, 1.0))
        for i in range(0, width, lanes):
            # The slope is exp(x) = phi(x) below zero, and one above, where phi(x) exceeds one.
            slope = least(load(features, at + i), one)
            store(grad, at + i, multiply(load(grad, at + i), slope))


@compiled
def fetch_rows(source: Any, at: int, stride: int, steps: int, width: int, room: Any, ld: int) -> None:
    """Copy rows that lie `stride` apart, which may be negative."""
    for step in range(steps):
        fetch(source, at + step * stride, width, room, step * ld)


@compiled
def _finish_features(code: int, room: Any, steps: int, ld: int, width: int, dead: Any, some: bool) -> None:
    map_rows(code, room, 0, steps, ld, width)
    if some:
        for step in range(steps):
            if dead[step]:
                clear(room, step * ld, ld)


@compiled
def queries_to_features(code: int, room: Any, steps: int, ld: int, width: int, dead: Any) -> bool:
    """Map fetched queries to features; one that is not finite becomes zero, and is marked in `dead`.

    Return whether there is one.
    """
    some = False
    if code != FEATURES:
        for step in range(steps):
            dead[step] = 0
        if not is_finite(room, 0, steps, ld, width):
            for step in range(steps):
                if not is_finite(room, step * ld, 1, ld, width):
                    dead[step] = 1
                    some = True
                    clear(room, step * ld, ld)
    _finish_features(code, room, steps, ld, width, dead, some)
    return some


@compiled
def fetch_keys(
    code: int,
    key: Any,
    key_at: int,
    key_stride: int,
    value: Any,
    value_at: int,
    value_stride: int,
    masked: bool,
    mask: Any,
    mask_at: int,
    mask_stride: int,
    steps: int,
    rank: int,
    width: int,
    ld: int,
    keys: Any,
    values: Any,
    dead: Any,
) -> int:
    """Fetch keys as features, and their values with a one behind.

    Keys that do not count and keys that hold something not finite, or whose value does, become zero with
    their value, and are marked in `dead`. `mask` is not read unless `masked`.

    Return the first step whose key counts and is not finite, `steps` where there is none.
    """
    some = False
    bad = steps
    for step in range(steps):
        at = step * ld
        gone = masked and mask[mask_at + step * mask_stride] == 0
        dead[step] = gone
        if gone:
            some = True
            clear(keys, at, ld)
            clear(values, at, ld)
        else:
            fetch(key, key_at + step * key_stride, rank, keys, at)
            fetch(value, value_at + step * value_stride, width, values, at)
            values[at + width] = as_element(values, 0.0)
    if code != FEATURES and not (
        is_finite(keys, 0, steps, ld, rank) and is_finite(values, 0, steps, ld, width)
    ):
        for step in range(steps):
            at = step * ld
            if not (is_finite(keys, at, 1, ld, rank) and is_finite(values, at, 1, ld, width)):
                dead[step] = 1
                some = True
                bad = min(bad, step)
                clear(keys, at, ld)
                clear(values, at, ld)
    _finish_features(code, keys, steps, ld, rank, dead, some)
    for step in range(steps):
        values[step * ld + width] = as_element(values, 1.0)
    return bad
