from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import quantattn
from quantattn.cli import app
from quantattn.errors import PriceDataError, SplitError
from quantattn.study import Study, load_study

HEAVY = ("torch", "numba", "pandas", "polars", "pyarrow", "sklearn", "scipy", "exchange_calendars")
_BEGIN = "import sys; sys.argv = ['quantattn', {word!r}]; from quantattn.cli import main; main()"


@dataclass
class FakeJob:
    """Stands in for the main job: keeps what it was asked and ends as it was told to."""

    failure: BaseException | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    def run_study(self, study: Study, *, out: Path, **options: Any) -> Any:
        self.calls.append({"study": study, "out": out, **options})
        if self.failure is not None:
            raise self.failure
        (out / "forecasts.parquet").write_bytes(b"rows")

        @dataclass(frozen=True)
        class Summary:
            report: Path = out / "report.html"
            headline: str = "Linear is not worse than softmax."
            findings: tuple[str, ...] = ("R² 0.5", "2.5 times faster", "5 checks pass")
            remarks: tuple[str, ...] = ()

        return Summary()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeJob:
    fake = FakeJob()
    module = ModuleType("quantattn.study.job")
    module.run_study = fake.run_study  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "quantattn.study.job", module)
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


Invoke = Callable[..., Result]


def _error(result: Result, code: int) -> str:
    """Give the one line of a failure, having seen that it is one line and nothing else."""
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    assert "Traceback" not in result.output
    assert not re.search("[╭╮╰╯│─]", result.stderr)
    return lines[0].removeprefix("Error: ")


class TestRun:
    def test_the_default_study_runs_in_a_new_folder_under_runs(
        self, job: FakeJob, invoke: Invoke, tmp_path: Path
    ) -> None:
        result = invoke("run")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        (call,) = job.calls
        assert call["study"].name == "realised_variance"
        assert (call["quick"], call["resume"]) == (False, False)
        assert re.fullmatch(r"realised_variance-\d{8}-\d{6}", call["out"].name)
        assert call["out"].parent == tmp_path / "runs"
        assert load_study(call["out"] / "study.yaml") == call["study"]
        assert result.stdout.splitlines()[-5:] == [
            f"Report: {call['out'] / 'report.html'}",
            "Linear is not worse than softmax.",
            "1. R² 0.5",
            "2. 2.5 times faster",
            "3. 5 checks pass",
        ]

    def test_quick_runs_the_reduced_study(self, job: FakeJob, invoke: Invoke) -> None:
        assert invoke("run", "returns", "--quick", "--out", "here").exit_code == 0
        (call,) = job.calls
        assert call["quick"] is True
        assert call["study"].name == "returns"
        assert call["study"].data.max_entities == 8
        assert call["command"] == "quantattn run returns --out here --quick"

    def test_a_seed_takes_the_place_of_the_studys(self, job: FakeJob, invoke: Invoke) -> None:
        assert invoke("run", "--seed", "11", "--out", "a b").exit_code == 0
        assert job.calls[0]["study"].seeds == (11,)
        assert job.calls[0]["command"] == "quantattn run --out 'a b' --seed 11"

    def test_a_study_file_runs(self, job: FakeJob, invoke: Invoke, tmp_path: Path) -> None:
        (tmp_path / "own.yaml").write_text("name: own\ndata: {prices: packaged:us_equities}\n")
        assert invoke("run", "own.yaml").exit_code == 0
        assert job.calls[0]["out"].name.startswith("own-")

    def test_resume_goes_on_in_the_newest_folder_of_that_study(self, job: FakeJob, invoke: Invoke) -> None:
        invoke("run", "--out", "runs/first")
        invoke("run", "--out", "runs/second")
        invoke("run", "returns", "--out", "runs/third")
        os.utime("runs/first/study.yaml", (1_800_000_000, 1_800_000_000))
        os.utime("runs/second/study.yaml", (1_700_000_000, 1_700_000_000))
        assert invoke("run", "--resume").exit_code == 0
        assert job.calls[-1]["out"].name == "first"
        assert job.calls[-1]["resume"] is True

    @pytest.mark.parametrize(
        ("words", "wanted"),
        [
            (["retuns"], "no study file or packaged study is called 'retuns' (did you mean 'returns'?)"),
            (["nothing.yaml"], "study file 'nothing.yaml' does not exist"),
            (
                ["bad.yaml"],
                "bad.yaml: training.epoch: there is no such key in training (did you mean 'epochs'?)",
            ),
            (["list.yaml"], "list.yaml: holds a list instead of named sections"),
            (["twice.yaml"], "twice.yaml, line 2, column 1: "),
            (["gone.yaml"], "data.prices.source: "),
            (["--resume"], "--resume: 'runs' holds no run of study 'realised_variance'"),
            (["--out", "full"], "full' is not a run folder; it holds notes.txt"),
            (["--out", "full", "--resume"], "full' is not a run folder; it holds notes.txt"),
            (
                ["--out", "nope", "--resume"],
                "nothing to resume in 'nope'; leave out --resume to begin",
            ),
            (
                ["--out", "empty", "--resume"],
                "nothing to resume in 'empty'; leave out --resume to begin",
            ),
            (["--out", "full/notes.txt"], "is a file, not a folder"),
            (["--out", "full/notes.txt/deeper"], "is a file, not a folder"),
            (["--out", "other"], "other' holds a run of another study: name is 'returns' there"),
            (["--out", "other", "--resume"], "other' holds a run of another study"),
            (
                ["returns", "--out", "other"],
                "other' already holds a run of this study; continue it with --resume",
            ),
            (["--seed", "-1"], "Invalid value for '--seed'"),
            (["--seed", "2147483648"], "Invalid value for '--seed'"),
            (["--seed", "x"], "Invalid value for '--seed'"),
            (["--outt", "x"], "No such option: --outt"),
            (["a", "b"], "unexpected extra argument"),
            (["--out"], "'--out' requires an argument"),
        ],
    )
    def test_a_wrong_request_is_one_line_and_nothing_is_touched(
        self, job: FakeJob, invoke: Invoke, tmp_path: Path, words: list[str], wanted: str
    ) -> None:
        (tmp_path / "bad.yaml").write_text(
            "name: a\ndata: {prices: packaged:us_equities}\ntraining: {epoch: 1}\n"
        )
        (tmp_path / "list.yaml").write_text("- a\n")
        (tmp_path / "twice.yaml").write_text("name: a\nname: b\n")
        (tmp_path / "gone.yaml").write_text("name: a\ndata: {prices: gone.csv}\n")
        (tmp_path / "empty").mkdir()
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes.txt").write_text("mine")
        assert invoke("run", "returns", "--out", "other").exit_code == 0
        job.calls.clear()
        before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
        assert wanted in _error(invoke("run", *words), 2)
        assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before
        assert job.calls == []

    @pytest.mark.parametrize(
        ("failure", "wanted"),
        [
            (PriceDataError("AAA lacks 2020-01-02; set gaps: drop"), "AAA lacks 2020-01-02; set gaps: drop"),
            (SplitError("10 forecast times, 416 needed"), "10 forecast times, 416 needed"),
            (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: {out}; free some space"),
            (
                OSError(errno.ENOSPC, "No space left on device", "/x/y"),
                "the disk is full: /x/y; free some space",
            ),
            (
                RuntimeError('IoError(Os { code: 28, kind: StorageFull, message: "No space" })'),
                "the disk is full",
            ),
            (PermissionError(errno.EACCES, "Permission denied", "/x/y"), "Permission denied: /x/y"),
            (MemoryError(), "out of memory; use fewer instruments"),
            (ValueError("odd\nthing"), "unexpected ValueError: odd thing; run again with --debug"),
            (AssertionError(), "unexpected AssertionError; run again with --debug"),
        ],
    )
    def test_a_failure_is_one_line_and_leaves_no_empty_run(
        self, job: FakeJob, invoke: Invoke, tmp_path: Path, failure: Exception, wanted: str
    ) -> None:
        job.failure = failure
        message = _error(invoke("run", "--out", "one"), 1)
        assert message.startswith(wanted.format(out=tmp_path / "one"))
        assert list(tmp_path.iterdir()) == []

    def test_debug_shows_the_traceback(self, job: FakeJob, invoke: Invoke) -> None:
        job.failure = ValueError("odd")
        result = invoke("run", "--debug")
        assert result.exit_code == 1
        assert "Traceback (most recent call last)" in result.stderr
        assert "in run_study" in result.stderr
        assert result.stderr.splitlines()[-1] == "Error: unexpected ValueError: odd; run again with --debug"

    def test_an_interrupted_run_says_how_to_go_on(self, job: FakeJob, invoke: Invoke, tmp_path: Path) -> None:
        invoke("run", "--out", "one")
        job.failure = KeyboardInterrupt()
        message = _error(invoke("run", "--out", "one", "--resume"), 130)
        assert message == "interrupted; continue with `quantattn run --out one --resume`"

    def test_an_interrupted_run_that_had_done_nothing_leaves_nothing(
        self, job: FakeJob, invoke: Invoke, tmp_path: Path
    ) -> None:
        job.failure = KeyboardInterrupt()
        assert _error(invoke("run"), 130) == "interrupted; nothing was written"
        assert list(tmp_path.iterdir()) == []


class TestOtherCommands:
    def test_version(self, invoke: Invoke) -> None:
        assert invoke("--version").stdout == f"quantattn {quantattn.__version__}\n"

    def test_studies_lists_them_with_the_default_marked(self, invoke: Invoke) -> None:
        lines = invoke("studies").stdout.splitlines()
        assert lines[0].startswith("realised_variance  ")
        assert lines[0].endswith("(default)")
        assert lines[1].startswith("returns ")

    @pytest.mark.parametrize("words", [[], ["--help"]])
    def test_help_names_every_command(self, invoke: Invoke, words: list[str]) -> None:
        result = invoke(*words)
        assert result.exit_code == 0
        assert all(name in result.stdout for name in ("run", "studies", "init", "report"))

    def test_an_unknown_command_gets_the_nearest(self, invoke: Invoke) -> None:
        message = _error(invoke("stuides"), 2)
        assert "No such command 'stuides'" in message
        assert "studies" in message

    def test_init_writes_a_file_that_loads(self, invoke: Invoke, tmp_path: Path) -> None:
        assert invoke("init").exit_code == 0
        (tmp_path / "prices.csv").write_text("date,entity,close\n2024-01-02,AAA,1.0\n")
        (tmp_path / "index.csv").write_text("date,close\n2024-01-02,1.0\n")
        (tmp_path / "events.csv").write_text("published_at,entity,headline\n2024-01-02T10:00:00,AAA,Up\n")
        assert load_study(tmp_path / "study.yaml").name == "my_study"

    def test_init_refuses_to_overwrite(self, invoke: Invoke, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text("precious")
        assert "overwrite it with --force" in _error(invoke("init"), 2)
        assert (tmp_path / "study.yaml").read_text() == "precious"
        assert invoke("init", "--force").exit_code == 0
        assert "my_study" in (tmp_path / "study.yaml").read_text()

    def test_init_into_a_folder_is_refused(self, invoke: Invoke, tmp_path: Path) -> None:
        assert "is a folder" in _error(invoke("init", tmp_path), 2)

    def test_init_to_standard_output_is_refused(self, invoke: Invoke, tmp_path: Path) -> None:
        assert "'-' is not the name of a file" in _error(invoke("init", "-"), 2)
        assert list(tmp_path.iterdir()) == []

    def test_help_promises_no_time(self, invoke: Invoke) -> None:
        shown = " ".join(re.sub("[│╭╮╰╯─]", " ", invoke("run", "--help").stdout).split())
        assert "a reduced study, for a first look" in shown
        assert "minute" not in shown

    def test_report_makes_the_page_again(
        self, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "study.yaml").write_text("name: a\n")
        module = ModuleType("quantattn.report")
        module.write_report = lambda run: run / "report.html"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "quantattn.report", module)
        result = invoke("report", "one")
        assert (result.exit_code, result.stdout) == (0, "Report: one/report.html\n")

    @pytest.mark.parametrize(("run", "wanted"), [("none", "does not exist"), (".", "has no study.yaml")])
    def test_report_of_no_run_is_refused(self, invoke: Invoke, run: str, wanted: str) -> None:
        assert wanted in _error(invoke("report", run), 2)


def _process(*words: str, cwd: Path, prelude: str = "", **environment: str) -> subprocess.Popen[str]:
    """Start the command in a process of its own, after some Python that prepares it."""
    script = f"import sys\nsys.argv = {['quantattn', *words]!r}\n{textwrap.dedent(prelude)}\n"
    script += "from quantattn.cli import main\nmain()\n"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=cwd,
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


_FAKE_JOB = """
    import types
    job = types.ModuleType("quantattn.study.job")
    def run_study(study, *, out, progress, **options):
        with progress.stage("Work"):
            {body}
        report = out / "report.html"
        return types.SimpleNamespace(report=report, headline="R² ≥ 0.5", findings=["β"], remarks=[])
    job.run_study = run_study
    sys.modules["quantattn.study.job"] = job
"""


class TestProcess:
    @pytest.mark.parametrize(
        ("words", "code", "wanted"),
        [
            (["run", "retuns"], 2, "did you mean 'returns'"),
            (["run", "--bogus"], 2, "No such option: --bogus"),
            (["nonsense"], 2, "No such command 'nonsense'"),
        ],
    )
    def test_exit_code_and_stderr(self, tmp_path: Path, words: list[str], code: int, wanted: str) -> None:
        process = _process(*words, cwd=tmp_path)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == code
        assert stdout == ""
        assert len(stderr.splitlines()) == 1
        assert wanted in stderr

    def test_progress_goes_to_stdout_in_plain_lines(self, tmp_path: Path) -> None:
        process = _process("run", "--out", "one", cwd=tmp_path, prelude=_FAKE_JOB.format(body="pass"))
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, "")
        assert stdout.splitlines()[0] == "Work ..."
        assert stdout.splitlines()[-3:] == [f"Report: {tmp_path / 'one' / 'report.html'}", "R² ≥ 0.5", "1. β"]

    def test_a_letter_that_the_output_cannot_hold_does_not_break_the_run(self, tmp_path: Path) -> None:
        process = _process(
            "run",
            "--out",
            "one",
            cwd=tmp_path,
            prelude=_FAKE_JOB.format(body="pass").replace("Work", "Wörk"),
            PYTHONIOENCODING="ascii",
        )
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, "")
        assert stdout.splitlines()[0] == "W?rk ..."

    def test_ctrl_c_ends_with_130_and_no_traceback(self, tmp_path: Path) -> None:
        body = '(out / "folds").mkdir(); import time; time.sleep(60)'
        process = _process("run", "--out", "one", cwd=tmp_path, prelude=_FAKE_JOB.format(body=body))
        deadline = time.monotonic() + 50
        while not (tmp_path / "one" / "folds").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 130
        assert stderr == "Error: interrupted; continue with `quantattn run --out one --resume`\n"
        assert "Work: stopped" in stdout

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
    def test_a_full_disk_is_one_line_that_names_the_folder(self, tmp_path: Path) -> None:
        body = 'open("/dev/full", "w").write("x" * 100_000)'
        process = _process("run", "--out", "one", cwd=tmp_path, prelude=_FAKE_JOB.format(body=body))
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert stderr == f"Error: the disk is full: {tmp_path / 'one'}; free some space, then run again\n"
        assert list(tmp_path.iterdir()) == []

    def test_a_reader_that_goes_away_is_no_traceback(self, tmp_path: Path) -> None:
        process = _process("studies", cwd=tmp_path)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        process.wait(timeout=60)

    @pytest.mark.parametrize(
        "script",
        [
            "import quantattn",
            "import quantattn.cli",
            "import quantattn.study",
            _BEGIN.format(word="--help"),
            _BEGIN.format(word="--version"),
            _BEGIN.format(word="studies"),
        ],
    )
    def test_nothing_heavy_is_loaded_before_it_is_needed(self, script: str) -> None:
        report = (
            "import atexit, json, sys\n"
            "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", report + script], capture_output=True, text=True, check=True, timeout=60
        )
        loaded = set(json.loads(done.stderr.splitlines()[-1]))
        assert "quantattn" in loaded
        assert loaded.isdisjoint(HEAVY)
        # Typer itself takes pydantic to read the values of options.
        assert "pydantic" not in loaded or "studies" in script or "--version" in script

    def test_python_dash_m_is_the_same_command(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "quantattn", "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout == f"quantattn {quantattn.__version__}\n"
