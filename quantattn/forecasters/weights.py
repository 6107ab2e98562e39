"""What each training target weighs, from the training rows of the fold alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quantattn.errors import ForecasterError
from quantattn.forecasters.tokens import Integers

Floats64 = npt.NDArray[np.float64]

LEAST_SHARE = 0.1
"""A trailing volatility counts for no less than this share of that over all training rows."""


def trailing_volatility(
    values: Floats64, available_at: Integers, forecast_times: Integers, *, window: int
) -> Floats64:
    """Give the standard deviation of the last targets of one entity that were known before each forecast.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Targets of its training rows, finite.
    available_at : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC, at which each can be known.
    forecast_times : ndarray of int64, shape (m,)
        Nanoseconds since the epoch, UTC.
    window : int
        How many of the last known targets enter.

    Returns
    -------
    ndarray of float64, shape (m,)
        NaN where fewer than two targets were known strictly before the forecast.
    """
    order = np.argsort(available_at, kind="stable")
    ordered = values[order]
    counts = np.searchsorted(available_at[order], forecast_times, side="left")
    found = np.full(len(forecast_times), np.nan)
    for count in np.unique(counts[counts >= 2]).tolist():
        found[counts == count] = np.std(ordered[max(0, count - window) : count])
    return found


def volatility_weights(
    values: Floats64,
    available_at: Integers,
    entities: npt.NDArray[np.str_] | npt.NDArray[np.object_],
    forecast_times: Integers,
    *,
    window: int,
) -> Floats64:
    """Give weights inverse to the trailing volatility of the target, of mean one.

    Parameters
    ----------
    values : ndarray of float64, shape (m,)
        One target of the training rows, finite.
    available_at, forecast_times : ndarray of int64, shape (m,)
        Nanoseconds since the epoch, UTC.
    entities : ndarray of str, shape (m,)
        Whose target it is.
    window : int
        How many of the last known targets of the entity the volatility is measured over.

    Returns
    -------
    ndarray of float64, shape (m,)
        Where fewer than two are known yet, the volatility over all training rows stands in. It is also the
        measure of how little a trailing one may be, see :data:`LEAST_SHARE`.
    """
    overall = float(np.std(values))
    if not overall > 0:
        return np.ones(len(values))
    volatility = np.full(len(values), np.nan)
    for entity in np.unique(entities):
        own = np.flatnonzero(entities == entity)
        volatility[own] = trailing_volatility(
            values[own], available_at[own], forecast_times[own], window=window
        )
    volatility = np.maximum(np.where(np.isnan(volatility), overall, volatility), LEAST_SHARE * overall)
    weights: Floats64 = 1 / volatility
    weights /= weights.mean()
    return weights


def class_weights(up: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Give the weights of down and up under which both classes weigh the same, the mean being one.

    Parameters
    ----------
    up : ndarray of bool, shape (m,)
        The directions of the training rows.

    Returns
    -------
    down, up : float
        ``m / (2 count)`` of each class.

    Raises
    ------
    ForecasterError
        If there is only one class.
    """
    n, ups = len(up), int(up.sum())
    if ups in (0, n):
        raise ForecasterError(
            f"all {n} training targets have one direction, so no weights make both weigh the same; lengthen "
            "the training window, or leave weights out"
        )
    return n / (2 * (n - ups)), n / (2 * ups)
