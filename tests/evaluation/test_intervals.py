"""Intervals against direct formulas, and their coverage where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from arch.bootstrap import StationaryBootstrap
from scipy import stats

from quantattn.errors import EvaluationError
from quantattn.evaluation import mean_interval, r2_intervals
from quantattn.evaluation.intervals import block_length, bootstrap_indices, resampled_means


def test_mean_interval_by_the_direct_formula() -> None:
    series = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0]
    n, lags = 12, 2
    mean = sum(series) / n
    deviations = [value - mean for value in series]
    variance = sum(d * d for d in deviations) / n
    for lag in (1, 2):
        product = sum(deviations[t] * deviations[t - lag] for t in range(lag, n)) / n
        variance += 2 * (1 - lag / (lags + 1)) * product
    reach = stats.t.ppf(0.95, n - 1) * math.sqrt(variance / n)
    found = mean_interval(np.array(series), confidence=0.9)
    assert found.value == pytest.approx(mean)
    assert found.low == pytest.approx(mean - reach)
    assert found.high == pytest.approx(mean + reach)


def test_undefined_values_are_left_out() -> None:
    series = np.random.default_rng(0).normal(size=60)
    holed = np.insert(series, [0, 30, 60], np.nan)
    assert mean_interval(holed) == mean_interval(series)


def test_intervals_of_odd_series() -> None:
    assert mean_interval(np.array([])) == (None, None, None)
    assert mean_interval(np.full(20, np.nan)) == (None, None, None)
    assert mean_interval(np.array([1.0, np.inf] * 10)) == (None, None, None)
    assert mean_interval(np.array([1.0, 2.0, 3.0])) == (2.0, None, None)
    assert mean_interval(np.full(50, 0.1)) == (pytest.approx(0.1),) * 3
    assert mean_interval(np.zeros(50)) == (0.0, 0.0, 0.0)


def test_more_overlap_needs_more_times_and_bounds_are_clipped() -> None:
    series = np.tile([0.0, 1.0, 1.0], 8)
    assert mean_interval(series, overlap=2).low is not None
    assert mean_interval(series, overlap=3).low is None
    shares = np.random.default_rng(0).choice([0.9, 1.0], size=30, p=[0.1, 0.9])
    open_ended = mean_interval(shares, confidence=0.9999)
    assert open_ended.high is not None and open_ended.high > 1.0
    assert mean_interval(shares, within=(0.0, 1.0), confidence=0.9999) == open_ended._replace(high=1.0)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_confidence_must_be_a_share(confidence: float) -> None:
    with pytest.raises(EvaluationError, match="confidence"):
        mean_interval(np.arange(30.0), confidence=confidence)


def test_resampled_means_equal_a_loop_over_the_draws_of_arch() -> None:
    rng = np.random.default_rng(1)
    series = rng.normal(size=(3, 40))
    indices = bootstrap_indices(40, block=5, reps=30, seed=9)
    means = resampled_means(series, indices)
    for rep, (positional, _) in enumerate(StationaryBootstrap(5, series.T, seed=9).bootstrap(30)):
        assert means[rep] == pytest.approx(positional[0].mean(axis=0))
    assert np.array_equal(indices, bootstrap_indices(40, block=5, reps=30, seed=9))
    assert not np.array_equal(indices, bootstrap_indices(40, block=5, reps=30, seed=10))


def test_block_length_grows_with_dependence_and_covers_the_overlap() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(size=600)
    smooth = np.convolve(noise, np.ones(12), mode="valid")
    assert block_length(smooth) > block_length(noise) >= 1
    assert block_length(noise, overlap=20) >= 21
    assert block_length(np.ones(30), overlap=4) == 5
    assert block_length(np.arange(6.0), overlap=40) == 2


def test_r2_by_hand_and_its_interval() -> None:
    rng = np.random.default_rng(3)
    benchmark = rng.chisquare(3, size=200)
    losses = np.stack([0.5 * benchmark, benchmark, 2.0 * benchmark, 0.5 * rng.chisquare(3, size=200)])
    half, same, double, noisy = r2_intervals(losses, benchmark, confidence=0.95, overlap=0, seed=0)
    # Losses that move in step with the benchmark's have no uncertainty, because both are resampled together.
    assert half == (pytest.approx(0.5),) * 3
    assert same == (pytest.approx(0.0, abs=1e-12),) * 3
    assert double == (pytest.approx(-1.0),) * 3
    assert noisy.low is not None and noisy.high is not None and noisy.value is not None
    assert noisy.low < noisy.value < noisy.high
    assert noisy.value == pytest.approx(1 - losses[3].sum() / benchmark.sum())
    again = r2_intervals(losses, benchmark, confidence=0.95, overlap=0, seed=0)[3]
    other = r2_intervals(losses, benchmark, confidence=0.95, overlap=0, seed=1)[3]
    assert again == noisy != other


def test_r2_without_a_meaning() -> None:
    losses = np.ones((2, 30))
    assert r2_intervals(losses, np.zeros(30), confidence=0.95, overlap=0, seed=0) == [(None, None, None)] * 2
    few = r2_intervals(losses[:, :4], np.full(4, 2.0), confidence=0.95, overlap=0, seed=0)
    assert few == [(0.5, None, None)] * 2


@pytest.mark.slow
def test_coverage_of_the_mean_interval_under_serial_dependence() -> None:
    rng = np.random.default_rng(4)
    covered = pooled = 0
    simulations, n = 1500, 400
    for _ in range(simulations):
        noise = rng.normal(size=n + 3)
        series = noise[3:] + noise[2:-1] + noise[1:-2] + noise[:-3]
        found = mean_interval(series, overlap=3)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.0 <= found.high
        pooled += abs(series.mean()) <= 1.96 * series.std() / math.sqrt(n)
    assert 0.91 < covered / simulations < 0.97
    # The control: without an allowance for dependence the interval is far too short.
    assert pooled / simulations < 0.75


@pytest.mark.slow
def test_coverage_of_the_r2_interval() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    simulations, n = 150, 300
    for _ in range(simulations):
        signal = rng.normal(size=n)
        y = signal + rng.normal(size=n)
        # E[(y - signal)^2] = 1 and E[y^2] = 2, so the true R² is a half.
        (found,) = r2_intervals((y - signal)[None] ** 2, y**2, confidence=0.9, overlap=0, seed=7)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.5 <= found.high
    assert 0.83 < covered / simulations < 0.95
