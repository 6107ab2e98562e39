"""The main job through the command line: exit codes, one line of error, and processes that are killed."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from quantattn import files
from quantattn.cli import app
from quantattn.report.loading import load_run
from quantattn.study import provenance
from tests.study.small import (
    ALL_FILES,
    events_table,
    files_below,
    forecast_bytes,
    own_study,
    packaged_study,
    prices_table,
    write_own_files,
    write_study,
)

Invoke = Callable[..., Result]
CHEAP: dict[str, Any] = {"models": ["mean", "har"]}


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Give the command line, run inside this process in an empty folder and on one thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "available_cores", lambda: 1)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def _error(result: Result, code: int) -> str:
    """Give the one line of a failure, having seen that it is one line and nothing else."""
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    assert "Traceback" not in result.output
    return lines[0].removeprefix("Error: ")


class TestInProcess:
    def test_a_finished_run_ends_with_report_headline_and_three_findings(
        self, invoke: Invoke, tmp_path: Path
    ) -> None:
        study = write_study(packaged_study(**CHEAP), tmp_path / "tiny.yaml")
        result = invoke("run", study, "--out", "here")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        said = json.loads((tmp_path / "here" / "findings.json").read_text())
        assert result.stdout.splitlines()[-5:] == [
            f"Report: {tmp_path / 'here' / 'report.html'}",
            said["headline"],
            *(f"{number}. {finding}" for number, finding in enumerate(said["findings"], 1)),
        ]
        stages = [line.partition(":")[0] for line in result.stdout.splitlines() if ": done in " in line]
        assert stages == ["data", "train and forecast", "evaluate", "audit", "report"]
        manifest = json.loads((tmp_path / "here" / "manifest.json").read_text())
        assert manifest["command"] == f"quantattn run {study} --out here"
        again = invoke("report", "here")
        assert (again.exit_code, again.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("changes", "parts"),
        [
            (
                {"walk_forward": {"train_size": 500, "test_size": 10}},
                ["there are 81 forecast times", "needs 501"],
            ),
            ({"data": {"entities": ["AAPL", "JPN"]}}, ["'JPN'", "'JPM'", "no prices"]),
            ({"data": {"start": "2030-01-01"}}, ["no bars from 2030-01-01"]),
        ],
    )
    def test_what_cannot_be_carried_out_ends_with_1_and_leaves_nothing(
        self, invoke: Invoke, tmp_path: Path, changes: dict[str, Any], parts: list[str]
    ) -> None:
        study = write_study(packaged_study(**{**CHEAP, **changes}), tmp_path / "tiny.yaml")
        message = _error(invoke("run", study, "--out", "here"), 1)
        for part in parts:
            assert part in message
        assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.yaml"]

    def test_own_files_that_do_not_fit_together_end_with_1(self, invoke: Invoke, tmp_path: Path) -> None:
        gap = (pl.col("entity") == "BEE") & (pl.col("date") == date(2021, 9, 1))
        stranger = pl.concat([events_table(), events_table().head(2).with_columns(ticker=pl.lit("COW"))])
        study = write_study(own_study(write_own_files(tmp_path), **CHEAP), tmp_path / "own.yaml")
        write_own_files(tmp_path, prices=prices_table().filter(~gap))
        assert "2021-09-01" in _error(invoke("run", study, "--out", "here"), 1)
        write_own_files(tmp_path, events=stranger)
        assert "'COW'" in _error(invoke("run", study, "--out", "here"), 1)
        write_own_files(tmp_path, events=events_table().with_columns(published=pl.lit("soon")))
        assert "events.csv" in _error(invoke("run", study, "--out", "here"), 1)
        assert not (tmp_path / "here").exists()

    def test_a_wrong_request_ends_with_2(self, invoke: Invoke, tmp_path: Path) -> None:
        write_own_files(tmp_path)
        study = write_study(own_study(tmp_path, **CHEAP), tmp_path / "own.yaml")
        (tmp_path / "prices.csv").unlink()
        assert "prices.csv" in _error(invoke("run", study), 2)
        text = write_study(packaged_study(**CHEAP), tmp_path / "tiny.yaml").read_text()
        (tmp_path / "tiny.yaml").write_text(text.replace("- har", "- hra"))
        assert "hra" in _error(invoke("run", tmp_path / "tiny.yaml"), 2)
        # Its bars are no part of the information that HAR would be compared on.
        (tmp_path / "tiny.yaml").write_text(text.replace("scope: entity+market", "scope: market"))
        assert "['har']" in _error(invoke("run", tmp_path / "tiny.yaml"), 2)
        assert not (tmp_path / "runs").exists()

    def test_the_folder_of_another_study_is_left_alone(self, invoke: Invoke, tmp_path: Path) -> None:
        study = write_study(packaged_study(**CHEAP), tmp_path / "tiny.yaml")
        other = write_study(packaged_study(models=["mean"]), tmp_path / "other.yaml")
        assert invoke("run", study, "--out", "here").exit_code == 0
        before = {name: files.hash_file(tmp_path / "here" / name) for name in files_below(tmp_path / "here")}
        assert "another study" in _error(invoke("run", other, "--out", "here", "--resume"), 2)
        assert "--resume" in _error(invoke("run", study, "--out", "here"), 2)
        after = {name: files.hash_file(tmp_path / "here" / name) for name in files_below(tmp_path / "here")}
        assert after == before

    def test_a_full_disk_ends_with_1_and_says_how_to_go_on(
        self, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = write_study(packaged_study(**CHEAP), tmp_path / "tiny.yaml")
        write, tables = Path.write_bytes, 0

        def sometimes(self: Path, data: bytes) -> int:
            nonlocal tables
            tables += self.name == "forecasts.parquet"
            if tables == 3:
                write(self, data[:100])
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, data)

        monkeypatch.setattr(Path, "write_bytes", sometimes)
        message = _error(invoke("run", study, "--out", "here"), 1)
        assert message == f"the disk is full: {tmp_path / 'here'}; free some space, then add --resume"
        monkeypatch.setattr(Path, "write_bytes", write)
        left = files_below(tmp_path / "here")
        assert not [name for name in left if name.endswith(".tmp")]
        assert {name for name in left if name.endswith("unit.json")} == {
            "folds/0/mean-0/unit.json",
            "folds/0/har-0/unit.json",
        }
        result = invoke("run", study, "--out", "here", "--resume")
        assert result.exit_code == 0, result.output
        assert "2 pieces of work used again" in result.stdout


def _core() -> int:
    """Give the core of this worker of pytest: tests that run side by side leave each other alone."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(cores)]


def _start(study: Path, out: Path, *words: str) -> subprocess.Popen[str]:
    core = _core()
    return subprocess.Popen(
        [sys.executable, "-m", "quantattn", "run", str(study), "--out", str(out), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # One core: the tests leave the others to whoever needs them, and threads are part of the bytes.
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def _finish(study: Path, out: Path, *words: str) -> str:
    process = _start(study, out, *words)
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    assert stderr == ""
    return stdout


def _wait_for(done: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait until something is there; False if the process ended first."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        if done():
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    raise AssertionError("nothing happened for a quarter of an hour")


real_processes = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="needs to bind a process to a core"
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed; tests read it and leave it alone."""
    folder = tmp_path_factory.mktemp("whole")
    _finish(write_study(packaged_study(), folder / "tiny.yaml"), folder / "run")
    return folder / "run"


@pytest.mark.slow
@real_processes
class TestKilled:
    @pytest.mark.parametrize("how", [(), ("--workers", "2")], ids=["one process", "two workers"])
    def test_killed_again_and_again_and_resumed_it_ends_with_the_same_forecasts(
        self, tmp_path: Path, whole: Path, how: tuple[str, ...]
    ) -> None:
        study = write_study(packaged_study(), tmp_path / "tiny.yaml")
        out, chance = tmp_path / "killed", random.Random(20240229)

        def units() -> int:
            return len(list(out.glob("folds/*/[!.]*/unit.json")))

        def written(name: str) -> tuple[int, int]:
            stat = (out / name).stat() if (out / name).exists() else None
            return (0, 0) if stat is None else (stat.st_ino, stat.st_mtime_ns)

        def after(look: Callable[[], Any]) -> Callable[[], bool]:
            before = look()
            return lambda: bool(look() != before)

        # What is waited for, and up to how many seconds after it the process is killed.
        moments: list[tuple[Callable[[], Any], float]] = [
            (lambda: written("study.yaml"), 2.0),
            (units, 0.2),
            (lambda: sorted(out.glob("folds/*/.*.tmp")), 0.0),
            (units, 0.05),
            (lambda: sorted(out.glob("folds/1/.*.tmp")), 0.005),
            (lambda: written("forecasts.parquet"), 0.3),
            (lambda: written("latency.json"), 0.5),
            (lambda: written("audit.json"), 0.05),
        ]
        kills = 0
        for number, (look, spread) in enumerate(moments):
            come = after(look)
            process = _start(study, out, *how, *(["--resume"] if (out / "study.yaml").exists() else []))
            if _wait_for(come, process):
                time.sleep(chance.uniform(0, spread))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
            for result in out.glob("*.json"):
                json.loads(result.read_text())  # whole or not there
            for table in out.glob("folds/*/[!.]*/forecasts.parquet"):
                assert pl.read_parquet(table).height > 0
            if number in (3, len(moments) - 1):
                self._break(out)
        assert kills >= 5
        said = _finish(study, out, "--resume", *how)
        assert "used again" in said
        assert "done again" in said
        assert forecast_bytes(out) == forecast_bytes(whole)
        assert files_below(out) == files_below(whole)
        for weights in whole.glob("folds/*/*/weights.safetensors"):
            assert (out / weights.relative_to(whole)).read_bytes() == weights.read_bytes()
        assert load_run(out).audit.verdict == "PASS"

    @staticmethod
    def _break(out: Path) -> None:
        """Leave what other deaths could have left: leftovers, half a unit, half a table."""
        (out / "folds" / "0" / ".softmax-0.feedfeedfeedfeed.tmp").mkdir(parents=True, exist_ok=True)
        (out / "folds" / "0" / ".softmax-0.feedfeedfeedfeed.tmp" / "weights.safetensors").write_bytes(b"\0")
        (out / ".audit.json.feedfeedfeedfeed.tmp").write_text('{"verdict": "PASS"')
        (out / "forecasts.parquet").write_bytes(b"PAR1")
        for unit in sorted(out.glob("folds/0/*-0"))[:1]:
            (unit / "unit.json").unlink(missing_ok=True)

    @pytest.mark.parametrize("how", [(), ("--workers", "2")], ids=["one process", "two workers"])
    def test_interrupted_it_says_how_to_go_on(self, tmp_path: Path, how: tuple[str, ...]) -> None:
        study = write_study(packaged_study(), tmp_path / "tiny.yaml")
        out = tmp_path / "run"
        process = _start(study, out, *how)
        assert _wait_for(lambda: bool(list(out.glob("folds/*/[!.]*/unit.json"))), process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=900)
        assert process.returncode == 130
        assert re.fullmatch(
            rf"Error: interrupted; continue with `quantattn run .*{' '.join(how)} --resume`\n", stderr
        ), stderr
        assert not list(out.rglob("*.tmp"))
        assert "used again" in _finish(study, out, "--resume")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Give file systems of so many kibibytes, where the machine lets us mount them."""
    mounted: list[Path] = []

    def mount(kibibytes: int) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)], capture_output=True
        )
        if done.returncode != 0:
            pytest.skip("this user may not mount a small file system")
        mounted.append(place)
        return place

    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@real_processes
class TestSmallDisk:
    @pytest.mark.parametrize("kibibytes", [4, 120, 260])
    def test_a_disk_that_is_really_full(
        self, tmp_path: Path, small_disk: Callable[[int], Path], kibibytes: int
    ) -> None:
        disk = small_disk(kibibytes)
        study = write_study(packaged_study(), tmp_path / "tiny.yaml")
        out = disk / "run"
        process = _start(study, out)
        _, stderr = process.communicate(timeout=900)
        assert process.returncode == 1, stderr
        assert re.fullmatch(
            r"Error: the disk is full(: \S+)?; free some space, then (add --resume|run again)\n", stderr
        ), stderr
        if out.exists():
            left = files_below(out)
            assert not [name for name in left if name.endswith(".tmp")]
            units = {Path(name).parent for name in left if name.startswith("folds/")}
            assert all(str(unit / "unit.json") in left for unit in units)
            for name in left:
                if name.endswith(".json"):
                    json.loads((out / name).read_text())
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        _finish(study, out, "--resume")
        assert files_below(out) >= ALL_FILES


@pytest.mark.slow
@real_processes
def test_the_quick_default_runs_from_any_folder(tmp_path: Path) -> None:
    """The first command of a new user, without a study file."""
    done = subprocess.run(
        [sys.executable, "-m", "quantattn", "run", "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (out,) = (tmp_path / "runs").iterdir()
    assert load_run(out).audit.verdict == "PASS"
    assert files_below(out) >= ALL_FILES
    assert f"Report: {out / 'report.html'}" in done.stdout
