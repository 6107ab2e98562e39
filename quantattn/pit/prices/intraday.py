"""Bars inside sessions: which session each belongs to, and which stretches lack one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, TimestampError, UsageError
from quantattn.pit._tables import refuse_rows, to_instants
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import (
    TIME,
    Nanoseconds,
    duration_nanoseconds,
    instants,
    nanoseconds_of,
    shifted,
)

Outside = Literal["raise", "drop", "keep"]
MissingBars = Literal["gap", "no_trade"]

STRETCHES: Final = pl.Schema(
    {"entity": pl.String(), "session": pl.Date(), "start_time": TIME, "end_time": TIME}
)


@dataclass(frozen=True)
class Hours:
    """The official hours about some instants, as arrays in nanoseconds; a break at noon may be missing."""

    session: pl.Series
    open: Nanoseconds
    close: Nanoseconds
    break_start: Nanoseconds
    break_end: Nanoseconds

    @classmethod
    def around(cls, calendar: str, first: int, last: int) -> Hours:
        """Read the hours of a calendar; where a session has no break, it is empty and at the close."""
        table = TradingCalendar(calendar).around(first, last)
        close = nanoseconds_of(table["close"])
        noon = [
            nanoseconds_of(table.select(pl.col(name).fill_null(pl.col("close"))).to_series())
            for name in ("break_start", "break_end")
        ]
        return cls(table["session"], nanoseconds_of(table["open"]), close, *noon)

    def are_open(self, moments: Nanoseconds) -> np.ndarray:
        """Say at which moments a price of the session exists: after its open, and up to its close."""
        place = np.searchsorted(self.close, moments, side="left")
        there = np.minimum(place, self.close.size - 1)
        at_noon = (moments > self.break_start[there]) & (moments <= self.break_end[there])
        return (place < self.close.size) & (moments > self.open[there]) & ~at_noon


def bar_span(bar_length: str | timedelta | pd.Timedelta) -> int:
    """Read the length of a bar as positive nanoseconds."""
    length = duration_nanoseconds(bar_length, argument="bar_length")
    if length <= 0:
        raise TimestampError(
            f"bar_length={bar_length!r} is not positive; give the span from a bar's start to its end"
        )
    return length


def place_bars(
    frame: pl.DataFrame,
    bars: pl.DataFrame,
    column: str,
    *,
    stamps: str,
    length: int | None,
    zone: str | None,
    calendar: str,
    outside: Outside,
) -> pl.DataFrame:
    """Give bars their session, start and end.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's table.
    bars : polars.DataFrame
        What was read from it so far, row by row.
    column : str
        Column of stamps in `frame`.
    stamps : {"start", "end"}
        What the stamps mark.
    length : int or None
        Length of a bar in nanoseconds.
    zone : str or None
        Zone of naive stamps.
    calendar : str
        Exchange calendar.
    outside : {"raise", "drop", "keep"}
        What to do about bars that begin or end outside the official hours.

    Returns
    -------
    polars.DataFrame
        `bars` with ``session``, ``start_time`` (unless unknown) and ``event_time``; without the bars
        outside if they are to be dropped. If they are refused, the table is one of official hours alone: a
        bar that runs past the close (or the break at noon) ends there, and one that is stamped at its end
        begins no earlier than the session. If they are dropped, the table holds trades beyond those hours,
        so a bar that is partly beyond them is outside, too; if they are kept, it is kept as it is.
    """
    stamped = nanoseconds_of(to_instants(frame, column, zone))
    if stamps == "start":
        if length is None:
            raise UsageError(
                "stamps='start' needs bar_length=, for example '5min': a bar is known only at its end, "
                "and the stamp alone does not say when that is"
            )
        start, end = stamped, shifted(stamped, length, "bar_length")
    else:
        end = stamped
        start = end if length is None else shifted(end, -length, "bar_length")
    hours = Hours.around(calendar, int(start.min()), int(end.max()))
    # A bar is of the session in which its stamp lies; where there is none, of the next session.
    place = np.searchsorted(hours.close, stamped, side="right" if stamps == "start" else "left")
    known = place < hours.close.size
    place = np.minimum(place, hours.close.size - 1)
    noon, after = hours.break_start[place], hours.break_end[place]
    if stamps == "start":
        inside = known & (start >= hours.open[place]) & ~((start >= noon) & (start < after))
        if outside == "drop":
            inside &= (end <= hours.close[place]) & ((start >= noon) | (end <= noon))
        elif outside == "raise":
            end = np.where(inside, np.minimum(end, hours.close[place]), end)
            end = np.where(inside & (start < noon), np.minimum(end, noon), end)
    else:
        inside = known & (end > hours.open[place]) & ~((end > noon) & (end <= after))
        if outside == "drop":
            inside &= (start >= hours.open[place]) & ((end <= after) | (start >= after))
        elif outside == "raise":
            start = np.where(inside, np.maximum(start, hours.open[place]), start)
            start = np.where(inside & (end > after), np.maximum(start, after), start)
    stray = pl.Series(~inside if outside == "raise" else ~known, dtype=pl.Boolean)
    refuse_rows(
        frame,
        stray,
        [column],
        f"column {column!r} has bars outside the official hours of {calendar}",
        "check stamps= and time_zone=; pass outside='drop' to leave those bars out, or outside='keep' to "
        "trade at them too",
        PriceDataError,
    )
    columns = [hours.session.gather(place).rename("session")]
    if length is not None:
        columns.append(instants(start, "start_time"))
    placed = bars.with_columns(*columns, instants(end, "event_time"))
    return placed.filter(pl.Series(inside)) if outside == "drop" else placed


def refuse_overlaps(bars: pl.DataFrame, column: str) -> None:
    """Refuse bars of one entity that end together, or begin before the last one ended; sorted."""
    shown = ["entity", "session", "event_time", "close"]
    before = pl.col("event_time").shift(1).over("entity")
    refuse_rows(
        bars,
        bars.select(pl.col("event_time") == before).to_series(),
        shown,
        f"column {column!r} gives two bars of an entity the same end",
        "keep one",
        PriceDataError,
    )
    if "start_time" in bars.columns:
        refuse_rows(
            bars,
            bars.select(pl.col("start_time") < before).to_series(),
            shown,
            f"column {column!r} gives bars that begin before the last one of their entity has ended",
            "check bar_length=; bars of several lengths belong into separate histories",
            PriceDataError,
        )


def stretches_without_bars(bars: pl.DataFrame, calendar: str, missing_bars: MissingBars) -> pl.DataFrame:
    """List the stretches of the official hours, between an entity's first and last bar, that have no bar.

    Parameters
    ----------
    bars : polars.DataFrame
        Intraday bars, sorted by entity and time.
    calendar : str
        Exchange calendar.
    missing_bars : {"gap", "no_trade"}
        With the latter only whole sessions count.

    Returns
    -------
    polars.DataFrame
        ``entity``, ``session``, ``start_time``, ``end_time``, sorted.
    """
    if bars.height < 2:
        return pl.DataFrame(schema=STRETCHES)
    ends = nanoseconds_of(bars["event_time"])
    starts = nanoseconds_of(bars["start_time"]) if "start_time" in bars.columns else ends
    names = bars["entity"]
    same = (names == names.shift(1)).fill_null(False).to_numpy()[1:]
    hours = Hours.around(calendar, int(min(starts.min(), ends.min())), int(ends.max()))
    if missing_bars == "no_trade":
        of_bar = hours.session.search_sorted(bars["session"], side="left").to_numpy().astype(np.int64)
        first, last = of_bar[:-1] + 1, of_bar[1:] - 1
    else:
        first = np.searchsorted(hours.close, ends[:-1], side="right")
        last = np.searchsorted(hours.open, starts[1:], side="left") - 1
    count = np.where(same, np.maximum(last - first + 1, 0), 0)
    pair = np.repeat(np.arange(count.size), count)
    session = np.repeat(first, count) + np.arange(pair.size) - np.repeat(np.cumsum(count) - count, count)
    begin, finish = hours.open[session], hours.close[session]
    if missing_bars == "gap":
        begin, finish = np.maximum(begin, ends[pair]), np.minimum(finish, starts[pair + 1])
    pieces = pl.DataFrame(
        {
            "entity": names.gather(pair),
            "session": hours.session.gather(session),
            "start_time": instants(begin),
            "end_time": instants(finish),
            "break_start": instants(hours.break_start[session]),
            "break_end": instants(hours.break_end[session]),
        }
    )
    return without_breaks(pieces)


def without_breaks(pieces: pl.DataFrame) -> pl.DataFrame:
    """Take the breaks at noon out of stretches of time.

    Parameters
    ----------
    pieces : polars.DataFrame
        ``entity``, ``session``, ``start_time``, ``end_time``, ``break_start``, ``break_end`` (null: none).

    Returns
    -------
    polars.DataFrame
        ``entity``, ``session``, ``start_time``, ``end_time`` of what is left, sorted.
    """
    start, end = pl.col("start_time"), pl.col("end_time")
    parts = [
        pieces.with_columns(pl.min_horizontal("end_time", "break_start").alias("end_time")),
        pieces.filter(pl.col("break_end").is_not_null()).with_columns(
            pl.max_horizontal("start_time", "break_end").alias("start_time")
        ),
    ]
    left = pl.concat(parts).filter(start < end).select(STRETCHES.names())
    return left.sort("entity", "start_time")


def refuse_stretches(gaps: pl.DataFrame, calendar: str) -> None:
    """Refuse missing intraday bars, naming the first entity and its first stretches."""
    if gaps.is_empty():
        return
    entity = gaps["entity"][0]
    first = gaps.filter(pl.col("entity") == entity).head(3)
    shown = ", ".join(
        f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC"
        for start, end in first.select("start_time", "end_time").iter_rows()
    )
    raise PriceDataError(
        f"{gaps.height} stretches of the official hours have no bar, between first and last bars: {entity!r} "
        f"lacks {shown} ({calendar} was open); supply them, declare them in halts=, pass "
        "missing_bars='no_trade' if a bar is only made when something trades, or gaps='drop' to leave out "
        "every label that would span a gap"
    )
