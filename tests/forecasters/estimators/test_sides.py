"""The rules of time in `fit`: at every boundary, and one step to both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import DataError, ForecasterError, LeakageError, SplitError
from quantattn.forecasters.estimators.sides import check_sides, checked_rows, fold_of
from quantattn.forecasters.targets import Targets
from quantattn.pit.timestamps import instants

# Forecasts at 0, 10, ..., 50; each target is known 15 later.
TIMES = np.arange(6) * 10
SAMPLES = pl.DataFrame(
    {
        "entity": ["A"] * 6,
        "forecast_time": instants(TIMES),
        "y_true": np.arange(6.0),
        "label_available_at": instants(TIMES + 15),
    }
)
TARGETS = Targets.of_samples(SAMPLES)


def sides(train: Any, validation: Any = (), fit_time: int | None = None, **options: Any) -> Any:
    given = {"strict": True, "targets": TARGETS, **options}
    return check_sides(SAMPLES, given["targets"], train, validation, fit_time, strict=given["strict"])


def test_by_hand() -> None:
    found = sides([1, 0], [3], 60)
    assert (found.train.tolist(), found.validation.tolist()) == ([0, 1], [3])
    # The first validation forecast is at 30, so training sees up to 29.
    assert (found.cutoff, found.fit_time) == (29, 60)
    assert found.train_known.tolist() == [[True], [True]]


def test_without_validation_the_cutoff_is_the_fit() -> None:
    assert sides([0, 1], [], 26).cutoff == 26


def test_the_fit_is_when_the_last_target_is_known() -> None:
    assert sides([0, 1], []).fit_time == 25
    assert sides([0, 1], [3]).fit_time == 45


def test_known_at_the_fit_and_one_later() -> None:
    assert sides([0, 1], [], 25).train_known.all()
    with pytest.raises(LeakageError, match=r"rows: 1 rows.*only after fit_time.*first row 1.*purge"):
        sides([0, 1], [], 24)


def test_training_towards_validation() -> None:
    # Row 1 is known at 25; validation begins at 30 or 20.
    assert sides([0, 1], [3], 60).cutoff == 29
    with pytest.raises(LeakageError, match=r"rows: 1 rows.*first validation forecast"):
        sides([0, 1], [2], 60)


def test_validation_towards_the_fit() -> None:
    assert sides([0], [3], 45).validation_known.all()
    with pytest.raises(LeakageError, match=r"validation: 1 rows.*only after fit_time"):
        sides([0], [3], 44)


def test_what_is_late_counts_as_missing_where_asked() -> None:
    found = sides([0, 1], [3], 44, strict=False)
    assert (found.train_known.all(), found.validation_known.any()) == (True, False)
    with pytest.raises(ForecasterError, match="no target of the 2 training rows is known"):
        sides([2, 3], [], 20, strict=False)


@pytest.mark.parametrize(
    ("train", "validation", "said"),
    [
        ([], [], "rows is empty"),
        ([0, 1], [1], r"rows \[1\] are in validation too"),
        ([0, 0], [], r"rows \[0\] twice"),
        ([6], [], r"rows holds rows \[6\].*0 to 5"),
        ([-1], [], r"rows holds rows \[-1\]"),
        ([0], [9], r"validation holds rows \[9\]"),
        ([0.5], [], "type float64"),
        ([True, False], [], "type bool"),
        ([[0, 1]], [], r"shape \(1, 2\)"),
        (3, [], r"shape \(\)"),
        ("abc", [], "give a list of row numbers"),
    ],
)
def test_rows_that_are_none(train: Any, validation: Any, said: str) -> None:
    with pytest.raises(ForecasterError, match=said):
        sides(train, validation)


def test_targets_of_other_samples() -> None:
    short = Targets.of_samples(SAMPLES[:3])
    with pytest.raises(ForecasterError, match="targets have 3 rows and the samples 6"):
        sides([0], [], targets=short)


def test_rows_are_sorted_whole_numbers() -> None:
    found = checked_rows([3, 1], 6, "rows")
    assert (found.tolist(), found.dtype) == ([1, 3], np.int64)
    assert checked_rows([], 6, "rows").tolist() == []


def test_an_array_is_no_fold() -> None:
    for rows in (np.arange(3), [0, 1], None, SAMPLES):
        assert fold_of(rows) is None


def test_a_fold_is_told_without_asking_it_anything() -> None:
    """Folds of a cross-validation raise when asked for a fit time, and are folds none the less."""

    class Closed:
        train = validation = test = np.arange(2)

        @property
        def fit_time(self) -> int:
            raise SplitError("there is none")

    closed = Closed()
    assert fold_of(closed) is closed


def infinite(*rows: int) -> Targets:
    own = Targets.of_samples(SAMPLES)
    values = own.values.copy()
    values[list(rows)] = np.inf
    return replace(own, values=values)


def test_infinite_targets_matter_where_they_are_read() -> None:
    found = sides([0, 1], [], targets=infinite(5))
    assert found.train_known.all()
    for train, validation in (([0, 1], []), ([0], [1])):
        with pytest.raises(DataError, match=r"infinite in sample rows \[1\]; drop"):
            sides(train, validation, fit_time=10**6, targets=infinite(1), strict=False)
    with pytest.raises(DataError, match=r"infinite in sample rows \[0\]"):
        sides([0, 1], [], targets=infinite(0))
