"""The attention benchmark as a whole, with every clock replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from quantattn.bench import attention as module
from quantattn.bench import attention_targets as aims
from quantattn.bench import attention_text, bench_attention
from quantattn.bench.attention_floor import COPY, MATMUL
from quantattn.bench.attention_targets import may_judge_growth
from quantattn.bench.peers import AUTO, PERFORMER, SDPA
from quantattn.bench.timing import Timing
from quantattn.cli import app
from quantattn.errors import UsageError


def timing(milliseconds: float) -> Timing:
    """Quartiles a tenth off, the fastest call a fifth, three quarters of two threads at work."""
    return Timing(
        milliseconds, 0.9 * milliseconds, 1.1 * milliseconds, 0.8 * milliseconds, 1.5 * milliseconds, 7
    )


@pytest.fixture
def clocks(monkeypatch):
    """Twenty milliseconds for softmax, a half for a copy, two for the rest; twice the length, twice the time.

    A matrix product takes ten whatever the length. `given.slower` multiplies what auto takes at 256k.
    """
    given = SimpleNamespace(length=0, slower=1.0, options=[])

    def step(peer, shape):
        given.length = shape[2]
        return lambda: None

    def turns(calls, **options):
        given.options.append(options)
        scale = given.length / 256 * (given.slower if given.length == 262144 else 1.0)
        took = {SDPA: 20.0 * scale, COPY: 0.5 * scale, MATMUL: 10.0}
        return {name: timing(took.get(name, 2.0 * scale)) for name in calls}

    monkeypatch.setattr(module, "training_step", step)
    monkeypatch.setattr(module, "copy_step", lambda shape: lambda: None)
    monkeypatch.setattr(module, "take_turns", turns)
    monkeypatch.setattr(module, "extra_memory", lambda call: 1024)
    return given


def test_figures_by_length(clocks):
    found = bench_attention(quick=True, threads=1)
    assert found.threads == 1
    assert [result.length for result in found.lengths] == [256, 1024]
    first = found.lengths[0]
    assert first.backend == "fused"
    assert first.peers[AUTO] == timing(2.0)
    assert COPY not in first.peers
    assert MATMUL not in first.peers
    times = first.times_sdpa[AUTO]
    # Quartiles of softmax over the opposite ones of auto: 18 / 2.2 and 22 / 1.8.
    assert (times.ratio, times.low, times.high) == pytest.approx((10.0, 18 / 2.2, 22 / 1.8))
    assert found.crossover[32] == module.Crossover(16.0, 16.0, 16.0)
    assert set(found.crossover) == {32, 64, 128}


def test_the_recorded_kernel_is_labelled_as_such(clocks):
    record = bench_attention(quick=True).lengths[0].recorded_kernel
    assert record.measured_here is False
    assert (record.recorded_kernel_milliseconds, record.recorded_sdpa_milliseconds) == (3.4, 2.7)
    # The kernel took 3.4 ms where SDPA took 2.7: ten times SDPA is 10 * 3.4 / 2.7 kernels.
    assert record.times_faster.ratio == pytest.approx(34 / 2.7)
    assert record.times_faster.high == pytest.approx(22 / 1.8 * 3.4 / 2.7)
    whole = bench_attention()
    assert {target.name for target in whole.targets if not target.measured_here} == {
        f"times the C++ kernel at {length}, recorded elsewhere" for length in (256, 1024, 4096)
    }
    printed = attention_text(whole)
    assert "C++ kernel that did NOT run here" in printed
    assert "Recorded, not measured here" in printed
    said = whole.to_dict()["units"]["recorded_kernel"]
    assert said.startswith("Recorded, not measured here")
    assert "noise of SDPA" in said


def test_floors(clocks):
    floor = bench_attention(quick=True).lengths[0].floor
    # Seven updates and reads of 32 * 32 entries for 4 * 4 * 256 tokens and heads.
    assert floor.multiply_adds == 7 * 32 * 32 * 4096 == 29_360_128
    # The fastest product of side 1024 takes 8 ms.
    assert floor.matmul_gflop_per_second == pytest.approx(2 * 1024**3 / 8e-3 / 1e9)
    assert floor.operations_milliseconds == pytest.approx(8 * 29_360_128 / 1024**3)
    assert floor.times_operations.ratio == pytest.approx(2.0 / floor.operations_milliseconds)
    assert floor.copy_milliseconds == pytest.approx(0.4)
    times = floor.times_copy
    assert (times.ratio, times.low, times.high) == pytest.approx((5.0, 4.5, 5.5))


def test_growth(clocks):
    clocks.slower = 2.0
    scaling = bench_attention().scaling
    assert [point.length for point in scaling.points] == [1024 * 2**power for power in range(9)]
    first, last = scaling.points[0], scaling.points[-1]
    assert first.nanoseconds_per_token == pytest.approx(8e6 / 1024)
    assert first.cpu_nanoseconds_per_token == pytest.approx(1.5 * 8e6 / 1024)
    assert last.nanoseconds_per_token == pytest.approx(2 * 8e6 / 1024)
    assert first.times_copy.ratio == pytest.approx(5.0)
    # Nine points in units of log 2: doubling the last adds its place from the middle over the sum of squares.
    assert scaling.exponent == pytest.approx(1 + 4 / 60)
    assert scaling.cpu_exponent == pytest.approx(1 + 4 / 60)
    assert scaling.standard_error > 0


def test_memory(clocks, monkeypatch):
    sizes = iter([5120, 1024, 4096, 2048, 3072])
    monkeypatch.setattr(module, "extra_memory", lambda call: next(sizes))
    found = bench_attention(quick=True).memory
    assert found.inputs_and_outputs_bytes == 4 * (4 * 4 * 16384 * 32) * 4
    assert (found.low_bytes, found.beyond_bytes, found.high_bytes) == (2048, 3072, 4096)
    assert found.share == pytest.approx(3072 / found.inputs_and_outputs_bytes)
    assert found.calls == 5
    monkeypatch.setattr(module, "extra_memory", lambda call: 1024)
    printed = attention_text(bench_attention(quick=True))
    assert "Memory of a forward pass at length 16384" in printed
    assert "inputs and outputs 128.0 MiB; peak beyond them 0.0 MiB" in printed


def test_verdicts_and_whose_targets_they_are(clocks, monkeypatch):
    clocks.slower = 3.0
    monkeypatch.setattr(module, "extra_memory", lambda call: None)
    monkeypatch.setattr(aims, "TARGET_SDPA", {256: 10.0, 1024: 11.0, 4096: 1.0})
    printed = attention_text(bench_attention())
    assert "What this project aimed at with 2 threads" in printed
    assert "times SDPA at 256: 10, 8.18 to 12.2 (aimed at: at least 10): reached" in printed
    assert "times SDPA at 1024: 10, 8.18 to 12.2 (aimed at: at least 11): missed" in printed
    assert "exponent of growth, wall time: 1.11" in printed
    assert "(aimed at: at most 1.05): missed" in printed
    assert "over them: not measured here (aimed at: at most 0.15)" in printed
    clocks.slower = 1.0
    assert "(aimed at: at most 1.05): reached" in attention_text(bench_attention())


def test_a_quick_run_gives_no_verdicts(clocks):
    found = bench_attention(quick=True)
    assert found.targets == ()
    printed = attention_text(found)
    assert "No verdicts" in printed
    assert "reached" not in printed
    assert "missed" not in printed
    assert "aimed at" not in printed


def test_growth_is_judged_from_five_lengths_up_to_256k():
    longest = 262144
    assert may_judge_growth((1024, 4096, 16384, 65536, longest))
    assert not may_judge_growth((4096, 16384, 65536, longest))
    assert not may_judge_growth((1024, 4096, 16384, 65536, longest - 1))


def test_a_peer_that_is_not_installed_is_listed(clocks, monkeypatch):
    monkeypatch.setattr(module, "missing_peers", lambda: {PERFORMER: "pip install quantattn[bench]"})
    found = bench_attention(quick=True)
    assert "performer-pytorch     not installed: pip install quantattn[bench]" in attention_text(found)
    assert found.to_dict()["not_installed"] == {PERFORMER: "pip install quantattn[bench]"}
    monkeypatch.setattr(module, "missing_peers", dict)
    assert "not installed" not in attention_text(bench_attention(quick=True))


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


def test_the_json_says_the_unit_of_every_figure(clocks):
    said = json.loads(json.dumps(bench_attention().to_dict()))
    known = {name for names in said["units"] for name in names.split(", ")}
    assert set(figures({**said, "machine": {}})) - known == {"threads"}
    assert said["lengths"][0]["peers"][AUTO]["low_milliseconds"] == pytest.approx(1.8)


def test_the_command_prints_tables_or_json(clocks):
    runner = CliRunner()
    plain = runner.invoke(app, ["bench", "attention", "--quick", "--threads", "2"])
    assert plain.exit_code == 0, plain.output
    assert "torch SDPA causal" in plain.output
    assert "higher is faster" in plain.output
    assert "2 threads;" in plain.output
    assert "wall time grows as length ** 1.000" in plain.output
    assert "CPU time as length ** 1.000" in plain.output
    found = json.loads(runner.invoke(app, ["bench", "attention", "--quick", "--json"]).output)
    assert found["lengths"][0]["peers"][AUTO]["calls"] == 7
    assert found["quick"] is True
    assert set(found) >= {
        "units",
        "machine",
        "threads",
        "lengths",
        "scaling",
        "memory",
        "crossover",
        "targets",
    }
    assert found["machine"]["cpu"]


def test_a_wrong_option_is_a_wrong_request():
    assert CliRunner().invoke(app, ["bench", "attention", "--threads", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", "attention", "--slow"]).exit_code == 2


def test_threads_that_no_system_gives(clocks, monkeypatch):
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    found = CliRunner().invoke(app, ["bench", "attention", "--quick", "--threads", "25"])
    assert found.exit_code == 2
    assert found.stderr == (
        "Error: --threads: expected a whole number from 1 to 24, 8 for each processor, got 25; "
        "leave it out for torch's own number\n"
    )
    for threads in (0, -1, 2.0, True, "2"):
        with pytest.raises(UsageError, match="--threads: expected a whole number from 1 to 24"):
            bench_attention(quick=True, threads=threads)
    before = torch.get_num_threads()
    assert bench_attention(quick=True, threads=24).threads == 24
    assert torch.get_num_threads() == before


def test_bench_alone_lists_what_there_is():
    found = CliRunner().invoke(app, ["bench"])
    assert found.exit_code == 0 and found.stderr == ""
    assert "attention" in found.stdout and "Error" not in found.output
    assert CliRunner().invoke(app, ["bench", "nothing"]).exit_code == 2
