"""The plan of a study: it counts what the run then does, writes nothing and trains nothing to the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quantattn.cli import app
from quantattn.study import parse_study, provenance
from quantattn.study.calibration import NetworkCost, Size, live_calls, side_size
from quantattn.study.execution import Execution
from quantattn.study.plan import ESTIMATE, StudyPlan, plan_study
from quantattn.study.plan_text import plan_text
from quantattn.study.preparing import prepare
from quantattn.study.progress import SilentProgress
from quantattn.walkforward.networks import fold_tokens
from tests.study.small import packaged_study, run, write_study


@pytest.fixture(scope="module")
def plan() -> StudyPlan:
    study = packaged_study(models=["linear", "softmax", "mean", "ridge"], seeds=[0, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "available_cores", lambda: 2)
        return plan_study(study, execution=Execution(workers=2))


class TestCounts:
    def test_they_are_those_of_the_run(self, plan: StudyPlan, tmp_path: Path) -> None:
        run(packaged_study(models=["mean"], seeds=[0, 1]), tmp_path / "run")
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
        assert (plan.n_samples, plan.n_events) == (manifest["samples"]["n"], manifest["events"]["n"])
        assert len(plan.folds) == len(manifest["folds"])
        for planned, made in zip(plan.folds, manifest["folds"], strict=True):
            for name in ("fold", "fit_time", "n_train", "n_validation", "n_test"):
                assert getattr(planned, name) == made[name]
            assert sum(planned.purged.values()) == sum(span["n_rows"] for span in made["purged"])
            assert set(planned.purged) == {"label"}
            assert planned.trained

    def test_units_and_trainings(self, plan: StudyPlan) -> None:
        assert [(model.model, model.units, model.trainings) for model in plan.models] == [
            ("linear", 4, 4),
            ("softmax", 4, 4),
            ("mean", 2, 2),
            ("ridge", 2, 2),
        ]
        assert plan.n_units == 12
        assert (plan.engine, plan.workers, plan.threads) == ("local", 2, 1)

    def test_tokens_are_counted_without_encoding(self) -> None:
        prepared = prepare(packaged_study(), SilentProgress())
        for fold in prepared.folds:
            sides = fold_tokens(prepared.history, fold, prepared.settings.text_width).side(fold.train)
            size = side_size(prepared, fold.train)
            assert size.tokens == sum(len(own.events) + len(own.queries) for own in sides)
            assert size.sequences == len(sides)

    def test_folds_that_another_training_serves_train_nothing(self) -> None:
        changes: dict[str, Any] = {"retrain": {"every": 2}, "test_size": 12}
        plan = plan_study(packaged_study(models=["linear", "mean"], walk_forward=changes))
        assert [fold.trained for fold in plan.folds] == [True, False, True, False]
        assert [(model.model, model.units, model.trainings) for model in plan.models] == [
            ("linear", 4, 2),
            ("mean", 4, 4),
        ]
        assert plan.folds[1].fit_time == plan.folds[0].fit_time
        assert plan.retrain == "every: 2"
        assert "  no" in plan_text(plan)


class TestEstimates:
    def test_they_are_there_and_add_up(self, plan: StudyPlan) -> None:
        each = [model.seconds for model in plan.models]
        assert all(seconds is not None and seconds > 0 for seconds in each)
        assert plan.seconds == pytest.approx(sum(seconds or 0.0 for seconds in each) / 2)
        assert plan.memory_gib is None or plan.memory_gib > 0

    def test_cost_goes_by_tokens_and_length(self) -> None:
        cost = NetworkCost((100.0, 300.0), (1.0, 2.0), 0.0, 0.0, 0.0)
        assert cost.per_token(100) == 1.0
        assert cost.per_token(300) == 2.0
        assert cost.per_token(200) == 1.5
        assert cost.per_token(500) == 3.0
        assert cost.per_token(0) == 0.5
        falling = NetworkCost((100.0, 300.0), (2.0, 1.0), 0.0, 0.0, 0.0)  # two noisy points
        assert falling.per_token(10_000) == 0.5
        single = NetworkCost((100.0,), (4.0,), 0.0, 0.0, 0.0)
        assert single.per_token(7) == single.per_token(700) == 4.0
        # 10 epochs of 1,000 tokens at 2 a token, and 300 tokens of validation at a third of that.
        assert cost.training(Size(900, 3), Size(300, 1), 10) == pytest.approx(10 * (1800 + 200))

    def test_streaming_costs_its_writes_its_calls_and_the_batch_path_beside_it(self) -> None:
        # 400 tokens written at 0.5 each, 60 calls that take 2 more, and a third of 400 + 2 * 200 tokens at 3.
        cost = NetworkCost((100.0,), (3.0,), 0.5, 2.5, 0.0)
        assert cost.streaming(Size(400, 2), 60) == pytest.approx(200 + 120 + 800)
        # A call that was measured as faster than a write costs no less than one.
        noisy = NetworkCost((100.0,), (0.0,), 0.5, 0.1, 0.0)
        assert noisy.streaming(Size(400, 2), 60) == pytest.approx(200)

    def test_live_calls_are_forecasts_and_the_raw_events_behind_the_first_of_them(self) -> None:
        prepared = prepare(packaged_study(), SilentProgress())
        rows = prepared.folds[0].test
        asked = prepared.history.samples[rows]
        first, last = asked["forecast_time"].min(), asked["forecast_time"].max()
        events = prepared.dataset.events.frame
        ours = events["entity"].is_null() | events["entity"].is_in(asked["entity"].unique().implode())
        live = events.filter(ours & (events["available_at"] >= first) & (events["available_at"] < last))
        assert 0 < live.height < events.height
        assert live_calls(prepared, rows) == live.height + len(rows)

    def test_a_search_costs_its_trials(self) -> None:
        pytest.importorskip("optuna", reason="the extra search is not installed")
        plain = packaged_study(models=["linear"], training={"epochs": 20})
        search = {"trials": 400, "epochs": 5, "learning_rate": [0.001, 0.1]}
        searched = packaged_study(models=["linear"], training={"epochs": 20}, search=search)
        one, other = (plan_study(study).seconds for study in (plain, searched))
        assert other > 10 * one

    def test_a_baseline_that_one_instrument_cannot_show_is_not_measured(self) -> None:
        plan = plan_study(packaged_study(models=["garch", "mean"]))  # too few bars for it
        assert plan.models[0].seconds is None
        assert "not measured" in plan_text(plan)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "available_cores", lambda: 1)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


class TestCommand:
    def test_it_prints_tables_and_writes_nothing(self, invoke: Callable[..., Result], tmp_path: Path) -> None:
        study = write_study(packaged_study(models=["linear", "mean"]), tmp_path / "tiny.yaml")
        result = invoke("plan", study)
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()
        assert lines[0].startswith("tiny: ")
        assert lines[2].split() == ["fold", "fitted", "train", "validation", "test", "purged", "tokens"]
        assert "4 units on engine local, one after the other on 1 thread each: about " in result.stdout
        assert " ".join(lines[-3:]).endswith(ESTIMATE[-60:])
        assert max(map(len, lines)) <= 110
        assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]

    def test_as_json(self, invoke: Callable[..., Result], tmp_path: Path) -> None:
        study = write_study(packaged_study(models=["mean"]), tmp_path / "tiny.yaml")
        result = invoke("plan", study, "--json", "--workers", "3", "--threads", "2", "--engine", "ray")
        assert (result.exit_code, result.stderr) == (0, "")
        found = json.loads(result.stdout)
        assert (found["workers"], found["threads"], found["engine"]) == (3, 2, "ray")
        assert found["note"] == ESTIMATE
        assert [fold["fold"] for fold in found["folds"]] == [0, 1]

    @pytest.mark.parametrize(
        ("words", "code", "wanted"),
        [
            (["plan", "retuns"], 2, "did you mean 'returns'"),
            (["plan", "--engine", "rya"], 2, "engine 'rya' is unknown"),
            (["plan", "--workers", "0"], 2, "--workers"),
            (["run", "--engine", "rya"], 2, "engine 'rya' is unknown"),
            (["run", "--address", "auto"], 2, "add --engine ray"),
            (["run", "--threads", "0"], 2, "--threads"),
            (["run", "--track", "wandb"], 2, "track='wandb' is unknown"),
        ],
    )
    def test_wrong_requests(
        self, invoke: Callable[..., Result], tmp_path: Path, words: list[str], code: int, wanted: str
    ) -> None:
        result = invoke(*words)
        assert result.exit_code == code
        assert wanted in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == []

    def test_too_little_history_is_said_as_by_run(
        self, invoke: Callable[..., Result], tmp_path: Path
    ) -> None:
        changes: dict[str, Any] = {"train_size": 500, "val_size": 8, "test_size": 24}
        study = write_study(packaged_study(models=["mean"], walk_forward=changes), tmp_path / "tiny.yaml")
        result = invoke("plan", study)
        assert result.exit_code == 1
        assert "there are 81 forecast times" in result.stderr


def test_a_plan_of_the_packaged_studies_parses() -> None:
    assert parse_study(packaged_study().model_dump()) == packaged_study()
