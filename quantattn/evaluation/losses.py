"""Losses of single forecasts. All are zero for a perfect forecast and never negative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def squared_error(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> Floats:
    """Give the squared error ``(y - f)**2``, in squared units of the target.

    Parameters
    ----------
    y_true, y_pred : array_like of float
        Outcomes and forecasts; shapes broadcast.

    Returns
    -------
    ndarray of float
    """
    return np.square(np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred, dtype=np.float64))


def absolute_error(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> Floats:
    """Give the absolute error ``|y - f|``, in units of the target.

    Parameters
    ----------
    y_true, y_pred : array_like of float
        Outcomes and forecasts; shapes broadcast.

    Returns
    -------
    ndarray of float
    """
    return np.abs(np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred, dtype=np.float64))


def qlike(log_variance: npt.ArrayLike, log_forecast: npt.ArrayLike) -> Floats:
    r"""Give the QLIKE loss of a variance forecast, from logarithms of variances.

    With outcome :math:`\sigma^2 = e^y` and forecast :math:`h = e^f` it is
    :math:`\sigma^2/h - \log(\sigma^2/h) - 1`, the member :math:`b = -2` of the family of losses that
    ranks forecasts of a latent variance correctly from a noisy proxy.

    Parameters
    ----------
    log_variance, log_forecast : array_like of float
        Natural logarithms of the realised variance and of its forecast; shapes broadcast.

    Returns
    -------
    ndarray of float
        Without unit. Infinite where the ratio of variances exceeds the range of floats.

    References
    ----------
    Patton, A. J. (2011). Volatility forecast comparison using imperfect volatility proxies. Journal of
    Econometrics, 160(1), 246-256, equation 24.
    """
    difference = np.asarray(log_variance, dtype=np.float64) - np.asarray(log_forecast, dtype=np.float64)
    with np.errstate(over="ignore"):
        # expm1 keeps the loss of a nearly perfect forecast from drowning in rounding.
        return np.maximum(np.expm1(difference) - difference, 0.0)


def qlike_of_variances(variance: npt.ArrayLike, forecast: npt.ArrayLike) -> Floats:
    """Give the loss of :func:`qlike` from variances instead of their logarithms.

    Parameters
    ----------
    variance, forecast : array_like of float
        The realised variance and its forecast, in the same unit; shapes broadcast.

    Returns
    -------
    ndarray of float
        Without unit. NaN where the outcome is not positive, for then no forecast has a loss. Infinite
        where the outcome is positive and the forecast is not, so that a mean over it is undefined instead
        of leaving out the worst forecasts.
    """
    outcome, told = np.broadcast_arrays(
        np.asarray(variance, dtype=np.float64), np.asarray(forecast, dtype=np.float64)
    )
    losses = np.full(outcome.shape, np.nan)
    losses[(outcome > 0.0) & (told <= 0.0)] = np.inf
    both = (outcome > 0.0) & (told > 0.0)
    losses[both] = qlike(np.log(outcome[both]), np.log(told[both]))
    return losses
