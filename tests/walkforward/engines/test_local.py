"""The local engine: any number of workers gives the same bytes, and what cannot be done is said."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from quantattn.errors import ForecasterError, SplitError, UsageError
from quantattn.files import hash_file
from quantattn.walkforward import CombinatorialPurged
from quantattn.walkforward.engines import LocalEngine, Outcome, make_engine, run_folds
from quantattn.walkforward.engines.base import Account, Queue
from quantattn.walkforward.engines.worker import sendable
from quantattn.walkforward.planning import Task, plan_tasks, plan_units, unit_steps
from quantattn.walkforward.retraining import Retrain
from quantattn.walkforward.running import Work
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.units import Unit

from ..market import Watched, market, settings_of

TIMINGS = ["update_us", "read_us"]
STEADY = ("weights.safetensors", "forecaster.json")


def run_in(
    folder: Path, settings: FoldSettings, workers: int, watcher: Watched | None = None, **options: Any
) -> Outcome:
    world = market()
    return run_folds(
        world.history,
        world.table,
        world.folds,
        settings,
        run=folder,
        source="s" * 64,
        watcher=watcher or Watched(),
        engine=LocalEngine(workers),
        **options,
    )


def steady(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hash_file(file)
        for name in STEADY
        for file in sorted(folder.glob(f"folds/*/*/{name}"))
    }


def assert_same_run(one: Path, outcome: Outcome, other: Path, expected: Outcome) -> None:
    assert_frame_equal(outcome.forecasts.drop(TIMINGS), expected.forecasts.drop(TIMINGS), check_exact=True)
    assert steady(one) == steady(other) != {}
    files = [{str(file.relative_to(run)) for file in run.rglob("*")} for run in (one, other)]
    assert files[0] == files[1]


# --- equal bytes ------------------------------------------------------------------------------------------


def test_two_workers_give_the_bytes_of_one(tmp_path: Path) -> None:
    settings = settings_of(models=("linear", "softmax", "mean", "har"), seeds=(0,))
    watcher, told = Watched(), []
    one = run_in(tmp_path / "one", settings, 1)
    two = run_in(tmp_path / "two", settings, 2, watcher, on_unit=told.append)
    assert_same_run(tmp_path / "two", two, tmp_path / "one", one)
    units = plan_units(market().folds, settings)
    assert watcher.steps == sum(unit_steps(unit, settings) for unit in units)
    assert sorted(told, key=units.index) == units
    assert (two.reused, two.redone, two.remarks) == ([], {}, [])
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["folds"]  # shared data is gone


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"models": ("linear", "gru", "softmax_window", "events_ridge", "gradient_boosting"), "seeds": (0, 1)},
        {"models": ("linear", "mean"), "seeds": (0,), "retrain": Retrain("warm_start")},
        {"models": ("linear", "softmax"), "seeds": (0,), "retrain": Retrain("every", 2)},
        {"models": ("linear",), "seeds": (0, 1, 2), "ensemble": True, "threads": 2},
    ],
)
def test_more_workers_than_one_give_its_bytes_in_every_setting(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    settings = settings_of(**options)
    one, three = run_in(tmp_path / "one", settings, 1), run_in(tmp_path / "three", settings, 3)
    assert_same_run(tmp_path / "three", three, tmp_path / "one", one)


@pytest.mark.slow
def test_a_search_goes_on_in_workers(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra search is not installed")
    from quantattn.walkforward.search import SearchConfig

    search = SearchConfig(trials=3, learning_rate=(0.001, 0.1))
    settings = settings_of(models=("linear",), seeds=(0,), search=search)
    one, two = run_in(tmp_path / "one", settings, 1), run_in(tmp_path / "two", settings, 2)
    assert_same_run(tmp_path / "two", two, tmp_path / "one", one)


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"name": "lokal"}, "engine 'lokal' is unknown; use one of local, ray"),
        ({"address": "auto"}, "address 'auto' has no meaning for the local engine; add --engine ray"),
        ({"workers": 0}, "workers=0 must be at least 1"),
    ],
)
def test_impossible_engines_are_refused(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        make_engine(**options)


def test_without_ray_the_ray_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r'pip install "quantattn\[ray\]"'):
        make_engine("ray")


def test_folds_that_train_after_their_test_are_refused(tmp_path: Path) -> None:
    world = market()
    folds = CombinatorialPurged(5, 2).split(world.dataset.samples)
    with pytest.raises(SplitError, match="run_folds needs folds of a walk-forward"):
        run_folds(
            world.history,
            world.table,
            list(folds),  # type: ignore[arg-type]
            settings_of(),
            run=tmp_path,
            source="s",
            watcher=Watched(),
        )


def test_what_a_unit_raises_in_a_worker_comes_out_as_it_is(tmp_path: Path) -> None:
    settings = settings_of(models=("mean", "no such model"), seeds=(0,))
    with pytest.raises(UsageError, match="'no such model' is unknown"):
        run_in(tmp_path, settings, 2)
    assert not list(tmp_path.glob(".*"))
    assert not list(tmp_path.rglob("*.tmp"))


class Odd(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_exceptions_cross_with_their_class_where_they_can() -> None:
    error = sendable(ForecasterError("the loss became nan"))
    assert type(error) is ForecasterError
    assert str(error) == "the loss became nan"
    full = sendable(OSError(28, "No space left on device", "/x"))
    assert isinstance(full, OSError)
    assert (full.errno, full.filename) == (28, "/x")
    odd = sendable(Odd(1, 2))
    assert type(odd) is RuntimeError
    assert str(odd) == "Odd: 1 and 2"


# --- a stranger's baseline --------------------------------------------------------------------------------

_SCRIPT = """
    import sys
    from pathlib import Path
    from sklearn.linear_model import Ridge
    from quantattn.forecasters.baselines import register_estimator
    from quantattn.walkforward.engines import LocalEngine, run_folds
    from tests.walkforward.market import Watched, market, settings_of

    {top}

    if __name__ == "__main__":
        {inside}
        world = market()
        settings = settings_of(models=("mine",), seeds=(0,))
        for workers in (1, 2):
            outcome = run_folds(
                world.history, world.table, world.folds, settings, run=Path(sys.argv[1]) / str(workers),
                source="s", watcher=Watched(), engine=LocalEngine(workers),
            )
            print(outcome.forecasts["y_pred"].hash().sum())
"""
_REGISTER = 'register_estimator("mine", lambda seed: Ridge(alpha=2.0))'


def run_script(folder: Path, **parts: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(_SCRIPT).format(**{"top": "", "inside": "pass", **parts}))
    return subprocess.run(
        [sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**__import__("os").environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


@pytest.mark.slow
def test_a_baseline_registered_by_a_script_is_known_in_its_workers(tmp_path: Path) -> None:
    done = run_script(tmp_path, top=_REGISTER)
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.split()
    assert one == two


@pytest.mark.slow
def test_a_baseline_that_workers_cannot_know_is_refused_with_the_remedy(tmp_path: Path) -> None:
    done = run_script(tmp_path, inside=_REGISTER)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "baseline 'mine' was registered in a way that a worker process cannot repeat" in last
    assert last.startswith("quantattn.errors.UsageError")


# --- the queue and the account ----------------------------------------------------------------------------


def tasks_of(**options: Any) -> tuple[Work, list[Task]]:
    world = market()
    settings = settings_of(**options)
    work = Work(world.history, world.table, world.folds, settings)
    return work, plan_tasks(world.folds, settings, "s")


def test_long_tasks_come_first_and_children_after_their_parents() -> None:
    work, tasks = tasks_of(models=("mean", "linear"), seeds=(0,))
    queue, order = Queue(work, tasks), []
    while (task := queue.next()) is not None:
        order.append((task.unit.model, task.unit.fold))
    assert order == [("linear", 2), ("linear", 1), ("linear", 0), ("mean", 0), ("mean", 1), ("mean", 2)]
    work, tasks = tasks_of(models=("linear",), seeds=(0,), retrain=Retrain("warm_start"))
    queue = Queue(work, tasks)
    for fold in (0, 1, 2):
        task = queue.next()
        assert task is not None
        assert task.unit.fold == fold
        assert queue.next() is None  # the others wait
        assert bool(queue) is (fold < 2)
        queue.put_back(task)
        assert queue.next() == task
        queue.finish(task.unit)
    assert queue.next() is None


def test_a_unit_that_is_begun_again_counts_no_step_twice(tmp_path: Path) -> None:
    work, tasks = tasks_of(models=("linear",), seeds=(0,))
    watcher = Watched()
    account = Account(work, tasks, tmp_path, watcher)
    unit = Unit(0, "linear", 0)
    for steps, seen in ((1, 1), (2, 2), (1, 2), (2, 2), (3, 3), (9, 3)):
        account.reached(unit, steps)
        assert watcher.steps == seen
    account.finished(unit)
    assert watcher.steps == 3
    account.again(unit, "its worker was killed by SIGKILL")
    assert account.remarks == ["fold 0 linear seed 0 was begun again: its worker was killed by SIGKILL"]
