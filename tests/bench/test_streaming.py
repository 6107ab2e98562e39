"""The streaming benchmark as a whole, tiny; what it says, and what its verdicts are."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from quantattn.bench.streaming import QUICK, StreamingSizes, bench_streaming
from quantattn.bench.streaming_calls import Effort, Latency
from quantattn.bench.streaming_results import (
    ColdStart,
    EagerRatio,
    StepResult,
    StreamingBench,
    rate_of,
)
from quantattn.bench.streaming_targets import SINGLE, streaming_targets
from quantattn.bench.streaming_text import streaming_text
from quantattn.bench.timing import Timing
from quantattn.cli import app

TINY = StreamingSizes(
    widths=(8, 4),
    shortest=20,
    histories=(20, 200),
    twin_histories=(5, 20, 200),
    longest_written=30,
    effort=Effort(12, 20, 0.05),
    events=30,
    entities=7,
    seconds=0.01,
    raw_events=5,
    cold_events=300,
    patience=60.0,
)


@pytest.fixture(scope="module")
def tiny() -> StreamingBench:
    return bench_streaming(quick=True, sizes=TINY)


def test_what_is_measured(tiny: StreamingBench) -> None:
    assert (tiny.threads, tiny.quick, tiny.batch_entities) == (1, True, 7)
    assert [(step.width, step.history, step.model) for step in tiny.steps] == [
        (8, 5, "linear"),
        (8, 5, "softmax"),
        (8, 20, "eager linear"),
        (8, 20, "eager softmax"),
        (8, 20, "linear"),
        (8, 20, "softmax"),
        (8, 200, "eager softmax"),
        (8, 200, "linear"),
        (8, 200, "softmax"),
        (4, 20, "eager linear"),
        (4, 20, "eager softmax"),
        (4, 20, "linear"),
        (4, 20, "softmax"),
    ]
    for step in tiny.steps:
        for found in (step.update, step.read):
            assert 0 < found.p50 <= found.p95 <= found.p99
            assert found.calls >= 5
    held = {(s.model, s.history): s.state_bytes for s in tiny.steps if s.width == 8 and s.state_bytes}
    # A head of width 2, two layers, four heads: S and z, in float32; the layout may add to that.
    assert held["linear", 5] == held["linear", 20] == held["linear", 200] >= 4 * 2 * 4 * 2 * 3
    # Keys and values of both layers in float32 and a clock for each head in float64; the start token too.
    assert held["softmax", 200] >= 201 * (2 * 2 * 8 * 4 + 4 * 8)
    assert held["softmax", 200] > held["softmax", 20]
    assert {model for model, _ in held} == {"linear", "softmax"}
    assert [(times.model, times.width, times.history) for times in tiny.times_eager] == [
        ("linear", 8, 20),
        ("softmax", 8, 20),
        ("softmax", 8, 200),
        ("linear", 4, 20),
        ("softmax", 4, 20),
    ]
    assert list(tiny.times_softmax) == [5, 20, 200]
    assert [rate.events for rate in tiny.rates] == [30, 30, 35, 35, 35, 35]
    assert all(rate.low <= rate.per_second <= rate.high for rate in (*tiny.rates, *tiny.raw))
    assert [(floor.width, floor.step) for floor in tiny.floors] == [
        (8, "update"),
        (8, "read"),
        (4, "update"),
        (4, "read"),
    ]
    assert [rate.name for rate in tiny.raw] == ["update, with a headline", "update, without text", "forecast"]
    assert [(start.model, start.events, start.pieces) for start in tiny.cold_start] == [
        ("linear", 300, 0),
        ("softmax", 300, 0),
    ]
    assert tiny.targets == ()


def test_ratios_are_those_of_the_figures(tiny: StreamingBench) -> None:
    found = {(step.model, step.width, step.history): step for step in tiny.steps}
    for times in tiny.times_eager:
        own = found[times.model, times.width, times.history]
        eager = found[f"eager {times.model}", times.width, times.history]
        assert times.update == pytest.approx(eager.update.p50 / own.update.p50)
        assert times.read == pytest.approx(eager.read.p50 / own.read.p50)
    for history, ratio in tiny.times_softmax.items():
        slow, fast = found["softmax", 8, history], found["linear", 8, history]
        assert ratio == pytest.approx((slow.update.p50 + slow.read.p50) / (fast.update.p50 + fast.read.p50))
    # The histories of the twins alone, here 5, do not enter.
    reads = [found["linear", 8, history].read.p50 for history in (20, 200)]
    assert tiny.growth["read"] == pytest.approx(max(reads) / min(reads))
    rates = {rate.name: rate.per_second for rate in tiny.rates}
    assert tiny.times_single["write"] == pytest.approx(
        rates["write_each, 7 entities"] / rates["write, 7 entities in turn"]
    )
    for floor in tiny.floors:
        ratio = floor.step_microseconds / floor.floor_microseconds
        assert floor.times_floor.ratio == pytest.approx(ratio)


def test_text(tiny: StreamingBench) -> None:
    printed = streaming_text(tiny)
    assert "1 thread;" in printed
    assert "No verdicts" in printed
    assert "aimed at" not in printed
    for words in ("x eager", "x floor", "write_each, 7 entities", "Cold start", "The clock itself"):
        assert words in printed
    assert max(len(line) for line in printed.splitlines()) <= 140


def test_a_cold_start_from_pieces_says_so(tiny: StreamingBench) -> None:
    changed = dataclasses.replace(tiny, cold_start=(ColdStart("softmax", 100_000, 61.25, 9),), crossover=None)
    printed = streaming_text(changed)
    assert "softmax   100,000 events    61.25 s, from 9 pieces" in printed
    assert "takes no longer: none measured" in printed
    for at, words in ((5.0, "5 events, the shortest measured"), (1234.5, "1,234 events\n")):
        assert f"no longer: {words}" in streaming_text(dataclasses.replace(tiny, crossover=at))


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


def test_the_json_says_the_unit_of_every_figure(tiny: StreamingBench) -> None:
    targets = verdicts(steps(10.0, 40.0))
    whole = dataclasses.replace(tiny, targets=targets, quick=False)
    said = json.loads(json.dumps(whole.to_dict(), allow_nan=False))
    known = {name for names in said["units"] for name in names.split(", ")}
    plain = {**said, "machine": {}, "times_softmax": {}}
    assert set(figures(plain)) - known == {"threads"}
    assert {"times_softmax", "growth", "times_single", "crossover", "write"} <= known
    assert list(said["times_softmax"]) == ["5", "20", "200"]
    assert said["steps"][0]["update"]["p50"] == tiny.steps[0].update.p50
    assert said["targets"][0]["reached"] is True


def steps(p50: float, p99: float, *, held: int = 100) -> list[StepResult]:
    fast, slow = Latency(p50, p50, p99, 9), Latency(p50 + 1, p50 + 1, p99 + 1, 9)
    return [
        StepResult("linear", 64, 100_000, Latency(99.0, 99.0, 99.0, 9), fast, held),
        StepResult("linear", 64, 1_000, fast, slow, 100),
        StepResult("linear", 32, 10, Latency(1.0, 1.0, 1.0, 9), fast, 50),
        # Shorter than where eager torch was timed.
        StepResult("linear", 64, 10, Latency(1.0, 1.0, 1.0, 9), fast, 99),
        StepResult("softmax", 64, 10, slow, slow, 50),
    ]


def verdicts(measured: list[StepResult], **changed: Any) -> Any:
    given = {
        "times_eager": [
            EagerRatio("softmax", 64, 1_000, 1.0, 1.0),
            EagerRatio("linear", 64, 9_000, 1.0, 1.0),
            EagerRatio("linear", 64, 1_000, 12.0, 9.5),
            EagerRatio("linear", 32, 1_000, 1.0, 1.0),
        ],
        "growth": {"update": 1.05, "read": 1.21},
        "rates": [
            rate_of("other", 1, Timing(1.0, 1.0, 1.0, 1.0, 1.0, 5)),
            rate_of(SINGLE, 10_000, Timing(100.0, 90.0, 200.0, 80.0, 100.0, 5)),
        ],
        "times_single": {"write": 3.0, "read": 1.0},
        **changed,
    }
    return streaming_targets(measured, **given)


def test_verdicts() -> None:
    found = {target.name: target for target in verdicts(steps(14.0, 44.5))}
    assert {name: (t.bound, t.target, t.found, t.reached) for name, t in found.items()} == {
        "update at p50 in microseconds": ("at most", 15.0, 14.0, True),
        "update at p99 in microseconds": ("at most", 45.0, 44.5, True),
        "read at p50 in microseconds": ("at most", 15.0, 15.0, True),
        "read at p99 in microseconds": ("at most", 45.0, 45.5, False),
        "update: times eager torch": ("at least", 10.0, 12.0, True),
        "read: times eager torch": ("at least", 10.0, 9.5, False),
        "update: largest p50 over smallest, 1,000 to 100,000 events of history": ("at most", 1.2, 1.05, True),
        "read: largest p50 over smallest, 1,000 to 100,000 events of history": ("at most", 1.2, 1.21, False),
        "sizes of the state, 1,000 to 100,000 events of history": ("at most", 1.0, 1.0, True),
        "events per second of one entity, one by one": ("at least", 60_000.0, 100_000.0, True),
        "events per second of batched calls over single ones": ("at least", 3.0, 3.0, True),
    }
    rate = found["events per second of one entity, one by one"]
    assert (rate.low, rate.high) == pytest.approx((50_000.0, 10_000 / 0.09))


def test_a_state_that_grows_misses() -> None:
    found = {target.name: target for target in verdicts(steps(14.0, 44.5, held=101))}
    grown = found["sizes of the state, 1,000 to 100,000 events of history"]
    assert (grown.found, grown.reached) == (2.0, False)


def test_verdicts_in_words(tiny: StreamingBench) -> None:
    printed = streaming_text(dataclasses.replace(tiny, targets=verdicts(steps(14.0, 44.5)), quick=False))
    assert "with 1 thread" in printed
    assert "read at p99 in microseconds: 45.5 (aimed at: at most 45): missed" in printed
    assert "one by one: 100,000, 50,000 to 111,111 (aimed at: at least 60,000): reached" in printed


def test_a_quick_run_is_smaller() -> None:
    whole = StreamingSizes()
    assert max(QUICK.histories) < max(whole.histories) == 10_000_000
    assert whole.effort.calls >= 20_000
    assert {1_000, 100_000, 10_000_000} <= set(whole.histories)
    assert {1_000, 10_000, 100_000} <= set(whole.twin_histories)
    assert whole.cold_events == 100_000
    # Eager torch is compared, and the floor taken, at a history that every run has.
    assert all({size.shortest} <= set(size.histories) & set(size.twin_histories) for size in (whole, QUICK))


def test_command(tiny: StreamingBench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def measured(*, quick: bool) -> StreamingBench:
        asked.append(quick)
        return tiny

    monkeypatch.setattr("quantattn.bench.bench_streaming", measured)
    told = CliRunner().invoke(app, ["bench", "streaming", "--quick", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout) == json.loads(json.dumps(tiny.to_dict()))
    told = CliRunner().invoke(app, ["bench", "streaming"])
    assert told.stdout.rstrip() == streaming_text(tiny).rstrip()
    assert asked == [True, False]
