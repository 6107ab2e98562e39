"""Windows over session bars: horizons are whole numbers of sessions."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

import numpy as np
import polars as pl

from quantattn.errors import CalendarError
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.labels.windows import (
    GAP,
    HALTED,
    INCOMPLETE,
    KEPT,
    NO_PRICE,
    Mask,
    Resumption,
    Spans,
    Terms,
    Windows,
    gather,
    next_true,
    with_delisting,
)
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of, shifted

# The longest closure on record, of XNYS in 1914, lasted 135 days.
_LOOK_BACK: Final = timedelta(days=150)
# Where the calendar does not say when the session before was.
_WEEKEND: Final = timedelta(days=5)


def session_windows(prices: PriceHistory, times: Nanoseconds, terms: Terms) -> Windows:
    """Find the window of every entity at every forecast time.

    Parameters
    ----------
    prices : PriceHistory
        Session bars.
    times : ndarray of int64
        Forecast times, nanoseconds, UTC.
    terms : Terms
        With a horizon in sessions.

    Returns
    -------
    Windows
        The entry bar is the first whose end (with entry at the open: start) is strictly after the
        forecast and the lag, and which is tradable. The window holds `horizon` sessions after the entry
        price: those after the entry bar, or with entry at the open, that bar's session and those after.
    """
    at_open = terms.entry == "open"
    if prices.frame.is_empty():
        return gather(prices, times, [], at_open)
    market = _Market(prices, shifted(times, terms.lag, "execution_lag"), terms, at_open)
    parts = [market.windows_of(entity) for entity in prices.entities]
    return gather(prices, times, parts, at_open)


class _Market:
    """What the windows of all entities share."""

    def __init__(self, prices: PriceHistory, moments: Nanoseconds, terms: Terms, at_open: bool) -> None:
        frame = prices.frame
        self.prices, self.moments, self.terms, self.at_open = prices, moments, terms, at_open
        self.resumption = Resumption(prices)
        self.ends = nanoseconds_of(frame["event_time"])
        self.known = nanoseconds_of(frame["available_at"])
        starts = prices.starts
        self.entries = starts if at_open and starts is not None else self.ends
        self.numbers = prices.session_numbers
        self.last = int(self.numbers.max())
        hours = _hours(prices)
        self.closes = nanoseconds_of(hours["close"])
        self.days = hours["session"].to_physical().to_numpy().astype(np.int64)
        official = nanoseconds_of(hours["open"]) if at_open else self.closes
        self.before = _before_first(prices, official, at_open)
        self.due = self._due_sessions(official)
        self.early = np.empty(0, dtype=np.int64) if at_open else self.ends - self.closes[self.numbers]
        self.tradable: Mask | None = None
        if prices.zero_volume == "halt" or not prices.halts.is_empty():
            self.tradable = prices.tradable(self.entries, at_open=at_open)
        # A bar without an open has no entry price, though the market was open.
        self.priced = frame["open"].is_not_null().to_numpy() if at_open else np.ones(frame.height, dtype=bool)

    def _due_sessions(self, ends: Nanoseconds) -> Nanoseconds:
        """Give the number of the first session that ends strictly after each moment; -1 before the history.

        Numbers count from the first session of the history, as in ``prices.session_numbers``.
        """
        due = np.searchsorted(ends, self.moments, side="right").astype(np.int64)
        due[self.moments < self.before] = -1
        return due

    def _due_of(self, rows: slice) -> Nanoseconds:
        """Give the due sessions of an entity: where it has a bar, that bar's end is what counts."""
        if not self.early.size or not self.early[rows].any():
            return self.due
        ends = self.closes.copy()
        ends[self.numbers[rows]] = self.ends[rows]
        return self._due_sessions(ends)

    def windows_of(self, entity: str) -> Spans:
        """Find the windows of one entity."""
        rows = self.prices.rows_of(entity)
        halted = self.prices.halted_sessions.get(entity, np.empty(0, dtype=np.int64))
        numbers = self.numbers[rows]
        size = numbers.size
        first_due = np.searchsorted(self.entries[rows], self.moments, side="right").astype(np.int64)
        entry = first_due if self.tradable is None else next_true(self.tradable[rows])[first_due]
        ended = entry >= size
        there = np.minimum(entry, size - 1)
        of_entity = self._due_of(rows)
        due = _after_halts(of_entity, halted)
        late = (first_due < size) & (numbers[np.minimum(first_due, size - 1)] > due)
        target = np.where(ended, of_entity, numbers[there]) + self.terms.horizon - int(self.at_open)
        finish = np.searchsorted(numbers, target, side="right").astype(np.int64) - 1
        broken = (finish - there) + _held(halted, numbers[there], target) != target - numbers[there]
        first_bar, last_bar = int(numbers[0]), int(numbers[-1])
        fate = np.select(
            [
                late & (due < first_bar),
                late,
                ended & (first_due < size),
                target > self.last,
                ended | (target > last_bar) | ~self.priced[rows][there],
                broken,
            ],
            [NO_PRICE, GAP, HALTED, INCOMPLETE, NO_PRICE, GAP],
            default=KEPT,
        ).astype(np.int64)
        # Where the target session was halted altogether, the next bar shows that the price had stood.
        proof = np.minimum(np.searchsorted(numbers, target, side="left"), size - 1)
        exact = numbers[proof] == target
        last = np.maximum(finish, 0)
        places = np.clip(target, 0, self.closes.size - 1)
        spans = Spans(
            entry=there + rows.start,
            last=last + rows.start,
            starts_at=self.entries[rows][there],
            ends_at=np.where(exact, self.ends[rows][proof], self.closes[places]),
            known_at=self.known[rows][proof],
            final=np.full(entry.shape, np.nan),
            fate=fate,
        )
        delisting = self.terms.delisting(entity, int(self.days[last_bar]), self.resumption)
        if delisting is None:
            return spans
        whole = (size - 1 - there) + _held(halted, numbers[there], last_bar) == last_bar - numbers[there]
        spanning = (target > last_bar) & whole & ~ended & ~late & self.priced[rows][there]
        gone = ended & (first_due == size)
        final_end, final_known = int(self.ends[rows][-1]), int(self.known[rows][-1])
        return with_delisting(spans, delisting, rows.stop - 1, final_end, final_known, spanning, gone)


def _held(halted: Nanoseconds, after: Nanoseconds, until: Nanoseconds | int) -> Nanoseconds:
    """Count the sessions after one and up to another in which an entity was halted altogether."""
    count = np.searchsorted(halted, until, side="right") - np.searchsorted(halted, after, side="right")
    return count.astype(np.int64)


def _after_halts(due: Nanoseconds, halted: Nanoseconds) -> Nanoseconds:
    """Move due sessions past those that an entity was halted in altogether."""
    if not halted.size:
        return due
    moved = due.copy()
    for number in halted.tolist():
        moved[moved == number] = number + 1
    return moved


def _hours(prices: PriceHistory) -> pl.DataFrame:
    first: date = prices.frame["session"].min()  # type: ignore[assignment]
    final: date = prices.frame["session"].max()  # type: ignore[assignment]
    return TradingCalendar(prices.calendar).sessions(first, final)


def _before_first(prices: PriceHistory, official: Nanoseconds, at_open: bool) -> int:
    """Give the official close (or open) of the session before the history."""
    trading = TradingCalendar(prices.calendar)
    first: date = prices.frame["session"].min()  # type: ignore[assignment]
    try:
        before = trading.sessions(first - _LOOK_BACK, first - timedelta(days=1))
        earlier = nanoseconds_of(before["open" if at_open else "close"])
    except CalendarError:
        earlier = np.empty(0, dtype=np.int64)
    return int(earlier[-1] if earlier.size else official[0] - int(_WEEKEND.total_seconds()) * 10**9)
