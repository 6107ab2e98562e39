from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.audit import check_purging
from quantattn.pit.timestamps import instants
from quantattn.walkforward import Fold
from tests.audit.pipeline import Ran, assert_sound

NOTHING = pl.DataFrame(
    schema={
        "row": pl.Int64,
        "entity": pl.String,
        "forecast_time": pl.Datetime("ns", "UTC"),
        "side": pl.String,
    }
)


def _samples(rows: list[tuple[int, int]]) -> pl.DataFrame:
    """Give samples from (forecast time, time at which the label is known)."""
    made, known = zip(*rows, strict=True)
    return pl.DataFrame({"forecast_time": instants(made), "label_available_at": instants(known)})


def _fold(**changes: Any) -> Fold:
    """Give a fold of six forecasts at 10, 20 ... 60: three to train, one to validate, two to test."""
    values: dict[str, Any] = {
        "index": 0,
        "train": np.array([0, 1, 2]),
        "validation": np.array([3]),
        "test": np.array([4, 5]),
        "purged": NOTHING,
        "fit_time": 49,
        "validation_time": 39,
        "train_span": (10, 30),
        "validation_span": (40, 40),
        "test_span": (50, 60),
    }
    return Fold(**(values | changes))


def _rows(**known: int) -> pl.DataFrame:
    """Give the samples of that fold, each label known five after its forecast unless said otherwise."""
    return _samples([(at, known.get(f"at_{at}", at + 5)) for at in (10, 20, 30, 40, 50, 60)])


@pytest.mark.parametrize(
    ("forecast", "known", "verdict"),
    [
        (30, 38, "NOT EXERCISED"),
        (30, 39, "NOT EXERCISED"),
        (30, 40, "FAIL"),
        (10, 40, "FAIL"),
        (40, 49, "NOT EXERCISED"),
        (40, 50, "FAIL"),
    ],
)
def test_a_label_may_be_known_at_the_cutoff_and_not_after_it(forecast: int, known: int, verdict: str) -> None:
    check = check_purging(_rows(**{f"at_{forecast}": known}), [_fold()])
    assert check.verdict == verdict
    assert check.coverage == {"folds": 1.0}
    assert_sound(check)
    if verdict == "FAIL":
        side, cutoff = ("validation", "49") if forecast == 40 else ("train", "39")
        assert check.evidence["faults"] == [
            f"fold 0: 1 {side} labels known after 1970-01-01T00:00:00.0000000{cutoff}Z"
        ]


def test_labels_that_reach_past_a_cutoff_and_are_left_out_make_a_pass() -> None:
    check = check_purging(
        _rows(at_30=45, at_40=55), [_fold(train=np.array([0, 1]), validation=np.array([], int))]
    )
    assert check.verdict == "PASS"
    # The label of 30 reaches past 39, that of 40 past 49; neither is in its side.
    assert check.evidence["labels that reach past a cutoff"] == 2
    assert check.evidence["closest training label before its cutoff (h)"] == pytest.approx((39 - 25) / 3.6e12)


def test_without_validation_one_cutoff_counts_once() -> None:
    fold = _fold(
        train=np.array([0, 1, 2]), validation=np.array([], int), validation_time=49, validation_span=None
    )
    check = check_purging(_rows(at_40=55), [fold])
    assert (check.verdict, check.evidence["labels that reach past a cutoff"]) == ("PASS", 1)


def test_a_cutoff_that_is_not_before_what_it_separates_fails() -> None:
    for changes, fault in (
        ({"fit_time": 50}, "fold 0: 1 test forecasts not after the fit"),
        ({"validation_time": 40}, "fold 0: 1 validation forecasts not after the training cutoff"),
    ):
        check = check_purging(_rows(), [_fold(**changes)])
        assert check.verdict == "FAIL"
        assert check.evidence["faults"] == [fault]


@pytest.mark.parametrize(
    ("changes", "pair"),
    [
        ({"validation": np.array([2, 3])}, "train and validation"),
        ({"train": np.array([0, 1, 4])}, "train and test"),
        ({"validation": np.array([3, 4])}, "validation and test"),
    ],
)
def test_a_forecast_time_on_two_sides_fails(changes: dict[str, Any], pair: str) -> None:
    check = check_purging(_rows(), [_fold(**changes)])
    assert check.verdict == "FAIL"
    assert f"fold 0: 1 forecast times are in {pair}" in check.evidence["faults"]


def test_two_entities_of_one_forecast_time_on_two_sides_fail() -> None:
    samples = _samples([(10, 15), (20, 25), (30, 35), (30, 35), (40, 45), (50, 55)])
    fold = _fold(train=np.array([0, 1, 2]), validation=np.array([3]), test=np.array([4, 5]), fit_time=39)
    check = check_purging(samples, [fold])
    assert "fold 0: 1 forecast times are in train and validation" in check.evidence["faults"]


def test_no_folds_and_an_empty_training_side_do_not_crash() -> None:
    assert check_purging(_rows(), []).verdict == "NOT EXERCISED"
    check = check_purging(_rows(), [_fold(train=np.array([], int))])
    assert check.evidence["closest training label before its cutoff (h)"] is None
    assert_sound(check)


class TestOnTheSplitter:
    def test_honest_folds_pass_and_every_overlap_is_counted(self, honest: Ran) -> None:
        check = check_purging(honest.dataset.samples, honest.folds)
        assert check.verdict == "PASS"
        overlapping = 0
        for fold in honest.folds:
            for cutoff in (fold.validation_time, fold.fit_time):
                for row in honest.dataset.samples.iter_rows(named=True):
                    made, known = (
                        int(row[name].timestamp()) * 10**9 for name in ("forecast_time", "label_available_at")
                    )
                    overlapping += made <= cutoff < known
        assert overlapping > 0
        assert check.evidence["labels that reach past a cutoff"] == overlapping
        assert check.evidence["purged rows"] == overlapping
        assert_sound(check)

    def test_purged_rows_that_are_put_back_fail(self, honest: Ran) -> None:
        for side in ("train", "validation"):
            fold = honest.folds[0]
            back = fold.purged.filter(pl.col("side") == side)["row"].to_numpy()
            assert len(back)
            leaking = replace(fold, **{side: np.sort(np.concatenate([getattr(fold, side), back]))})
            check = check_purging(honest.dataset.samples, [leaking, *honest.folds[1:]])
            assert check.verdict == "FAIL"
            assert check.evidence["faults"][0].startswith(f"fold 0: {len(back)} {side} labels known after")

    def test_one_row_too_many_is_enough(self, honest: Ran) -> None:
        fold = honest.folds[-1]
        row = fold.purged.filter(pl.col("side") == "train")["row"].to_numpy()[:1]
        leaking = replace(fold, train=np.sort(np.concatenate([fold.train, row])))
        check = check_purging(honest.dataset.samples, [*honest.folds[:-1], leaking])
        assert check.verdict == "FAIL"
        assert f"fold {fold.index}: 1 train" in check.summary
