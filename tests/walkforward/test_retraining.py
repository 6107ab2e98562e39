"""When models are trained: which fold serves which, by hand, and what the tables then say."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from quantattn.errors import SplitError, UsageError
from quantattn.files import hash_file
from quantattn.forecasters import FittedForecaster
from quantattn.pit.timestamps import instants, nanoseconds_of
from quantattn.walkforward import CombinatorialPurged
from quantattn.walkforward.agreement import Agreement
from quantattn.walkforward.engines import Outcome, run_folds
from quantattn.walkforward.networks import fold_tokens, warm_weights
from quantattn.walkforward.planning import plan_tasks
from quantattn.walkforward.retraining import Retrain, parent_folds, retrained_folds
from quantattn.walkforward.units import Unit, read_log

from .market import TEXT_WIDTH, Watched, market, settings_of


def run_in(folder: Path, retrain: Retrain, **options: Any) -> Outcome:
    world = market()
    settings = settings_of(models=("linear", "mean"), seeds=(0,), retrain=retrain, **options)
    return run_folds(
        world.history, world.table, world.folds, settings, run=folder, source="s", watcher=Watched()
    )


@pytest.mark.parametrize(
    ("retrain", "serving"),
    [
        (Retrain(), [0, 1, 2, 3, 4, 5, 6]),
        (Retrain("warm_start"), [0, 1, 2, 3, 4, 5, 6]),
        (Retrain("every", 1), [0, 1, 2, 3, 4, 5, 6]),
        (Retrain("every", 2), [0, 0, 2, 2, 4, 4, 6]),
        (Retrain("every", 3), [0, 0, 0, 3, 3, 3, 6]),
        (Retrain("every", 100), [0, 0, 0, 0, 0, 0, 0]),
        (Retrain("frozen"), [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_which_training_serves_which_fold(retrain: Retrain, serving: list[int]) -> None:
    assert [retrain.source(position) for position in range(7)] == serving


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"policy": "never"}, "retrain='never' is unknown; use one of every_fold, every, warm_start, frozen"),
        ({"policy": "every"}, "every=None with policy 'every'"),
        ({"policy": "frozen", "every": 2}, "every=2 with policy 'frozen'"),
        ({"policy": "every", "every": 0}, "every=0 is not a whole number from 1"),
    ],
)
def test_impossible_policies_are_refused(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        Retrain(**options)


def test_a_served_fold_has_the_training_of_another_and_its_own_test() -> None:
    one, two, three = market().folds
    served = retrained_folds(market().folds, Retrain("every", 2))
    assert served[0] is one
    assert served[2] is three
    assert [fold.index for fold in served] == [0, 1, 2]
    assert served[1].fit_time == one.fit_time < two.fit_time
    assert served[1].validation_time == one.validation_time
    assert np.array_equal(served[1].train, one.train)
    assert np.array_equal(served[1].validation, one.validation)
    assert np.array_equal(served[1].test, two.test)
    assert served[1].test_span == two.test_span
    assert served[1].purged.equals(one.purged)
    kept = {(run.side, run.start, run.end) for run in served[1].stretches() if run.reason == "kept"}
    assert ("test", *two.test_span) in kept
    assert ("test", *one.test_span) not in kept
    assert retrained_folds(served, Retrain("every", 2)) == served


@pytest.mark.parametrize("retrain", [Retrain("every", 2), Retrain("frozen"), Retrain("warm_start")])
def test_the_account_of_a_served_fold_adds_up(retrain: Retrain) -> None:
    height = market().dataset.samples.height
    served = retrained_folds(market().folds, retrain)
    assert [fold.summary()["n_rows"].sum() for fold in served] == [height] * 3
    between = [fold.n_between for fold in served]
    if retrain.policy == "frozen":
        # All before its own test that is on no side of the first fold: the tests of the folds between.
        one, two, _ = market().folds
        assert between == [0, len(one.test), len(one.test) + len(two.test)]
        row = served[2].summary().row(by_predicate=pl.col("reason") == "between", named=True)
        assert (row["side"], row["n_rows"]) == (None, between[2])
    assert [fold.n_between for fold in retrained_folds(served, retrain)] == between


@pytest.mark.parametrize("every", [1.5, 2.0, True, "2"])
def test_a_number_of_folds_is_a_whole_one(every: Any) -> None:
    with pytest.raises(UsageError, match=rf"every={every!r} is not a whole number from 1"):
        Retrain("every", every)


def test_a_plan_needs_a_walk_forward() -> None:
    folds: Any = CombinatorialPurged(4, 2).split(market().dataset.samples)
    with pytest.raises(SplitError, match="a plan needs folds of a walk-forward"):
        plan_tasks(folds, settings_of(), "s")


def test_parents() -> None:
    folds = market().folds
    assert parent_folds(folds, Retrain()) == {0: None, 1: None, 2: None}
    assert parent_folds(folds, Retrain("warm_start")) == {0: None, 1: 0, 2: 1}
    for retrain, parents in ((Retrain("every", 2), [None, 0, None]), (Retrain("frozen"), [None, 0, 0])):
        served = retrained_folds(folds, retrain)
        assert list(parent_folds(served, retrain).values()) == parents


def test_baselines_wait_for_nobody() -> None:
    settings = settings_of(models=("linear", "mean"), seeds=(0, 1), retrain=Retrain("warm_start"))
    parents = {task.unit: (task.parent, task.begins) for task in plan_tasks(market().folds, settings, "s")}
    assert parents[Unit(0, "linear", 1)] == (None, False)
    assert parents[Unit(2, "linear", 1)] == (Unit(1, "linear", 1), True)
    assert parents[Unit(2, "mean", 0)] == (None, False)


def test_frozen_forecasts_are_those_of_the_first_network_and_say_when_it_was_fitted(tmp_path: Path) -> None:
    frozen, fresh = run_in(tmp_path / "frozen", Retrain("frozen")), run_in(tmp_path / "fresh", Retrain())
    fitted = instants([market().folds[0].fit_time])[0]
    assert frozen.forecasts["fit_time"].unique().to_list() == [fitted]
    assert set(frozen.forecasts["study"]) == {"small"}
    # Weights and encoders are the first fold's, bit for bit; only the forecasts are new.
    for name in ("weights.safetensors", "forecaster.json"):
        stored = {hash_file(tmp_path / f"frozen/folds/{fold}/linear-0" / name) for fold in (0, 1, 2)}
        assert stored == {hash_file(tmp_path / f"fresh/folds/0/linear-0/{name}")}
    first = pl.col("fold") == 0
    timings = ["update_us", "read_us"]
    assert_frame_equal(
        frozen.forecasts.filter(first).drop(timings), fresh.forecasts.filter(first).drop(timings)
    )
    later = [outcome.forecasts.filter(~first)["y_pred"] for outcome in (frozen, fresh)]
    assert not later[0].equals(later[1])
    log = read_log(Unit(2, "linear", 0), tmp_path / "frozen")
    compared = Agreement.from_dict(log.pop("streaming"))
    assert compared.within
    assert compared.forecasts == len(market().folds[2].test)
    assert log == {
        "epochs": [],
        "best_epoch": None,
        "tokens": 0,
        "seconds": 0.0,
        "retrain": "frozen",
        "trained_in_fold": 0,
    }


def test_no_served_forecast_is_older_than_its_fit(tmp_path: Path) -> None:
    forecasts = run_in(tmp_path, Retrain("every", 2)).forecasts
    assert (forecasts["fit_time"] < forecasts["forecast_time"]).all()
    fitted = forecasts.group_by("fold").agg(pl.col("fit_time").unique()).sort("fold")["fit_time"]
    times = [market().folds[source].fit_time for source in (0, 0, 2)]
    assert [nanoseconds_of(one).tolist() for one in fitted] == [[time] for time in times]


def test_a_warm_start_is_named_and_begins_where_the_fold_before_ended(tmp_path: Path) -> None:
    warm, fresh = run_in(tmp_path / "warm", Retrain("warm_start")), run_in(tmp_path / "fresh", Retrain())
    assert set(warm.forecasts["study"]) == {"small[warm_start]"}
    linear = pl.col("model") == "linear"
    for fold, same in ((0, True), (1, False), (2, False)):
        rows = linear & (pl.col("fold") == fold)
        one, other = (outcome.forecasts.filter(rows)["y_pred"] for outcome in (warm, fresh))
        assert one.equals(other) is same
    assert "begun_from_fold" not in read_log(Unit(0, "linear", 0), tmp_path / "warm")
    log = read_log(Unit(1, "linear", 0), tmp_path / "warm")
    assert (log["retrain"], log["begun_from_fold"]) == ("warm_start", 0)
    mean = pl.col("model") == "mean"
    assert warm.forecasts.filter(mean)["y_pred"].equals(fresh.forecasts.filter(mean)["y_pred"])


def test_without_steps_a_warm_start_stays_where_it_began(tmp_path: Path) -> None:
    """With a learning rate of next to nothing, every fold ends with the weights of the first."""
    training = dataclasses.replace(settings_of().training, learning_rate=1e-30, weight_decay=0.0)
    run_in(tmp_path, Retrain("warm_start"), training=training)
    first, last = (
        FittedForecaster.load(Unit(fold, "linear", 0).folder(tmp_path)).network.state_dict()
        for fold in (0, 2)
    )
    for name, value in first.items():
        if name != "event_embedding.weight":  # whose columns are those of each fold's kinds
            torch.testing.assert_close(last[name], value, rtol=0, atol=1e-12)


def test_columns_find_their_weights_by_name_and_new_kinds_begin_at_zero(tmp_path: Path) -> None:
    world = market()
    run_in(tmp_path, Retrain())
    before = FittedForecaster.load(Unit(0, "linear", 0).folder(tmp_path))
    tokens = fold_tokens(world.history, world.folds[0], TEXT_WIDTH)
    # Weights for the same columns are the same.
    same = warm_weights(before, tokens.encoders)
    old = before.network.state_dict()["event_embedding.weight"]
    assert torch.equal(same["event_embedding.weight"], old)
    # A kind that was not seen before, the first by name, and one that is gone.
    encoders = dataclasses.replace(tokens.encoders)
    kinds = before.encoders.events.kinds_
    encoders.events.kinds_ = ("a new kind", *kinds[1:])
    moved = warm_weights(before, encoders)["event_embedding.weight"]
    place = len(encoders.events.column_names_) - len(kinds)
    assert torch.equal(moved[:, :place], old[:, :place])
    assert torch.equal(moved[:, place], torch.zeros(len(moved)))
    assert torch.equal(moved[:, place + 1 :], old[:, place + 1 :])


def test_a_parent_that_is_redone_gives_the_child_the_same_network(tmp_path: Path) -> None:
    outcome = run_in(tmp_path, Retrain("every", 3))
    weights = tmp_path / "folds/0/linear-0/weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    again = run_in(tmp_path, Retrain("every", 3))
    assert again.redone == {Unit(0, "linear", 0): "weights.safetensors was altered or cut short"}
    assert weights.read_bytes() == whole
    timings = ["update_us", "read_us"]
    assert_frame_equal(again.forecasts.drop(timings), outcome.forecasts.drop(timings))


def test_another_policy_is_another_input(tmp_path: Path) -> None:
    run_in(tmp_path, Retrain())
    again = run_in(tmp_path, Retrain("warm_start"))
    assert {unit.model for unit in again.redone} == {"linear", "mean"}  # the table names the policy
