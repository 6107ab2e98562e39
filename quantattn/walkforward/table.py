"""From the forecasts of one unit of work to rows of the forecasts table."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.timestamps import instants
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA

Floats = npt.NDArray[np.float64]

SEEN: Final = ("n_visible", "max_available_at", "info_hash")
"""Columns that say what a forecast was made from."""


def parquet_bytes(forecasts: pl.DataFrame) -> bytes:
    """Give a forecasts table as the bytes of a Parquet file.

    They are for Python to write: of a full disk polars says no more than that the file is out of
    specification.

    Parameters
    ----------
    forecasts : polars.DataFrame
        Rows of the forecasts table.

    Returns
    -------
    bytes
        Equal rows give equal bytes.
    """
    buffer = io.BytesIO()
    forecasts.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


@dataclass(frozen=True)
class TestForecasts:
    """Forecasts of a fold's test rows, aligned with ``fold.test``.

    Parameters
    ----------
    y_pred : ndarray of float64, shape (m,)
        In units of the target.
    interval : tuple of float
        What to add for the lower and the upper bound.
    update_us, read_us : ndarray of float64, shape (m,), or None
        Microseconds that the streaming forecaster took: the mean update of the events since the entity's
        forecast before (NaN without any; its percentiles are of means, not of single calls), and the
        forecast, each the whole live call: from the raw event, and to the forecast in units of the target.
        None for models that do not stream.
    information : polars.DataFrame, m rows, optional
        The columns :data:`SEEN` as the model itself says what it read: of networks what came out live, of
        models with a window less than all. What the samples say by default.
    """

    __test__ = False  # not a test case, in spite of its name

    y_pred: Floats
    interval: tuple[float, float]
    update_us: Floats | None = None
    read_us: Floats | None = None
    information: pl.DataFrame | None = None


def forecast_rows(
    samples: pl.DataFrame, fold: Fold, forecasts: TestForecasts, *, study: str, model: str, seed: int
) -> pl.DataFrame:
    """Give the rows of the forecasts table for one model, seed and fold.

    Parameters
    ----------
    samples : polars.DataFrame
        The dataset's samples.
    fold : Fold
        The fold.
    forecasts : TestForecasts
        Its test forecasts.
    study, model : str
        Names.
    seed : int
        The seed.

    Returns
    -------
    polars.DataFrame
        With the columns and types of ``FORECAST_SCHEMA``.
    """
    nothing = pl.Series([None] * len(fold.test), dtype=pl.Float64)

    def latency(values: Floats | None) -> pl.Series:
        return nothing if values is None else pl.Series(values).fill_nan(None)

    lower, upper = forecasts.interval
    rows = samples[fold.test]
    if forecasts.information is not None:
        rows = rows.with_columns(forecasts.information.select(SEEN))
    return rows.with_columns(
        pl.lit(study).alias("study"),
        pl.lit(model).alias("model"),
        pl.lit(seed).alias("seed"),
        pl.lit(fold.index).alias("fold"),
        pl.Series("y_pred", forecasts.y_pred),
        pl.Series("y_lower", forecasts.y_pred + lower),
        pl.Series("y_upper", forecasts.y_pred + upper),
        instants(np.full(len(fold.test), fold.fit_time), "fit_time"),
        latency(forecasts.update_us).alias("update_us"),
        latency(forecasts.read_us).alias("read_us"),
    ).select(pl.col(name).cast(dtype) for name, dtype in FORECAST_SCHEMA.items())
