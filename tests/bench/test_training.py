"""The training benchmark as a whole, with every clock and process replaced; one real step of each kind."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from quantattn.bench import bench_training, training_text
from quantattn.bench import training as module
from quantattn.bench.timing import Timing
from quantattn.bench.training_child import ChildRun, main, peak_bytes, run_child
from quantattn.bench.training_results import SEQUENCES, speed_of
from quantattn.bench.training_steps import random_sequence, training_call, windows
from quantattn.cli import app
from quantattn.errors import QuantAttnError


def timing(milliseconds: float) -> Timing:
    """Quartiles a tenth off, the fastest call a fifth."""
    return Timing(
        milliseconds, 0.9 * milliseconds, 1.1 * milliseconds, 0.8 * milliseconds, 1.5 * milliseconds, 7
    )


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Linear takes a millisecond per 1024 tokens; softmax ten, squared in that; a step of windows 160."""
    given = SimpleNamespace(tokens=[], children=[], factor=1.0)

    def call(attention: str, width: int, sequences: list[Any]) -> Any:
        tokens = sum(len(own.events) + len(own.queries) for own in sequences)
        return SimpleNamespace(attention=attention, tokens=tokens, windows=len(sequences) > 1)

    def turns(calls: dict[str, Any], **options: Any) -> dict[str, Timing]:
        found = {}
        for name, step in calls.items():
            k = step.tokens / 1024
            took = 160.0 if step.windows else k * given.factor if step.attention == "linear" else 10 * k * k
            found[name] = timing(took)
            given.tokens.append((name, step.tokens))
        return found

    def child(attention: str, width: int, tokens: int, threads: int) -> ChildRun:
        given.children.append((attention, width, tokens))
        return ChildRun(1e-2 * (tokens / 1024) ** 2, tokens * 2**14, 2**28)

    monkeypatch.setattr(module, "training_call", call)
    monkeypatch.setattr(module, "take_turns", turns)
    monkeypatch.setattr(module, "run_child", child)
    return given


def test_figures(clocks: Any) -> None:
    found = bench_training(threads=1)
    assert [(point.width, point.tokens) for point in found.points] == [
        (width, tokens) for width in (32, 64) for tokens in (1024, 4096, 16384, 65536)
    ]
    short, long = found.points[0], found.points[2]
    assert short.linear.tokens_per_second == pytest.approx(1024 / 1e-3)
    assert short.linear.seconds_per_epoch == pytest.approx(0.01)
    assert short.times_twin.ratio == pytest.approx(10.0)
    assert (long.times_twin.ratio, long.times_twin.low) == pytest.approx((160.0, 160 * 0.9 / 1.1))
    # Shorter than a window: there is nothing to compare.
    assert short.times_windows is None
    # 160 ms for 16 windows are 10 ms a forecast; 3276 forecasts against 16 ms.
    assert long.forecasts == 3276
    assert found.windows[32].milliseconds_per_forecast == pytest.approx(10.0)
    assert long.times_windows is not None
    assert long.times_windows.ratio == pytest.approx(3276 * 10 / 16)
    assert {(g.width, g.attention): g.exponent for g in found.growth} == pytest.approx(
        {(32, "linear"): 1.0, (32, "softmax"): 2.0, (64, "linear"): 1.0, (64, "softmax"): 2.0}
    )


def test_the_twin_takes_one_step_at_the_longest(clocks: Any) -> None:
    found = bench_training()
    assert not [name for name, tokens in clocks.tokens if name == "softmax" and tokens == 65536]
    last = found.points[3]
    assert (last.softmax.step.calls, last.softmax.step.milliseconds) == (1, pytest.approx(10 * 64 * 64))
    assert math.isnan(last.softmax.step.cpu_milliseconds)
    # Memory at width 64 measures its time along; width 32 needs a process of its own.
    assert clocks.children.count(("softmax", 64, 65536)) == 1
    assert clocks.children.count(("softmax", 32, 65536)) == 1
    assert "A single call: one step in a process of its own" in training_text(found)


def test_verdicts(clocks: Any) -> None:
    found = bench_training()
    names = [target.name for target in found.targets]
    assert len(names) == len(set(names)) == 4 + 2 + 2 + 1
    assert all(target.reached for target in found.targets)
    printed = training_text(found)
    assert "times the softmax twin at 4096, width 32: 40" in printed
    assert "(aimed at: at least 3): reached" in printed
    assert (
        "peak memory in GiB of the linear forecaster at 65536, width 64: 1 (aimed at: at most 4)" in printed
    )
    clocks.factor = 200.0
    late = training_text(bench_training())
    assert "times the softmax twin at 16384, width 64: 0.8" in late
    assert "(aimed at: at least 12): missed" in late
    assert "times a window for each forecast, width 32: 10.2" in late
    assert "(aimed at: at least 20): missed" in late


def test_a_quick_run(clocks: Any) -> None:
    found = bench_training(quick=True)
    assert [(point.width, point.tokens) for point in found.points] == [(32, 1024), (32, 4096)]
    assert clocks.children == [("linear", 32, 4096)]
    assert found.targets == ()
    printed = training_text(found)
    assert "No verdicts" in printed
    assert "aimed at" not in printed
    # The slope of two points has no error.
    assert "standard error" not in printed


def figures(said: object, name: str = "") -> Iterator[str]:
    """Give the names of all numbers of a JSON."""
    if isinstance(said, dict):
        for key, value in said.items():
            yield from figures(value, key)
    elif isinstance(said, list):
        for value in said:
            yield from figures(value, name)
    elif isinstance(said, float | int) and not isinstance(said, bool):
        yield name


@pytest.mark.parametrize("quick", [True, False])
def test_the_json_says_the_unit_of_every_figure(clocks: Any, quick: bool) -> None:
    text = json.dumps(bench_training(quick=quick).to_dict())
    assert "NaN" not in text
    said = json.loads(text)
    known = {name for names in said["units"] for name in names.split(", ")}
    assert set(figures({**said, "machine": {}})) - known == {"threads"}


def test_the_command(clocks: Any) -> None:
    runner = CliRunner()
    plain = runner.invoke(app, ["bench", "training", "--quick", "--threads", "2"])
    assert plain.exit_code == 0, plain.output
    assert "2 threads;" in plain.output
    assert "x twin" in plain.output
    found = json.loads(runner.invoke(app, ["bench", "training", "--quick", "--json"]).output)
    assert found["points"][0]["linear"]["step"]["calls"] == 7
    assert found["quick"] is True
    assert runner.invoke(app, ["bench", "training", "--threads", "0"]).exit_code == 2


def test_speed() -> None:
    speed = speed_of(timing(50.0), 1000)
    assert (speed.tokens_per_second, speed.seconds_per_epoch) == (20_000.0, 0.05 * SEQUENCES)


def test_a_sequence_is_what_is_said() -> None:
    sequence = random_sequence(1003)
    assert (len(sequence.events), len(sequence.queries)) == (803, 200)
    counts = [int(np.sum(sequence.event_times < at)) for at in sequence.query_times]
    assert counts == sequence.counts.tolist() == [4 * k for k in range(1, 201)]


def test_windows_hold_the_last_events_of_each_forecast() -> None:
    sequence = random_sequence(500)
    made = windows(sequence, 100, 3)
    assert [len(own.events) for own in made] == [100] * 3
    for own, place in zip(made, (97, 98, 99), strict=True):
        stop = int(sequence.counts[place])
        assert np.array_equal(own.events, sequence.events[stop - 100 : stop])
        assert own.rows.tolist() == [place]
        assert own.counts.tolist() == [100]
        assert (own.event_times < own.query_times[0]).all()
    assert len(windows(sequence, 10_000, 1)[0].events) == 400


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_step_trains(attention: Any) -> None:
    step = training_call(attention, 8, [random_sequence(60)])
    losses = [step()[0] for _ in range(30)]  # type: ignore[index]
    assert losses[-1] < 0.9 * losses[0]


def test_a_child_says_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    main(["linear", "8", "60", str(torch.get_num_threads())])
    run = ChildRun(**json.loads(capsys.readouterr().out))
    assert 0 < run.seconds < 60
    assert 2**26 < run.before_bytes <= run.peak_bytes <= peak_bytes()


@pytest.mark.slow
def test_a_real_child_and_one_that_fails() -> None:
    ballast = np.ones(2**28)  # two gigabytes here are none of the child's
    small, large = (run_child("linear", 32, tokens, 1) for tokens in (320, 20_000))
    assert large.peak_bytes < ballast.nbytes
    assert small.peak_bytes < large.peak_bytes
    assert large.peak_bytes - large.before_bytes > 2**24
    with pytest.raises(QuantAttnError, match=r"failed in its own process: .*width=30"):
        run_child("linear", 30, 320, 1)
