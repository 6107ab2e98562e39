"""What is no forecasts table, and which models may not be compared."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from quantattn.errors import EvaluationError, InformationSetError
from quantattn.evaluation import (
    FORECAST_SCHEMA,
    check_information_sets,
    check_same_rows,
    comparisons_table,
    metrics_table,
    read_panel,
    validate_forecasts,
)
from tests.evaluation.frames import table

Y = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def two_models() -> pl.DataFrame:
    return table(Y, {"linear": {0: Y, 1: Y}, "mean": {0: Y}}, half_width=1.0)


def change(frame: pl.DataFrame, row: int, **values: Any) -> pl.DataFrame:
    """Set columns of one row."""
    here = pl.int_range(pl.len()) == row
    return frame.with_columns(
        pl.when(here).then(pl.lit(value, dtype=frame.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def test_the_schema_is_the_one_of_the_design() -> None:
    assert list(FORECAST_SCHEMA) == [
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


def test_a_valid_table_passes_unchanged() -> None:
    frame = two_models()
    assert validate_forecasts(frame).equals(frame)
    check_same_rows(frame)
    check_information_sets(frame)


def test_nulls_are_allowed_only_where_they_have_a_meaning() -> None:
    frame = two_models()
    validate_forecasts(change(frame, 1, y_lower=None, y_upper=None, max_available_at=None, update_us=None))
    for name in FORECAST_SCHEMA:
        if name not in ("y_lower", "y_upper", "max_available_at", "update_us", "read_us"):
            with pytest.raises(EvaluationError, match=f"{name}.*null.*row 1"):
                validate_forecasts(change(frame, 1, **{name: None}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"y_pred": float("nan")}, "'y_pred' is not finite"),
        ({"y_true": float("inf")}, "'y_true' is not finite"),
        ({"y_lower": float("nan")}, "'y_lower' is NaN"),
        ({"y_lower": None}, "one bound only"),
        ({"y_lower": 9.0, "y_upper": 8.0}, "y_lower is above y_upper"),
    ],
)
def test_bad_values_are_refused_with_their_row(values: dict[str, Any], message: str) -> None:
    with pytest.raises(EvaluationError, match=rf"{message}.*row 3: linear \(seed 0\), E01"):
        validate_forecasts(change(two_models(), 3, **values))


def test_columns_must_be_exactly_those() -> None:
    frame = two_models()
    with pytest.raises(EvaluationError, match=r"lacks the columns \['y_true'\]"):
        validate_forecasts(frame.drop("y_true"))
    with pytest.raises(EvaluationError, match=r"foreign columns \['extra'\]"):
        validate_forecasts(frame.with_columns(extra=1))
    with pytest.raises(EvaluationError, match="another order"):
        validate_forecasts(frame.select(reversed(frame.columns)))
    with pytest.raises(EvaluationError, match="'seed' has type Int64"):
        validate_forecasts(frame.with_columns(pl.col("seed").cast(pl.Int64)))
    with pytest.raises(EvaluationError, match="'forecast_time' has type"):
        validate_forecasts(frame.with_columns(pl.col("forecast_time").cast(pl.Datetime("us", "UTC"))))
    with pytest.raises(EvaluationError, match="empty"):
        validate_forecasts(frame.clear())
    with pytest.raises(EvaluationError, match="not a polars DataFrame"):
        validate_forecasts(frame.to_pandas())  # type: ignore[arg-type]


def test_duplicates_are_refused_even_from_two_folds() -> None:
    frame = two_models()
    with pytest.raises(EvaluationError, match="more than once"):
        validate_forecasts(pl.concat([frame, frame[:1]]))
    with pytest.raises(EvaluationError, match=r"linear \(seed 0\), fold 0, E00.*fold 7"):
        validate_forecasts(pl.concat([frame, change(frame[:1], 0, fold=7)]))


@pytest.mark.parametrize("drop", [0, 7, 16])
def test_models_and_seeds_with_different_row_sets_are_not_compared(drop: int) -> None:
    frame = two_models()
    gone = frame.row(drop, named=True)
    fewer = frame.filter(pl.int_range(pl.len()) != drop)
    for evaluate in (check_same_rows, read_panel, comparisons_table):
        with pytest.raises(
            EvaluationError,
            match=rf"{gone['entity']}.*no forecast by {gone['model']} \(seed {gone['seed']}\)",
        ):
            evaluate(fewer)


def test_outcomes_folds_and_labels_must_agree() -> None:
    frame = two_models()
    with pytest.raises(EvaluationError, match=r"disagree on y_true in 1 rows, first E01 at 2020-01-03"):
        check_same_rows(change(frame, 1, y_true=2.5))
    with pytest.raises(EvaluationError, match="disagree on fold"):
        check_same_rows(change(frame, 1, fold=2))
    with pytest.raises(EvaluationError, match="disagree on label_end_time"):
        check_same_rows(change(frame, 1, label_end_time=frame["label_end_time"][4]))


def test_different_information_sets_are_refused_and_named() -> None:
    frame = change(two_models(), 14, info_hash="other", n_visible=3)
    message = r"on 1 of 6 rows, first E00 at 2020-01-10 20:45.*mean \(seed 0\) other of 3 events"
    with pytest.raises(InformationSetError, match=message):
        check_information_sets(frame)
    with pytest.raises(InformationSetError):
        comparisons_table(frame)
    with pytest.raises(InformationSetError):
        metrics_table(frame, target="y", kind="variance")


def test_different_seeds_of_one_model_must_have_seen_the_same_too() -> None:
    frame = table(Y, {"linear": {0: Y, 1: Y}})
    with pytest.raises(InformationSetError, match=r"linear \(seed 1\)"):
        check_information_sets(change(frame, 7, info_hash="other"))


def test_one_study_and_one_horizon_at_a_time() -> None:
    frame = two_models()
    other = frame.with_columns(study=pl.lit("returns"))
    check_information_sets(pl.concat([frame, other.with_columns(info_hash=pl.lit("x"))]))
    with pytest.raises(EvaluationError, match=r"'study', \['returns', 'test'\]"):
        read_panel(pl.concat([frame, other]))
    longer = frame.with_columns(horizon=pl.lit(22, dtype=pl.Int32))
    with pytest.raises(EvaluationError, match=r"'horizon', \[5, 22\]"):
        read_panel(pl.concat([frame, longer]))


def test_a_forecast_time_in_two_folds_is_refused() -> None:
    frame = table(Y, {"linear": {0: Y}})
    with pytest.raises(EvaluationError, match=r"2020-01-10.*folds \[0, 1\]"):
        read_panel(change(frame, 3, fold=1))
