"""The arithmetic of the benchmarks, on figures made by hand; no time is asserted."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.bench.peers import AUTO, SDPA, peers
from quantattn.bench.timing import crossing, growth_exponent, take_turns, training_step


def test_the_exponent_of_a_power():
    lengths = [1000, 4000, 16000]
    assert growth_exponent(lengths, [2.0, 8.0, 32.0]) == pytest.approx(1.0)
    assert growth_exponent(lengths, [1.0, 16.0, 256.0]) == pytest.approx(2.0)
    assert growth_exponent(lengths, [5.0, 5.0, 5.0]) == pytest.approx(0.0)


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
    assert {name: timing.n for name, timing in found.items()} == {"a": 3, "b": 3}
    assert all(timing.milliseconds >= 0 for timing in found.values())
    assert take_turns({"a": lambda: None}, seconds=0.0)["a"].n == 1


def test_linear_peers_agree_and_softmax_does_not():
    inputs = [torch.randn(1, 2, 300, 4, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    every = peers()
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
