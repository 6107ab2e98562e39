"""``quantattn replay`` as a command: in a pipe, ended by a reader, by Ctrl-C, by a signal, by death."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quantattn.cli import app
from tests.study.replay.streams import FRIDAYS, lines_of, log_of, make_run, replayed
from tests.study.small import TIMINGS

posix = pytest.mark.skipif(os.name != "posix", reason="needs the signals and pipes of POSIX")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("replay command") / "run")


@pytest.fixture(scope="module")
def log(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines_of(log_of(run_folder))))
    return path


@pytest.fixture(scope="module")
def whole(run_folder: Path) -> list[dict[str, Any]]:
    return replayed(run_folder).untimed


def untimed(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMINGS} for line in lines]


def start(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "quantattn", "replay", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Read on behind what was read by lines, which ``communicate`` would leave out."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = process.stdout.read(), process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    process.wait(timeout=60)
    if process.stdin is not None:
        process.stdin.close()
    return said


class TestInProcess:
    def test_forecasts_alone_are_on_standard_output(
        self, run_folder: Path, whole: list[dict[str, Any]]
    ) -> None:
        done = CliRunner().invoke(app, ["replay", str(run_folder)])
        assert done.exit_code == 0, done.output
        assert untimed(done.stdout) == whole
        assert done.stdout.isascii()
        notes = done.stderr.splitlines()
        assert all(note.startswith("Note: ") for note in notes)
        assert notes[-1] == "Note: 1,317 events, 54 forecasts"

    def test_standard_input_is_a_log(self, run_folder: Path, log: Path, whole: list[dict[str, Any]]) -> None:
        done = CliRunner().invoke(app, ["replay", str(run_folder), "-"], input=log.read_bytes())
        assert (done.exit_code, untimed(done.stdout)) == (0, whole)

    def test_options_go_where_they_belong(
        self, run_folder: Path, log: Path, whole: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        words = ["--model", "linear", "--fold", "1", "--seed", "0", "--from", FRIDAYS[1], "--to", FRIDAYS[2]]
        words += ["--speed", "1e9", "--entities", "XOM", "--late", "refuse"]
        words += ["--snapshot", str(tmp_path / "state"), "--snapshot-every", "100"]
        done = CliRunner().invoke(app, ["replay", str(run_folder), str(log), *words])
        assert done.exit_code == 0, done.output
        assert untimed(done.stdout) == [line for line in whole[3:9] if line["entity"] == "XOM"]
        assert (tmp_path / "state").is_file()

    def test_the_history_comes_first_if_it_is_asked_for(
        self, run_folder: Path, log: Path, whole: list[dict[str, Any]]
    ) -> None:
        said = b"".join(log.read_bytes().splitlines(keepends=True)[-1:])
        when = json.loads(said)["available_at"]
        ask = json.dumps({"forecast": "JPM", "at": "2023-01-02T00:00:00Z"}).encode()
        words = ["replay", str(run_folder), "-", "--entities", "JPM"]
        counts = []
        for more in ([], ["--with-history"]):
            done = CliRunner().invoke(app, [*words, *more], input=said + ask)
            assert done.exit_code == 0, done.output
            *_, line = untimed(done.stdout)
            assert line["asked"] is True
            assert ("the memories begin empty" in done.stderr) != bool(more)
            counts.append(line["n_visible"])
        assert when < "2023"
        assert counts[0] <= 1 < whole[-1]["n_visible"] // 2 < counts[1]

    def test_an_error_is_one_line_behind_the_forecasts(
        self, run_folder: Path, log: Path, whole: list[dict[str, Any]]
    ) -> None:
        lines = log.read_bytes().splitlines(keepends=True)
        bad = b'{"event_id": "x", "text": "\\u001b[2J"}\n'
        done = CliRunner().invoke(app, ["replay", str(run_folder), "-"], input=b"".join([*lines[:1250], bad]))
        assert done.exit_code == 1
        assert untimed(done.stdout) == whole[: len(done.stdout.splitlines())]
        *notes, error = done.stderr.splitlines()
        assert error == "Error: standard input, line 1,251: key 'available_at' is missing; add it"
        assert all(note.startswith("Note: ") for note in notes)

    def test_a_message_of_what_a_feed_holds_cannot_command_a_terminal(self, run_folder: Path) -> None:
        fields = {"event_id": "\x1b[2J", "entity": "\u202eJPM", "kind": "\x9b", "features": {"\x1b[1m": 1.0}}
        fields |= {"event_time": FRIDAYS[1], "available_at": FRIDAYS[1]}
        ask = {"forecast": "\x1b]0;", "at": FRIDAYS[2]}
        plain = {**fields, "features": {}}
        said = "".join(f"{json.dumps(line)}\n" for line in (plain, ask, fields)).encode()
        done = CliRunner().invoke(app, ["replay", str(run_folder), "-"], input=said)
        assert done.exit_code == 1
        assert len(done.stdout.splitlines()) == 4
        assert all(letter.isprintable() for letter in (done.stdout + done.stderr).replace("\n", ""))

    @pytest.mark.parametrize(
        ("words", "wanted"),
        [
            (["nowhere"], "run folder 'nowhere' does not exist"),
            (["."], "has no study.yaml"),
            (
                ["RUN", "--from", "soon"],
                "--from 'soon' is not an instant in ISO 8601; write for example 2022-06-01 or",
            ),
            (["RUN", "none.jsonl"], "cannot be read"),
            (["RUN", "--speed", "warp"], "speed 'warp' is unknown"),
            (["RUN", "--snapshot-every", "0"], "Invalid value for '--snapshot-every'"),
            (["RUN", "--fold", "9"], "no network of fold 9"),
        ],
    )
    def test_a_wrong_request_is_one_line(
        self, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], wanted: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(
            app, ["replay", *(str(run_folder) if word == "RUN" else word for word in words)]
        )
        assert done.exit_code == 2
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert wanted in line

    def test_the_handlers_of_signals_are_those_of_before(self, run_folder: Path) -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        CliRunner().invoke(app, ["replay", str(run_folder), "--to", FRIDAYS[0]])
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.slow
@posix
class TestProcess:
    def test_a_reader_that_goes_away_ends_it_quietly(
        self, run_folder: Path, log: Path, tmp_path: Path
    ) -> None:
        process = start(run_folder, log, "--snapshot", tmp_path / "state", "--speed", "20000000")
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["entity"] == "AAPL"
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == 141
        assert [line for line in said.splitlines() if not line.startswith("Note: ")] == []
        assert (tmp_path / "state").is_file()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("waiting", ["for a line", "for the clock"])
    def test_told_to_end_it_leaves_a_snapshot_to_go_on_from(
        self,
        run_folder: Path,
        log: Path,
        whole: list[dict[str, Any]],
        tmp_path: Path,
        number: signal.Signals,
        waiting: str,
    ) -> None:
        kept = tmp_path / "state"
        source = "-" if waiting == "for a line" else log
        more = [] if waiting == "for a line" else ["--speed", "real"]
        process = start(run_folder, source, "--snapshot", kept, *more, stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        if waiting == "for a line":
            process.stdin.write("".join(log.read_text().splitlines(keepends=True)[:1200]))
            process.stdin.flush()
        first = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        rest, said = finish(process)
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == (
            f"Error: interrupted; {str(kept)!r} holds the state, and the same command goes on behind it"
        )
        begun = "".join(first) + rest
        assert begun.endswith("\n")
        done = start(run_folder, log, "--snapshot", kept)
        gone_on, said = done.communicate(timeout=60)
        assert done.returncode == 0, said
        assert untimed(begun) + untimed(gone_on) == whole
        assert 0 < len(untimed(begun)) < len(whole)

    def test_told_twice_it_leaves_a_reader_that_does_not_read(
        self, run_folder: Path, whole: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        fcntl = pytest.importorskip("fcntl")
        if not hasattr(fcntl, "F_SETPIPE_SZ"):
            pytest.skip("pipes of this system cannot be made small")
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        kept = tmp_path / "state"
        process = subprocess.Popen(
            [sys.executable, "-m", "quantattn", "replay", str(run_folder), "--snapshot", str(kept)],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(writing)
        assert process.stderr is not None
        assert "forecasts of 3 entities" in process.stderr.readline()
        time.sleep(2)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(1)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 130
        assert said.splitlines()[-1].startswith("Error: interrupted")
        with os.fdopen(reading) as stream:
            begun = stream.read()
        done = start(run_folder, "--snapshot", kept)
        gone_on, said = done.communicate(timeout=60)
        assert done.returncode == 0, said
        # What was being written when nobody read is written again, whole.
        again = untimed(gone_on)
        before = untimed("".join(line for line in begun.splitlines(keepends=True) if line.endswith("\n")))
        assert again == whole[len(whole) - len(again) :]
        assert before == whole[: len(before)]
        assert len(before) + len(again) >= len(whole) > len(again)

    def test_killed_again_and_again_it_goes_on_from_its_last_snapshot(
        self, run_folder: Path, log: Path, whole: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        chance, kept, found = random.Random(20240229), tmp_path / "state", []
        lines = log.read_text().splitlines(keepends=True)
        for begun in range(1120, 1240, 40):  # each time there are forecasts behind the last snapshot
            process = start(
                run_folder, "-", "--snapshot", kept, "--snapshot-every", "37", stdin=subprocess.PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("".join(lines[: begun + chance.randrange(8)]))
            process.stdin.flush()
            found.append(process.stdout.readline())
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
            rest, _ = finish(process)
            found.append("".join(line for line in rest.splitlines(keepends=True) if line.endswith("\n")))
            kept_by_now = [file.name for file in tmp_path.iterdir() if not file.name.endswith(".tmp")]
            assert kept_by_now in ([], ["state"])
        process = start(run_folder, log, "--snapshot", kept)
        last, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        found.append(last)
        # Lines since the snapshot are written again, and are the same.
        key = {(line["forecast_time"], line["entity"]): line for line in whole}
        made = [line for part in found for line in untimed(part)]
        assert all(line == key[line["forecast_time"], line["entity"]] for line in made)
        assert {(line["forecast_time"], line["entity"]) for line in made} == set(key)
        assert len(untimed(last)) < len(whole)

    def test_it_is_a_part_of_a_pipe(self, run_folder: Path, log: Path, whole: list[dict[str, Any]]) -> None:
        command = (
            f"cat '{log}' | '{sys.executable}' -m quantattn replay '{run_folder}' - 2>/dev/null | tail -n 2"
        )
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        assert untimed(done.stdout) == whole[-2:]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_told_to_end_while_it_loads_or_winds_up_it_says_so(
        self, run_folder: Path, number: signal.Signals
    ) -> None:
        # Whatever is being loaded when it comes, the exit code is ours and not a death by the signal.
        seen = set()
        for place in range(8):
            process = start(run_folder, "--to", FRIDAYS[0])
            time.sleep(0.6 + place * 0.2)
            process.send_signal(number)
            _, said = finish(process)
            seen.add(process.returncode)
            assert process.returncode in (0, 130), said
            assert "Traceback" not in said
        assert 130 in seen

    def test_a_full_disk_is_one_line(self, run_folder: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("needs a device that is always full")
        with Path("/dev/full").open("w") as full:
            process = subprocess.Popen(
                [sys.executable, "-m", "quantattn", "replay", str(run_folder)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
            _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert said.splitlines()[-1] == "Error: the disk is full; free some space, then run again"
