"""Whether the sign of a forecast says something about the sign of the outcome."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from quantattn.errors import EvaluationError
from quantattn.evaluation.hac import enough_times, hac_lags, long_run_variance
from quantattn.evaluation.panel import Panel

Floats = npt.NDArray[np.float64]


class DirectionTest(NamedTuple):
    """A statistic that is standard normal without predictive content, and its one-sided p-value."""

    statistic: float
    p_value: float


def hits(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> Floats:
    """Say where forecast and outcome have the same sign.

    Parameters
    ----------
    y_true, y_pred : array_like of float
        Outcomes and forecasts; shapes broadcast.

    Returns
    -------
    ndarray of float
        1 for a hit, 0 for a miss, NaN where the outcome is exactly zero and so has no direction. A forecast
        of exactly zero is a miss.
    """
    outcome, forecast = np.asarray(y_true, dtype=np.float64), np.asarray(y_pred, dtype=np.float64)
    return np.where(outcome == 0.0, np.nan, (np.sign(outcome) == np.sign(forecast)).astype(np.float64))


def pesaran_timmermann(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> DirectionTest | None:
    r"""Test one series of independent outcomes for directional accuracy.

    :math:`S_n = (\hat P - \hat P_*)/\sqrt{\hat V(\hat P) - \hat V(\hat P_*)}`, where :math:`\hat P` is the
    share of equal signs and :math:`\hat P_*` the share expected if signs were independent. It assumes that
    outcomes are serially independent; :func:`panel_direction_test` does not.

    Parameters
    ----------
    y_true, y_pred : array_like of float, shape (n,)
        Outcomes and forecasts of one entity. Positive against not positive; outcomes of zero are left out.

    Returns
    -------
    DirectionTest or None
        One-sided: small p-values speak for predictive content. None where outcomes or forecasts never
        change sign, for then the test has no meaning.

    Raises
    ------
    EvaluationError
        If the two differ in length.

    References
    ----------
    Pesaran, M. H. & Timmermann, A. (1992). A simple nonparametric test of predictive performance. Journal of
    Business & Economic Statistics, 10(4), 461-465, equations 4 to 6.
    """
    outcome, forecast = np.asarray(y_true, dtype=np.float64), np.asarray(y_pred, dtype=np.float64)
    if outcome.shape != forecast.shape or outcome.ndim != 1:
        raise EvaluationError(
            f"y_true has shape {outcome.shape} and y_pred {forecast.shape}; give two series of the same "
            "length"
        )
    kept = outcome != 0.0
    up, said_up = outcome[kept] > 0.0, forecast[kept] > 0.0
    n = up.size
    if n == 0 or up.all() or not up.any() or said_up.all() or not said_up.any():
        return None
    y, x = float(up.mean()), float(said_up.mean())
    share = float((up == said_up).mean())
    expected = y * x + (1 - y) * (1 - x)
    variance = expected * (1 - expected) / n
    spread = ((2 * y - 1) ** 2 * x * (1 - x) + (2 * x - 1) ** 2 * y * (1 - y)) / n
    spread += 4 * y * x * (1 - y) * (1 - x) / n**2
    if variance - spread <= 0.0:
        return None
    statistic = (share - expected) / math.sqrt(variance - spread)
    return DirectionTest(statistic, float(ndtr(-statistic)))


def panel_direction_test(panel: Panel, y_pred: Floats) -> DirectionTest | None:
    r"""Test a panel with dependent rows and overlapping labels for directional accuracy.

    The statistic of Pesaran and Timmermann rests on the covariance of the two signs, for
    :math:`\hat P - \hat P_* = 2\,\mathrm{cov}(x, y)`. Here the products
    :math:`2(x_{it}-\bar x)(y_{it}-\bar y)` are averaged over entities at each forecast time, and the mean of
    that series is divided by a standard error that allows for serial dependence. The lag-zero variance is
    taken about the null's mean of zero, which makes the statistic that of Pesaran and Timmermann (1992), to
    first order, for one entity and no lags.

    Parameters
    ----------
    panel : Panel
        Outcomes and their forecast times.
    y_pred : ndarray of float, shape (S, N)
        One model's forecasts; the series is averaged over its S seeds.

    Returns
    -------
    DirectionTest or None
        One-sided. None where signs never change or there are too few forecast times.

    References
    ----------
    Pesaran, M. H. & Timmermann, A. (2009). Testing dependence among serially correlated multicategory
    variables. Journal of the American Statistical Association, 104(485), 325-337 (serial dependence, by
    regression).
    """
    moved = panel.y_true != 0.0
    up = np.where(moved, panel.y_true > 0.0, np.nan)
    said_up = np.where(moved, y_pred > 0.0, np.nan)
    up_share = np.nanmean(panel.over_entities(up)) if moved.any() else np.nan
    series = np.full((y_pred.shape[0], panel.times.size), np.nan)
    for at, one in enumerate(said_up):
        share = np.nanmean(panel.over_entities(one)) if moved.any() else np.nan
        series[at] = panel.over_entities(2.0 * (one - share) * (up - up_share))
    score = series.mean(axis=0)
    score = score[~np.isnan(score)]
    lags = hac_lags(score.size, overlap=panel.overlap)
    if not enough_times(score.size, lags) or float(np.max(np.abs(score))) < 1e-12:
        return None
    mean = float(score.mean())
    variance = (long_run_variance(score, lags) + mean**2) / score.size
    if variance <= 0.0:
        return None
    statistic = mean / math.sqrt(variance)
    return DirectionTest(statistic, float(ndtr(-statistic)))
