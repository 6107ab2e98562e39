"""A step of the softmax attention: a read of a growing cache of keys and values, of one layer and head.

Keys and values lie in blocks of 16 tokens, in a block one vector for each number of the head's width, so that
a token is a lane and a read streams through memory once for the keys and once for the values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import (
    add,
    beyond,
    compiled,
    fma,
    load,
    spread,
    store,
    subtract,
    total,
)
from quantattn.forecasters.streaming.network.kernels.elementwise import exponential
from quantattn.forecasters.streaming.network.kernels.lanes import aged, from_lane, highest, where_greater
from quantattn.forecasters.streaming.network.kernels.plan import LANES

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
LOG2 = 0.6931471805599453
_INFINITY = np.float32(np.inf)


@compiled
def softmax_write(keys: Any, values: Any, at: int, rank: int, key: Any, value: Any) -> None:
    """Put one head's key and value into the cache as token `at`."""
    place = at // LANES * LANES * rank + at % LANES
    for i in range(rank):
        keys[place] = key[i]
        values[place] = value[i]
        place += LANES


@compiled
def softmax_read(
    keys: Any,
    values: Any,
    clock: Any,
    count: int,
    query: Any,
    rank: int,
    logits: Any,
    scaled: Any,
    out: Any,
    least: Any,
) -> int:
    """Read one head's first `count` tokens; the bias of a token is its decay since it was written.

    The time from the last token to the read shifts all logits alike and cancels. Give 1 where the sum of
    weights is not positive or the read not finite: a query, key or value was not.
    """
    scale = ONE / np.float32(math.sqrt(np.float32(rank)))
    for i in range(rank):
        scaled[i] = query[i] * scale
    now = clock[count - 1]
    blocks = (count + LANES - 1) // LANES
    lowest = spread(-_INFINITY)
    tops = lowest
    at = 0
    for block in range(blocks):
        logit = aged(clock, block * LANES, now, LOG2)
        for i in range(rank):
            logit = fma(spread(scaled[i]), load(keys, at), logit)
            at += LANES
        logit = from_lane(logit, lowest, count - block * LANES)
        store(logits, block * LANES, logit)
        tops = where_greater(logit, tops, logit, tops)
    top = spread(highest(tops))
    sums = spread(ZERO)
    for place in range(0, blocks * LANES, LANES):
        weight = exponential(subtract(load(logits, place), top))
        store(logits, place, weight)
        sums = add(sums, weight)
    denominator = total(sums)
    least[0] = min(least[0], np.float64(denominator))
    bad = 0 if denominator > ZERO else 1
    block_size = rank * LANES
    i = 0
    while i < rank:
        if i + 8 <= rank:
            line = beyond(values, i * LANES)
            a = b = c = d = e = f = g = h = spread(ZERO)
            at = 0
            for place in range(0, blocks * LANES, LANES):
                weight = load(logits, place)
                a = fma(weight, load(line, at), a)
                b = fma(weight, load(line, at + LANES), b)
                c = fma(weight, load(line, at + 2 * LANES), c)
                d = fma(weight, load(line, at + 3 * LANES), d)
                e = fma(weight, load(line, at + 4 * LANES), e)
                f = fma(weight, load(line, at + 5 * LANES), f)
                g = fma(weight, load(line, at + 6 * LANES), g)
                h = fma(weight, load(line, at + 7 * LANES), h)
                at += block_size
            out[i], out[i + 1], out[i + 2], out[i + 3] = total(a), total(b), total(c), total(d)
            out[i + 4], out[i + 5], out[i + 6], out[i + 7] = total(e), total(f), total(g), total(h)
            i += 8
        else:
            a = spread(ZERO)
            at = i * LANES
            for place in range(0, blocks * LANES, LANES):
                a = fma(load(logits, place), load(values, at), a)
                at += block_size
            out[i] = total(a)
            i += 1
    for i in range(rank):
        out[i] = out[i] / denominator
        if not math.isfinite(out[i]):
            bad = 1
    return bad
