"""Workers and drivers that die: what is lost is done again, nothing is left running, bytes stay the same."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from quantattn.errors import ForecasterError
from quantattn.walkforward.engines import LocalEngine, Outcome, processes, run_folds
from quantattn.walkforward.engines.processes import sweep_unit
from quantattn.walkforward.units import Unit

from ..market import Watched, market, settings_of
from .test_local import assert_same_run, run_in

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes with signals")

ROOT = Path(__file__).parents[3]
LONG: dict[str, Any] = {"models": ("linear", "softmax", "mean"), "seeds": (0, 1)}
"""Some seconds of work for two workers."""


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Give the worker processes among a process's children; the resource tracker is none."""
    found = []
    for child in process.children():
        try:
            if "spawn_main" in " ".join(child.cmdline()) and "resource_tracker" not in " ".join(
                child.cmdline()
            ):
                found.append(child)
        except psutil.Error:  # it ended just now
            continue
    return found


def wait_for(done: Callable[[], Any], seconds: float = 240.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := done():
            return found
        time.sleep(0.005)
    raise AssertionError("nothing happened")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run of `LONG` that nobody disturbed; tests read it and leave it alone."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run_in(folder, settings_of(**LONG), 1)


@pytest.mark.slow
def test_a_unit_whose_worker_is_killed_is_done_again(tmp_path: Path, whole: tuple[Path, Outcome]) -> None:
    settings = settings_of(**LONG)
    out, killed = tmp_path / "run", []

    def kill() -> None:
        me = psutil.Process()
        for finished in (1, 5):  # two workers, at two moments
            wait_for(lambda least=finished: len(list(out.glob("folds/*/[!.]*/unit.json"))) >= least)
            victim = workers_of(me)[0]
            victim.kill()
            killed.append(victim.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = run_in(out, settings, 2)
    killer.join()
    assert len(killed) == 2
    assert 1 <= len(outcome.remarks) <= 2  # one may have been idle
    assert all(
        remark.endswith("was begun again: its worker was killed by SIGKILL") for remark in outcome.remarks
    )
    assert_same_run(out, outcome, *whole)
    assert workers_of(psutil.Process()) == []


@pytest.mark.slow
def test_a_unit_that_kills_every_worker_is_given_up(tmp_path: Path) -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set():
            for worker in workers_of(psutil.Process()):
                worker.kill()
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(
            ForecasterError, match=r"3 workers died at fold .*SIGKILL; if memory ran out, use fewer"
        ):
            run_in(tmp_path, settings_of(models=("mean",), seeds=(0,)), 2)
    finally:
        stop.set()
        killer.join()
    assert not list(tmp_path.glob(".*"))


def test_leftovers_of_one_unit_are_swept_and_others_stay(tmp_path: Path) -> None:
    fold = tmp_path / "folds" / "0"
    for name in (".linear-1.00aa.tmp", ".linear-11.00aa.tmp", "linear-1", ".softmax-1.00aa.tmp"):
        (fold / name).mkdir(parents=True)
    sweep_unit(Unit(0, "linear", 1), tmp_path)
    assert sorted(path.name for path in fold.iterdir()) == [
        ".linear-11.00aa.tmp",
        ".softmax-1.00aa.tmp",
        "linear-1",
    ]


_DRIVER = """
    import signal
    import sys
    from pathlib import Path

    # Whoever started the tests in the background of a script has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from quantattn.study.keeping import sweep
    from quantattn.walkforward.engines import LocalEngine, run_folds
    from tests.walkforward.market import Watched, market, settings_of

    if __name__ == "__main__":
        world, settings = market(), settings_of(models=("linear", "softmax", "mean"), seeds=(0, 1))
        sweep(Path(sys.argv[1]))
        outcome = run_folds(
            world.history, world.table, world.folds, settings, run=Path(sys.argv[1]), source="s" * 64,
            watcher=Watched(), engine=LocalEngine(int(sys.argv[2])),
        )
        print("done", len(outcome.reused))
"""


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a driver with two workers in a group of its own."""
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(_DRIVER))

    def start(out: Path, workers: int = 2) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), str(out), str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    return start


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["group", "driver"])
def test_ctrl_c_ends_driver_and_workers_and_leaves_no_half(
    tmp_path: Path, drive: Callable[..., subprocess.Popen[str]], whom: str
) -> None:
    out = tmp_path / "run"
    driver = drive(out)
    wait_for(lambda: list(out.glob("folds/*/[!.]*/unit.json")))
    workers = wait_for(lambda: workers_of(psutil.Process(driver.pid)))
    if whom == "group":  # as a terminal does
        os.killpg(driver.pid, signal.SIGINT)
    else:
        driver.send_signal(signal.SIGINT)
    _, stderr = driver.communicate(timeout=60)
    assert driver.returncode != 0
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    assert stderr.count("Traceback") == 1  # the driver's own; a worker says nothing
    wait_for(lambda: not alive(workers), 20)
    assert not list(out.rglob("*.tmp"))
    assert not list(out.glob(".*"))


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_worker(
    tmp_path: Path, drive: Callable[..., subprocess.Popen[str]]
) -> None:
    out = tmp_path / "run"
    driver = drive(out)
    wait_for(lambda: list(out.glob("folds/*/[!.]*/unit.json")))
    workers = wait_for(lambda: workers_of(psutil.Process(driver.pid)))
    driver.kill()
    driver.communicate()
    wait_for(lambda: not alive(workers), 20)
    again = drive(out)
    stdout, stderr = again.communicate(timeout=240)
    assert (again.returncode, stderr) == (0, "")
    assert int(stdout.split()[1]) >= 1


@pytest.mark.slow
def test_fifty_random_kills_and_the_same_bytes(
    tmp_path: Path, whole: tuple[Path, Outcome], drive: Callable[..., subprocess.Popen[str]]
) -> None:
    """Drivers and workers are killed at any instant, and damage is done; the run ends as if nothing was."""
    settings = settings_of(**LONG)
    chance, out = random.Random(5), tmp_path / "run"
    kills = damaged = 0
    while kills < 50:
        driver = drive(out)
        # Beginning takes seconds, work less: most kills shall come while there is work.
        begun = len(list(out.glob("folds/*/[!.]*/unit.json")))
        moment = chance.random()
        if moment < 0.7:
            wait_for(
                lambda driver=driver, begun=begun: (
                    driver.poll() is not None
                    or len(list(out.glob("folds/*/[!.]*/unit.json"))) > begun
                    or list(out.glob("folds/*/.*.tmp"))
                )
            )
            time.sleep(chance.uniform(0, 0.1))
        else:
            time.sleep(chance.uniform(0, 4))
        target: Any = driver
        if chance.random() < 0.2 and (workers := _workers(driver.pid)):
            target = chance.choice(workers)
        _kill(target)
        kills += 1
        if target is not driver:
            time.sleep(chance.uniform(0, 1))
            driver.kill()
        driver.communicate()
        if chance.random() < 0.4:
            damaged += damage(out, chance)
    last = drive(out)
    stdout, stderr = last.communicate(timeout=240)
    assert (last.returncode, stderr) == (0, "")
    assert stdout.startswith("done")
    assert damaged > 5
    outcome = run_in(out, settings, 1)
    assert outcome.redone == {}
    assert_same_run(out, outcome, *whole)


def _workers(pid: int) -> list[psutil.Process]:
    try:
        return workers_of(psutil.Process(pid))
    except psutil.Error:
        return []


def _kill(target: Any) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        target.kill()


def damage(out: Path, chance: random.Random) -> bool:
    """Leave a unit as another death, a full disk or a stranger could: cut, altered, emptied or another's.

    It may have been damaged before, where the last driver died too soon to notice.
    """
    units = sorted(path.parent for path in out.glob("folds/*/[!.]*/unit.json"))
    if not units:
        return False
    unit, other = chance.choice(units), chance.choice(units)
    file = chance.choice(sorted(unit.iterdir()))
    how = chance.randrange(5)
    if how == 0:
        os.truncate(file, chance.randrange(max(1, file.stat().st_size)))
    elif how == 1:
        content = bytearray(file.read_bytes() or b"x")
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
    elif how == 2:
        file.unlink()
    elif how == 3:
        (unit / "strange.bin").write_bytes(b"x")
    else:
        for name in {"forecasts.parquet", "log.json", "unit.json"} & {path.name for path in other.iterdir()}:
            (unit / name).write_bytes((other / name).read_bytes())
    return True


def test_the_words_for_a_death() -> None:
    assert processes._words(-9) == "was killed by SIGKILL"
    assert processes._words(-250) == "ended with exit code -250"
    assert processes._words(3) == "ended with exit code 3"


def test_workers_are_no_more_than_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(
        "quantattn.walkforward.engines.local.Pool",
        lambda orders, size, account: sizes.append(size) or _Nothing(),
    )
    world = market()
    settings = settings_of(models=("mean",), seeds=(0,))
    with pytest.raises(Exception, match="cannot be read"):
        run_folds(
            world.history,
            world.table,
            world.folds,
            settings,
            run=tmp_path,
            source="s",
            watcher=Watched(),
            engine=LocalEngine(64),
        )
    assert sizes == [3]


class _Nothing:
    def work_off(self, queue: object) -> None:
        pass
