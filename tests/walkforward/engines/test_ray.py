"""The Ray engine on real clusters of the loopback interface: bytes of the local engine, nodes that die."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from polars.testing import assert_frame_equal
from sklearn.linear_model import Ridge

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.baselines import register_estimator, unregister_baseline
from quantattn.walkforward.engines import Outcome, RayEngine, ray_tasks, run_folds
from quantattn.walkforward.planning import plan_units, unit_steps
from quantattn.walkforward.retraining import Retrain
from quantattn.walkforward.settings import FoldSettings

from ..market import Watched, market, settings_of
from .test_local import assert_same_run, run_in

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STORE = 100 * 2**20
"""Bytes of a node's object store; Ray takes no less than 75 MiB."""


def on_ray(folder: Path, settings: FoldSettings, watcher: Watched | None = None, **options: Any) -> Outcome:
    world = market()
    return run_folds(
        world.history,
        world.table,
        world.folds,
        settings,
        run=folder,
        source="s" * 64,
        watcher=watcher or Watched(),
        engine=RayEngine(**options),
    )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a cluster whose head, where the driver is, has no CPU for units; tests add nodes."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False},
    )
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def one_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Join a Ray of two CPUs, so that each test need not start one."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=STORE)
    yield
    ray.shutdown()


@pytest.mark.parametrize(
    "options",
    [
        {"models": ("linear", "softmax", "mean", "gru"), "seeds": (0, 1)},
        {"models": ("linear", "mean"), "seeds": (0,), "retrain": Retrain("warm_start"), "ensemble": True},
        {"models": ("softmax",), "seeds": (0,), "retrain": Retrain("every", 2)},
    ],
)
def test_the_bytes_of_the_local_engine(tmp_path: Path, one_machine: None, options: dict[str, Any]) -> None:
    settings, watcher = settings_of(**options), Watched()
    local = run_in(tmp_path / "local", settings, 1)
    found = on_ray(tmp_path / "ray", settings, watcher)
    assert_same_run(tmp_path / "ray", found, tmp_path / "local", local)
    units = plan_units(market().folds, settings)
    assert watcher.steps == sum(unit_steps(unit, settings) for unit in units)
    assert len(watcher.notes) == len(units)
    assert found.remarks == []
    assert ray.is_initialized()  # what the caller had joined is left open
    again = on_ray(tmp_path / "ray", settings)
    assert again.reused == units


def test_a_search_and_a_strangers_baseline_travel(tmp_path: Path, one_machine: None) -> None:
    pytest.importorskip("optuna", reason="the extra search is not installed")
    from quantattn.walkforward.search import SearchConfig

    register_estimator("mine", lambda seed: Ridge(alpha=2.0))
    try:
        search = SearchConfig(trials=2, learning_rate=(0.001, 0.1))
        settings = settings_of(models=("linear", "mine"), seeds=(0,), search=search)
        local, found = run_in(tmp_path / "local", settings, 1), on_ray(tmp_path / "ray", settings)
    finally:
        unregister_baseline("mine")
    assert_same_run(tmp_path / "ray", found, tmp_path / "local", local)


def test_what_a_unit_raises_comes_out_as_it_is(tmp_path: Path, one_machine: None) -> None:
    with pytest.raises(UsageError, match="'no such model' is unknown"):
        on_ray(tmp_path, settings_of(models=("mean", "no such model"), seeds=(0,)))


def test_more_threads_than_a_node_has_are_refused(tmp_path: Path, one_machine: None) -> None:
    with pytest.raises(UsageError, match=r"and no node .* has more than 2 CPUs; use --threads 2"):
        on_ray(tmp_path, settings_of(models=("mean",), threads=3))


def test_other_code_on_a_node_is_refused(
    tmp_path: Path, one_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {**ray_tasks.surroundings(), "code": "0" * 64}
    monkeypatch.setattr("quantattn.walkforward.engines.ray_cluster.surroundings", lambda: there)
    with pytest.raises(ForecasterError, match="has other code of quantattn than the driver"):
        on_ray(tmp_path, settings_of(models=("mean",), seeds=(0,)))


def test_other_versions_and_processors(
    tmp_path: Path, one_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ray_tasks.surroundings()
    old = {**here, "versions": {**here["versions"], "torch": "1.0"}}
    monkeypatch.setattr("quantattn.walkforward.engines.ray_cluster.surroundings", lambda: old)
    with pytest.raises(ForecasterError, match=r"has torch .* and the driver 1\.0; install the same"):
        on_ray(tmp_path, settings_of(models=("mean",), seeds=(0,)))
    strange = {**here, "processor": "Abacus 3000"}
    monkeypatch.setattr("quantattn.walkforward.engines.ray_cluster.surroundings", lambda: strange)
    outcome = on_ray(tmp_path, settings_of(models=("mean",), seeds=(0,)))
    assert outcome.remarks
    assert all(f"was run on {here['processor']}, not Abacus 3000" in remark for remark in outcome.remarks)


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no Ray cluster at 'auto'.*start one with `ray start --head`"
    ):
        on_ray(tmp_path, settings_of(models=("mean",)), address="auto")
    assert not ray.is_initialized()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999999"])
def test_an_address_at_which_nobody_listens_is_refused_at_once(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match=f"nobody listens at the Ray address '{address}'"):
        on_ray(tmp_path, settings_of(models=("mean",)), address=address)


def test_without_an_address_ray_is_started_and_ended(tmp_path: Path) -> None:
    settings = settings_of(models=("linear",), seeds=(0,))
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    found = on_ray(tmp_path / "ray", settings)
    assert not ray.is_initialized()
    local = run_in(tmp_path / "local", settings, 1)
    assert_same_run(tmp_path / "ray", found, tmp_path / "local", local)
    left = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    assert [one for one in left if "ray" in " ".join(_command(one))] == []


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def test_two_nodes_of_which_one_is_killed(tmp_path: Path, cluster: Any) -> None:
    """Two nodes share a study; one dies in the middle, with what it had in hand, and nobody can tell."""
    settings = settings_of(models=("linear", "softmax", "mean"), seeds=(0, 1, 2))
    undisturbed = run_in(tmp_path / "local", settings, 1)
    stays, dies = (cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2))
    cluster.wait_for_nodes()
    out, used = tmp_path / "ray", set()

    def kill() -> None:
        while len(list(out.glob("folds/*/[!.]*/unit.json"))) < 3:
            time.sleep(0.01)
        # Both are at work by now.
        used.update(_busy(node) for node in (stays, dies))
        _end(dies)

    killer = threading.Thread(target=kill)
    killer.start()
    watcher = Watched()
    found = on_ray(out, settings, watcher, address=cluster.address)
    killer.join()
    assert used == {True}
    assert len([node for node in ray_nodes(cluster) if node["Alive"]]) == 2  # the head, and one
    assert any("was begun again: its node or its worker was lost" in remark for remark in found.remarks)
    assert_same_run(out, found, tmp_path / "local", undisturbed)
    assert watcher.steps == sum(unit_steps(unit, settings) for unit in plan_units(market().folds, settings))
    assert_frame_equal(
        on_ray(out, settings, address=cluster.address).forecasts, found.forecasts, check_exact=True
    )


def _raylet(node: Any) -> psutil.Process:
    (info,) = node.all_processes["raylet"]
    return psutil.Process(info.process.pid)


def _busy(node: Any) -> bool:
    """Say whether a node has a worker that does units."""
    return any("ray::" in " ".join(_command(child)) for child in _raylet(node).children(recursive=True))


def _end(node: Any) -> None:
    """Kill a node as a power cut does: everything at once."""
    raylet = _raylet(node)
    for process in [raylet, *raylet.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            process.kill()


def ray_nodes(cluster: Any) -> list[dict[str, Any]]:
    ray.init(address=cluster.address, log_to_driver=False, ignore_reinit_error=True)
    deadline = time.monotonic() + 60
    while True:  # the head learns of a death by a missing heartbeat
        nodes: list[dict[str, Any]] = ray.nodes()
        if sum(node["Alive"] for node in nodes) <= 2 or time.monotonic() > deadline:
            return nodes
        time.sleep(0.2)


@pytest.mark.skipif(os.name != "posix", reason="kills processes with signals")
def test_a_worker_process_that_is_killed(tmp_path: Path, one_machine: None) -> None:
    settings = settings_of(models=("linear", "softmax"), seeds=(0, 1))
    local = run_in(tmp_path / "local", settings, 1)
    out = tmp_path / "ray"

    def kill() -> None:
        while len(list(out.glob("folds/*/[!.]*/unit.json"))) < 2:
            time.sleep(0.01)
        for process in psutil.Process().children(recursive=True):
            if any(word.startswith("ray::do_unit") for word in _command(process)):
                process.kill()
                return

    killer = threading.Thread(target=kill)
    killer.start()
    found = on_ray(out, settings)
    killer.join()
    assert_same_run(out, found, tmp_path / "local", local)
