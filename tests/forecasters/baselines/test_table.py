from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import DataError
from quantattn.forecasters.baselines import SampleTable

from .tables import TIME, bars_frame, samples_frame, table_of


def small() -> SampleTable:
    return table_of(
        [("A", 10, 1.0, 20), ("B", 10, 2.0, 20), ("A", 30, None, None)],
        [("A", 5, 0.1), ("B", 5, None), ("A", 15, -0.2), (None, 15, 0.5)],
        asof_x=[1.0, None, 3.0],
        asof_y=[None, None, 6.0],
    )


def test_views() -> None:
    table = small()
    assert len(table) == 3
    assert table.feature_names == ("asof_x", "asof_y")
    assert table.forecast_times.tolist() == [10, 10, 30]
    assert table.label_times.tolist() == [20, 20, 2**63 - 1]
    np.testing.assert_array_equal(table.outcomes, [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(
        table.features(["asof_y", "asof_x"], np.array([2, 0])), [[6, 3], [np.nan, 1]]
    )
    assert table.features([], np.array([2, 0])).shape == (2, 0)
    assert table.targets(np.array([1, 0])).tolist() == [2.0, 1.0]
    assert set(table.bars_by_entity) == {"A", "B"}
    assert table.bars_by_entity["A"][0].tolist() == [5, 15]
    np.testing.assert_array_equal(table.bars_by_entity["B"][1], [np.nan])
    positions = table.positions_by_entity(np.array([2, 1, 0, 2]))
    assert {entity: found.tolist() for entity, found in positions.items()} == {"A": [0, 2, 3], "B": [1]}
    assert "3 samples, 2 as-of features, 4 bars" in repr(table)
    with pytest.raises(FrozenInstanceError):
        table.horizon = 3  # type: ignore[misc]


def test_only_prefixed_columns_are_features() -> None:
    table = small()
    leaky = table.as_of.with_columns(y_true=pl.Series([1.0, 2.0, 3.0]), entity=table.samples["entity"])
    assert replace(table, as_of=leaky).feature_names == ("asof_x", "asof_y")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "level"}, "kind='level' is unknown; use one of"),
        ({"horizon": 0}, "horizon=0 is not a positive number"),
        ({"horizon": 2.5}, "horizon=2.5"),
        ({"horizon": True}, "horizon=True"),
    ],
)
def test_impossible_arguments(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(small(), **change)


@pytest.mark.parametrize("column", ["entity", "forecast_time", "y_true", "label_available_at"])
def test_missing_sample_columns(column: str) -> None:
    table = small()
    with pytest.raises(DataError, match=rf"samples lacks the columns \['{column}'\]"):
        replace(table, samples=table.samples.drop(column))


@pytest.mark.parametrize("column", ["entity", "available_at", "log_return"])
def test_missing_bar_columns(column: str) -> None:
    table = small()
    with pytest.raises(DataError, match=rf"bars lacks the columns \['{column}'\]"):
        replace(table, bars=table.bars.drop(column))


def test_wrong_types_and_nulls() -> None:
    table = small()
    naive = table.samples.with_columns(pl.col("forecast_time").dt.replace_time_zone(None))
    with pytest.raises(DataError, match=r"'forecast_time' of samples has type Datetime.*; cast it"):
        replace(table, samples=naive)
    whole = table.samples.with_columns(pl.col("y_true").cast(pl.Int64))
    with pytest.raises(DataError, match="'y_true' of samples has type Int64, not Float64"):
        replace(table, samples=whole)
    nameless = table.samples.with_columns(entity=pl.Series(["A", None, "A"]))
    with pytest.raises(DataError, match=r"'entity' of samples is null in 1 rows, first \[1\]; drop"):
        replace(table, samples=nameless)
    undated = table.samples.with_columns(forecast_time=pl.Series([10, None, 30]).cast(TIME))
    with pytest.raises(DataError, match=r"'forecast_time' of samples is null in 1 rows, first \[1\]"):
        replace(table, samples=undated)
    with pytest.raises(DataError, match=r"'log_return' of bars is not finite in 1 rows, first \[0\]"):
        replace(table, bars=bars_frame([("A", 5, float("nan"))]))
    dateless = bars_frame([("A", 5, 0.1)]).with_columns(available_at=pl.Series([None]).cast(TIME))
    with pytest.raises(DataError, match=r"'available_at' of bars is null"):
        replace(table, bars=dateless)


def test_misaligned_features() -> None:
    table = small()
    with pytest.raises(DataError, match="as_of has 2 rows and samples 3; they must be aligned"):
        replace(table, as_of=table.as_of[:2])
    turned = table.as_of.with_columns(entity=pl.Series(["B", "A", "A"]))
    with pytest.raises(DataError, match="'entity' of as_of differs from samples"):
        replace(table, as_of=turned)
    late = table.as_of.with_columns(forecast_time=pl.Series([10, 10, 31]).cast(TIME))
    with pytest.raises(DataError, match="'forecast_time' of as_of differs from samples"):
        replace(table, as_of=late)
    with pytest.raises(DataError, match=r"'asof_x' of as_of has type String; cast it"):
        replace(table, as_of=table.as_of.with_columns(asof_x=pl.lit("1")))
    with pytest.raises(DataError, match=r"'asof_x' of as_of is infinite in 1 rows, first \[2\]"):
        replace(table, as_of=table.as_of.with_columns(asof_x=pl.Series([1.0, float("nan"), float("inf")])))


def test_one_horizon() -> None:
    table = small()
    mixed = table.samples.with_columns(horizon=pl.Series([5, 5, 1], dtype=pl.Int32))
    with pytest.raises(DataError, match=r"differs from horizon=5 in 1 rows, first \[2\]; pass one horizon"):
        replace(table, samples=mixed)
    replace(table, samples=mixed.with_columns(horizon=pl.lit(5, dtype=pl.Int32)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], r"holds \[3\], outside the table's 3 rows"),
        ([-1], r"holds \[-1\], outside"),
        ([[0]], r"of shape \(1, 1\)"),
        ([0.0], "float64 of shape"),
        ([True, False, True], "bool of shape"),
        (2, r"of shape \(\)"),
    ],
)
def test_rows_outside_the_table(rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        small().rows(rows)


def test_targets_must_be_known() -> None:
    for y, label in [(None, 20), (float("nan"), 20), (float("inf"), 20), (1.0, None)]:
        table = table_of([("A", 10, 1.0, 20), ("B", 10, y, label)])
        with pytest.raises(
            DataError, match=r"in 1 training rows, first \[1\] \(\[\('B'.*train on rows with known"
        ):
            table.targets(np.array([0, 1]))


def test_unknown_features() -> None:
    with pytest.raises(
        DataError, match=r"as_of lacks the features \['asof_z'\], it has \['asof_x', 'asof_y'\]"
    ):
        small().features(["asof_z"], np.array([0]))


def test_frames_of_other_libraries_are_not_touched() -> None:
    frame = samples_frame([("A", 10, 1.0, 20)])
    before = frame.clone()
    SampleTable(frame, pl.DataFrame({"asof_x": [1.0]}), bars_frame([]), "return", 1)
    assert frame.equals(before)
