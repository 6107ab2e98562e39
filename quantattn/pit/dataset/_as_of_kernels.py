"""Compiled search for the event that a feature's value is taken from; see :mod:`.as_of` for the rule.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np

NOBODY = -1
"""Slot of events that no forecast reads, and row where there is no event."""


def _compiled(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


@_entry
def latest_rows(
    slots: Any, event_times: Any, there: Any, stops: Any, readers: Any, size: int, place: Any
) -> None:
    """Find, for each forecast, the event of its entity that happened last, or else that of the market.

    Every event has one version. Of events that happened at once, the one later in canonical order counts,
    which is the one that became available later, or else has the greater id.

    Parameters
    ----------
    slots, event_times, there
        Of ``n`` rows in canonical order: whose they are (the last slot is the market's), when they
        happened, and whether they have the feature.
    stops, readers
        Of ``m`` forecasts: how many of the rows each may see, rising, and its entity's slot.
    size
        Number of slots.
    place
        Written for each forecast: a row of its entity, else of the market, else ``NOBODY``.
    """
    best = np.full(size, NOBODY, dtype=np.int64)
    happened = np.zeros(size, dtype=np.int64)
    row = 0
    for forecast in range(stops.size):
        while row < stops[forecast]:
            slot = slots[row]
            if slot != NOBODY and there[row] and (best[slot] == NOBODY or event_times[row] >= happened[slot]):
                best[slot], happened[slot] = row, event_times[row]
            row += 1
        found = best[readers[forecast]]
        place[forecast] = best[size - 1] if found == NOBODY else found


@_entry
def latest_current_rows(
    slots: Any,
    groups: Any,
    revisions: Any,
    ranks: Any,
    there: Any,
    stops: Any,
    readers: Any,
    size: int,
    place: Any,
) -> None:
    """Do the same where events have several versions: each counts by its highest visible revision alone.

    The versions that have the feature wait in one skew heap for each slot (Sleator and Tarjan,
    "Self-adjusting heaps", 1986), the greatest rank on top. One that was superseded never comes back, so it
    is taken off when it reaches the top.

    Parameters
    ----------
    groups, revisions, ranks
        Of each row, in addition: its event (below ``n``), its revision, and its place in the order in which
        events win (all different).
    """
    rows = slots.size
    current = np.full(rows, NOBODY, dtype=np.int64)
    children = np.full((rows, 2), NOBODY, dtype=np.int64)
    tops = np.full(size, NOBODY, dtype=np.int64)
    row = 0
    for forecast in range(stops.size):
        while row < stops[forecast]:
            slot = slots[row]
            if slot != NOBODY and revisions[row] > current[groups[row]]:
                current[groups[row]] = revisions[row]
                if there[row]:
                    tops[slot] = _united(tops[slot], row, children, ranks)
            row += 1
        found = _topmost(readers[forecast], tops, children, groups, revisions, ranks, current)
        if found == NOBODY:
            found = _topmost(size - 1, tops, children, groups, revisions, ranks, current)
        place[forecast] = found


@_compiled
def _topmost(
    slot: Any, tops: Any, children: Any, groups: Any, revisions: Any, ranks: Any, current: Any
) -> Any:
    """Return the topmost row of a slot's heap that was not superseded, and take off those that were."""
    top = tops[slot]
    while top != NOBODY and revisions[top] != current[groups[top]]:
        top = _united(children[top, 0], children[top, 1], children, ranks)
    tops[slot] = top
    return top


@_compiled
def _united(a: Any, b: Any, children: Any, ranks: Any) -> Any:
    """Unite two heaps along their right edges, exchanging the children of every node on the way."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if ranks[a] < ranks[b]:
        a, b = b, a
    top = a
    while True:
        following = children[a, 1]
        children[a, 1] = children[a, 0]
        if following == NOBODY:
            children[a, 0] = b
            return top
        if ranks[following] < ranks[b]:
            following, b = b, following
        children[a, 0] = following
        a = following
