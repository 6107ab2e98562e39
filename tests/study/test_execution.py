"""How a study is carried out: options, the command line's words, and that no byte depends on them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.linear_model import Ridge

from quantattn.errors import StudyError, UsageError
from quantattn.forecasters.baselines import (
    BASELINES,
    BUILT_IN,
    baseline_traits,
    register_estimator,
    unregister_baseline,
)
from quantattn.report.loading import load_run
from quantattn.study import SilentProgress, parse_study, run_directory
from quantattn.study._values import MODELS
from quantattn.study.config import NEED_BARS
from quantattn.study.execution import ENGINES, Execution, tracking_uri
from quantattn.study.job import fold_settings, run_study
from quantattn.walkforward import engines
from quantattn.walkforward.retraining import Retrain
from quantattn.walkforward.search import SearchConfig
from quantattn.walkforward.settings import NETWORKS
from tests.study.small import files_below, forecast_bytes, packaged_study, run


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, []),
            ({"workers": 2}, ["--workers", "2"]),
            ({"threads": 3}, ["--threads", "3"]),
            (
                {"engine": "ray", "address": "10.0.0.1:6379", "workers": 4, "track": "mlflow:x"},
                ["--engine", "ray", "--workers", "4", "--address", "10.0.0.1:6379", "--track", "mlflow:x"],
            ),
        ],
    )
    def test_they_are_spelled_out(self, options: dict[str, Any], words: list[str]) -> None:
        assert Execution(**options).words() == words

    @pytest.mark.parametrize(
        ("cores", "workers", "threads", "expected"),
        [(8, 1, None, 8), (8, 2, None, 4), (8, 3, None, 2), (2, 5, None, 1), (8, 2, 1, 1), (1, 1, 6, 6)],
    )
    def test_workers_share_the_cores(
        self, cores: int, workers: int, threads: int | None, expected: int
    ) -> None:
        assert Execution(workers=workers, threads=threads).threads_of(cores) == expected

    @pytest.mark.parametrize(
        ("options", "wanted"),
        [
            ({"engine": "rya"}, "engine 'rya' is unknown; use one of local, ray"),
            ({"workers": 0}, "workers=0 must be at least 1"),
            ({"threads": 0}, "threads=0 must be at least 1"),
            ({"address": "auto"}, "add --engine ray"),
            ({"track": "wandb"}, "track='wandb' is unknown; write mlflow"),
            ({"track": "mlflow:"}, "track='mlflow:' is unknown"),
        ],
    )
    def test_impossible_ones_are_refused(self, options: dict[str, Any], wanted: str) -> None:
        with pytest.raises(UsageError, match=wanted):
            Execution(**options)

    def test_the_names_are_those_of_the_engines(self) -> None:
        assert ENGINES == engines.ENGINES

    def test_a_tracking_uri_may_hold_colons(self) -> None:
        assert tracking_uri("mlflow") is None
        assert tracking_uri("mlflow:http://host:5000") == "http://host:5000"
        assert tracking_uri("mlflow:/some/folder") == "/some/folder"


class TestSettings:
    def test_models_of_the_study_file_are_those_there_are(self) -> None:
        """The study file is checked without loading them, by lists of its own."""
        assert set(MODELS) == BUILT_IN | set(NETWORKS)
        assert {name for name in BUILT_IN if baseline_traits(name).needs_bars} == NEED_BARS
        assert set(MODELS) <= set(BASELINES) | set(NETWORKS)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("every_fold", Retrain()),
            ("frozen", Retrain("frozen")),
            ("warm_start", Retrain("warm_start")),
            ({"every": 3}, Retrain("every", 3)),
        ],
    )
    def test_retraining_reaches_the_folds(self, given: Any, expected: Retrain) -> None:
        study = packaged_study(walk_forward={"retrain": given})
        assert fold_settings(study).retrain == expected
        assert parse_study(study.model_dump()) == study

    def test_a_search_reaches_the_folds(self) -> None:
        search = {"trials": 4, "epochs": 2, "learning_rate": [0.001, 0.1], "width": [4, 8]}
        study = packaged_study(search=search, ensemble=True)
        settings = fold_settings(study, Execution(threads=5))
        assert settings.search == SearchConfig(4, 2, learning_rate=(0.001, 0.1), width=(4, 8))
        assert (settings.ensemble, settings.threads) == (True, 5)
        assert parse_study(study.model_dump()) == study


@pytest.mark.parametrize(
    ("module", "changes", "execution", "extra"),
    [
        ("optuna", {"search": {"trials": 2, "width": [4, 8]}}, Execution(), "search"),
        ("mlflow", {}, Execution(track="mlflow"), "mlflow"),
        ("ray", {}, Execution(engine="ray"), "ray"),
    ],
)
def test_what_is_not_installed_is_refused_before_anything_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    changes: dict[str, Any],
    execution: Execution,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("quantattn.study.job.prepare", lambda *inputs: pytest.fail("the data was read"))
    study = packaged_study(**changes)
    with (
        pytest.raises(UsageError, match=rf'pip install "quantattn\[{extra}\]"'),
        run_directory(tmp_path / "run", study, resume=False) as out,
    ):
        run_study(
            study,
            out=out,
            quick=False,
            resume=False,
            progress=SilentProgress(),
            command="quantattn run",
            execution=execution,
        )
    assert not (tmp_path / "run").exists()


def test_a_study_may_name_a_registered_baseline(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="'my_forest' is unknown"):
        packaged_study(models=["my_forest", "mean"])
    register_estimator("my_forest", lambda seed: Ridge())
    try:
        with pytest.raises(StudyError, match="did you mean 'my_forest'"):
            packaged_study(models=["my_forrest", "mean"])
        run(packaged_study(models=["my_forest", "mean"]), tmp_path / "run")
    finally:
        unregister_baseline("my_forest")
    assert {one.model for one in load_run(tmp_path / "run").metrics.models} == {"my_forest", "mean"}
    audit = json.loads((tmp_path / "run" / "audit.json").read_text(encoding="utf-8"))
    assert "FAIL" not in {check["verdict"] for check in audit["checks"]}


@pytest.mark.slow
def test_two_workers_give_the_forecasts_of_one(tmp_path: Path) -> None:
    study = packaged_study(seeds=[0, 1], ensemble=True)
    run(study, tmp_path / "one")
    two = Execution(workers=2, threads=1)
    with run_directory(tmp_path / "two", study, resume=False) as out:
        run_study(
            study,
            out=out,
            quick=False,
            resume=False,
            progress=SilentProgress(),
            command="quantattn run",
            execution=two,
        )
    assert forecast_bytes(tmp_path / "two") == forecast_bytes(tmp_path / "one")
    assert files_below(tmp_path / "two") == files_below(tmp_path / "one")
    for weights in (tmp_path / "one").glob("folds/*/*/weights.safetensors"):
        assert (tmp_path / "two" / weights.relative_to(tmp_path / "one")).read_bytes() == weights.read_bytes()
    manifests = [
        json.loads((tmp_path / name / "manifest.json").read_text(encoding="utf-8")) for name in ("one", "two")
    ]
    assert [(one["engine"], one["workers"], one["threads"]) for one in manifests] == [
        ("local", 1, 1),
        ("local", 2, 1),
    ]
    # What one engine made, another uses.
    with run_directory(tmp_path / "two", study, resume=True) as out:
        run_study(
            study,
            out=out,
            quick=False,
            resume=True,
            progress=SilentProgress(),
            command="quantattn run",
            execution=Execution(threads=1),
        )
    again = json.loads((tmp_path / "two" / "manifest.json").read_text(encoding="utf-8"))
    assert (again["remarks"], again["workers"]) == ([], 1)
