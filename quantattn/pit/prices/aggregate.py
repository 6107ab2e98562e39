"""Intraday bars put together into session bars."""

from __future__ import annotations

from typing import Final

import polars as pl

from quantattn.errors import PriceDataError
from quantattn.pit._tables import refuse_rows
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices.halts import without_halts
from quantattn.pit.prices.intraday import STRETCHES, without_breaks
from quantattn.pit.timestamps import instants, nanoseconds_of

_RULES: Final = {
    "open": pl.col("open").first(),
    "high": pl.col("high").max(),
    "low": pl.col("low").min(),
    "close": pl.col("close").last(),
    "volume": pl.col("volume").sum(),
}


def session_bars(
    bars: pl.DataFrame, halts: pl.DataFrame, calendar: str, *, every_bar: bool, gaps: str
) -> pl.DataFrame:
    """Put the bars of the official hours of each session together.

    Parameters
    ----------
    bars : polars.DataFrame
        Intraday bars, sorted by entity and time.
    halts : polars.DataFrame
        Declared halts.
    calendar : str
        Exchange calendar.
    every_bar : bool
        Whether a missing bar is a gap; otherwise nothing traded in it.
    gaps : {"raise", "drop"}
        What to do about incomplete sessions.

    Returns
    -------
    polars.DataFrame
        ``entity``, ``session``, ``event_time`` (the official close), ``shown_at`` (the end of the bar that
        shows the session to be whole) and the figures, sorted; a figure is null where any bar of the
        session lacks it.
    """
    figures = [
        pl.when(pl.col(name).null_count() == 0).then(rule).alias(name)
        for name, rule in _RULES.items()
        if name in bars.columns
    ]
    if bars.is_empty():
        end = pl.col("event_time").first()
        return bars.group_by("entity", "session").agg(end, end.alias("shown_at"), *figures)
    # Bars of extended hours lie outside the hours of the session that they lead to.
    inside = bars.join(_hours(bars, calendar), on="session", how="left", maintain_order="left").filter(
        (pl.col("event_time") > pl.col("official_open")) & (pl.col("event_time") <= pl.col("official_close"))
    )
    if every_bar:
        incomplete = without_halts(_uncovered(inside), halts)
    else:
        incomplete = _unfinished(inside, int(nanoseconds_of(bars["event_time"]).max()))
    if gaps == "raise":
        refuse_rows(
            incomplete,
            incomplete["entity"].is_not_null(),
            STRETCHES.names(),
            "sessions are incomplete",
            "supply the bars of those times, or pass gaps='drop' to leave those sessions out",
            PriceDataError,
        )
    whole = inside.join(incomplete, on=["entity", "session"], how="anti", maintain_order="left")
    ends = pl.col("official_close").first().alias("event_time")
    sessions = whole.group_by("entity", "session", maintain_order=True).agg(ends, *figures)
    shown = pl.col("event_time")
    if every_bar:
        return sessions.with_columns(shown.alias("shown_at"))
    # Where absent bars mean nothing, only the next bar of anything tells that the session was over.
    later = bars["event_time"].unique().sort()
    return sessions.with_columns(
        later.gather(later.search_sorted(sessions["event_time"], side="left")).alias("shown_at")
    )


def _hours(bars: pl.DataFrame, calendar: str) -> pl.DataFrame:
    ends = nanoseconds_of(bars["event_time"])
    hours = TradingCalendar(calendar).around(int(ends.min()), int(ends.max()))
    return hours.rename({"open": "official_open", "close": "official_close"})


def _uncovered(bars: pl.DataFrame) -> pl.DataFrame:
    """List what no bar covers, session by session."""
    before = pl.col("event_time").shift(1).over("entity", "session").fill_null(pl.col("official_open"))
    holes = bars.with_columns(end_time=pl.col("start_time"), start_time=before)
    rest = (
        bars.group_by("entity", "session", maintain_order=True)
        .last()
        .with_columns(start_time=pl.col("event_time"), end_time=pl.col("official_close"))
    )
    columns = [*STRETCHES.names(), "break_start", "break_end"]
    return without_breaks(pl.concat([holes.select(columns), rest.select(columns)]))


def _unfinished(bars: pl.DataFrame, last: int) -> pl.DataFrame:
    """List the sessions that were not over when the data end."""
    return (
        bars.filter(pl.col("official_close").to_physical() > last)
        .select(
            "entity",
            "session",
            pl.lit(instants([last])).first().alias("start_time"),
            end_time="official_close",
        )
        .unique(["entity", "session"], maintain_order=True)
    )
