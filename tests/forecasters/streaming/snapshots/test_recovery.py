"""Killed at any instant, a forecaster recovers from its last snapshot and the log, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.events.lines import event_line
from quantattn.forecasters.streaming.snapshots.snapshot import read_snapshot
from tests.forecasters.streaming.live_runs import fitted_forecaster, log_of, random_steps, run, state

from . import recovering

KILLS = 25  # of each attention
LIVES = 200  # at most, should kills come too late


class Lives:
    """Copies of the warm process, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        assert self._stdout.readline() == "ready\n"

    def _say(self) -> None:
        self._stdin.write("go\n")
        self._stdin.flush()

    def __call__(self, kill_after: float | None) -> int:
        """Let one live, and kill it after so many seconds; give its exit code."""
        self._say()
        child = int(self._stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)  # it is there, dead or alive, until it is taken away below
        assert self._stdout.readline() == "over\n"
        self._say()
        return int(self._stdout.readline())


@contextmanager
def warm_process(folder: Path) -> Iterator[Lives]:
    root = Path(__file__).parents[4]
    with subprocess.Popen(
        [sys.executable, "-m", recovering.__name__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    ) as process:
        try:
            yield Lives(process)
        finally:
            process.kill()


def said(folder: Path) -> list[str]:
    """What was forecast, by killed lives too; a line that a kill cut short is none."""
    text = (folder / recovering.SAID).read_text(encoding="utf-8")
    return [line for line in text.split("\n")[:-1] if line.endswith("}")]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "waitid"), reason="copies of a process need fork and waitid")
@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_killed_at_any_instant(tmp_path: Path, attention: Attention) -> None:
    fitted = fitted_forecaster(attention)
    fitted.save(tmp_path)
    steps = random_steps(120, seed=11, disorder=True)
    plain = [json.loads(event_line(step)) if isinstance(step, Event) else list(step) for step in steps]
    (tmp_path / recovering.STEPS).write_text(json.dumps(plain), encoding="utf-8")

    whole = recovering.forecaster_of(fitted)
    expected = []
    for step in steps:
        if isinstance(step, Event):
            whole.update(step)
        else:
            expected.append(recovering.line_of(whole.forecast(*step)))
    assert len(set(expected)) > 50 and any('"flag": "the drift' in line for line in expected)
    whole.save(tmp_path / "whole.safetensors")
    end = (tmp_path / "whole.safetensors").read_bytes()

    arrays, meta = read_snapshot(tmp_path / "whole.safetensors")

    def finished() -> None:
        found, told = read_snapshot(tmp_path / recovering.END)
        differing = [name for name, array in arrays.items() if found[name].tobytes() != array.tobytes()]
        assert (differing, told) == ([], meta)
        assert (tmp_path / recovering.END).read_bytes() == end
        # What a life forecasts again after a kill is what the killed one said.
        assert set(said(tmp_path)) == set(expected)

    def anew() -> None:
        for file in tmp_path.iterdir():
            if file.suffix == ".tmp" or file.name in (recovering.SNAPSHOT, recovering.END, recovering.SAID):
                file.unlink()

    generator = np.random.default_rng(0)
    kills = recovered = 0
    with warm_process(tmp_path) as live:
        began = time.perf_counter()
        assert live(None) == 0
        took = time.perf_counter() - began
        finished()
        assert said(tmp_path) == expected  # without a kill nothing is said twice
        anew()
        for _ in range(LIVES):
            recovered += (tmp_path / recovering.SNAPSHOT).exists()
            code = live(float(generator.uniform(0, 0.5 * took)))
            kills += code == -signal.SIGKILL
            if code != -signal.SIGKILL:
                assert code == 0
                finished()
                anew()
            if kills == KILLS:
                break
        assert live(None) == 0
        finished()
    assert kills == KILLS and recovered > KILLS // 4


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_replay_goes_on_where_the_snapshot_was_taken(tmp_path: Path, attention: Attention) -> None:
    """The whole log and the whole clock again: what was written and forecast before is passed over."""
    fitted = fitted_forecaster(attention)
    events = [step for step in random_steps(90, seed=12) if isinstance(step, Event)]
    log = log_of(events)
    first, last = events[0].available_at, events[-1].available_at
    times = [first + (last - first) * part // 20 + part % 2 for part in range(23)]
    entities = ["A", "B", "Zürich", "nobody"]
    whole = recovering.forecaster_of(fitted)
    table = whole.replay(log, times, entities=entities).drop("read_us", "update_us")
    for cut in range(0, len(times) + 1, 3):
        killed = recovering.forecaster_of(fitted)
        parts = []
        if cut:
            made = killed.replay(log, times[:cut], entities=entities, until=times[cut - 1])
            parts.append(made.drop("read_us", "update_us"))
        killed.save(tmp_path / "a")
        run(killed, [("A", last + 10**9)])  # which the snapshot does not know of
        after = recovering.forecaster_of(fitted)
        after.load(tmp_path / "a")
        parts.append(after.replay(log, times, entities=entities).drop("read_us", "update_us"))
        assert sum(part.height for part in parts) == table.height
        together = parts[0].vstack(parts[1]) if cut else parts[0]
        assert together.equals(table)
        assert state(after) == state(whole)
