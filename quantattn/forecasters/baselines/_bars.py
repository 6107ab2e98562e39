"""Trailing statistics of the bars that are visible at a forecast time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable
from quantattn.pit.timestamps import visible_counts


def at_last_visible_bar(table: SampleTable, rows: Integers, trailing: Callable[[Floats], Floats]) -> Floats:
    """Evaluate a trailing statistic at the last bar visible at each forecast (rule 1, strictly earlier).

    Parameters
    ----------
    table : SampleTable
    rows : ndarray of int64, shape (m,)
    trailing : callable
        From one entity's log returns, shape (b,), NaN where missing, to one value for each bar, shape
        (b,), each of which may depend on that bar and earlier ones alone.

    Returns
    -------
    ndarray of float64, shape (m,)
        NaN where no bar is visible.

    Raises
    ------
    TimestampError
        If an entity's bars are not in order of ``available_at``.
    """
    values = np.full(rows.size, np.nan)
    for entity, positions in table.positions_by_entity(rows).items():
        if entity not in table.bars_by_entity:
            continue
        available_at, returns = table.bars_by_entity[entity]
        counts = visible_counts(available_at, table.forecast_times[rows[positions]])
        padded = np.concatenate([[np.nan], trailing(returns)])
        values[positions] = padded[counts]
    return values


def ewma(values: Floats, decay: float) -> Floats:
    """Give the exponentially weighted mean up to each bar, weights ``decay ** age`` scaled to sum to one.

    Parameters
    ----------
    values : ndarray of float64, shape (b,)
        NaN where missing; a missing value has no weight, but its bar ages the earlier ones.
    decay : float
        Between 0 and 1; RiskMetrics uses 0.94 for daily data.

    Returns
    -------
    ndarray of float64, shape (b,)
        NaN until the first value.
    """
    if values.size == 0:
        return values
    known = np.isfinite(values)
    # A recursion, so that later values cannot change earlier results by as much as a rounding.
    total = lfilter([1.0], [1.0, -decay], np.where(known, values, 0.0))
    weight = lfilter([1.0], [1.0, -decay], known.astype(np.float64))
    mean: Floats = np.divide(total, weight, out=np.full(values.size, np.nan), where=weight > 0)
    return mean


def trailing_sum(values: Floats, width: int) -> Floats:
    """Give the sum of the last `width` values up to each one.

    Parameters
    ----------
    values : ndarray of float64, shape (b,)
        NaN where missing.
    width : int
        At least 1.

    Returns
    -------
    ndarray of float64, shape (b,)
        NaN until `width` values exist, and where one of them is missing.
    """
    sums = np.full(values.size, np.nan)
    if values.size >= width:
        windows = np.lib.stride_tricks.sliding_window_view(values, width)
        # One addition after the other: the bits of a sum depend on its own window alone.
        total = windows[:, 0].copy()
        for age in range(1, width):
            total += windows[:, age]
        sums[width - 1 :] = total
    return sums
