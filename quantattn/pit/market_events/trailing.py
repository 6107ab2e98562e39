"""Trailing figures of one unbroken run of bars.

Every value is computed from its own window alone, term by term in one fixed order, so cutting the later
rows away changes no earlier value by a single bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]


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
    """Give the greatest of the last `window` values, or of all so far while there are fewer; no NaN."""
    return pl.Series(values, dtype=pl.Float64).rolling_max(window, min_samples=1).to_numpy()


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
    places = [quantile * (window - 1) for quantile in quantiles]
    lower = [int(np.floor(place)) for place in places]
    upper = [min(low + 1, window - 1) for low in lower]
    ranks = sorted({*lower, *upper})
    # Nulls are slow to rank: those at the beginning are left out, and put back.
    unknown = np.isnan(values)
    first = int(np.argmin(unknown)) if unknown.size and not unknown.all() else values.size
    table = pl.DataFrame({"x": pl.Series(values[first:], dtype=pl.Float64).fill_nan(None)})
    # One query, so that polars ranks on all its threads at once.
    ranked = table.select(_ranked(rank, window).fill_null(np.nan).alias(str(rank)) for rank in ranks)
    start = np.full(first, np.nan)
    value = {rank: np.concatenate([start, ranked[str(rank)].to_numpy()]) for rank in ranks}
    return [
        value[low] + (value[high] - value[low]) * (place - low)
        for place, low, high in zip(places, lower, upper, strict=True)
    ]


def _ranked(rank: int, window: int) -> pl.Expr:
    """Give the value of one rank, unchanged, in each full window without a null."""
    if rank == window - 1:
        return pl.col("x").rolling_max(window, min_samples=window)
    # Between two ranks, so that no rounding picks a neighbour.
    share = (rank + 0.5) / (window - 1)
    return pl.col("x").rolling_quantile(share, "lower", window, min_samples=window)


def lagged(values: Floats) -> Floats:
    """Move every value one row later; the first becomes NaN."""
    out = np.full(values.shape, np.nan)
    out[1:] = values[:-1]
    return out
