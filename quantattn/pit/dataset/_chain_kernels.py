"""Compiled chains: sequences of events in a prime field, merged without walking through them again.

The chain of a sequence is ``h -> h * BASE + digest`` modulo the Mersenne prime ``2**127 - 1``, of which a
number is two unsigned words of 64 bits, the low one first; beside signed numbers numba would compute in
floats.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

UNUSED, MARKET = -2, -1
"""Codes of events that no forecast reads, and of market-wide ones; an entity's code is its place."""

POWER_BITS = 11
"""Powers of the base come from three tables of this width: enough for runs of ``2**33`` events."""

ir: Any = vars(cgutils)["ir"]

_U = np.uint64
_0, _1, _63 = _U(0), _U(1), _U(63)
_LOW63, _ALL = _U(2**63 - 1), _U(2**64 - 1)
# The fraction of pi, so that nobody chose it; tests check that its order in the field is large.
_BASE_LOW, _BASE_HIGH = _U(0x13198A2E03707344), _U(0x243F6A8885A308D3)
_POWER_BITS, _POWER_MASK = _U(POWER_BITS), _U(2**POWER_BITS - 1)


def _compiled(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


def _built_in(function: Any) -> Any:
    return cast(Any, intrinsic(function))


@_built_in
def _high_product(typing: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(operand, wide) for operand in operands))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


@_compiled
def _reduced(low: Any, high: Any) -> Any:
    """Bring a number below ``2**128`` into the field."""
    top = high >> _63
    high &= _LOW63
    low += top
    if low < top:
        high += _1
    if high > _LOW63 or (high == _LOW63 and low == _ALL):
        return _reduced_once_more(low, high)
    return low, high


@_compiled
def _reduced_once_more(low: Any, high: Any) -> Any:
    low += _1
    if low == _0:
        high += _1
    return low, high & _LOW63


@_compiled
def _sum(a: Any, b: Any) -> Any:
    low = a[0] + b[0]
    high = a[1] + b[1]
    if low < a[0]:
        high += _1
    return _reduced(low, high)


@_compiled
def _difference(a: Any, b: Any) -> Any:
    # The prime less b is b with all of its 127 bits turned.
    return _sum(a, (~b[0], ~b[1] & _LOW63))


@_compiled
def _product(a: Any, b: Any) -> Any:
    r0, r1 = a[0] * b[0], _high_product(a[0], b[0])
    r2 = r3 = _0
    for x, y in ((a[0], b[1]), (a[1], b[0])):
        low, high = x * y, _high_product(x, y)
        r1 += low
        if r1 < low:
            high += _1  # It is at most 2**63.
        r2 += high
    low, high = a[1] * b[1], _high_product(a[1], b[1])
    r2 += low
    r3 = high
    if r2 < low:
        r3 += _1
    lower = (r0, r1 & _LOW63)
    upper = ((r1 >> _63) | (r2 << _1), (r2 >> _63) | (r3 << _1))
    return _sum(lower, upper)


@_compiled
def _power(tables: Any, exponent: Any) -> Any:
    """Return the base to a power, from one table for each group of bits of the exponent."""
    place = exponent & _POWER_MASK
    found = (tables[0, place, 0], tables[0, place, 1])
    exponent >>= _POWER_BITS
    for level in range(1, tables.shape[0]):
        if exponent == _0:
            break
        place = exponent & _POWER_MASK
        found = _product(found, (tables[level, place, 0], tables[level, place, 1]))
        exponent >>= _POWER_BITS
    return found


@_entry
def fill_powers(tables: Any) -> None:
    """Fill tables ``(levels, 2**POWER_BITS, 2)`` with powers of the base."""
    step = (_BASE_LOW, _BASE_HIGH)
    for level in range(tables.shape[0]):
        power = (_1, _0)
        for place in range(tables.shape[1]):
            tables[level, place, 0], tables[level, place, 1] = power
            power = _product(power, step)
        step = power


@_compiled
def _next(chain: Any, low: Any, high: Any) -> Any:
    return _sum(_product(chain, (_BASE_LOW, _BASE_HIGH)), _reduced(low, high))


@_entry
def chain_rows(digests: Any, chain: Any) -> None:
    """Append digests ``(n, 2)`` to a chain, an array of two words that is changed."""
    state = (chain[0], chain[1])
    for i in range(digests.shape[0]):
        state = _next(state, digests[i, 0], digests[i, 1])
    chain[0], chain[1] = state


@_entry
def absorb(
    codes: Any,
    available: Any,
    digests: Any,
    stops: Any,
    readers: Any,
    tables: Any,
    chains: Any,
    joined: Any,
    counts: Any,
    newest: Any,
    seen: Any,
    last: Any,
    found: Any,
) -> None:
    """Append rows to the chains of their entities, and tell what forecasts between them have seen.

    An entity's sequence holds its own and the market-wide events. Market-wide ones go into one chain alone,
    at place ``-1``, and reach an entity when it is looked at: with ``d`` the difference between the
    entity's chain and the market's when they last met, and ``k`` market-wide events since, the entity's
    chain now is ``d * BASE**k + market``. So an event costs the same however many entities read it.

    Parameters
    ----------
    codes, available, digests
        Of ``n`` rows: entity, nanoseconds and digest.
    stops, readers
        Of ``m`` forecasts: how many of the rows each sees, rising, and its entity.
    tables
        Powers of the base.
    chains, joined, counts, newest
        State of each entity and, in the last place, of the market: the difference ``d`` (the market's chain),
        market-wide events when they met, own events, and when the latest of them became available.
    seen, last, found
        Written for each forecast: events, latest availability (meaningless where there are none), chain.
    """
    last_place = chains.shape[0] - 1
    market = (chains[last_place, 0], chains[last_place, 1])
    wide, latest = counts[last_place], newest[last_place]
    row = 0
    for forecast in range(stops.size + 1):
        stop = stops[forecast] if forecast < stops.size else codes.size
        while row < stop:
            code = codes[row]
            if code >= 0:
                place = _U(code)  # numba need not ask whether an unsigned place counts from the end.
                apart = (chains[place, 0], chains[place, 1])
                now = _current(apart, _U(wide - joined[place]), market, tables)
                now = _next(now, digests[row, 0], digests[row, 1])
                chains[place, 0], chains[place, 1] = _difference(now, market)
                joined[place] = wide
                counts[place] += 1
                newest[place] = available[row]
            elif code == MARKET:
                market = _next(market, digests[row, 0], digests[row, 1])
                wide += 1
                latest = available[row]
            row += 1
        if forecast < stops.size:
            place = _U(readers[forecast])
            own = counts[place]
            seen[forecast] = own + wide
            last[forecast] = max(newest[place], latest) if own and wide else newest[place] if own else latest
            apart = (chains[place, 0], chains[place, 1])
            now = _current(apart, _U(wide - joined[place]), market, tables)
            found[forecast, 0], found[forecast, 1] = now
    chains[last_place, 0], chains[last_place, 1] = market
    counts[last_place], newest[last_place] = wide, latest


@_compiled
def _current(apart: Any, since: Any, market: Any, tables: Any) -> Any:
    """Return an entity's chain with the `since` market-wide events that came after it last met theirs."""
    if since:
        apart = _product(apart, _power(tables, since))
    return _sum(apart, market)
