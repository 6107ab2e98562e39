"""Information coefficients: cross-sectional correlations of forecasts and outcomes, time by time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.evaluation.panel import Panel

Floats = npt.NDArray[np.float64]


def ic_series(panel: Panel, y_pred: Floats) -> Floats:
    """Give the Pearson correlation over entities at each forecast time.

    Parameters
    ----------
    panel : Panel
        Outcomes and their forecast times.
    y_pred : ndarray of float, shape (S, N)
        Forecasts of one model, a row per seed.

    Returns
    -------
    ndarray of float, shape (S, T)
        NaN where there is no cross-section: fewer than two entities, or equal forecasts or outcomes.

    References
    ----------
    Grinold, R. C. & Kahn, R. N. (2000). Active Portfolio Management, 2nd ed., chapter 6.
    """
    return _correlation(panel, y_pred, panel.y_true, _varies(panel, y_pred) & _varies(panel, panel.y_true))


def rank_ic_series(panel: Panel, y_pred: Floats) -> Floats:
    """Give the Spearman correlation over entities at each forecast time; ties have their average rank.

    Parameters
    ----------
    panel : Panel
        Outcomes and their forecast times.
    y_pred : ndarray of float, shape (S, N)
        Forecasts of one model, a row per seed.

    Returns
    -------
    ndarray of float, shape (S, T)
        NaN where :func:`ic_series` is.
    """
    columns = {str(at): one for at, one in enumerate(y_pred)} | {
        "true": panel.y_true,
        "time": panel.time_of_row,
    }
    ranks = pl.DataFrame(columns).select(pl.exclude("time").rank("average").over("time")).to_numpy()
    # Whether there is anything to rank is decided on the values, where equality up to rounding shows.
    varies = _varies(panel, y_pred) & _varies(panel, panel.y_true)
    return _correlation(
        panel, np.ascontiguousarray(ranks[:, :-1].T), np.ascontiguousarray(ranks[:, -1]), varies
    )


def _varies(panel: Panel, values: Floats) -> npt.NDArray[np.bool_]:
    high = np.maximum.reduceat(values, panel.starts, axis=-1)
    low = np.minimum.reduceat(values, panel.starts, axis=-1)
    return np.asarray(high - low > 1e-12 * np.maximum(np.abs(high), np.abs(low)))


def _correlation(panel: Panel, left: Floats, right: Floats, varies: npt.NDArray[np.bool_]) -> Floats:
    at = panel.time_of_row
    left_centred = left - panel.over_entities(left)[..., at]
    right_centred = right - panel.over_entities(right)[..., at]
    covariance = panel.over_entities(left_centred * right_centred)
    scale = np.sqrt(panel.over_entities(left_centred**2) * panel.over_entities(right_centred**2))
    defined = varies & (scale > 0.0)
    correlation = np.divide(covariance, scale, out=np.full_like(covariance, np.nan), where=defined)
    return np.clip(correlation, -1.0, 1.0)
