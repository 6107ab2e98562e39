"""Single cells of a forecasts table moved by nanoseconds."""

from __future__ import annotations

import polars as pl

from quantattn.pit.timestamps import instants


def cell(frame: pl.DataFrame, row: int, column: str) -> int:
    """Give a time as nanoseconds."""
    value = frame[column].to_physical()[row]
    assert value is not None
    return int(value)


def with_time(frame: pl.DataFrame, row: int, column: str, nanoseconds: int | None) -> pl.DataFrame:
    """Set a time in one row."""
    value = pl.lit(None) if nanoseconds is None else pl.lit(instants([nanoseconds])).first()
    here = pl.int_range(pl.len()) == row
    return frame.with_columns(pl.when(here).then(value).otherwise(pl.col(column)).alias(column))


def with_value(frame: pl.DataFrame, row: int, column: str, value: object) -> pl.DataFrame:
    """Set a number or a text in one row."""
    here = pl.int_range(pl.len()) == row
    kind = frame.schema[column]
    return frame.with_columns(
        pl.when(here).then(pl.lit(value, dtype=kind)).otherwise(pl.col(column)).alias(column)
    )
