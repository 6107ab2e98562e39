"""Windows over intraday bars: horizons are durations, or reach to the close of a later session."""

from __future__ import annotations

import numpy as np

from quantattn.errors import LabelError
from quantattn.pit.labels.windows import (
    CLOSED,
    GAP,
    HALTED,
    INCOMPLETE,
    KEPT,
    NO_PRICE,
    Resumption,
    Spans,
    Terms,
    Windows,
    gather,
    next_true,
    with_delisting,
)
from quantattn.pit.prices.halts import Mask, halted_at, spans_of
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.prices.intraday import Hours
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of, shifted

_SECOND = 1_000_000_000


def intraday_windows(prices: PriceHistory, times: Nanoseconds, terms: Terms) -> Windows:
    """Find the window of every entity at every forecast time.

    Parameters
    ----------
    prices : PriceHistory
        Intraday bars.
    times : ndarray of int64
        Forecast times, nanoseconds, UTC.
    terms : Terms
        With a horizon in seconds, or in sessions: then a window ends at the official close of the
        session `horizon` sessions after that of the entry bar.

    Returns
    -------
    Windows
        The entry bar is the first whose end (with entry at the open: start) is strictly after the
        forecast and the lag, and which is tradable. The last bar is the last that ended by the end of
        the window. There must be a bar that ends at that very instant, unless the entity was halted, or
        an absent bar means that nothing traded: then the last price stands, and the label is known once
        the next bar shows that the data go on.
    """
    at_open = terms.entry == "open"
    if prices.frame.is_empty():
        return gather(prices, times, [], at_open)
    _refuse_uneven(prices, terms)
    market = _Market(prices, times, terms, at_open)
    parts = [market.windows_of(entity) for entity in prices.entities]
    return gather(prices, times, parts, at_open)


def _refuse_uneven(prices: PriceHistory, terms: Terms) -> None:
    if terms.entry == "open" and prices.starts is None:
        raise LabelError("entry='open' needs the starts of the bars; declare bar_length= of the prices")
    length = prices.bar_length
    if length is None or terms.unit == "sessions" or prices.missing_bars == "no_trade":
        return
    if (terms.horizon * _SECOND) % length:
        raise LabelError(
            f"horizon of {terms.horizon} s is no multiple of the bars' {length / _SECOND:g} s, so no bar "
            "ends where it does; give a multiple"
        )


class _Market:
    """What the windows of all entities share."""

    def __init__(self, prices: PriceHistory, times: Nanoseconds, terms: Terms, at_open: bool) -> None:
        frame = prices.frame
        self.prices, self.terms, self.at_open = prices, terms, at_open
        self.resumption = Resumption(prices)
        self.moments = shifted(times, terms.lag, "execution_lag")
        self.ends = nanoseconds_of(frame["event_time"])
        self.known = nanoseconds_of(frame["available_at"])
        self.starts = prices.starts
        self.entries = self.starts if at_open and self.starts is not None else self.ends
        self.last = int(self.ends.max())
        self.span = terms.horizon * _SECOND if terms.unit == "seconds" else 0
        reach = shifted(np.array([self.ends.min(), self.last]), self.span, "horizon")
        self.hours = Hours.around(prices.calendar, int(self.ends.min()), int(reach.max()))
        self.session = (
            self.hours.session.search_sorted(frame["session"], side="left").to_numpy().astype(np.int64)
        )
        self.day = frame["session"].to_physical().to_numpy().astype(np.int64)
        self.tradable: Mask | None = None
        if prices.zero_volume == "halt" or not prices.halts.is_empty():
            self.tradable = prices.tradable(self.entries, at_open=at_open)
        self.halts = spans_of(prices.halts)
        self.priced = frame["open"].is_not_null().to_numpy() if at_open else np.ones(frame.height, dtype=bool)
        self.every_bar = prices.missing_bars == "gap"
        self.length = prices.bar_length or 0
        gaps = prices.gaps.partition_by("entity", as_dict=True, maintain_order=True)
        self.gaps = {
            str(entity): (nanoseconds_of(part["start_time"]), nanoseconds_of(part["end_time"]))
            for (entity,), part in gaps.items()
        }

    def windows_of(self, entity: str) -> Spans:
        """Find the windows of one entity."""
        rows = self.prices.rows_of(entity)
        ends, size = self.ends[rows], rows.stop - rows.start
        first_due = np.searchsorted(self.entries[rows], self.moments, side="right").astype(np.int64)
        entry = first_due if self.tradable is None else next_true(self.tradable[rows])[first_due]
        ended, gone = entry >= size, first_due >= size
        there = np.minimum(entry, size - 1)
        begin = self.entries[rows][there]
        finish = self._finish(self.session[rows][there], begin)
        last = np.searchsorted(ends, finish, side="right").astype(np.int64) - 1
        proof = np.minimum(np.searchsorted(ends, finish, side="left"), size - 1)
        broken = self._broken(entity, finish)
        early = (first_due == 0) & self._too_early(rows)
        beyond = finish > ends[-1]
        closed = ~self._open_at(rows, finish, proof)
        absent = ((ends[proof] != finish) & self._needs_bar(entity, finish)) | (last < there)
        unpriced = ~self.priced[rows][there]
        fate = np.select(
            [
                gone & (self.moments < self.last),
                gone,
                ended,
                early | unpriced,
                closed,
                beyond & (finish > self.last),
                beyond,
                broken,
                absent,
            ],
            [NO_PRICE, INCOMPLETE, HALTED, NO_PRICE, CLOSED, INCOMPLETE, NO_PRICE, GAP, NO_PRICE],
            default=KEPT,
        ).astype(np.int64)
        spans = Spans(
            entry=there + rows.start,
            last=last + rows.start,
            starts_at=begin,
            ends_at=finish,
            known_at=self.known[rows][proof],
            final=np.full(entry.shape, np.nan),
            fate=fate,
        )
        delisting = self.terms.delisting(entity, int(self.day[rows][-1]), self.resumption)
        if delisting is None:
            return spans
        spanning = np.isin(fate, (CLOSED, INCOMPLETE, NO_PRICE)) & ~ended & ~early & ~unpriced & ~broken
        # Nobody could sell in a suspension: what ends in it ends with the delisting.
        suspended = delisting.session > int(self.day[rows][-1])
        spanning &= beyond & ((finish >= delisting.delisted_at) | suspended)
        final_end, final_known = int(ends[-1]), int(self.known[rows][-1])
        return with_delisting(spans, delisting, rows.stop - 1, final_end, final_known, spanning, gone)

    def _finish(self, session: Nanoseconds, begin: Nanoseconds) -> Nanoseconds:
        """Give the end of each window; the last instant there is where the calendar does not reach it."""
        if self.terms.unit == "seconds":
            return begin + self.span
        target = session + self.terms.horizon
        known = target < self.hours.close.size
        closes = self.hours.close[np.minimum(target, self.hours.close.size - 1)]
        return np.where(known, closes, np.iinfo(np.int64).max)

    def _too_early(self, rows: slice) -> Mask:
        """Say after which forecasts the market was open before the entity's first bar began."""
        first = int(self.session[rows][0])
        early: Mask = np.searchsorted(self.hours.close, self.moments, side="right") < first
        if self.every_bar and self.starts is not None:
            begun = int(self.starts[rows][0])
            if begun == self.hours.break_end[first]:
                begun = int(self.hours.break_start[first])
            early |= np.maximum(self.moments, self.hours.open[first]) < begun
        return early

    def _broken(self, entity: str, finish: Nanoseconds) -> Mask:
        """Say which windows, with the wait for their entry, meet a stretch without bars."""
        starts, ends = self.gaps.get(entity, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)))
        if not starts.size:
            return np.zeros(finish.shape, dtype=bool)
        # What counts is the last entry price that is missing: an end, or a start one bar earlier.
        until = np.maximum(starts, ends - self.length) if self.at_open else ends
        place = np.searchsorted(until, self.moments, side="right")
        met: Mask = (place < starts.size) & (starts[np.minimum(place, starts.size - 1)] < finish)
        return met

    def _open_at(self, rows: slice, finish: Nanoseconds, proof: Nanoseconds) -> Mask:
        """Say which windows end in official hours, or in a bar of extended hours."""
        ends = self.ends[rows]
        starts = ends if self.starts is None else self.starts[rows]
        in_bar = (ends[proof] == finish) | ((starts[proof] < finish) & (finish <= ends[proof]))
        found: Mask = self.hours.are_open(finish) | in_bar
        return found

    def _needs_bar(self, entity: str, finish: Nanoseconds) -> Mask:
        """Say which windows end where a bar must end: where every bar is given, but for halts."""
        needed: Mask = np.full(finish.shape, self.every_bar)
        if entity in self.halts:
            needed &= ~halted_at(finish, self.halts[entity], resumed=False)
        return needed
