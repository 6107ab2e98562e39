"""A price table turned into checked bars."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, NamedTuple

import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import require_columns
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices.bars import (
    at_official_close,
    gaps_of,
    join_sessions,
    numbers,
    refuse_crossed,
    refuse_disorder,
    refuse_duplicates,
    refuse_early_ends,
    refuse_gaps,
    session_dates,
    session_of_ends,
    stamped_ends,
)
from quantattn.pit.prices.halts import covered_sessions, no_halts, read_halts, without_halts
from quantattn.pit.prices.intake import entity_names, refuse_unknown_volume, stamp_columns
from quantattn.pit.prices.intraday import (
    MissingBars,
    Outside,
    bar_span,
    place_bars,
    refuse_overlaps,
    refuse_stretches,
    stretches_without_bars,
)
from quantattn.pit.timestamps import instants, nanoseconds_of, shifted

Frequency = Literal["session", "intraday"]
ZeroVolume = Literal["keep", "halt"]

KEYS: Final = ("entity", "session", "event_time", "available_at")
FIGURES: Final = ("open", "high", "low", "close", "volume")
_INTRADAY_KEYS: Final = ("entity", "session", "start_time", "event_time", "available_at")
_CHOICES: Final = {
    "stamps": ("session", "start", "end"),
    "gaps": ("raise", "drop"),
    "frequency": ("session", "intraday"),
    "outside": ("raise", "drop", "keep"),
    "missing_bars": ("gap", "no_trade"),
    "zero_volume": ("keep", "halt"),
}


@dataclass(frozen=True)
class BarOptions:
    """The arguments of :meth:`PriceHistory.from_frame`, checked as far as they can be without the table."""

    close: str
    entity: str | None
    session: str | None
    event_time: str | None
    stamps: str
    open: str | None
    high: str | None
    low: str | None
    volume: str | None
    calendar: str
    latency: int
    time_zone: str | None
    bar_length: str | timedelta | pd.Timedelta | None
    gaps: str
    name: str | None
    frequency: Frequency
    outside: Outside
    missing_bars: MissingBars
    zero_volume: ZeroVolume

    def __post_init__(self) -> None:
        """Refuse unknown choices, and those that do not go together."""
        for argument, allowed in _CHOICES.items():
            value = getattr(self, argument)
            if value not in allowed:
                words = ", ".join(map(repr, allowed[:-1]))
                raise UsageError(f"{argument}={value!r} is unknown; use {words} or {allowed[-1]!r}")
        for argument in ("entity", "session", "event_time", *FIGURES[:3], "volume", "time_zone", "name"):
            value = getattr(self, argument)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{argument}={value!r} is no name; give it as text, or leave it out")
        if not isinstance(self.calendar, str):
            raise UsageError(f"calendar={self.calendar!r} is no name; give for example 'XNYS'")
        if not isinstance(self.close, str):
            raise UsageError(f"close={self.close!r} names no column; every bar needs its close")
        if self.zero_volume == "halt" and self.volume is None:
            raise UsageError("zero_volume='halt' needs volume=, the column that tells")
        if self.frequency == "session":
            if (self.outside, self.missing_bars) != ("raise", "gap"):
                raise UsageError(
                    "outside= and missing_bars= are for intraday bars; pass frequency='intraday' with them"
                )
        elif self.stamps == "session" or self.session is not None:
            raise UsageError(
                "frequency='intraday' needs event_time= with stamps='start' or 'end', and no session=: the "
                "session of a bar follows from its stamp"
            )
        elif self.bar_length is None and self.missing_bars == "gap" and self.stamps == "end":
            raise UsageError(
                "intraday bars need bar_length=, to tell whether any is missing; pass it, or "
                "missing_bars='no_trade' if a bar is only made when something trades"
            )

    @property
    def figures(self) -> dict[str, str]:
        """Column of each figure that there is."""
        columns = {name: getattr(self, name) for name in FIGURES}
        return {name: column for name, column in columns.items() if column is not None}


class Built(NamedTuple):
    """Bars with ``entity, session[, start_time], event_time, available_at`` and figures; what they lack."""

    bars: pl.DataFrame
    gaps: pl.DataFrame
    halts: pl.DataFrame
    length: int | None


def read_bars(
    table: pl.DataFrame, options: BarOptions, halts: pl.DataFrame | pl.LazyFrame | pd.DataFrame | None
) -> Built:
    """Check a table of bars and put it into the form of ``PriceHistory.frame``."""
    session, event_time = stamp_columns(table, options.stamps, options.session, options.event_time)
    keys = {"entity": options.entity, "session": session, "event_time": event_time}
    require_columns(table, {**keys, **options.figures}, PriceDataError)
    if table.is_empty():
        raise PriceDataError("the price table has no rows; give at least one bar")
    bars = pl.DataFrame([entity_names(table, options.entity, options.name)])
    pauses = (
        no_halts()
        if halts is None
        else read_halts(halts, bars["entity"], options.time_zone, options.calendar)
    )
    if options.frequency == "intraday":
        bars, length = _intraday_bars(table, bars, str(event_time), options)
    else:
        bars, length = _session_bars(table, bars, session, event_time, options), None
    refuse_crossed(bars)
    found = gaps_in(bars, options.calendar, options.frequency, options.missing_bars, pauses)
    if options.gaps == "raise":
        (refuse_gaps if options.frequency == "session" else refuse_stretches)(found, options.calendar)
    bars = bars.with_columns(available_from(bars["event_time"], options.latency))
    if options.frequency == "session":
        bars = bars.sort("entity", "session")
        refuse_disorder(bars, event_time or "event_time")
    columns = _INTRADAY_KEYS if "start_time" in bars.columns else KEYS
    return Built(bars.select(*columns, *options.figures), found, pauses, length)


def _figures(table: pl.DataFrame, options: BarOptions) -> list[pl.Series]:
    figures = [numbers(table, column, name) for name, column in options.figures.items()]
    if options.zero_volume == "halt":
        refuse_unknown_volume(table, options.figures["volume"])
    return figures


def _session_bars(
    table: pl.DataFrame,
    bars: pl.DataFrame,
    session: str | None,
    event_time: str | None,
    options: BarOptions,
) -> pl.DataFrame:
    if event_time is not None:
        ends = stamped_ends(table, event_time, options.stamps, options.bar_length, options.time_zone)
        bars = bars.with_columns(ends, session_of_ends(ends, options.calendar))
    if session is not None:
        bars = bars.with_columns(session_dates(table, session, options.time_zone))
    bars = bars.with_columns(_figures(table, options))
    bars = join_sessions(bars, options.calendar, session or event_time or "session")
    if event_time is None:
        bars = bars.with_columns(pl.col("official_close").alias("event_time"))
    else:
        refuse_early_ends(bars, event_time)
        bars = at_official_close(bars, options.calendar, event_time)
    refuse_duplicates(bars)
    return bars


def _intraday_bars(
    table: pl.DataFrame, bars: pl.DataFrame, event_time: str, options: BarOptions
) -> tuple[pl.DataFrame, int | None]:
    length = None if options.bar_length is None else bar_span(options.bar_length)
    bars = place_bars(
        table,
        bars.with_columns(_figures(table, options)),
        event_time,
        stamps=options.stamps,
        length=length,
        zone=options.time_zone,
        calendar=options.calendar,
        outside=options.outside,
    ).sort("entity", "event_time")
    if bars.is_empty():
        raise PriceDataError(
            f"no bar lies within the official hours of {options.calendar}; check stamps= and time_zone="
        )
    refuse_overlaps(bars, event_time)
    return bars, length


def gaps_in(
    bars: pl.DataFrame, calendar: str, frequency: str, missing_bars: MissingBars, halts: pl.DataFrame
) -> pl.DataFrame:
    """List what lies between first and last bars, has no bar and is no halt."""
    if frequency == "intraday":
        return without_halts(stretches_without_bars(bars, calendar, missing_bars), halts)
    missing = gaps_of(bars, calendar)
    if missing.is_empty() or halts.is_empty():
        return missing
    first, last = missing["session"].min(), missing["session"].max()
    hours = TradingCalendar(calendar).sessions(first, last)  # type: ignore[arg-type]
    return missing.filter(~covered_sessions(missing, halts, hours))


def available_from(ends: pl.Series, delay: int) -> pl.Series:
    """Give the instants at which bars are known."""
    return instants(shifted(nanoseconds_of(ends), delay, "latency"), "available_at")
