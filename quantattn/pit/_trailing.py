"""Trailing figures of one unbroken run of bars.

Every value is computed from its own window alone, term by term in one fixed order, so cutting the later
rows away changes no earlier value by a single bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROWS_AT_ONCE = 8192


def trailing_sum(values: Floats, window: int) -> Floats:
    """Sum the last `window` values at each row; NaN until there are that many.

    Parameters
    ----------
    values : ndarray, shape (n,)
        May begin with NaN, which spreads to every window that holds it.
    window : int
        At least 1.

    Returns
    -------
    ndarray, shape (n,)
    """
    out = np.full(values.shape, np.nan)
    count = values.size - window + 1
    if count > 0:
        total = values[:count].copy()
        for offset in range(1, window):
            total += values[offset : offset + count]
        out[window - 1 :] = total
    return out


def trailing_mean(values: Floats, window: int) -> Floats:
    """Average the last `window` values at each row; NaN until there are that many."""
    return trailing_sum(values, window) / window


def trailing_std(values: Floats, window: int) -> Floats:
    """Give the sample standard deviation (divisor window - 1) of the last `window` values at each row."""
    out = np.full(values.shape, np.nan)
    count = values.size - window + 1
    if count > 0:
        mean = trailing_mean(values, window)[window - 1 :]
        total = np.zeros(count)
        for offset in range(window):
            deviation = values[offset : offset + count] - mean
            total += deviation * deviation
        out[window - 1 :] = np.sqrt(total / (window - 1))
    return out


def trailing_max(values: Floats, window: int) -> Floats:
    """Give the greatest of the last `window` values, or of all so far while there are fewer."""
    out: Floats = np.maximum.accumulate(values)
    if values.size > window:
        windows = np.lib.stride_tricks.sliding_window_view(values, window)
        for start in range(0, windows.shape[0], _ROWS_AT_ONCE):
            block = windows[start : start + _ROWS_AT_ONCE]
            out[window - 1 + start : window - 1 + start + block.shape[0]] = block.max(axis=1)
    return out


def trailing_min(values: Floats, window: int) -> Floats:
    """Give the least of the last `window` values, or of all so far while there are fewer."""
    return -trailing_max(-values, window)


def trailing_quantiles(values: Floats, window: int, quantiles: Sequence[float]) -> list[Floats]:
    """Give linearly interpolated quantiles of the last `window` values at each row.

    Parameters
    ----------
    values : ndarray, shape (n,)
        May begin with NaN.
    window : int
        At least 1.
    quantiles : sequence of float
        Each within [0, 1].

    Returns
    -------
    list of ndarray, each of shape (n,)
        NaN until `window` values have been seen, and where a window holds a NaN.
    """
    out = [np.full(values.shape, np.nan) for _ in quantiles]
    if values.size < window:
        return out
    places = [quantile * (window - 1) for quantile in quantiles]
    lower = [int(np.floor(place)) for place in places]
    upper = [min(low + 1, window - 1) for low in lower]
    whole = ~np.isnan(trailing_sum(values, window)[window - 1 :])
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    for start in range(0, windows.shape[0], _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, windows.shape[0])
        ranked = np.partition(windows[start:stop], sorted({*lower, *upper}), axis=1)
        rows = slice(window - 1 + start, window - 1 + stop)
        for result, place, low, high in zip(out, places, lower, upper, strict=True):
            below, above = ranked[:, low].copy(), ranked[:, high].copy()
            result[rows] = np.where(whole[start:stop], below + (above - below) * (place - low), np.nan)
    return out


def lagged(values: Floats) -> Floats:
    """Move every value one row later; the first becomes NaN."""
    out = np.full(values.shape, np.nan)
    out[1:] = values[:-1]
    return out
