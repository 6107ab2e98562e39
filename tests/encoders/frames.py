"""Event frames made by hand for the encoder tests."""

from __future__ import annotations

import polars as pl

DAY = 86_400_000_000_000
START = 1_577_923_200_000_000_000  # 2020-01-02T00:00:00Z
TIME = pl.Datetime("ns", "UTC")


def at(day: int, nanoseconds: int = 0) -> int:
    """Nanoseconds since the epoch of midnight on a day counted from 2020-01-02, and a bit."""
    return START + day * DAY + nanoseconds


def events(
    available_at: list[int],
    kind: list[str] | None = None,
    text: list[str | None] | None = None,
    **features: list[float | None],
) -> pl.DataFrame:
    """An event log's frame with one row for each `available_at`."""
    n = len(available_at)
    return pl.DataFrame(
        {
            "event_id": [f"e{row}" for row in range(n)],
            "revision": pl.Series([0] * n, dtype=pl.Int32),
            "entity": ["AAA"] * n,
            "event_time": pl.Series(available_at, dtype=pl.Int64).cast(TIME),
            "available_at": pl.Series(available_at, dtype=pl.Int64).cast(TIME),
            "kind": pl.Series(kind or ["bar"] * n, dtype=pl.String),
            "text": pl.Series(text or [None] * n, dtype=pl.String),
            **{name: pl.Series(values, dtype=pl.Float64) for name, values in features.items()},
        }
    )
