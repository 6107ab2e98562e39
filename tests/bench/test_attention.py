"""The attention benchmark as a whole, with every clock replaced."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from quantattn.bench import attention as module
from quantattn.bench import attention_text, bench_attention
from quantattn.bench.peers import AUTO, SDPA
from quantattn.bench.timing import Timing
from quantattn.cli import app


@pytest.fixture
def clocks(monkeypatch):
    """Twenty milliseconds for softmax and two for everything else; twice the length, twice the time."""
    given = SimpleNamespace(length=0)

    def step(peer, shape):
        given.length = shape[2]
        return lambda: None

    def turns(calls, **options):
        scale = given.length / 256
        return {name: Timing((20.0 if name == SDPA else 2.0) * scale, 5) for name in calls}

    monkeypatch.setattr(module, "training_step", step)
    monkeypatch.setattr(module, "take_turns", turns)
    monkeypatch.setattr(module, "extra_memory", lambda call: 1024)


def test_figures(clocks):
    found = bench_attention(quick=True, threads=1)
    assert found.threads == 1
    assert [result.length for result in found.lengths] == [256, 1024]
    first = found.lengths[0]
    assert first.backend == "fused"
    assert first.peers[AUTO] == Timing(2.0, 5)
    assert first.times_sdpa[AUTO] == pytest.approx(10.0)
    # The kernel was 3.4 ms where SDPA took 2.7: ten times SDPA is 10 * 3.4 / 2.7 kernels.
    assert first.times_kernel == pytest.approx(34 / 2.7)
    assert found.scaling["exponent"] == pytest.approx(1.0)
    assert found.memory["share"] == pytest.approx(1024 / (4 * 4 * 4 * 16384 * 32 * 4))
    assert found.crossover == {32: 16.0, 64: 16.0, 128: 16.0}
    verdicts = {target.name: target.reached for target in found.targets}
    assert verdicts["times SDPA at 1024"] is True
    assert verdicts["exponent of growth"] is True


def test_a_missed_target_says_so(clocks, monkeypatch):
    monkeypatch.setattr(module, "extra_memory", lambda call: None)
    monkeypatch.setattr(module, "TARGET_SDPA", {256: 1.0, 1024: 11.0})
    text = attention_text(bench_attention(quick=True))
    assert "times SDPA at 1024: 10 (target 11), missed" in text
    assert "times SDPA at 256: 10 (target 1), reached" in text
    assert "memory beyond inputs and outputs: not measured here" in text


def test_the_command_prints_tables_or_json(clocks):
    runner = CliRunner()
    plain = runner.invoke(app, ["bench", "attention", "--quick"])
    assert plain.exit_code == 0, plain.output
    assert "torch SDPA causal" in plain.output and "length **" in plain.output
    found = json.loads(runner.invoke(app, ["bench", "attention", "--quick", "--json"]).output)
    assert found["lengths"][0]["peers"][AUTO] == {"milliseconds": 2.0, "n": 5}
    assert set(found) >= {"machine", "threads", "lengths", "scaling", "memory", "crossover", "targets"}
    assert found["machine"]["cpu"]


def test_a_wrong_option_is_a_wrong_request():
    assert CliRunner().invoke(app, ["bench", "attention", "--threads", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", "attention", "--slow"]).exit_code == 2
