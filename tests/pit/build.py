"""Small tables for the tests of this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from quantattn.pit import TIME, EventLog, ForecastClock, Labels, PriceHistory, TradingCalendar

SECOND = 1_000_000_000
EPOCH = 1_577_836_800  # 2020-01-01T00:00:00Z


def at(second: int) -> int:
    """Nanoseconds of a second after 2020-01-01 UTC."""
    return (EPOCH + second) * SECOND


def times(seconds: Iterable[int]) -> pl.Series:
    return (
        pl.Series([at(second) for second in seconds], dtype=pl.Int64)
        .cast(pl.Datetime("ns"))
        .dt.replace_time_zone("UTC")
    )


def instant(text: str) -> int:
    """Nanoseconds of an ISO instant with its zone."""
    return int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))


def event_log(rows: Sequence[dict[str, Any]], features: Sequence[str] = ("x", "y")) -> EventLog:
    """Events whose times are seconds after 2020-01-01; `available` is the only field that is needed."""
    full = [
        {
            "event_id": f"e{number}",
            "revision": 0,
            "entity": "A",
            "happened": row["available"],
            "kind": "news",
            "text": None,
            **dict.fromkeys(features),
            **row,
        }
        for number, row in enumerate(rows)
    ]
    frame = pl.DataFrame(
        {
            "event_id": pl.Series([row["event_id"] for row in full], dtype=pl.String),
            "revision": pl.Series([row["revision"] for row in full], dtype=pl.Int32),
            "entity": pl.Series([row["entity"] for row in full], dtype=pl.String),
            "event_time": times(row["happened"] for row in full),
            "available_at": times(row["available"] for row in full),
            "kind": pl.Series([row["kind"] for row in full], dtype=pl.String),
            "text": pl.Series([row["text"] for row in full], dtype=pl.String),
            **{name: pl.Series([row[name] for row in full], dtype=pl.Float64) for name in features},
        }
    )
    return EventLog.from_valid(frame, tuple(features))


def clock(seconds: Iterable[int]) -> ForecastClock:
    return ForecastClock(times(sorted(set(seconds))))


def labels(pairs: Iterable[tuple[str, int]], entities: Sequence[str] = ("A", "B")) -> Labels:
    """Targets of (entity, second): they start a second later and end 10 seconds later."""
    rows = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    made = [second for _, second in rows]
    frame = pl.DataFrame(
        {
            "entity": pl.Series([entity for entity, _ in rows], dtype=pl.String),
            "forecast_time": times(made),
            "horizon": pl.Series([5] * len(rows), dtype=pl.Int32),
            "y_true": pl.Series([float(second) for second in made], dtype=pl.Float64),
            "label_start_time": times(second + 1 for second in made),
            "label_end_time": times(second + 10 for second in made),
            "label_available_at": times(second + 11 for second in made),
        }
    )
    dropped = pl.DataFrame(schema={"entity": pl.String, "forecast_time": TIME, "reason": pl.String})
    return Labels(frame, dropped, "target", 5, "return", tuple(sorted(entities)))


def sessions(start: str, count: int) -> list[date]:
    """The first `count` XNYS sessions from a date on."""
    first = date.fromisoformat(start)
    found = TradingCalendar("XNYS").sessions(first, date(first.year + 1 + count // 250, 12, 31))["session"]
    return found.head(count).to_list()


def price_table(closes: dict[str, Sequence[float | None]], start: str = "2019-01-02") -> pl.DataFrame:
    """Closes of each entity in consecutive XNYS sessions; None is a missing bar."""
    days = sessions(start, max(len(column) for column in closes.values()))
    rows = [
        (entity, day, close)
        for entity, column in closes.items()
        for day, close in zip(days, column, strict=False)
        if close is not None
    ]
    return pl.DataFrame(
        rows, schema={"entity": pl.String, "session": pl.Date, "close": pl.Float64}, orient="row"
    )


def price_history(
    closes: dict[str, Sequence[float | None]], start: str = "2019-01-02", **options: Any
) -> PriceHistory:
    return PriceHistory.from_frame(price_table(closes, start), **options)


def random_closes(seed: int, count: int, volatility: float = 0.02) -> list[float]:
    """A random walk with bursts of volatility."""
    generator = np.random.default_rng(seed)
    bursts = np.where(np.arange(count) // 15 % 3 == 1, 3.0, 1.0)
    steps = generator.standard_normal(count) * volatility * bursts
    return [float(value) for value in 100.0 * np.exp(np.cumsum(steps))]
