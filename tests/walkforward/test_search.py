"""The search inside a fold: what it proposes, that it goes on where it stopped, that no test row is seen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters import FittedForecaster, NetworkConfig, TrainingConfig
from quantattn.walkforward import fitting
from quantattn.walkforward.engines import Outcome, run_folds
from quantattn.walkforward.networks import fold_tokens
from quantattn.walkforward.planning import unit_steps
from quantattn.walkforward.retraining import Retrain
from quantattn.walkforward.search import SearchConfig, search_parameters, search_seed, with_parameters
from quantattn.walkforward.units import Unit, read_log, trials_file

from .market import Market, Watched, market, settings_of

pytest.importorskip("optuna", reason="the extra search is not installed")

CONFIG = SearchConfig(trials=3, learning_rate=(0.001, 0.1), width=(4, 8))
UNIT = Unit(0, "linear", 0)


def bowl(parameters: dict[str, Any]) -> float:
    return abs(np.log10(parameters["learning_rate"]) + 2) + parameters["width"]


def run_in(
    folder: Path, *, world: Market | None = None, watcher: Watched | None = None, **options: Any
) -> Outcome:
    world = market() if world is None else world
    settings = settings_of(**{"models": ("linear",), "seeds": (0,), "search": CONFIG, **options})
    return run_folds(
        world.history,
        world.table,
        world.folds[:1],
        settings,
        run=folder,
        source="s",
        watcher=watcher or Watched(),
    )


# --- sizes ----------------------------------------------------------------------------------------------


def test_sizes_are_not_searched_with_a_warm_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="search: width cannot be searched with a warm start"):
        run_in(tmp_path / "run", retrain=Retrain("warm_start"))
    assert not (tmp_path / "run").exists()
    world, settings = market(), settings_of(search=CONFIG)
    tokens = [fold_tokens(world.history, fold, settings.text_width) for fold in world.folds[:2]]
    target = world.history.samples["y_true"].to_numpy()
    before, _ = fitting.fit_unit(
        UNIT, world.folds[0], tokens[0], target, dataclasses.replace(settings, search=None)
    )
    with pytest.raises(UsageError, match="width cannot be searched"):
        fitting.fit_unit(Unit(1, "linear", 0), world.folds[1], tokens[1], target, settings, before=before)


def test_a_width_that_heads_do_not_divide_fails_its_trial_alone(tmp_path: Path) -> None:
    search = SearchConfig(trials=6, width=(7, 8))
    run_in(tmp_path / "run", search=search)
    trials = read_log(UNIT, tmp_path / "run")["search"]["trials"]
    assert {record["parameters"]["width"] for record in trials} == {7, 8}
    assert all((record["loss"] is None) == (record["parameters"]["width"] == 7) for record in trials)


# --- proposals --------------------------------------------------------------------------------------------


def test_the_least_loss_wins_and_every_trial_is_told_of() -> None:
    told: list[dict[str, Any]] = []
    best, trials = search_parameters(
        dataclasses.replace(CONFIG, trials=15), bowl, seed=5, on_trial=told.append
    )
    assert told == trials
    assert [record["number"] for record in trials] == list(range(15))
    assert all(record["loss"] == bowl(record["parameters"]) for record in trials)
    assert bowl(best) == min(record["loss"] for record in trials)
    for record in trials:
        assert 0.001 <= record["parameters"]["learning_rate"] <= 0.1
        assert record["parameters"]["width"] in (4, 8)
    assert {record["parameters"]["width"] for record in trials} == {4, 8}
    json.dumps(trials)


def test_equal_seeds_propose_alike_and_others_do_not() -> None:
    one, other, third = (search_parameters(CONFIG, bowl, seed=seed)[1] for seed in (1, 1, 2))
    assert one == other
    assert one != third
    assert search_seed(0, 0) == search_seed(0, 0) != search_seed(1, 0) != search_seed(0, 1)


@pytest.mark.parametrize("known", [0, 1, 7, 19, 20])
def test_a_search_goes_on_from_the_trials_that_are_known(known: int) -> None:
    config = dataclasses.replace(CONFIG, trials=20)
    best, trials = search_parameters(config, bowl, seed=3)
    through_json = json.loads(json.dumps(trials[:known]))
    asked: list[dict[str, Any]] = []
    again, retold = search_parameters(
        config, lambda parameters: asked.append(parameters) or bowl(parameters), seed=3, known=through_json
    )
    assert (again, retold) == (best, trials)
    assert len(asked) == 20 - known


def test_trials_that_do_not_fit_are_made_again() -> None:
    trials = search_parameters(CONFIG, bowl, seed=3)[1]
    strange = [trials[0], {**trials[1], "parameters": {"learning_rate": 0.5, "width": 4}}, trials[2]]
    broken = [trials[0], {"number": 1}, trials[2]]
    infinite = [trials[0], {**trials[1], "loss": float("nan")}, trials[2]]
    for known in (strange, broken, infinite):
        asked: list[int] = []
        assert (
            search_parameters(CONFIG, lambda p, seen=asked: seen.append(1) or bowl(p), seed=3, known=known)[1]
            == trials
        )
        assert len(asked) == 2


def test_a_trial_that_fails_fails_alone() -> None:
    def diverges(parameters: dict[str, Any]) -> float:
        if parameters["learning_rate"] > 0.01:
            raise ForecasterError("the loss became nan")
        return bowl(parameters)

    best, trials = search_parameters(dataclasses.replace(CONFIG, trials=12), diverges, seed=0)
    assert best["learning_rate"] <= 0.01
    assert {record["fault"] for record in trials if record["loss"] is None} == {"the loss became nan"}
    with pytest.raises(ForecasterError, match="all 3 trials of the search failed, the first with: no"):
        search_parameters(CONFIG, lambda parameters: _fail("no"), seed=0)


def _fail(words: str) -> float:
    raise ForecasterError(words)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "names nothing to search; give one of learning_rate"),
        ({"trials": 0, "width": (4,)}, "trials=0 must be at least 1"),
        ({"epochs": 0, "width": (4,)}, "epochs=0 must be at least 1"),
        ({"learning_rate": (0.1, 0.01)}, "is no range"),
        ({"learning_rate": (0.0, 0.01)}, "is no range"),
        ({"weight_decay": (0.1,)}, "is no range"),
        ({"width": ()}, "must be distinct"),
        ({"layers": (1, 1)}, "must be distinct"),
        ({"layers": (0, 1)}, "must be distinct"),
    ],
)
def test_impossible_searches_are_refused(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        SearchConfig(**options)


def test_parameters_go_where_they_belong() -> None:
    network, training = with_parameters(
        NetworkConfig(),
        TrainingConfig(),
        {"width": 16, "layers": 3, "learning_rate": 0.5, "batch_entities": 9},
    )
    assert (network.width, network.layers, training.learning_rate, training.batch_entities) == (16, 3, 0.5, 9)


# --- in a fold --------------------------------------------------------------------------------------------


def test_trials_and_choice_are_in_the_log_and_in_the_network(tmp_path: Path) -> None:
    watcher = Watched()
    run_in(tmp_path, watcher=watcher)
    log = read_log(UNIT, tmp_path)["search"]
    assert len(log["trials"]) == 3
    assert log["chosen"] == min(log["trials"], key=lambda record: record["loss"])["parameters"]
    assert FittedForecaster.load(UNIT.folder(tmp_path)).network.config.width == log["chosen"]["width"]
    assert watcher.steps == unit_steps(UNIT, settings_of(search=CONFIG)) == 2 + 1 + 3
    assert not trials_file(UNIT, tmp_path).exists()


def test_the_loss_of_a_trial_is_that_of_training_with_its_parameters(tmp_path: Path) -> None:
    run_in(tmp_path / "searched")
    log = read_log(UNIT, tmp_path / "searched")
    chosen = log["search"]["chosen"]
    plain = settings_of()
    network, training = with_parameters(plain.networks["linear"], plain.training, chosen)
    run_in(tmp_path / "plain", networks={"linear": network}, training=training, search=None)
    same = read_log(UNIT, tmp_path / "plain")
    assert same["epochs"] == log["epochs"]
    assert min(epoch["validation_loss"] for epoch in same["epochs"]) == min(
        record["loss"] for record in log["search"]["trials"]
    )
    weights = "folds/0/linear-0/weights.safetensors"
    assert (tmp_path / "searched" / weights).read_bytes() == (tmp_path / "plain" / weights).read_bytes()


def test_it_is_nested_in_the_fold(tmp_path: Path) -> None:
    """Targets and events after the fit may be anything: no trial notices."""
    world = market()
    fold = world.folds[0]
    known = np.zeros(world.history.samples.height, bool)
    known[fold.train] = known[fold.validation] = True
    poisoned = world.history.samples.with_columns(
        pl.when(pl.Series(known)).then(pl.col("y_true")).otherwise(1e30).alias("y_true")
    )
    other = dataclasses.replace(world, history=dataclasses.replace(world.history, samples=poisoned))
    run_in(tmp_path / "one")
    run_in(tmp_path / "other", world=other)
    one, two = (read_log(UNIT, tmp_path / name)["search"] for name in ("one", "other"))
    assert one == two
    # The validation targets do decide.
    shifted = world.history.samples.with_columns(
        pl.when(pl.int_range(pl.len()).is_in(fold.validation.tolist()))
        .then(-pl.col("y_true"))
        .otherwise(pl.col("y_true"))
        .alias("y_true")
    )
    third = dataclasses.replace(world, history=dataclasses.replace(world.history, samples=shifted))
    run_in(tmp_path / "third", world=third)
    assert read_log(UNIT, tmp_path / "third")["search"] != one


def test_cut_short_it_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in(tmp_path / "whole")
    honest, calls = fitting.train, 0

    def cut(*inputs: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return honest(*inputs, **options)

    monkeypatch.setattr(fitting, "train", cut)
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "cut")
    stored = json.loads(trials_file(UNIT, tmp_path / "cut").read_text())
    assert len(stored["trials"]) == 2
    calls = -100
    run_in(tmp_path / "cut")
    assert calls == -99  # the third trial alone
    assert read_log(UNIT, tmp_path / "cut")["search"] == read_log(UNIT, tmp_path / "whole")["search"]
    weights = "folds/0/linear-0/weights.safetensors"
    assert (tmp_path / "cut" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()
    assert not trials_file(UNIT, tmp_path / "cut").exists()


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"inputs": "x", "trials": [1]}', "[" * 100_000, '{"inputs": 1}']
)
def test_strange_trials_on_disk_are_ignored(tmp_path: Path, content: str) -> None:
    file = trials_file(UNIT, tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text(content)
    run_in(tmp_path)
    assert len(read_log(UNIT, tmp_path)["search"]["trials"]) == 3
    assert not file.exists()


def test_without_validation_there_is_no_search(tmp_path: Path) -> None:
    with pytest.raises(ForecasterError, match="has no validation rows, by which a search judges"):
        run_in(tmp_path, world=market(validation=False))


def test_another_search_is_another_input(tmp_path: Path) -> None:
    run_in(tmp_path)
    assert run_in(tmp_path).redone == {}
    assert set(run_in(tmp_path, search=dataclasses.replace(CONFIG, trials=2)).redone) == {UNIT}
