"""Diebold-Mariano, its small-sample factor, and non-inferiority: direct formulas and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from quantattn.errors import EvaluationError
from quantattn.evaluation import NO_DIFFERENCE, diebold_mariano, hln_factor, non_inferiority, verdict

LOSS = np.array([1.2, 0.8, 1.9, 1.1, 0.7, 1.4, 2.2, 0.9, 1.3, 1.0, 1.6, 0.5, 1.8, 1.1, 0.9])
AGAINST = np.array([1.0, 0.9, 1.5, 1.3, 0.6, 1.1, 2.0, 1.0, 1.1, 0.7, 1.5, 0.6, 1.4, 1.2, 0.8])


def direct(loss: np.ndarray, against: np.ndarray, *, lags: int, steps: int) -> tuple[float, float]:
    """Diebold-Mariano with Harvey-Leybourne-Newbold in plain loops: the statistic and the corrected error."""
    d = [float(a) - float(b) for a, b in zip(loss, against, strict=True)]
    n = len(d)
    mean = sum(d) / n
    variance = sum((x - mean) ** 2 for x in d) / n
    for lag in range(1, lags + 1):
        covariance = sum((d[t] - mean) * (d[t - lag] - mean) for t in range(lag, n)) / n
        variance += 2 * (1 - lag / (lags + 1)) * covariance
    plain = mean / math.sqrt(variance / n)
    factor = math.sqrt((n + 1 - 2 * steps + steps * (steps - 1) / n) / n)
    return plain * factor, math.sqrt(variance / n) / factor


def test_hln_factor_by_hand() -> None:
    # n = 100, h = 1: sqrt(99/100). n = 50, h = 3: sqrt((51 - 6 + 6/50)/50) = sqrt(45.12/50).
    assert hln_factor(100, 1) == pytest.approx(0.99498744)
    assert hln_factor(50, 3) == pytest.approx(0.94994737)
    assert hln_factor(4, 4) == pytest.approx(0.0)


@pytest.mark.parametrize(("overlap", "lags"), [(0, 2), (1, 3)])
def test_diebold_mariano_by_the_direct_formula(overlap: int, lags: int) -> None:
    # The rule gives floor(4 (15/100)^(2/9)) = 2 lags, and three for each overlapping label.
    test = diebold_mariano(LOSS, AGAINST, overlap=overlap)
    statistic, error = direct(LOSS, AGAINST, lags=lags, steps=overlap + 1)
    assert (test.n, test.hac_lags, test.reason) == (15, lags, None)
    assert test.statistic == pytest.approx(statistic)
    assert test.p_value == pytest.approx(2 * stats.t.sf(abs(statistic), 14))
    assert test.mean_difference == pytest.approx(sum(LOSS - AGAINST) / 15)
    assert test.low == pytest.approx(test.mean_difference - stats.t.ppf(0.975, 14) * error)
    assert test.high == pytest.approx(test.mean_difference + stats.t.ppf(0.975, 14) * error)


def test_diebold_mariano_equals_statsmodels_up_to_the_small_sample_factor() -> None:
    rng = np.random.default_rng(0)
    loss, against = rng.chisquare(2, size=300), rng.chisquare(2, size=300)
    test = diebold_mariano(loss, against)
    peer = sm.OLS(loss - against, np.ones(300)).fit(
        cov_type="HAC", cov_kwds={"maxlags": test.hac_lags, "use_correction": False}
    )
    assert test.statistic == pytest.approx(float(peer.tvalues[0]) * math.sqrt(299 / 300), rel=1e-9)


def test_the_two_sides_mirror_each_other() -> None:
    one, other = diebold_mariano(LOSS, AGAINST), diebold_mariano(AGAINST, LOSS)
    assert one.statistic is not None and other.statistic is not None and one.high is not None
    assert one.statistic == pytest.approx(-other.statistic)
    assert one.p_value == pytest.approx(other.p_value)
    assert other.low == pytest.approx(-one.high)


def test_the_interval_excludes_zero_exactly_when_the_test_rejects() -> None:
    rng = np.random.default_rng(1)
    outcomes = set()
    for shift in np.linspace(-0.4, 0.4, 21):
        loss, against = rng.normal(size=120) + shift, rng.normal(size=120)
        test = diebold_mariano(loss, against, alpha=0.1)
        assert test.p_value is not None and test.low is not None and test.high is not None
        rejects = test.p_value < 0.1
        assert rejects is bool(test.low > 0.0 or test.high < 0.0)
        outcomes.add(rejects)
    assert outcomes == {True, False}


def test_verdicts() -> None:
    worse = diebold_mariano(LOSS + 1.0, AGAINST)
    assert verdict(worse, "linear", "softmax") == "softmax better"
    assert verdict(diebold_mariano(AGAINST - 1.0, LOSS), "linear", "softmax") == "linear better"
    assert worse.p_value is not None
    assert verdict(worse, "linear", "softmax", alpha=worse.p_value) == NO_DIFFERENCE == "no difference found"


def test_identical_losses() -> None:
    test = diebold_mariano(LOSS, LOSS.copy())
    assert (test.mean_difference, test.low, test.high) == (0.0, 0.0, 0.0)
    assert (test.statistic, test.p_value) == (None, 1.0)
    assert test.reason is not None and "identical" in test.reason
    assert verdict(test, "linear", "softmax") == NO_DIFFERENCE
    # Rounding is no difference either.
    assert diebold_mariano(LOSS, LOSS * (1 + 1e-15)).p_value == 1.0
    assert diebold_mariano(np.zeros(20), np.zeros(20)).p_value == 1.0
    assert diebold_mariano(LOSS[:3], LOSS[:3]).p_value == 1.0


def test_a_difference_that_never_varies_is_no_division_by_zero() -> None:
    test = diebold_mariano(LOSS + 0.25, LOSS)
    assert (test.statistic, test.p_value) == (None, 0.0)
    assert test.mean_difference == test.low == test.high == pytest.approx(0.25)
    assert verdict(test, "linear", "softmax") == "softmax better"


def test_few_times_give_no_statistic_but_a_reason() -> None:
    test = diebold_mariano(LOSS[:9], AGAINST[:9])
    assert (test.statistic, test.p_value, test.low, test.high) == (None, None, None, None)
    assert test.reason is not None and "9 forecast times are too few" in test.reason and "10" in test.reason
    assert verdict(test, "linear", "softmax") == NO_DIFFERENCE
    assert diebold_mariano(LOSS[:10], AGAINST[:10]).statistic is not None
    assert diebold_mariano(LOSS, AGAINST, overlap=2).reason is not None


@pytest.mark.parametrize(
    ("loss", "against", "message"),
    [
        (LOSS[:4], LOSS[:5], "shapes"),
        (np.array([]), np.array([]), "shapes"),
        (LOSS[None], LOSS[None], "shapes"),
        (np.array([1.0, np.nan]), np.array([1.0, 1.0]), r"loss is not finite at positions \[1\]"),
        (np.array([1.0, 1.0]), np.array([np.inf, 1.0]), r"against is not finite at positions \[0\]"),
    ],
)
def test_unfit_series_are_refused(loss: np.ndarray, against: np.ndarray, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        diebold_mariano(loss, against)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0, -0.1])
def test_level_must_be_a_share(alpha: float) -> None:
    with pytest.raises(EvaluationError, match="alpha"):
        diebold_mariano(LOSS, AGAINST, alpha=alpha)
    with pytest.raises(EvaluationError, match="alpha"):
        non_inferiority(LOSS, AGAINST, alpha=alpha)


def test_non_inferiority_by_the_direct_formula() -> None:
    test = non_inferiority(LOSS, AGAINST, margin=0.3, alpha=0.05)
    _, error = direct(LOSS, AGAINST, lags=2, steps=1)
    margin = 0.3 * sum(AGAINST) / 15
    difference = sum(LOSS - AGAINST) / 15
    assert test.margin == pytest.approx(margin)
    assert test.difference == pytest.approx(difference)
    assert test.upper == pytest.approx(difference + stats.t.ppf(0.95, 14) * error)
    assert test.lower == pytest.approx(difference - stats.t.ppf(0.95, 14) * error)
    assert test.p_value == pytest.approx(stats.t.cdf((difference - margin) / error, 14))
    assert test.upper is not None
    assert test.non_inferior is bool(test.upper < margin) is True


def test_non_inferior_iff_the_upper_bound_is_below_the_margin_and_equivalent_iff_both_bounds_are_within() -> (
    None
):
    rng = np.random.default_rng(2)
    seen = set()
    for shift in np.linspace(-0.3, 0.3, 41):
        against = 1.0 + 0.1 * rng.normal(size=150)
        test = non_inferiority(against + shift + 0.5 * rng.normal(size=150), against, margin=0.15)
        assert test.upper is not None and test.lower is not None
        assert test.non_inferior is (test.upper < test.margin)
        assert test.equivalent is (test.upper < test.margin and test.lower > -test.margin)
        seen.add((test.non_inferior, test.equivalent))
    assert seen == {(True, True), (True, False), (False, False)}


def test_non_inferiority_of_identical_constant_and_few_losses() -> None:
    same = non_inferiority(LOSS, LOSS)
    assert (same.difference, same.lower, same.upper, same.p_value) == (0.0, 0.0, 0.0, 0.0)
    assert same.non_inferior and same.equivalent
    worse = non_inferiority(LOSS + 1.0, LOSS, margin=0.02)
    assert (worse.p_value, worse.non_inferior, worse.equivalent) == (1.0, False, False)
    better = non_inferiority(LOSS - 0.4, LOSS, margin=0.02)
    assert (better.p_value, better.non_inferior, better.equivalent) == (0.0, True, False)
    few = non_inferiority(LOSS[:5], AGAINST[:5])
    assert (few.p_value, few.upper, few.non_inferior, few.equivalent) == (None, None, False, False)
    assert few.reason is not None and "too few" in few.reason


@pytest.mark.parametrize("margin", [0.0, -0.1, float("nan"), float("inf")])
def test_margin_must_be_positive(margin: float) -> None:
    with pytest.raises(EvaluationError, match="margin"):
        non_inferiority(LOSS, AGAINST, margin=margin)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0, 3])
def test_size_and_power(overlap: int) -> None:
    rng = np.random.default_rng(10 + overlap)
    simulations, n = 3000, 300
    rejected = naive = found = 0
    for _ in range(simulations):
        noise = rng.normal(size=n + overlap)
        d = np.convolve(noise, np.ones(overlap + 1), mode="valid") / math.sqrt(overlap + 1)
        loss = 2.0 + rng.normal(size=n)
        test = diebold_mariano(loss + d, loss, overlap=overlap)
        planted = diebold_mariano(loss + d + 0.6, loss, overlap=overlap)
        assert test.p_value is not None and planted.p_value is not None
        rejected += test.p_value < 0.05
        found += planted.p_value < 0.05 and planted.mean_difference > 0.0
        naive += abs(d.mean()) > 1.96 * d.std() / math.sqrt(n)
    assert 0.035 < rejected / simulations < 0.08
    assert found / simulations > 0.99
    if overlap:
        # The control: a test that ignores the overlap rejects a true null far too often.
        assert naive / simulations > 0.2


@pytest.mark.slow
def test_non_inferiority_has_its_size_at_the_margin_and_power_at_zero_difference() -> None:
    rng = np.random.default_rng(20)
    simulations, n = 2000, 400
    at_margin = at_zero = 0
    for _ in range(simulations):
        against = np.full(n, 1.0)
        d = rng.normal(size=n)
        at_margin += non_inferiority(against + 0.2 + d, against, margin=0.2).non_inferior
        at_zero += non_inferiority(against + d, against, margin=0.2).non_inferior
    assert 0.03 < at_margin / simulations < 0.08
    assert at_zero / simulations > 0.97
