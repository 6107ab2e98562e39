"""The arithmetic of the benchmarks, on figures made by hand; no time is asserted."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from quantattn.bench import timing as timing_module
from quantattn.bench.attention_floor import copy_step, count_multiply_adds, matmul_step
from quantattn.bench.peers import AUTO, PERFORMER, SDPA, missing_peers, peers
from quantattn.bench.timing import (
    Ratio,
    Timing,
    crossing,
    growth_exponent,
    over,
    over_floor,
    quartiles,
    take_turns,
    training_step,
)


def test_the_exponent_of_a_power():
    lengths = [1000, 4000, 16000]
    assert growth_exponent(lengths, [2.0, 8.0, 32.0]) == pytest.approx((1.0, 0.0))
    assert growth_exponent(lengths, [1.0, 16.0, 256.0]) == pytest.approx((2.0, 0.0))
    assert growth_exponent(lengths, [5.0, 5.0, 5.0]) == pytest.approx((0.0, 0.0))


def test_the_error_of_an_exponent():
    # In units of log 4 the points are (0, 0), (1, 0), (2, 3): slope 3/2, residuals 1/2, -1, 1/2.
    slope, error = growth_exponent([1, 4, 16], [1.0, 1.0, 64.0])
    assert slope == pytest.approx(1.5)
    assert error == pytest.approx(math.sqrt(1.5 / 1 / 2))
    assert growth_exponent([1, 4], [1.0, 4.0])[0] == pytest.approx(1.0)
    assert math.isnan(growth_exponent([1, 4], [1.0, 4.0])[1])


def test_quartiles_and_ratios():
    assert quartiles([5.0, 1.0, 3.0, 2.0, 4.0]) == (2.0, 3.0, 4.0)
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    slow, fast = Timing(12.0, 10.0, 20.0, 9.0, 24.0, 5), Timing(3.0, 2.0, 4.0, 1.0, 6.0, 5)
    assert over(slow, fast) == Ratio(4.0, 2.5, 10.0)
    assert over(slow, fast).times(0.5) == Ratio(2.0, 1.25, 5.0)
    assert over_floor(slow, 2.0) == Ratio(6.0, 5.0, 10.0)


def test_where_two_curves_cross():
    lengths = [16, 64, 256]
    assert crossing(lengths, [1.0, 1.0, 1.0], [1.0, 2.0, 9.0]) == 16.0
    assert crossing(lengths, [1.0, 1.0, 1.0], [0.5, 0.5, 0.9]) is None
    # As far behind at 16 as ahead at 64: half way on a log scale.
    assert crossing(lengths, [2.0, 2.0, 2.0], [1.0, 4.0, 9.0]) == pytest.approx(32.0)
    # Ahead, then behind once more: what counts is from where on it stays ahead.
    assert crossing(lengths, [1.0, 4.0, 1.0], [2.0, 2.0, 2.0]) == pytest.approx(128.0)


def test_calls_take_turns_until_their_time_is_up():
    order = []
    found = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=60, most=3)
    assert order == ["a", "b"] * 4
    assert {name: timing.calls for name, timing in found.items()} == {"a": 3, "b": 3}
    for timing in found.values():
        assert 0 <= timing.least_milliseconds <= timing.low_milliseconds <= timing.milliseconds
        assert timing.milliseconds <= timing.high_milliseconds
    assert take_turns({"a": lambda: None}, seconds=0.0)["a"].calls == 5


def test_wall_and_processor_time_are_two_clocks(monkeypatch):
    seconds = SimpleNamespace(wall=0.0, cpu=0.0)
    clocks = SimpleNamespace(perf_counter=lambda: seconds.wall, process_time=lambda: seconds.cpu)
    monkeypatch.setattr(timing_module, "time", clocks)
    takes = iter([9.0, 5.0, 1.0, 3.0, 2.0, 4.0])

    def call():
        taken = next(takes)
        seconds.wall += taken
        seconds.cpu += 2 * taken

    # The first call does not count.
    assert take_turns({"a": call}, seconds=0.0)["a"] == Timing(3e3, 2e3, 4e3, 1e3, 6e3, 5)


def test_linear_peers_agree_and_softmax_does_not():
    inputs = [torch.randn(1, 2, 300, 4, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    every = peers()
    assert set(missing_peers()) == {PERFORMER} - set(every)
    assert list(every)[:2] == [AUTO, SDPA]
    outputs = {name: peer(*inputs) for name, peer in every.items()}
    softmax = outputs.pop(SDPA)
    for name, output in outputs.items():
        torch.testing.assert_close(output, outputs[AUTO], rtol=1e-4, atol=1e-5, msg=name)
        assert not torch.allclose(output, softmax, atol=1e-2)


def test_a_step_goes_forwards_and_backwards():
    grads = training_step(peers()["token cumsum"], (1, 1, 5, 3))()
    assert [tuple(x.shape) for x in grads] == [(1, 1, 5, 3)] * 3
    assert all(math.isfinite(float(x.sum())) and bool(x.any()) for x in grads)


def test_floors_are_calls_that_can_be_timed():
    copies = copy_step((1, 2, 5, 3))()
    assert [tuple(x.shape) for x in copies] == [(1, 2, 5, 3)] * 4
    product = matmul_step()()
    assert product.shape == (1024, 1024)
    assert product.dtype == torch.float32
    assert count_multiply_adds((4, 4, 4096, 32)) == 469_762_048
