"""Weights of training targets, against loops."""

from __future__ import annotations

import numpy as np
import pytest

from quantattn.errors import ForecasterError
from quantattn.forecasters.weights import class_weights, trailing_volatility, volatility_weights


def test_trailing_volatility_by_hand() -> None:
    values = np.array([1.0, 3.0, 7.0, 100.0])
    available = np.array([10, 20, 30, 40])
    at = np.array([20, 21, 30, 31, 1000])
    # Known strictly before: 1 at 20 (too few), 1 and 3 at 21 and at 30, 1 3 7 at 31, the last three at 1000.
    expected = [np.nan, 1.0, 1.0, np.std([1, 3, 7]), np.std([3, 7, 100])]
    found = trailing_volatility(values, available, at, window=3)
    np.testing.assert_allclose(found, expected)


def test_the_order_given_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    values, available = generator.standard_normal(30), np.arange(30) * 10
    times = generator.integers(0, 400, 30)
    mixed = generator.permutation(30)
    one = trailing_volatility(values, available, times, window=5)
    two = trailing_volatility(values[mixed], available[mixed], times, window=5)
    np.testing.assert_array_equal(one, two)


def test_weights_against_a_loop() -> None:
    generator = np.random.default_rng(1)
    n, window = 60, 6
    entities = np.array([["A", "B"][k % 2] for k in range(n)])
    times = np.repeat(np.arange(n // 2) * 100, 2)
    available = times + 250
    values = generator.standard_normal(n) * np.where(entities == "A", 1.0, 5.0)
    expected = []
    for entity, time in zip(entities, times, strict=True):
        known = [
            (a, y) for e, a, y in zip(entities, available, values, strict=True) if e == entity and a < time
        ]
        last = [y for _, y in sorted(known)][-window:]
        spread = np.std(last) if len(last) >= 2 else np.std(values)
        expected.append(1 / max(spread, 0.1 * np.std(values)))
    found = volatility_weights(values, available, entities, times, window=window)
    np.testing.assert_allclose(found, np.array(expected) / np.mean(expected))
    assert found.mean() == pytest.approx(1.0)
    late = times > 1000
    assert found[late & (entities == "A")].mean() > 3 * found[late & (entities == "B")].mean()


def test_a_quiet_stretch_does_not_weigh_without_bound() -> None:
    values = np.concatenate([np.zeros(20), np.array([5.0, -5.0] * 10)])
    times = np.arange(40) * 10
    weights = volatility_weights(values, times + 1, np.array(["A"] * 40), times, window=5)
    assert np.isfinite(weights).all()
    # The least volatility is a tenth of the overall one, which stands in for the first forecasts.
    assert weights[10] / weights[0] == pytest.approx(10.0)


def test_a_constant_target_weighs_one() -> None:
    ones = volatility_weights(np.full(5, 3.0), np.arange(5), np.array(["A"] * 5), np.arange(5), window=3)
    assert ones.tolist() == [1.0] * 5


def test_classes() -> None:
    down, up = class_weights(np.array([True, False, False, False]))
    assert (down, up) == (pytest.approx(4 / 6), 2.0)
    assert 3 * down == pytest.approx(1 * up)
    for only in (True, False):
        with pytest.raises(ForecasterError, match="all 3 training targets have one direction"):
            class_weights(np.array([only] * 3))
