"""Tracking with MLflow into a folder: what is in it, and that its failures stay its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from quantattn.errors import UsageError
from quantattn.study import SilentProgress, Study, provenance, run_directory, tracking
from quantattn.study.execution import Execution
from quantattn.study.job import RunSummary, run_study
from tests.study.small import forecast_bytes, packaged_study

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")


def run(study: Study, out: Path, track: str, *, resume: bool = False) -> RunSummary:
    one = mock.patch.object(provenance, "available_cores", return_value=1)
    with one, run_directory(out, study, resume=resume) as folder:
        return run_study(
            study,
            out=folder,
            quick=False,
            resume=resume,
            progress=SilentProgress(),
            command="quantattn run",
            execution=Execution(track=track),
        )


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Study]:
    folder = tmp_path_factory.mktemp("tracked")
    study = packaged_study(models=["linear", "mean"], training={"epochs": 2})
    summary = run(study, folder / "run", f"mlflow:{folder / 'store'}")
    assert summary.remarks == []
    return folder, mlflow.MlflowClient(tracking_uri=str(folder / "store")), study


def runs_of(client: Any, study: Study) -> tuple[Any, list[Any]]:
    experiment = client.get_experiment_by_name(study.name)
    found = client.search_runs([experiment.experiment_id])
    parents = [one for one in found if "mlflow.parentRunId" not in one.data.tags]
    return parents, [one for one in found if "mlflow.parentRunId" in one.data.tags]


def names_below(client: Any, run: Any) -> set[str]:
    return {entry.path for entry in client.list_artifacts(run.info.run_id)}


def test_one_parent_and_a_child_for_each_fold_model_and_seed(tracked: tuple[Path, Any, Study]) -> None:
    folder, client, study = tracked
    (parent,), children = runs_of(client, study)
    assert {child.data.tags["mlflow.parentRunId"] for child in children} == {parent.info.run_id}
    assert {child.info.run_name for child in children} == {
        f"fold {fold} {model} seed 0" for fold in (0, 1) for model in ("linear", "mean")
    }
    assert {one.info.status for one in (parent, *children)} == {"FINISHED"}
    assert parent.data.tags["quantattn.folder"] == str(folder / "run")
    assert parent.data.tags["quantattn.audit"] == "PASS"
    assert parent.data.params["engine"] == "local"
    assert parent.data.params["retrain"] == "every_fold"


def test_figures_are_those_of_the_run(tracked: tuple[Path, Any, Study]) -> None:
    folder, client, study = tracked
    (parent,), children = runs_of(client, study)
    metrics = json.loads((folder / "run" / "metrics.json").read_text(encoding="utf-8"))
    for model in metrics["models"]:
        assert parent.data.metrics[f"{model['model']}/mse"] == model["metrics"]["mse"]["value"]
    (child,) = [one for one in children if one.info.run_name == "fold 1 linear seed 0"]
    log = json.loads((folder / "run" / "folds/1/linear-0/log.json").read_text(encoding="utf-8"))
    history = client.get_metric_history(child.info.run_id, "validation_loss")
    assert [(one.step, one.value) for one in history] == [
        (epoch["epoch"], epoch["validation_loss"]) for epoch in log["epochs"]
    ]
    assert child.data.params["width"] == "4"
    assert child.data.params["learning_rate"] == "0.003"
    assert child.data.params["fit_time"].startswith("2022-")
    assert child.data.metrics["best_epoch"] == log["best_epoch"]
    assert child.data.metrics["test_mse"] > 0


def test_files_are_kept(tracked: tuple[Path, Any, Study]) -> None:
    folder, client, study = tracked
    (parent,), children = runs_of(client, study)
    assert names_below(client, parent) >= {"study.yaml", "manifest.json", "report.html", "forecasts.parquet"}
    (child,) = [one for one in children if one.info.run_name == "fold 0 linear seed 0"]
    assert names_below(client, child) == {
        path.name for path in (folder / "run" / "folds/0/linear-0").iterdir()
    }
    copy = client.download_artifacts(child.info.run_id, "weights.safetensors", str(folder))
    assert Path(copy).read_bytes() == (folder / "run" / "folds/0/linear-0/weights.safetensors").read_bytes()


def test_tracking_changes_no_byte(tracked: tuple[Path, Any, Study], tmp_path: Path) -> None:
    folder, _, study = tracked
    from tests.study.small import run as plain

    plain(study, tmp_path / "run")
    assert forecast_bytes(tmp_path / "run") == forecast_bytes(folder / "run")


class Broken:
    """A client that works for so many calls."""

    def __init__(self, calls: int) -> None:
        self.left, self.made = calls, 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*inputs: Any, **options: Any) -> Any:
            self.made += 1
            self.left -= 1
            if self.left < 0:
                raise ConnectionError("the server\nwent away")
            return SimpleNamespace(experiment_id="1", info=SimpleNamespace(run_id="r"))

        return call


@pytest.mark.parametrize("calls", [0, 1, 12])
def test_a_tracker_that_fails_does_not_fail_the_study_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    client = Broken(calls)
    monkeypatch.setattr(
        tracking, "require_mlflow", lambda: SimpleNamespace(MlflowClient=lambda tracking_uri: client)
    )
    summary = run(packaged_study(models=["mean", "har"]), tmp_path / "run", "mlflow:http://nowhere")
    words = "tracking with MLflow ended early (ConnectionError: the server went away)"
    assert summary.remarks == [words]
    assert client.made == calls + 1  # it is not asked again
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["remarks"] == [words]
    assert summary.report.exists()


def test_a_run_that_fails_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = packaged_study(models=["mean", "har"])
    monkeypatch.setattr(
        "quantattn.study.job.evaluate", lambda *inputs: (_ for _ in ()).throw(ValueError("on purpose"))
    )
    with pytest.raises(ValueError, match="on purpose"):
        run(study, tmp_path / "run", f"mlflow:{tmp_path / 'store'}")
    client = mlflow.MlflowClient(tracking_uri=str(tmp_path / "store"))
    (parent,), _ = runs_of(client, study)
    assert parent.info.status == "FAILED"


def test_without_mlflow_it_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match=r'pip install "quantattn\[mlflow\]"'):
        run(packaged_study(models=["mean"]), tmp_path / "run", "mlflow")
    assert not (tmp_path / "run").exists()
