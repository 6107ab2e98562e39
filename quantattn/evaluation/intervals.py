"""Confidence intervals: of a mean (Bartlett HAC) and of a ratio of means (stationary bootstrap)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from quantattn.errors import EvaluationError
from quantattn.evaluation.hac import enough_times, hac_lags, is_constant, long_run_variance

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with its confidence interval; bounds are None where there are too few forecast times."""

    value: float | None
    low: float | None
    high: float | None


UNDEFINED = Interval(None, None, None)
"""The interval of a figure that is not defined on the forecasts given."""


def finite(value: float) -> float | None:
    """Give a figure as a Python float, or None where it is NaN or infinite: JSON holds neither."""
    number = float(value)
    return number if math.isfinite(number) else None


def check_confidence(confidence: float) -> float:
    """Give the confidence level back.

    Raises
    ------
    EvaluationError
        If it does not lie strictly between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise EvaluationError(f"confidence={confidence!r} is not between 0 and 1; write for example 0.95")
    return float(confidence)


def mean_interval(
    series: Floats,
    *,
    confidence: float = 0.95,
    overlap: int = 0,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    r"""Give the mean of a series with an interval that allows for serial dependence.

    :math:`\bar x \pm t_{n-1}\sqrt{\hat\omega/n}` with the Bartlett long-run variance :math:`\hat\omega` and
    the lags of :func:`~quantattn.evaluation.hac_lags`.

    Parameters
    ----------
    series : ndarray of float, shape (T,)
        One value per forecast time, in order of time; NaN where it is not defined, which is left out.
    confidence : float
        Coverage of the interval, between 0 and 1.
    overlap : int
        Label overlap in forecast times.
    within : tuple of float
        The range of the metric, to which the interval is clipped.

    Returns
    -------
    Interval
        All None if no value is defined or one is infinite; without bounds if there are too few.

    References
    ----------
    Newey, W. K. & West, K. D. (1987). Econometrica, 55(3), 703-708.
    """
    check_confidence(confidence)
    kept = series[~np.isnan(series)]
    if kept.size == 0 or not np.all(np.isfinite(kept)):
        return UNDEFINED
    mean = float(kept.mean())
    lags = hac_lags(kept.size, overlap=overlap)
    if not enough_times(kept.size, lags):
        return Interval(mean, None, None)
    if is_constant(kept):
        return Interval(mean, mean, mean)
    error = math.sqrt(long_run_variance(kept, lags) / kept.size)
    reach = float(stdtrit(kept.size - 1, 0.5 + confidence / 2.0)) * error
    return Interval(mean, max(mean - reach, within[0]), min(mean + reach, within[1]))


def block_length(series: Floats, *, overlap: int = 0) -> int:
    """Choose the mean block length of a stationary bootstrap.

    Parameters
    ----------
    series : ndarray of float, shape (K, T)
        One or several series; the longest of their block lengths serves all.
    overlap : int
        Label overlap in forecast times; a block is longer than it.

    Returns
    -------
    int
        Between 1 and a third of the series' length.

    References
    ----------
    Politis, D. N. & White, H. (2004). Automatic block-length selection for the dependent bootstrap.
    Econometric Reviews, 23(1), 53-70; corrected by Patton, Politis & White (2009), Econometric Reviews,
    28(4), 372-375.
    """
    from arch.bootstrap import optimal_block_length

    n = series.shape[-1]
    varying = [one for one in np.atleast_2d(series) if not is_constant(one)]
    longest = overlap + 1
    if varying and n >= 8:
        with np.errstate(all="ignore"):
            lengths = optimal_block_length(np.column_stack(varying))["stationary"].to_numpy()
        usable = lengths[np.isfinite(lengths)]
        longest = max([longest, *(math.ceil(length) for length in usable)])
    return int(max(1, min(longest, n // 3)))


def bootstrap_indices(n: int, *, block: int, reps: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw the positions of a stationary block bootstrap.

    Parameters
    ----------
    n : int
        Length of the series.
    block : int
        Mean block length.
    reps : int
        Number of resamples.
    seed : int
        Seed; equal seeds give equal draws.

    Returns
    -------
    ndarray of int64, shape (reps, n)

    References
    ----------
    Politis, D. N. & Romano, J. P. (1994). The stationary bootstrap. Journal of the American Statistical
    Association, 89(428), 1303-1313.
    """
    from arch.bootstrap import StationaryBootstrap

    bootstrap = StationaryBootstrap(block, np.arange(n), seed=seed)
    return np.stack([positional[0] for positional, _ in bootstrap.bootstrap(reps)]).astype(np.int64)


def resampled_means(series: Floats, indices: npt.NDArray[np.int64]) -> Floats:
    """Give the means of several series under the same resampling.

    Parameters
    ----------
    series : ndarray of float, shape (K, n)
        Series that belong to the same times.
    indices : ndarray of int64, shape (reps, n)
        Positions, as from :func:`bootstrap_indices`.

    Returns
    -------
    ndarray of float, shape (reps, K)
    """
    reps, n = indices.shape
    flat = indices + np.arange(reps)[:, None] * n
    weights = np.bincount(flat.ravel(), minlength=reps * n).reshape(reps, n) / n
    return np.asarray(weights @ series.T, dtype=np.float64)


def r2_intervals(
    losses: Floats, benchmark: Floats, *, confidence: float, overlap: int, seed: int
) -> list[Interval]:
    r"""Give the out-of-sample R² of several models against one benchmark, with bootstrap intervals.

    :math:`R^2 = 1 - \sum_t L_t / \sum_t L^{b}_t`. Both losses of a forecast time are resampled together, in
    blocks, and all models share the draws; the bounds are percentiles.

    Parameters
    ----------
    losses : ndarray of float, shape (K, T)
        Squared errors of each model, averaged over entities, in order of time.
    benchmark : ndarray of float, shape (T,)
        Squared errors of the benchmark.
    confidence : float
        Coverage of the intervals, between 0 and 1.
    overlap : int
        Label overlap in forecast times.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    list of Interval
        One per model; undefined where the benchmark never errs, without bounds where there are too few times.

    References
    ----------
    Campbell, J. Y. & Thompson, S. B. (2008). Predicting excess stock returns out of sample. Review of
    Financial Studies, 21(4), 1509-1531, equation 1.
    """
    check_confidence(confidence)
    n = benchmark.size
    if n == 0 or float(benchmark.mean()) <= 0.0:
        return [UNDEFINED for _ in losses]
    values = [finite(1.0 - float(one.mean()) / float(benchmark.mean())) for one in losses]
    if not enough_times(n, hac_lags(n, overlap=overlap)):
        return [Interval(value, None, None) for value in values]
    together = np.vstack([losses, benchmark])
    indices = bootstrap_indices(n, block=block_length(together, overlap=overlap), reps=1000, seed=seed)
    means = resampled_means(together, indices)
    drawn = means[means[:, -1] > 0.0]
    ratios = 1.0 - drawn[:, :-1] / drawn[:, -1:]
    tail = (1.0 - confidence) / 2.0
    bounds = np.quantile(ratios, [tail, 1.0 - tail], axis=0)
    return [Interval(value, finite(bounds[0, k]), finite(bounds[1, k])) for k, value in enumerate(values)]
