"""Forecast intervals from held-out residuals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt


def residual_interval(residuals: npt.NDArray[np.float64], coverage: float) -> tuple[float, float]:
    """Give what to add to a forecast for its lower and upper bound.

    The bounds are the outer order statistics of split conformal prediction (Lei et al. 2018,
    "Distribution-Free Predictive Inference for Regression", section 2.2), taken on each side. Validation
    residuals are neither independent nor stationary, so the coverage is measured on the test span and not
    promised.

    Parameters
    ----------
    residuals : ndarray of float64, shape (n,)
        Outcome minus forecast, on rows that the model was not fitted on where there are any.
    coverage : float
        Share of outcomes that shall lie inside, between 0 and 1.

    Returns
    -------
    tuple of float
        Lower and upper offset; both zero where there are no residuals.
    """
    n = len(residuals)
    if n == 0:
        return 0.0, 0.0
    ordered = np.sort(residuals)
    # Exactly, in the decimals of the coverage: in floats 0.05 of 40 would fall short of 2.
    outside = int((1 - Fraction(repr(float(coverage)))) / 2 * (n + 1))
    if outside == 0:
        return float(ordered[0]), float(ordered[-1])
    return float(ordered[outside - 1]), float(ordered[n - outside])
