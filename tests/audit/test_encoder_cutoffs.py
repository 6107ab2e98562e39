from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantattn.audit import check_encoder_cutoffs
from quantattn.forecasters import FittedEncoders, History, fit_encoders
from quantattn.pit.timestamps import iso, nanoseconds_of
from tests.audit.pipeline import Pipeline, Ran, assert_sound, random_prices, run


def test_honest_encoders_pass_and_the_newest_event_is_told(honest: Ran) -> None:
    check = check_encoder_cutoffs(honest.folds, honest.forecasters)
    assert (check.name, check.verdict) == ("encoder_cutoffs", "PASS")
    assert check.coverage == {"folds": 1.0}
    available = nanoseconds_of(honest.history.events["available_at"])
    for fold in honest.folds:
        newest = max(int(at) for at in available if at <= fold.validation_time)
        assert check.evidence["newest event fitted on"][f"fold {fold.index}"] == iso(newest)
    assert_sound(check)


def test_half_of_the_folds_are_half_of_the_coverage(honest: Ran) -> None:
    some = {key: value for key, value in honest.forecasters.items() if key[0] == 0}
    check = check_encoder_cutoffs(honest.folds, some)
    assert (check.verdict, check.coverage) == ("PASS", {"folds": pytest.approx(1 / len(honest.folds))})


def test_without_networks_there_is_nothing_to_check(honest: Ran) -> None:
    check = check_encoder_cutoffs(honest.folds, {})
    assert check.verdict == "NOT EXERCISED"
    assert_sound(check)


@pytest.mark.parametrize("part", ["events", "queries"])
@pytest.mark.parametrize(("late", "verdict"), [(-1, "PASS"), (0, "PASS"), (1, "FAIL")])
def test_an_event_at_the_last_instant_of_training_may_be_learned_from(
    honest: Ran, part: str, late: int, verdict: str
) -> None:
    key = (0, "linear", 0)
    forecaster, fold = honest.forecasters[key], honest.folds[0]
    events, queries = forecaster.encoders.events, forecaster.encoders.queries
    # The scaler of the events' features holds what the event encoder's card says.
    scaler = events.scaler_ if part == "events" else queries
    before = scaler.training_cutoff_
    scaler.training_cutoff_ = fold.validation_time + late
    try:
        check = check_encoder_cutoffs(honest.folds, honest.forecasters)
    finally:
        scaler.training_cutoff_ = before
    assert check.verdict == verdict
    if verdict == "FAIL":
        (fault,) = check.evidence["faults"]
        assert fault.startswith("fold 0 linear seed 0: the ")
        assert ("event encoder" in fault) == (part == "events")
    assert_sound(check)


def test_a_late_encoder_is_not_hidden_by_an_honest_twin(honest: Ran) -> None:
    fold = honest.folds[0]
    scaler = honest.forecasters[0, "linear", 0].encoders.queries
    before = scaler.training_cutoff_
    scaler.training_cutoff_ = fold.fit_time
    try:
        check = check_encoder_cutoffs(honest.folds, honest.forecasters)
    finally:
        scaler.training_cutoff_ = before
    assert check.evidence["newest event fitted on"]["fold 0"] == iso(fold.fit_time)


def test_a_forecaster_of_another_fit_or_fold_fails(honest: Ran) -> None:
    forecaster = honest.forecasters[0, "linear", 0]
    later = {(0, "linear", 0): replace(forecaster, fit_time=forecaster.fit_time + 1)}
    strange = {(99, "linear", 0): forecaster}
    for forecasters in (later, strange):
        check = check_encoder_cutoffs(honest.folds, forecasters)
        assert check.verdict == "FAIL"
        assert_sound(check)


def test_encoders_fitted_on_the_whole_sample_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_everything(history: History, cutoff: int, **options: Any) -> FittedEncoders:
        return fit_encoders(history, int(nanoseconds_of(history.events["available_at"]).max()) + 1, **options)

    monkeypatch.setattr("quantattn.walkforward.networks.fit_encoders", on_everything)
    ran = run(Pipeline(random_prices(), models=("linear",)), tmp_path)
    check = check_encoder_cutoffs(ran.folds, ran.forecasters)
    assert check.verdict == "FAIL"
    # Every fold's event encoder and query scaler saw what came after.
    assert len(check.evidence["faults"]) == 2 * len(ran.folds)
