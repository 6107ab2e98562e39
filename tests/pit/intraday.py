"""Intraday bars for the tests of this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from quantattn.pit import PriceHistory, TradingCalendar

MINUTE = 60 * 10**9


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def official_minutes(calendar: str, first: date, last: date) -> list[tuple[date, datetime]]:
    """The start of every minute in which the exchange is open, with its session."""
    start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last))
    to_ns = [int(stamp.timestamp()) * 10**9 for stamp in (start, end + timedelta(days=1))]
    hours = TradingCalendar(calendar).around(*to_ns).filter(pl.col("session").is_between(first, last))
    found = []
    for session, opens, closes, noon, after in hours.iter_rows():
        minute = opens
        while minute < closes:
            if noon is None or not noon <= minute < after:
                found.append((session, minute))
            minute += timedelta(minutes=1)
    return found


def grid(calendar: str, first: date, last: date, step: int) -> list[tuple[datetime, datetime]]:
    """Start and end of every bar of `step` minutes within official hours, cut at close and noon."""
    bars: list[tuple[datetime, datetime]] = []
    for _, minute in official_minutes(calendar, first, last):
        fresh = not bars or minute != bars[-1][1] or bars[-1][1] - bars[-1][0] >= timedelta(minutes=step)
        if fresh:
            bars.append((minute, minute + timedelta(minutes=1)))
        else:
            bars[-1] = (bars[-1][0], minute + timedelta(minutes=1))
    return bars


def bar_table(bars: Iterable[tuple[str, datetime, float]]) -> pl.DataFrame:
    """Rows of entity, start, close."""
    return pl.DataFrame(
        list(bars),
        schema={"entity": pl.String, "start": pl.Datetime("us", "UTC"), "close": pl.Float64},
        orient="row",
    )


def intraday(table: pl.DataFrame, step: int, **options: Any) -> PriceHistory:
    settings: dict[str, Any] = {
        "event_time": "start",
        "stamps": "start",
        "bar_length": f"{step}min",
        "frequency": "intraday",
        "latency": "0s",
        **options,
    }
    return PriceHistory.from_frame(table, **settings)


def halt_table(rows: Sequence[tuple[str | None, datetime, datetime | None]]) -> pl.DataFrame:
    when = pl.Datetime("us", "UTC")
    return pl.DataFrame(rows, schema={"entity": pl.String, "start": when, "end": when}, orient="row")
