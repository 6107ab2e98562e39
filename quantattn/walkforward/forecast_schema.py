"""The forecasts table: its columns, their types and what they mean.

One row per model, seed, fold, entity and forecast time. Everything after the dataset hangs on this table.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from quantattn.pit.timestamps import TIME

FORECAST_SCHEMA: Final[dict[str, pl.DataType]] = {
    "study": pl.String(),
    "model": pl.String(),
    "seed": pl.Int32(),
    "fold": pl.Int32(),
    "entity": pl.String(),
    "forecast_time": TIME,
    "horizon": pl.Int32(),
    "y_pred": pl.Float64(),
    "y_lower": pl.Float64(),
    "y_upper": pl.Float64(),
    "y_true": pl.Float64(),
    "label_start_time": TIME,
    "label_end_time": TIME,
    "label_available_at": TIME,
    "fit_time": TIME,
    "n_visible": pl.Int64(),
    "max_available_at": TIME,
    "info_hash": pl.String(),
    "update_us": pl.Float64(),
    "read_us": pl.Float64(),
}
"""Columns of ``forecasts.parquet`` in order, with their types."""

NULLABLE: Final = ("y_lower", "y_upper", "max_available_at", "update_us", "read_us")
"""Columns that may be null: no interval, nothing visible, no streaming."""
