"""The engine end to end: the forecasts table, resuming, damage, and blindness to what comes later."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from quantattn.errors import UsageError
from quantattn.files import hash_file
from quantattn.forecasters import FittedForecaster, TrainingConfig, catch_up, encode, read_history, replay
from quantattn.pit.timestamps import instants, nanoseconds_of
from quantattn.walkforward import FORECAST_SCHEMA
from quantattn.walkforward.agreement import Agreement
from quantattn.walkforward.engines import Outcome, run_folds
from quantattn.walkforward.planning import plan_units, unit_steps
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.threads import limited_threads
from quantattn.walkforward.units import Unit, check_unit, read_log

from .market import ENTITIES, TEXT_WIDTH, Market, Watched, market, settings_of, table_of

SOURCE = "s" * 64
TIMINGS = ["update_us", "read_us"]
UNITS = [
    Unit(fold, model, seed)
    for fold in (0, 1, 2)
    for model, seeds in (("linear", (0, 1)), ("softmax", (0, 1)), ("mean", (0,)), ("har", (0,)))
    for seed in seeds
]


def run_in(
    folder: Path,
    settings: FoldSettings | None = None,
    *,
    world: Market | None = None,
    source: str = SOURCE,
    watcher: Watched | None = None,
) -> Outcome:
    world = market() if world is None else world
    return run_folds(
        world.history,
        world.table,
        world.folds,
        settings_of() if settings is None else settings,
        run=folder,
        source=source,
        watcher=Watched() if watcher is None else watcher,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, Watched]:
    folder, watcher = tmp_path_factory.mktemp("finished"), Watched()
    return folder, run_in(folder, watcher=watcher), watcher


@pytest.fixture
def copy(finished: tuple[Path, Outcome, Watched], tmp_path: Path) -> Path:
    shutil.copytree(finished[0], tmp_path / "run")
    return tmp_path / "run"


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hash_file(file) for file in sorted(folder.rglob("*")) if file.is_file()
    }


def untimed(outcome: Outcome) -> pl.DataFrame:
    return outcome.forecasts.drop(TIMINGS)


# --- the plan ---------------------------------------------------------------------------------------------


def test_networks_run_for_every_seed_and_baselines_once() -> None:
    assert plan_units(market().folds, settings_of()) == UNITS


def test_steps() -> None:
    settings = settings_of(training=TrainingConfig(epochs=7))
    assert unit_steps(Unit(0, "softmax", 0), settings) == 8
    assert unit_steps(Unit(0, "har", 0), settings) == 1


# --- the table --------------------------------------------------------------------------------------------


def test_schema_and_order(finished: tuple[Path, Outcome, Watched]) -> None:
    forecasts = finished[1].forecasts
    assert list(forecasts.schema.items()) == list(FORECAST_SCHEMA.items())
    keys = forecasts.select("model", "seed", "fold", "forecast_time", "entity").rows()
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert set(forecasts["study"]) == {"small"}


def test_every_test_row_is_forecast_once_by_every_unit(finished: tuple[Path, Outcome, Watched]) -> None:
    forecasts, world = finished[1].forecasts, market()
    assert forecasts.height == sum(len(fold.test) for fold in world.folds) * 6
    for unit in UNITS:
        own = forecasts.filter(
            (pl.col("model") == unit.model) & (pl.col("seed") == unit.seed) & (pl.col("fold") == unit.fold)
        )
        expected = world.history.samples[world.folds[unit.fold].test].sort("forecast_time", "entity")
        shared = [name for name in expected.columns if name in forecasts.columns]
        assert len(shared) == 10
        assert_frame_equal(own.select(shared), expected.select(shared))


def test_values(finished: tuple[Path, Outcome, Watched]) -> None:
    forecasts = finished[1].forecasts
    assert forecasts["y_pred"].is_finite().all()
    assert (forecasts["y_lower"] <= forecasts["y_upper"]).all()
    assert (forecasts["max_available_at"] < forecasts["forecast_time"]).all()
    assert (forecasts["fit_time"] < forecasts["forecast_time"]).all()
    assert (forecasts["label_start_time"] > forecasts["forecast_time"]).all()
    fitted = forecasts.group_by("fold").agg(pl.col("fit_time").unique()).sort("fold")["fit_time"].to_list()
    assert fitted == [[instants([fold.fit_time])[0]] for fold in market().folds]
    streams = forecasts["model"].is_in(["linear", "softmax"])
    assert (forecasts.filter(streams)["read_us"] > 0).all()
    # There is a bar every day: each forecast follows an event.
    assert (forecasts.filter(streams)["update_us"] > 0).all()
    assert forecasts.filter(~streams)["read_us"].null_count() == (~streams).sum()
    assert forecasts.filter(~streams)["update_us"].null_count() == (~streams).sum()


def test_twins_see_equal_information(finished: tuple[Path, Outcome, Watched]) -> None:
    by_row = (
        finished[1]
        .forecasts.group_by("entity", "forecast_time")
        .agg(pl.col("info_hash").n_unique(), pl.col("n_visible").n_unique())
    )
    assert set(by_row["info_hash"]) == set(by_row["n_visible"]) == {1}


def test_every_network_s_log_says_how_its_two_paths_compare(finished: tuple[Path, Outcome, Watched]) -> None:
    for unit in UNITS:
        said = read_log(unit, finished[0]).get("streaming")
        if unit.model not in ("linear", "softmax"):
            assert said is None
            continue
        compared = Agreement.from_dict(said)
        assert compared.forecasts == len(market().folds[unit.fold].test)
        assert compared.within
        assert compared.entity in ENTITIES


def test_a_unit_of_an_older_schema_is_done_again_with_the_reason(copy: Path) -> None:
    record = copy / "folds" / "1" / "linear-0" / "unit.json"
    values = json.loads(record.read_text(encoding="utf-8"))
    assert values["schema"] == 2
    record.write_text(json.dumps({**values, "schema": 1}), encoding="utf-8")
    outcome = run_in(copy)
    assert outcome.redone == {Unit(1, "linear", 0): "it was written in schema 1"}


def test_seeds_and_models_differ(finished: tuple[Path, Outcome, Watched]) -> None:
    forecasts = finished[1].forecasts
    columns = [
        tuple(group["y_pred"]) for _, group in forecasts.group_by("model", "seed", maintain_order=True)
    ]
    assert len(set(columns)) == 6


def test_the_stored_forecasters_made_the_table(finished: tuple[Path, Outcome, Watched]) -> None:
    """Loaded from disk and fed the history, they give the table's forecasts bit for bit."""
    folder, outcome, _ = finished
    world = market()
    for unit in UNITS:
        if unit.model not in ("linear", "softmax"):
            continue
        forecaster = FittedForecaster.load(unit.folder(folder))
        assert (forecaster.fit_time, forecaster.seed) == (world.folds[unit.fold].fit_time, unit.seed)
        tokens = encode(world.history, forecaster.encoders)
        own = outcome.forecasts.filter(
            (pl.col("model") == unit.model) & (pl.col("seed") == unit.seed) & (pl.col("fold") == unit.fold)
        )
        for entity in ENTITIES:
            test = tokens[entity].select(world.folds[unit.fold].test)
            stream = forecaster.network_stream()
            again = forecaster.target.invert(replay(stream, test, catch_up(stream, test)).forecasts)
            assert again.tolist() == own.filter(pl.col("entity") == entity)["y_pred"].to_list()


def test_twins_begin_with_equal_weights_and_tokens(finished: tuple[Path, Outcome, Watched]) -> None:
    """What differs between the twins is the attention: sizes, tokens, scales and data are the same."""
    folder = finished[0]
    for fold in (0, 1, 2):
        linear, softmax = (
            FittedForecaster.load(Unit(fold, model, 0).folder(folder)) for model in ("linear", "softmax")
        )
        assert linear.encoders.events.fingerprint == softmax.encoders.events.fingerprint
        assert linear.encoders.queries.fingerprint == softmax.encoders.queries.fingerprint
        assert linear.target == softmax.target
        assert dataclasses.replace(linear.network.config, attention="softmax") == softmax.network.config
        logs = [read_log(Unit(fold, model, 0), folder) for model in ("linear", "softmax")]
        assert logs[0]["tokens"] / len(logs[0]["epochs"]) == logs[1]["tokens"] / len(logs[1]["epochs"])


def test_progress_adds_up(finished: tuple[Path, Outcome, Watched]) -> None:
    _, outcome, watcher = finished
    assert watcher.steps == sum(unit_steps(unit, settings_of()) for unit in UNITS) == 3 * (4 * 3 + 2)
    assert len(watcher.notes) == len(UNITS)
    assert watcher.notes[0] == "fold 1 of 3: linear, fitted at 2019-05-24"
    assert outcome.reused == []
    assert outcome.redone == {}


def test_progress_adds_up_when_training_stops_early(tmp_path: Path) -> None:
    training = TrainingConfig(epochs=9, learning_rate=1.0, patience=1)
    settings = settings_of(models=("linear",), seeds=(0,), training=training)
    watcher = Watched()
    run_in(tmp_path, settings, watcher=watcher)
    logs = [read_log(Unit(fold, "linear", 0), tmp_path) for fold in (0, 1, 2)]
    assert min(len(log["epochs"]) for log in logs) < 9
    assert watcher.steps == 3 * 10


# --- resuming ---------------------------------------------------------------------------------------------


def test_resuming_uses_everything_again(finished: tuple[Path, Outcome, Watched], copy: Path) -> None:
    before = hashes(copy)
    stamps = {file: file.stat().st_mtime_ns for file in copy.rglob("*")}
    watcher = Watched()
    outcome = run_in(copy, watcher=watcher)
    assert outcome.reused == UNITS
    assert outcome.redone == {}
    assert hashes(copy) == before
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("*")} == stamps
    assert watcher.steps == sum(unit_steps(unit, settings_of()) for unit in UNITS)
    assert watcher.notes == []
    # The latencies too, for nothing was measured again.
    assert_frame_equal(outcome.forecasts, finished[1].forecasts, check_exact=True)


def test_another_run_gives_equal_bytes_but_for_the_timings(
    finished: tuple[Path, Outcome, Watched], tmp_path: Path
) -> None:
    again = run_in(tmp_path)
    assert_frame_equal(untimed(again), untimed(finished[1]), check_exact=True)
    one, two = hashes(finished[0]), hashes(tmp_path)
    assert set(one) == set(two)
    steady = [name for name in one if name.endswith(("weights.safetensors", "forecaster.json"))]
    assert len(steady) == 2 * 12
    for name in steady:
        assert one[name] == two[name]


KILLED: dict[str, tuple[str, ...]] = {
    "in the first unit": tuple(str(Path("folds") / str(f)) for f in (0, 1, 2)),
    "between two folds": ("folds/1", "folds/2"),
    "between two units": ("folds/2/softmax-1", "folds/2/mean-0", "folds/2/har-0"),
    "in the last": ("folds/2/har-0",),
    "in the middle, by hand": ("folds/1/linear-0",),
}


@pytest.mark.parametrize("when", KILLED)
def test_a_killed_run_ends_with_the_same_forecasts(
    finished: tuple[Path, Outcome, Watched], copy: Path, when: str
) -> None:
    for name in KILLED[when]:
        shutil.rmtree(copy / name)
    # What a kill leaves: folders and files under temporary names.
    half = copy / "folds" / "0" / ".linear-1.00112233.tmp"
    half.mkdir(parents=True)
    (half / "forecasts.parquet").write_bytes(b"PAR1")
    (copy / ".forecasts.parquet.44556677.tmp").write_bytes(b"PAR1")
    there = [unit for unit in UNITS if unit.folder(copy).exists()]
    outcome = run_in(copy)
    assert outcome.reused == there
    assert outcome.redone == {}
    assert_frame_equal(untimed(outcome), untimed(finished[1]), check_exact=True)
    assert outcome.forecasts.n_chunks() == 1


def damage_file(name: str) -> Callable[[Path], None]:
    def hurt(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 4
        (folder / name).write_bytes(content)

    return hurt


def truncate(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def foreign(folder: Path) -> None:
    """The other seed's folder, whole and consistent in itself."""
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("linear-1"), folder)


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize(
    ("hurt", "reason"),
    [
        (damage_file("forecasts.parquet"), "forecasts.parquet was altered or cut short"),
        (damage_file("weights.safetensors"), "weights.safetensors was altered or cut short"),
        (damage_file("forecaster.json"), "forecaster.json was altered or cut short"),
        (truncate("weights.safetensors"), "weights.safetensors was altered or cut short"),
        (truncate("unit.json"), "its record cannot be read"),
        (foreign, "data, code, settings or versions have changed since it was written"),
        (emptied, "its record cannot be read"),
    ],
)
def test_damaged_and_foreign_units_are_done_again_and_reported(
    finished: tuple[Path, Outcome, Watched], copy: Path, hurt: Callable[[Path], None], reason: str
) -> None:
    hurt_unit = Unit(1, "linear", 0)
    hurt(hurt_unit.folder(copy))
    outcome = run_in(copy)
    assert outcome.redone == {hurt_unit: reason}
    assert outcome.reused == [unit for unit in UNITS if unit != hurt_unit]
    assert_frame_equal(untimed(outcome), untimed(finished[1]), check_exact=True)
    weights = Path("folds/1/linear-0/weights.safetensors")
    assert hash_file(copy / weights) == hash_file(finished[0] / weights)
    assert run_in(copy).redone == {}


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"source": "t" * 64}, set()),
        ({"study": "other"}, set()),
        ({"training": TrainingConfig(epochs=1, batch_entities=2, learning_rate=0.01)}, set()),
        ({"text_width": 5}, {"mean", "har"}),
        ({"threads": 2}, {"mean", "har"}),
        ({"softmax": {"layers": 1}}, {"mean", "har", "linear"}),
    ],
)
def test_what_other_inputs_made_is_done_again(
    copy: Path, changes: dict[str, Any], kept: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two threads on a busy machine would cost more than the rest of this file.
    monkeypatch.setattr("quantattn.walkforward.engines.local.limited_threads", lambda threads: nullcontext())
    settings = settings_of(seeds=(0,))
    source = changes.pop("source", SOURCE)
    if "softmax" in changes:
        network = dataclasses.replace(settings.networks["softmax"], **changes.pop("softmax"))
        changes = {"networks": {**settings.networks, "softmax": network}}
    world = market()
    if "text_width" in changes:
        world = dataclasses.replace(world, history=read_history(world.dataset, 5))
    outcome = run_in(copy, dataclasses.replace(settings, **changes), source=source, world=world)
    assert {unit.model for unit in outcome.reused} == kept
    assert {unit.model for unit in outcome.redone} == {"linear", "softmax", "mean", "har"} - kept
    assert set(outcome.redone.values()) == {
        "data, code, settings or versions have changed since it was written"
    }


def test_other_folds_are_done_again(copy: Path) -> None:
    """A fold that lost one training row is another fold; the others stay."""
    world = market()
    shorter = dataclasses.replace(world.folds[1], train=world.folds[1].train[1:])
    changed = dataclasses.replace(world, folds=[world.folds[0], shorter, world.folds[2]])
    outcome = run_in(copy, world=changed)
    assert {unit.fold for unit in outcome.redone} == {1}
    assert {unit.fold for unit in outcome.reused} == {0, 2}


def test_another_seed_adds_units_and_keeps_the_rest(copy: Path) -> None:
    outcome = run_in(copy, settings_of(seeds=(0, 1, 2)))
    assert outcome.reused == UNITS
    assert outcome.redone == {}
    assert set(outcome.forecasts.filter(pl.col("model") == "linear")["seed"]) == {0, 1, 2}
    assert set(outcome.forecasts.filter(pl.col("model") == "har")["seed"]) == {0}


def test_a_failure_keeps_what_was_finished(tmp_path: Path) -> None:
    settings = settings_of(models=("linear", "mean", "no such model"), seeds=(0,))
    with pytest.raises(UsageError, match="'no such model' is unknown"):
        run_in(tmp_path, settings)
    assert sorted(file.name for file in (tmp_path / "folds" / "0").iterdir()) == ["linear-0", "mean-0"]
    outcome = run_in(tmp_path, settings_of(models=("linear", "mean"), seeds=(0,)))
    assert outcome.reused == [Unit(0, "linear", 0), Unit(0, "mean", 0)]


def test_a_file_in_place_of_a_unit(copy: Path) -> None:
    folder = Unit(0, "mean", 0).folder(copy)
    shutil.rmtree(folder)
    folder.write_bytes(b"not a folder")
    assert check_unit(Unit(0, "mean", 0), copy, inputs="") == "its record cannot be read"
    with pytest.raises(NotADirectoryError, match="mean-0"):
        run_in(copy)


# --- nothing later -----------------------------------------------------------------------------------------


@lru_cache
def network_settings() -> FoldSettings:
    return settings_of(models=("linear", "softmax", "har"), seeds=(0,))


def test_data_that_ends_at_a_folds_last_forecast_gives_equal_forecasts(
    finished: tuple[Path, Outcome, Watched], tmp_path: Path
) -> None:
    """Events after the last test forecast of each fold are deleted, and later samples with them."""
    world = market()
    times = nanoseconds_of(world.history.samples["forecast_time"])
    for fold in world.folds[:2]:
        cut = world.dataset.cut(int(times[fold.test].max()))
        assert cut.samples.height < world.history.samples.height
        history = read_history(cut, TEXT_WIDTH)
        part = Market(cut, history, table_of(cut, history), [fold])
        outcome = run_in(tmp_path / str(fold.index), network_settings(), world=part)
        expected = untimed(finished[1]).filter(
            (pl.col("fold") == fold.index) & (pl.col("seed") == 0) & (pl.col("model") != "mean")
        )
        assert outcome.forecasts.height == 3 * len(fold.test)
        assert_frame_equal(untimed(outcome), expected, check_exact=True)


def test_targets_that_no_model_may_know_do_not_matter(
    finished: tuple[Path, Outcome, Watched], tmp_path: Path
) -> None:
    """Networks read the targets of their training and validation rows and no other."""
    world = market()
    fold = world.folds[1]
    known = np.zeros(world.history.samples.height, bool)
    known[fold.train] = known[fold.validation] = True
    poisoned = world.history.samples.with_columns(
        pl.when(pl.Series(known)).then(pl.col("y_true")).otherwise(1e30).alias("y_true")
    )
    history = dataclasses.replace(world.history, samples=poisoned)
    part = dataclasses.replace(world, history=history, folds=[fold])
    outcome = run_in(tmp_path, settings_of(models=("linear", "softmax")), world=part)
    expected = untimed(finished[1]).filter(
        (pl.col("fold") == 1) & (pl.col("model").is_in(["linear", "softmax"]))
    )
    assert_frame_equal(untimed(outcome).drop("y_true"), expected.drop("y_true"), check_exact=True)


# --- threads ----------------------------------------------------------------------------------------------


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    with limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError, match="on purpose"), limited_threads(before + 1):
        raise RuntimeError("on purpose")
    assert torch.get_num_threads() == before


def test_without_validation(tmp_path: Path) -> None:
    world = market(validation=False)
    settings = settings_of(models=("linear", "softmax", "har"), seeds=(0,))
    outcome = run_in(tmp_path, settings, world=world)
    assert outcome.forecasts["y_pred"].is_finite().all()
    assert (outcome.forecasts["y_lower"] < outcome.forecasts["y_upper"]).all()
    for fold in world.folds:
        log = read_log(Unit(fold.index, "linear", 0), tmp_path)
        assert log["best_epoch"] == 1
        assert log["epochs"][0]["validation_loss"] is None
