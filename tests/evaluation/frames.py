"""Small forecasts tables for the tests, built row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA

START = int(datetime(2020, 1, 3, 20, 45, tzinfo=UTC).timestamp()) * 10**9
WEEK = 7 * 86_400 * 10**9
HOUR = 3_600 * 10**9


def table(
    y_true: Sequence[Sequence[float]],
    forecasts: Mapping[str, Mapping[int, Sequence[Sequence[float]]]],
    *,
    folds: Sequence[int] | None = None,
    label_length: int = WEEK,
    half_width: float | None = None,
) -> pl.DataFrame:
    """Build a forecasts table.

    `y_true[t][i]` is the outcome at time t of entity i; `forecasts[model][seed][t][i]` its forecasts.
    """
    rows = []
    for model, by_seed in forecasts.items():
        for seed, values in by_seed.items():
            for t, outcomes in enumerate(y_true):
                now = START + t * WEEK
                for i, outcome in enumerate(outcomes):
                    y_pred = values[t][i]
                    rows.append(
                        {
                            "study": "test",
                            "model": model,
                            "seed": seed,
                            "fold": folds[t] if folds else 0,
                            "entity": f"E{i:02d}",
                            "forecast_time": now,
                            "horizon": 5,
                            "y_pred": y_pred,
                            "y_lower": None if half_width is None else y_pred - half_width,
                            "y_upper": None if half_width is None else y_pred + half_width,
                            "y_true": outcome,
                            "label_start_time": now + HOUR,
                            "label_end_time": now + HOUR + label_length,
                            "label_available_at": now + 2 * HOUR + label_length,
                            "fit_time": START - 1,
                            "n_visible": 10 + t,
                            "max_available_at": now - 1,
                            "info_hash": f"{t:016x}{i:016x}",
                            "update_us": None,
                            "read_us": None,
                        }
                    )
    return cast(rows)


def cast(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Give rows with instants in nanoseconds the types of a forecasts table."""
    plain = {
        name: pl.Int64() if kind == pl.Datetime("ns", "UTC") else kind
        for name, kind in FORECAST_SCHEMA.items()
    }
    frame = pl.DataFrame(rows, schema=plain)
    times = [name for name, kind in FORECAST_SCHEMA.items() if kind == pl.Datetime("ns", "UTC")]
    return frame.with_columns(pl.col(times).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def constant(value: float, y_true: Sequence[Sequence[float]]) -> list[list[float]]:
    """Forecast the same for everything."""
    return [[value for _ in row] for row in y_true]
