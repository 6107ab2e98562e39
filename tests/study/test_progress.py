from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from quantattn.study import PlainProgress, Progress, SilentProgress, StageTiming, progress_for
from quantattn.study.bars import BarProgress
from quantattn.study.progress import spoken_seconds


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _plain() -> tuple[PlainProgress, io.StringIO, _Clock]:
    stream, clock = io.StringIO(), _Clock()
    return PlainProgress(stream, clock=clock, quiet=5.0), stream, clock


def test_a_stage_says_when_it_begins_and_ends() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Reading prices"):
        clock.now += 2.25
    assert stream.getvalue().splitlines() == ["Reading prices ...", "Reading prices: done in 2.2 s"]
    assert progress.timings == (StageTiming("Reading prices", 2.25),)


def test_steps_are_told_at_most_every_few_seconds_with_the_time_left() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Training", total=4) as stage:
        for _ in range(4):
            clock.now += 3.0
            stage.advance()
    assert stream.getvalue().splitlines() == [
        "Training ...",
        "Training: 2 of 4 (50%), 6.0 s, about 6.0 s left",
        "Training: 4 of 4 (100%), 12 s",
        "Training: done in 12 s",
    ]


def test_a_line_comes_exactly_when_the_quiet_time_is_over() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Work") as stage:
        clock.now += 4.75
        stage.advance()
        assert len(stream.getvalue().splitlines()) == 1
        clock.now += 0.25
        stage.advance()
        assert stream.getvalue().splitlines()[1:] == ["Work: 2 steps, 5.0 s"]


def test_a_thousand_fast_steps_say_nothing() -> None:
    progress, stream, _ = _plain()
    with progress.stage("Work", total=1000) as stage:
        for _ in range(1000):
            stage.advance()
    assert len(stream.getvalue().splitlines()) == 2


def test_more_steps_than_announced_promise_no_time() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Work", total=1) as stage:
        clock.now += 6.0
        stage.advance(3)
    assert stream.getvalue().splitlines()[1] == "Work: 3 of 1 (300%), 6.0 s"


def test_a_note_goes_with_the_next_line_and_the_last() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Training", total=2) as stage:
        stage.note("fold 0")
        clock.now += 10.0
        stage.note("fold 1\nlinear\x1b[31m")
    assert stream.getvalue().splitlines() == [
        "Training ...",
        "Training: 0 of 2 (0%), 10 s (fold 1 linear [31m)",
        "Training: done in 10 s (fold 1 linear [31m)",
    ]


def test_stages_within_stages_are_indented_and_timed() -> None:
    progress, stream, clock = _plain()
    with progress.stage("Folds"):
        with progress.stage("Fold 0"):
            clock.now += 1.0
        clock.now += 1.0
    assert stream.getvalue().splitlines() == [
        "Folds ...",
        "  Fold 0 ...",
        "  Fold 0: done in 1.0 s",
        "Folds: done in 2.0 s",
    ]
    assert progress.timings == (StageTiming("Fold 0", 1.0), StageTiming("Folds", 2.0))


def test_a_stage_that_fails_says_so_and_is_timed() -> None:
    progress, stream, clock = _plain()
    with pytest.raises(ValueError, match="no"), progress.stage("Reading"):
        clock.now += 1.0
        raise ValueError("no")
    assert stream.getvalue().splitlines()[-1] == "Reading: stopped in 1.0 s"
    assert progress.timings == (StageTiming("Reading", 1.0),)
    with progress.stage("Again"):
        pass
    assert stream.getvalue().splitlines()[-1].startswith("Again: done")


@pytest.mark.parametrize("make", [SilentProgress, lambda: BarProgress(_Terminal())])
def test_the_other_kinds_time_stages_too(make: Callable[[], Progress]) -> None:
    progress = make()
    with progress.stage("Outer", total=2) as outer:
        outer.advance()
        outer.note("half")
        with progress.stage("Inner") as inner:
            inner.advance(3)
    with pytest.raises(KeyError), progress.stage("Broken"):
        raise KeyError("x")
    assert [timing.stage for timing in progress.timings] == ["Inner", "Outer", "Broken"]
    assert all(timing.seconds >= 0 for timing in progress.timings)


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with SilentProgress().stage("Work", total=1) as stage:
        stage.advance()
        stage.note("x")
    assert capsys.readouterr() == ("", "")


def test_bars_show_name_count_and_note_and_take_no_orders_from_them() -> None:
    terminal = _Terminal()
    progress = BarProgress(terminal)
    with progress.stage("Training [red]x[/red]", total=2) as stage:
        stage.advance()
        stage.note("fold [bold]1")
        stage.advance()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "Training [red]x[/red]" in shown
    assert "2/2" in shown
    assert "fold [bold]1" in shown


def test_a_terminal_gets_bars_and_anything_else_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress_for(_Terminal()), BarProgress)
    assert isinstance(progress_for(io.StringIO()), PlainProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_for(_Terminal()), PlainProgress)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (10.0, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185.0, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (3725.0, "1 h 02 min"),
    ],
)
def test_seconds_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert spoken_seconds(seconds) == text
