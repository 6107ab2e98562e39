"""Standard errors of a mean that allow for serial dependence, and the one rule for their lags."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LAG_RULE: Final = "the larger of 3 times the label overlap in forecast times and floor(4 (n/100)^(2/9))"
"""How :func:`hac_lags` chooses, in words."""

LEAST_TIMES: Final = 10
"""Below so many forecast times no standard error is given."""


def hac_lags(n: int, *, overlap: int) -> int:
    """Choose how many autocovariances enter a Bartlett long-run variance.

    Parameters
    ----------
    n : int
        Length of the series, in forecast times.
    overlap : int
        How many later forecast times have labels that overlap a forecast's own label; errors of optimal
        forecasts are correlated over just so many.

    Returns
    -------
    int
        The larger of ``3 * overlap`` and the plug-in rule ``floor(4 (n/100)**(2/9))``.

    Notes
    -----
    As many lags as labels overlap would reach every autocovariance that the overlap causes, but the Bartlett
    kernel gives them half their weight on average, and the variance falls short by up to a third; with
    three times as many it falls short by about a ninth.

    References
    ----------
    Newey, W. K. & West, K. D. (1994). Automatic lag selection in covariance matrix estimation. Review of
    Economic Studies, 61(4), 631-653, section 3 (the Bartlett kernel's exponent).
    """
    return max(3 * int(overlap), math.floor(4.0 * (n / 100.0) ** (2.0 / 9.0)) if n else 0)


def enough_times(n: int, lags: int) -> bool:
    """Say whether a series of length `n` bears a standard error with so many lags."""
    return n >= least_times(lags)


def least_times(lags: int) -> int:
    """Give the least length of a series for a standard error with so many lags."""
    return max(LEAST_TIMES, 3 * (lags + 1))


def long_run_variance(series: Floats, lags: int) -> float:
    r"""Estimate the long-run variance of a series with the Bartlett kernel.

    :math:`\hat\gamma_0 + 2\sum_{l=1}^{L}(1 - l/(L+1))\hat\gamma_l` with
    :math:`\hat\gamma_l = n^{-1}\sum_{t>l}(x_t-\bar x)(x_{t-l}-\bar x)`. It is never negative.

    Parameters
    ----------
    series : ndarray of float, shape (n,)
        Values in order of time, finite.
    lags : int
        The number L of autocovariances.

    Returns
    -------
    float
        In squared units of the series. The variance of its mean is this divided by n.

    References
    ----------
    Newey, W. K. & West, K. D. (1987). A simple, positive semi-definite, heteroskedasticity and
    autocorrelation consistent covariance matrix. Econometrica, 55(3), 703-708, equation 5.
    """
    n = series.size
    centred = series - series.mean()
    total = float(centred @ centred)
    for lag in range(1, min(lags, n - 1) + 1):
        total += 2.0 * (1.0 - lag / (lags + 1.0)) * float(centred[lag:] @ centred[:-lag])
    return max(total / n, 0.0)


def is_constant(series: Floats, scale: float | None = None) -> bool:
    """Say whether a series varies by no more than rounding.

    Parameters
    ----------
    series : ndarray of float, shape (n,)
        Finite values.
    scale : float, optional
        The size of the numbers that the series was computed from; by default its own largest magnitude.

    Returns
    -------
    bool
    """
    if series.size == 0:
        return True
    reference = float(np.max(np.abs(series))) if scale is None else scale
    return bool(np.ptp(series) <= 1e-12 * reference)
