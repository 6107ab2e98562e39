from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from quantattn.pit.timestamps import instants
from quantattn.walkforward import FORECAST_SCHEMA, Fold
from quantattn.walkforward.fold import PURGED_SCHEMA
from quantattn.walkforward.table import TestForecasts, forecast_rows

COLUMNS = [
    "study",
    "model",
    "seed",
    "fold",
    "entity",
    "forecast_time",
    "horizon",
    "y_pred",
    "y_lower",
    "y_upper",
    "y_true",
    "label_start_time",
    "label_end_time",
    "label_available_at",
    "fit_time",
    "n_visible",
    "max_available_at",
    "info_hash",
    "update_us",
    "read_us",
]

HOUR = 3_600_000_000_000
SAMPLES = pl.DataFrame(
    {
        "entity": ["A", "B", "A", "B", "A"],
        "forecast_time": instants(np.array([10, 10, 20, 20, 30]) * HOUR),
        "horizon": pl.Series([5] * 5, dtype=pl.Int32),
        "y_true": [1.0, 2.0, 3.0, 4.0, 5.0],
        "label_start_time": instants(np.array([11, 11, 21, 21, 31]) * HOUR),
        "label_end_time": instants(np.array([12, 12, 22, 22, 32]) * HOUR),
        "label_available_at": instants(np.array([13, 13, 23, 23, 33]) * HOUR),
        "n_visible": [3, 0, 5, 2, 9],
        "max_available_at": [9, None, 19, 18, 29],
        "info_hash": [letter * 32 for letter in "abcde"],
    }
).with_columns(
    pl.col("max_available_at").cast(pl.Int64).mul(HOUR).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
)


def fold(test: list[int]) -> Fold:
    return Fold(
        index=2,
        train=np.array([0]),
        validation=np.array([], np.int64),
        test=np.array(test),
        purged=pl.DataFrame(schema=PURGED_SCHEMA),
        fit_time=20 * HOUR - 1,
        validation_time=20 * HOUR - 1,
        train_span=(10 * HOUR, 10 * HOUR),
        validation_span=None,
        test_span=(20 * HOUR, 30 * HOUR),
    )


def rows(test: list[int], forecasts: TestForecasts) -> pl.DataFrame:
    return forecast_rows(SAMPLES, fold(test), forecasts, study="s", model="linear", seed=7)


def test_schema_is_the_one_of_the_design() -> None:
    assert list(FORECAST_SCHEMA) == COLUMNS


def test_rows_by_hand() -> None:
    frame = rows(
        [2, 3, 4],
        TestForecasts(
            np.array([0.5, 1.5, 2.5]), (-0.25, 0.75), np.array([np.nan, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
        ),
    )
    assert dict(frame.schema) == FORECAST_SCHEMA
    assert frame.columns == COLUMNS
    expected = {
        "study": ["s"] * 3,
        "model": ["linear"] * 3,
        "seed": [7] * 3,
        "fold": [2] * 3,
        "entity": ["A", "B", "A"],
        "horizon": [5] * 3,
        "y_pred": [0.5, 1.5, 2.5],
        "y_lower": [0.25, 1.25, 2.25],
        "y_upper": [1.25, 2.25, 3.25],
        "y_true": [3.0, 4.0, 5.0],
        "n_visible": [5, 2, 9],
        "info_hash": ["c" * 32, "d" * 32, "e" * 32],
        "update_us": [None, 2.0, 3.0],  # no event since the forecast before: null, not NaN
        "read_us": [4.0, 5.0, 6.0],
    }
    for name, values in expected.items():
        assert frame[name].to_list() == values, name
    hours = {
        "forecast_time": [20, 20, 30],
        "label_start_time": [21, 21, 31],
        "label_end_time": [22, 22, 32],
        "label_available_at": [23, 23, 33],
        "max_available_at": [19, 18, 29],
    }
    for name, values in hours.items():
        assert frame[name].to_physical().to_list() == [hour * HOUR for hour in values], name
    assert frame["fit_time"].to_physical().to_list() == [20 * HOUR - 1] * 3


def test_a_model_that_does_not_stream_has_no_latencies() -> None:
    frame = rows([1, 2], TestForecasts(np.array([0.5, 1.5]), (0.0, 0.0)))
    assert dict(frame.schema) == FORECAST_SCHEMA
    for name in ("update_us", "read_us"):
        assert frame[name].null_count() == 2
    assert frame["max_available_at"].to_physical().to_list() == [None, 19 * HOUR]
    assert frame["y_lower"].to_list() == frame["y_pred"].to_list() == frame["y_upper"].to_list()


def test_no_test_row() -> None:
    frame = rows([], TestForecasts(np.array([]), (-1.0, 1.0)))
    assert frame.is_empty()
    assert dict(frame.schema) == FORECAST_SCHEMA


def test_forecasts_for_other_rows_are_refused() -> None:
    with pytest.raises(pl.exceptions.PolarsError):
        rows([2, 3, 4], TestForecasts(np.array([0.5, 1.5]), (0.0, 0.0)))
