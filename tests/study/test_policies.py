"""Studies that retrain seldom, warm-start, search, average seeds or read windows, up to their report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.errors import StudyError
from quantattn.report.loading import load_run
from quantattn.study import parse_study
from quantattn.study._yaml import read_yaml
from tests.study.small import packaged_study, run


def _json(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / name).read_text(encoding="utf-8"))
    return found


def _passes(out: Path) -> None:
    audit = _json(out, "audit.json")
    assert {check["name"]: check["verdict"] for check in audit["checks"] if check["verdict"] != "PASS"} == {}
    assert load_run(out).audit.verdict == "PASS"


class TestRetraining:
    def test_a_warm_start_is_named_in_table_log_manifest_and_report(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        run(packaged_study(models=["linear", "mean"], walk_forward={"retrain": "warm_start"}), out)
        _passes(out)
        assert pl.read_parquet(out / "forecasts.parquet")["study"].unique().to_list() == ["tiny[warm_start]"]
        log = _json(out, "folds/1/linear-0/log.json")
        assert (log["retrain"], log["begun_from_fold"]) == ("warm_start", 0)
        manifest = _json(out, "manifest.json")
        assert manifest["retrain"] == "warm_start"
        (caveat,) = [text for text in manifest["caveats"] if text.startswith("Warm start: ")]
        report = (out / "report.html").read_text(encoding="utf-8")
        assert caveat in report
        assert "warm_start" in report

    @pytest.mark.parametrize(
        ("retrain", "trained"),
        [
            pytest.param({"every": 2}, [0, 0, 2, 2], marks=pytest.mark.slow),
            ("frozen", [0, 0, 0, 0]),
        ],
    )
    def test_the_fit_in_the_table_is_that_of_the_model(
        self, tmp_path: Path, retrain: Any, trained: list[int]
    ) -> None:
        out = tmp_path / "run"
        changes = {"retrain": retrain, "test_size": 12}
        run(packaged_study(models=["linear", "mean"], walk_forward=changes), out)
        _passes(out)
        table = pl.read_parquet(out / "forecasts.parquet")
        fits = table.group_by("fold").agg(pl.col("fit_time").unique()).sort("fold")["fit_time"].to_list()
        assert all(len(fit) == 1 for fit in fits)
        assert [fits.index(fit) for fit in fits] == trained
        manifest = _json(out, "manifest.json")
        assert [fold["fit_time"] for fold in manifest["folds"]] == [
            manifest["folds"][source]["fit_time"] for source in trained
        ]
        assert any("were trained once" in text for text in manifest["caveats"])
        runs = _json(out, "latency.json")["training"]
        assert [record["fold"] for record in runs] == sorted(set(trained))

    def test_every_fold_says_nothing_of_it(self, tmp_path: Path) -> None:
        run(packaged_study(models=["mean", "har"]), tmp_path / "run")
        manifest = _json(tmp_path / "run", "manifest.json")
        assert manifest["retrain"] == "every_fold"
        assert not [text for text in manifest["caveats"] if "trained" in text or "Warm" in text]


class TestSeeds:
    def test_an_ensemble_is_evaluated_beside_its_members(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        run(packaged_study(models=["linear", "mean"], seeds=[3, 1], ensemble=True), out)
        _passes(out)
        metrics = _json(out, "metrics.json")
        assert [model["model"] for model in metrics["models"]] == ["linear", "linear-ensemble", "mean"]
        assert "linear-ensemble" in (out / "report.html").read_text(encoding="utf-8")
        assert _json(out, "manifest.json")["remarks"] == []

    def test_an_ensemble_of_one_is_said_to_be_none(self, tmp_path: Path) -> None:
        run(packaged_study(models=["mean", "har"], ensemble=True), tmp_path / "run")
        assert _json(tmp_path / "run", "manifest.json")["remarks"] == [
            "ensemble: no model was trained with several seeds, so there was nothing to average"
        ]


class TestOtherModels:
    @pytest.mark.slow
    def test_a_window_stands_apart(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        run(packaged_study(models=["linear", "mean", "softmax_window"]), out)
        _passes(out)
        metrics = _json(out, "metrics.json")
        assert [model["model"] for model in metrics["models"]] == ["linear", "mean"]
        (apart,) = metrics["apart"]
        assert apart["model"] == "softmax_window"
        assert apart["window"] > 0
        table = pl.read_parquet(out / "forecasts.parquet")
        windowed, full = (table.filter(pl.col("model") == name) for name in ("softmax_window", "linear"))
        assert windowed["n_visible"].max() == apart["window"] < full["n_visible"].max()
        assert set(windowed["info_hash"]).isdisjoint(full["info_hash"])
        assert any("is compared with no model" in text for text in _json(out, "manifest.json")["caveats"])

    @pytest.mark.slow
    def test_baselines_that_read_events_and_tokens(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        run(packaged_study(models=["linear", "mean", "gru", "events_ridge"], seeds=[0, 1]), out)
        _passes(out)

    @pytest.mark.slow
    def test_a_search_is_audited_with_its_trials(self, tmp_path: Path) -> None:
        pytest.importorskip("optuna", reason="the extra search is not installed")
        out = tmp_path / "run"
        search = {"trials": 3, "learning_rate": [0.001, 0.1], "width": [4, 8]}
        run(packaged_study(models=["linear", "softmax", "mean"], search=search), out)
        _passes(out)
        assert len(_json(out, "folds/1/softmax-0/log.json")["search"]["trials"]) == 3
        (caveat,) = [text for text in _json(out, "manifest.json")["caveats"] if "were searched" in text]
        assert "learning_rate and width" in caveat and "3 trials" in caveat
        assert caveat in (out / "report.html").read_text(encoding="utf-8").replace("&#39;", "'")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (
            "walk_forward: {retrain: never}",
            "walk_forward.retrain: 'never' is no way to retrain; write every_fold",
        ),
        ("walk_forward: {retrain: {every: 0}}", "walk_forward.retrain: {'every': 0} is no way to retrain"),
        ("walk_forward: {retrain: {every: true}}", "is no way to retrain"),
        ("walk_forward: {retrain: {each: 3}}", "is no way to retrain"),
        ("walk_forward: {retrain: 3}", "walk_forward.retrain: 3 is no way to retrain"),
        ("ensemble: maybe", "ensemble: 'maybe' came where true or false is needed"),
        (
            "models: [linear, grü]",
            "models[1]: 'grü' is unknown (did you mean 'gru'?); known: linear, softmax,",
        ),
        ("models: [linear, 3]", "models[1]: 3 came where a text"),
        ("models: [garch]\ndata: {market_events: false}", "['garch'] read the"),
        (
            "models: [mean, events_logistic]",
            "forecast directions, and target.name is realised_variance; set it to direction",
        ),
        ("search: {}", "search: nothing is searched; give one of learning_rate"),
        ("search: {trials: 0, width: [32]}", "search.trials: 0 came where 1 or more is needed"),
        ("search: {learning_rate: [0.1]}", "search.learning_rate: [0.1] is no range"),
        ("search: {learning_rate: [0.1, 0.01]}", "search.learning_rate: [0.1, 0.01] is no range"),
        ("search: {learning_rate: [0, 0.01]}", "search.learning_rate[0]: 0 came where more than 0"),
        ("search: {width: [6]}", "search.width [6] is no multiple of network.heads 4"),
        ("search: {width: [8, 8]}", "search.width: 8 stands there more than once"),
        ("search: {widht: [8]}", "search.widht: there is no such key in search (did you mean 'width'?)"),
        ("search: {width: [8]}\nwalk_forward: {val_size: null}", "walk_forward.val_size is null; set it"),
        (
            "search: {width: [8]}\nwalk_forward: {retrain: warm_start}",
            "the weights of one size cannot begin another",
        ),
    ],
)
def test_what_a_study_file_cannot_say(lines: str, wanted: str) -> None:
    content = read_yaml(f"name: a\n{lines}\n", source="s")
    events = {"path": "events.csv", "event_time": "time"}
    content["data"] = {"prices": "packaged:us_equities", **content.get("data", {})}
    if content["data"].get("market_events") is False:
        content["data"]["events"] = [events]
    with pytest.raises(StudyError) as caught:
        parse_study(content, check_files=False)
    assert wanted in str(caught.value)
