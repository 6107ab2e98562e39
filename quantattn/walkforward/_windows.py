"""Where each fold's windows lie along the distinct forecast times, before any purging."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from quantattn.pit.timestamps import Nanoseconds
from quantattn.walkforward._sizes import Span, calendar_dates


class Window(NamedTuple):
    """Half-open positions among the distinct forecast times.

    The training side is ``[train_start, validation_start)``, the validation side
    ``[validation_start, test_start)`` and the test side ``[test_start, test_stop)``. Without validation,
    `validation_start` equals `test_start`.
    """

    train_start: int
    validation_start: int
    test_start: int
    test_stop: int


class Layout(NamedTuple):
    """The parsed sizes. `extra` forecast times are purged beyond the label rule."""

    train: int | Span
    test: int | Span
    validation: int | Span | None
    extra: int
    expand: bool
    reduce: bool


def _first_at_or_after(times: Nanoseconds, moment: int) -> int:
    return int(np.searchsorted(times, moment, side="left"))


def windows_by_size(times: Nanoseconds, layout: Layout) -> list[Window]:
    """Lay test blocks one after the other: counts of forecast times, or stretches of time.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
        Distinct forecast times, ascending.
    layout : Layout
        The sizes.

    Returns
    -------
    list of Window
        In order of time. Blocks without a forecast time are left out.
    """
    n = len(times)
    if isinstance(layout.train, int):
        position = layout.train + layout.extra
        if position >= n:
            return []
        anchor = int(times[position])
    else:
        anchor = layout.train.after(int(times[0]))
        position = _first_at_or_after(times, anchor)
    windows = []
    block = 0
    while position < n:
        if isinstance(layout.test, int):
            boundary, stop = int(times[position]), position + layout.test
            complete = stop <= n
        else:
            boundary, end = layout.test.after(anchor, block), layout.test.after(anchor, block + 1)
            stop = _first_at_or_after(times, end)
            complete = int(times[-1]) >= end
        if not complete and not layout.reduce:
            break
        stop = min(stop, n)
        if stop > position:

            def counted(size: int, position: int = position) -> int:
                return max(position - layout.extra - size, 0)

            windows.append(_sides(times, layout, boundary, position, stop, counted))
        position, block = stop, block + 1
        if isinstance(layout.test, Span) and layout.test.nanoseconds and position < n:
            # Jump over blocks without a forecast time, which a short span may have in great number.
            block = max(block, (int(times[position]) - anchor) // layout.test.nanoseconds)
    return windows


def _sides(
    times: Nanoseconds, layout: Layout, boundary: int, position: int, stop: int, counted: Callable[[int], int]
) -> Window:
    """Reach back from a test block; `counted` gives the position that lies a count of units before it."""

    def reach_back(size: int | Span) -> int:
        if isinstance(size, int):
            return counted(size)
        return _first_at_or_after(times, size.before(boundary))

    validation_start = position if layout.validation is None else reach_back(layout.validation)
    train_start = 0 if layout.expand else reach_back(layout.train)
    return Window(train_start, min(validation_start, position), position, stop)


def windows_by_calendar(times: Nanoseconds, layout: Layout, freq: pd.offsets.BaseOffset) -> list[Window]:
    """Start test blocks on a calendar; integer sizes count its periods.

    Period boundaries are the dates of `freq` at midnight UTC from the day of the first forecast time
    on. A period starts at the first forecast time at or after its boundary.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
        Distinct forecast times, ascending.
    layout : Layout
        The sizes; `layout.test` is a count of periods.
    freq : pandas offset
        The calendar.

    Returns
    -------
    list of Window
        In order of time. Blocks without a forecast time are left out.
    """
    boundaries = calendar_dates(int(times[0]), int(times[-1]), freq)
    positions = [_first_at_or_after(times, boundary) for boundary in boundaries]
    if isinstance(layout.train, int):
        first = layout.train
    else:
        reach_back = [layout.train.before(boundary) >= int(times[0]) for boundary in boundaries]
        first = reach_back.index(True) if any(reach_back) else len(boundaries)
    assert isinstance(layout.test, int)
    windows = []
    last = len(positions) if layout.reduce else len(positions) - layout.test
    for period in range(first, last, layout.test):
        position = positions[period]
        after = period + layout.test
        stop = positions[after] if after < len(positions) else len(times)
        if stop > position:

            def counted(periods: int, period: int = period) -> int:
                return positions[max(period - periods, 0)]

            windows.append(_sides(times, layout, boundaries[period], position, stop, counted))
    return windows
