"""What is measured over a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quantattn.pit.labels.windows import Floats, Windows
from quantattn.pit.prices.adjustments import CorporateActions
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.timestamps import Nanoseconds

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Marks:
    """Prices, one for each bar, and what makes them comparable over corporate actions.

    A label is measured with the actions inside its window alone: others, which may be known only later, do
    not touch so much as its last bit.

    Attributes
    ----------
    close : ndarray, shape (n,)
        Closes as they were traded.
    open : ndarray of shape (n,) or None
        Opens; NaN where a bar has none.
    step : ndarray, shape (n,)
        Where a bar is the first after actions: the growth of a share by them; elsewhere 1.
    new_session : ndarray of bool, shape (n,)
        Bars that are the first of a session.
    known_at : ndarray of int64, shape (n,)
        Where a bar is the first after actions: when they were known; elsewhere the least int64.
    """

    close: Floats
    open: Floats | None
    step: Floats
    new_session: np.ndarray
    known_at: Nanoseconds

    @classmethod
    def of(cls, prices: PriceHistory, actions: CorporateActions | None) -> Marks:
        """Read the prices of all bars."""
        frame = prices.frame
        close = frame["close"].to_numpy()
        opens = frame["open"].fill_null(np.nan).to_numpy() if "open" in frame.columns else None
        first = (frame["session"] != frame["session"].shift(1)).fill_null(True).to_numpy()
        known = np.full(close.size, _NEVER, dtype=np.int64)
        step = np.ones(close.size)
        if actions is None:
            return cls(close, opens, step, first, known)
        prices.refuse_adjusted("measured with corporate actions")
        sessions = frame["session"].to_physical().to_numpy().astype(np.int64)
        for entity in prices.entities:
            rows = prices.rows_of(entity)
            growth = actions.growth(entity, sessions[rows], close[rows])
            step[rows], known[rows] = growth.step, growth.known_at
        return cls(close, opens, step, first, known)

    def known_within(self, windows: Windows) -> Nanoseconds:
        """Give when the last action within each window was known; the least int64 where there is none."""
        latest = np.full(windows.spans.entry.shape, _NEVER, dtype=np.int64)
        for inside, rows in self._actions_within(windows):
            latest[inside] = np.maximum(latest[inside], self.known_at[rows])
        return latest

    def growth_within(self, windows: Windows) -> Floats:
        """Give what a share bought at the entry has grown to by the actions within each window."""
        growth = np.ones(windows.spans.entry.shape)
        for inside, rows in self._actions_within(windows):
            growth[inside] *= self.step[rows]
        return growth

    def _actions_within(self, windows: Windows) -> Iterator[tuple[Nanoseconds, Nanoseconds]]:
        """Give, for the first action within windows, then the second, and so on: the windows and the rows."""
        entry, last = windows.spans.entry, windows.spans.last
        rows = np.flatnonzero(self.known_at > _NEVER)
        begin, end = np.searchsorted(rows, entry, side="right"), np.searchsorted(rows, last, side="right")
        for place in range(int((end - begin).max(initial=0))):
            inside = np.flatnonzero(begin + place < end)
            yield inside, rows[begin[inside] + place]

    def entry_price(self, windows: Windows) -> Floats:
        """Give the price at which each window begins."""
        if windows.at_open and self.open is not None:
            return self.open[windows.spans.entry]
        return self.close[windows.spans.entry]


def simple_returns(marks: Marks, windows: Windows) -> Floats:
    """Give the simple return of each window."""
    ratio: Floats = marks.close[windows.spans.last] / marks.entry_price(windows)
    ratio *= marks.growth_within(windows)
    ended = ~np.isnan(windows.spans.final)
    ratio[ended] *= 1.0 + windows.spans.final[ended]
    return ratio - 1.0


def log_returns(marks: Marks, windows: Windows) -> Floats:
    """Give the log return of each window; minus infinity for a total loss."""
    logs: Floats = np.log(marks.close[windows.spans.last]) - np.log(marks.entry_price(windows))
    logs += np.log(marks.growth_within(windows))
    ended = ~np.isnan(windows.spans.final)
    with np.errstate(divide="ignore"):
        logs[ended] += np.log1p(windows.spans.final[ended])
    return logs


def variances(marks: Marks, windows: Windows, *, log: bool, overnight: bool) -> Floats:
    """Give the sum of the squared log returns of the bars in each window, and of its delisting."""
    spans = windows.spans
    logs = np.log(marks.close)
    changes = np.append(np.nan, logs[1:] - logs[:-1]) if logs.size else logs
    changes += np.log(marks.step)
    if not overnight:
        first = marks.new_session
        inside = np.zeros(int(first.sum())) if marks.open is None else logs[first] - np.log(marks.open[first])
        changes[first] = np.where(np.isnan(inside), 0.0, inside)
    total = np.zeros(spans.entry.size)
    if windows.at_open and marks.open is not None:
        change = logs[spans.entry] - np.log(marks.open[spans.entry])
        total += change * change
    lengths = spans.last - spans.entry
    every = int(lengths.min()) if lengths.size else 0
    for step in range(1, int(lengths.max(initial=0)) + 1):
        if step <= every:
            change = changes[spans.entry + step]
            total += change * change
        else:
            rows = np.flatnonzero(lengths >= step)
            change = changes[spans.entry[rows] + step]
            total[rows] += change * change
    ended = ~np.isnan(spans.final)
    with np.errstate(divide="ignore"):
        change = np.log1p(spans.final[ended])
        total[ended] += change * change
    if not log:
        return total
    return np.log(total, out=np.full(total.shape, -np.inf), where=total > 0)


def directions(marks: Marks, windows: Windows, *, lower: float, upper: float) -> Floats:
    """Give 1.0 above `upper`, -1.0 below `lower`, else 0.0."""
    returns = simple_returns(marks, windows)
    return np.where(returns > upper, 1.0, np.where(returns < lower, -1.0, 0.0))
