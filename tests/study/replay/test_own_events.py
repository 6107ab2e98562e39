"""A run's own events are those that its forecasts have read: streamed through, they give the same again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import quantattn as qa
from quantattn.errors import CheckpointError, UsageError
from quantattn.pit import EventLog


@pytest.mark.parametrize("model", ["linear", "softmax"])
def test_live_forecasts_over_them_are_those_of_the_run(run_folder: Path, model: str) -> None:
    log = qa.run_events(str(run_folder))
    made = pl.read_parquet(run_folder / "forecasts.parquet").filter(model=model)
    for fold in made["fold"].unique().sort():
        wanted = made.filter(fold=fold).sort("forecast_time", "entity")
        live = qa.StreamingForecaster.from_checkpoint(f"{run_folder}/folds/{fold}/{model}-0")
        found = live.replay(log, wanted.select("entity", "forecast_time")).sort("forecast_time", "entity")
        assert found.height == wanted.height > 0
        for name in ("y_pred", "y_lower", "y_upper", "n_visible", "max_available_at", "info_hash"):
            assert found[name].equals(wanted[name]), name


def test_they_are_the_log_of_the_replay(run_folder: Path, own_log: EventLog) -> None:
    found = qa.run_events(run_folder)
    assert found.features == own_log.features
    assert found.frame.equals(own_log.frame, null_equal=True)


def test_what_is_no_run(run_folder: Path, tmp_path: Path) -> None:
    for odd, said in (
        (tmp_path, "holds no study.yaml"),
        (str(tmp_path / "none"), "is no folder"),
        (run_folder / "study.yaml", "is no folder"),
        (None, "run=None: give"),
    ):
        with pytest.raises(UsageError, match=said):
            qa.run_events(odd)  # type: ignore[arg-type]


def test_another_study_or_other_data_are_refused(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(run_folder / "study.yaml", run)
    study = qa.load_study(str(run / "study.yaml"))
    recorded = {"study_hash": qa.study.study_hash(study), "data": {}}
    (run / "manifest.json").write_text(json.dumps(recorded))
    with pytest.raises(CheckpointError, match="the data are no longer those of the run"):
        qa.run_events(run)
    (run / "manifest.json").write_text(json.dumps(recorded | {"study_hash": "0" * 64}))
    with pytest.raises(CheckpointError, match=r"study\.yaml is not the study that this run was made of"):
        qa.run_events(run)


def test_a_forecaster_is_looked_for_where_it_is(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    (run / "folds" / "0" / "ridge-0").mkdir()
    shutil.copy(run / "folds" / "0" / "linear-0" / "unit.json", run / "folds" / "0" / "ridge-0")
    for place, said in (
        ("", "is a run, and a forecaster is one of the folders in it"),
        ("folds", r"there is no forecaster\.json in it"),
        ("folds/0", r"there is no forecaster\.json in it"),
        ("folds/0/ridge-0", "'ridge' has no network"),
        ("folds/77/linear-0", "does not exist"),
        ("study.yaml", "is a file, and a forecaster is a folder"),
    ):
        with pytest.raises(CheckpointError, match=said) as caught:
            qa.StreamingForecaster.from_checkpoint(run / place)
        offered = [Path(name) for name in str(caught.value).partition("give one of ")[2].split(", ")]
        assert offered == sorted(offered)
        assert {(name.parent.name, name.name) for name in offered} == {
            (fold, f"{model}-0") for fold in ("0", "1") for model in ("linear", "softmax")
        }
        qa.FittedForecaster.load(str(offered[0]))
    for folder in run.glob("folds/*/*"):
        (folder / "forecaster.json").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="has none; run a study with the model linear or softmax"):
        qa.StreamingForecaster.from_checkpoint(run)
    with pytest.raises(CheckpointError, match=r"holds no readable forecaster .*run the study again"):
        qa.StreamingForecaster.from_checkpoint(run / "folds" / "0" / "linear-0")
