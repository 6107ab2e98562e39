"""Compiled search for the events of many that a book may keep.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


@_entry
def choose_latest(slots: Any, event_times: Any, there: Any, size: int, depth: int, chosen: Any) -> None:
    """Mark the `depth` rows of each slot that happened last among those that have a feature.

    Of rows that happened at once, the later one counts as later.

    Parameters
    ----------
    slots, event_times, there
        Of ``n`` rows in canonical order: whose they are (below zero: not looked at), when they happened,
        and whether they have the feature.
    size
        Number of slots.
    depth
        How many to mark for each.
    chosen
        Of each row: set where it is one of them, else left alone.
    """
    rows = np.empty((size, depth), dtype=np.int64)
    filled = np.zeros(size, dtype=np.int64)
    for row in range(slots.size):
        slot = slots[row]
        if slot < 0 or not there[row]:
            continue
        place = filled[slot]
        while place > 0 and event_times[rows[slot, place - 1]] > event_times[row]:
            place -= 1
        if filled[slot] < depth:
            for other in range(filled[slot], place, -1):
                rows[slot, other] = rows[slot, other - 1]
            filled[slot] += 1
        else:
            if place == 0:
                continue
            place -= 1
            for other in range(place):
                rows[slot, other] = rows[slot, other + 1]
        rows[slot, place] = row
    for slot in range(size):
        for place in range(filled[slot]):
            chosen[rows[slot, place]] = True
