"""Paired comparisons of two models' losses: which is better, and which is at least not worse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from quantattn.errors import EvaluationError
from quantattn.evaluation.hac import enough_times, hac_lags, is_constant, least_times, long_run_variance

Floats = npt.NDArray[np.float64]

NO_DIFFERENCE: Final = "no difference found"
"""The verdict where the data do not tell two models apart."""


@dataclass(frozen=True)
class DieboldMariano:
    """The Diebold-Mariano test of equal expected loss.

    Attributes
    ----------
    mean_difference : float
        Mean of loss minus the loss compared against; negative where the first is better.
    low, high : float or None
        Two-sided interval of the mean difference at level 1 - alpha; it excludes zero iff ``p_value <
        alpha``.
    statistic, p_value : float or None
        The corrected statistic and its two-sided p-value. None where they are not defined; see `reason`.
    n : int
        Number of forecast times.
    hac_lags : int
        Number of autocovariances in the long-run variance.
    reason : str or None
        Why there is no statistic.
    """

    mean_difference: float
    low: float | None
    high: float | None
    statistic: float | None
    p_value: float | None
    n: int
    hac_lags: int
    reason: str | None


@dataclass(frozen=True)
class NonInferiority:
    """Two one-sided tests of a mean loss difference against a margin.

    Attributes
    ----------
    margin : float
        The largest mean loss difference that is still called no worse, in units of the loss.
    difference : float
        Mean of loss minus the loss compared against.
    lower, upper : float or None
        One-sided bounds of the difference, each at level 1 - alpha.
    p_value : float or None
        Of the hypothesis that the difference is `margin` or more.
    non_inferior : bool
        Whether that is rejected: the first model is not worse by `margin` or more.
    equivalent : bool
        Whether it is also rejected that the difference is ``-margin`` or less.
    reason : str or None
        Why there is no p-value.
    """

    margin: float
    difference: float
    lower: float | None
    upper: float | None
    p_value: float | None
    non_inferior: bool
    equivalent: bool
    reason: str | None


def hln_factor(n: int, steps: int) -> float:
    r"""Give the small-sample factor of Harvey, Leybourne and Newbold.

    :math:`\sqrt{(n + 1 - 2h + h(h-1)/n)/n}`.

    Parameters
    ----------
    n : int
        Number of forecasts.
    steps : int
        The horizon h in forecasts: 1 where labels do not overlap, else the label overlap plus 1.

    Returns
    -------
    float
        At most 1, and 0 where the horizon leaves no freedom.

    References
    ----------
    Harvey, D., Leybourne, S. & Newbold, P. (1997). Testing the equality of prediction mean squared errors.
    International Journal of Forecasting, 13(2), 281-291, equation 9.
    """
    return math.sqrt(max(n + 1 - 2 * steps + steps * (steps - 1) / n, 0.0) / n)


def diebold_mariano(
    loss: Floats, against: Floats, *, overlap: int = 0, alpha: float = 0.05
) -> DieboldMariano:
    r"""Test whether two models have the same expected loss.

    With :math:`d_t` the difference of the losses, the statistic is
    :math:`\bar d/\sqrt{\hat\omega/n}` times :func:`hln_factor`, compared with Student's t with n - 1 degrees
    of freedom. The long-run variance has the Bartlett kernel; its lags cover the label overlap.

    Parameters
    ----------
    loss, against : ndarray of float, shape (T,)
        Losses of the two models at each forecast time, averaged over entities (and seeds) first.
    overlap : int
        Label overlap in forecast times, see :func:`~quantattn.evaluation.label_overlap`.
    alpha : float
        Level of the test, between 0 and 1.

    Returns
    -------
    DieboldMariano
        Identical losses give a p-value of 1 and no statistic; a difference that is the same at every time
        gives a p-value of 0 and no statistic; too few times give neither.

    Raises
    ------
    EvaluationError
        If the series differ in length, are empty or hold values that are not finite.

    References
    ----------
    Diebold, F. X. & Mariano, R. S. (1995). Comparing predictive accuracy. Journal of Business & Economic
    Statistics, 13(3), 253-263, section 1.1. Harvey, Leybourne & Newbold (1997), equation 9.
    """
    difference = _difference(loss, against)
    check_level(alpha)
    n, lags = difference.size, hac_lags(difference.size, overlap=overlap)
    mean = float(difference.mean())
    scale = float(max(np.max(np.abs(loss)), np.max(np.abs(against))))
    if float(np.max(np.abs(difference))) <= 1e-12 * scale:
        return DieboldMariano(
            0.0, 0.0, 0.0, None, 1.0, n, lags, "the losses are identical at every forecast time"
        )
    error, reason = _standard_error(difference, overlap, scale)
    if error is None:
        return DieboldMariano(mean, None, None, None, None, n, lags, reason)
    if error == 0.0:
        reason = "the loss difference is the same at every forecast time"
        return DieboldMariano(mean, mean, mean, None, 0.0, n, lags, reason)
    statistic = mean / error
    reach = float(stdtrit(n - 1, 1.0 - alpha / 2.0)) * error
    p_value = 2.0 * float(stdtr(n - 1, -abs(statistic)))
    return DieboldMariano(mean, mean - reach, mean + reach, statistic, p_value, n, lags, None)


def non_inferiority(
    loss: Floats, against: Floats, *, margin: float = 0.02, overlap: int = 0, alpha: float = 0.05
) -> NonInferiority:
    r"""Test whether a model is not worse than another by a margin, and whether the two are equivalent.

    Two one-sided tests on the mean loss difference, with the standard error, small-sample factor and
    degrees of freedom of :func:`diebold_mariano`.

    Parameters
    ----------
    loss, against : ndarray of float, shape (T,)
        Losses of the model and of the one it is held against, averaged over entities (and seeds) first.
    margin : float
        The margin as a share of the mean of `against`, declared beforehand; that mean is taken as fixed.
    overlap : int
        Label overlap in forecast times.
    alpha : float
        Level of each one-sided test, between 0 and 1.

    Returns
    -------
    NonInferiority

    Raises
    ------
    EvaluationError
        If the margin is not positive and finite, or the series are unfit.

    References
    ----------
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure and the power approach for
    assessing the equivalence of average bioavailability. Journal of Pharmacokinetics and Biopharmaceutics,
    15(6), 657-680.
    """
    difference = _difference(loss, against)
    check_level(alpha)
    if not (math.isfinite(margin) and margin > 0.0):
        raise EvaluationError(
            f"margin={margin!r} is not a positive share of the loss; write for example 0.02 for two per cent"
        )
    bound = margin * float(against.mean())
    mean = float(difference.mean())
    scale = float(max(np.max(np.abs(loss)), np.max(np.abs(against))))
    error, reason = _standard_error(difference, overlap, scale)
    if error is None:
        return NonInferiority(bound, mean, None, None, None, False, False, reason)
    if error == 0.0:
        reason = "the loss difference is the same at every forecast time"
        below, above = mean < bound, mean > -bound
        return NonInferiority(bound, mean, mean, mean, 0.0 if below else 1.0, below, below and above, reason)
    freedom = difference.size - 1
    reach = float(stdtrit(freedom, 1.0 - alpha)) * error
    p_value = float(stdtr(freedom, (mean - bound) / error))
    other = float(stdtr(freedom, (-bound - mean) / error))
    non_inferior = p_value < alpha
    return NonInferiority(
        bound, mean, mean - reach, mean + reach, p_value, non_inferior, non_inferior and other < alpha, None
    )


def verdict(test: DieboldMariano, model: str, against: str, *, alpha: float = 0.05) -> str:
    """Say in words what a Diebold-Mariano test found.

    Parameters
    ----------
    test : DieboldMariano
        The test of `model` against `against`.
    model, against : str
        Their names.
    alpha : float
        Level of the test.

    Returns
    -------
    str
        ``"<name> better"`` where the p-value lies below `alpha`, else ``"no difference found"``.
    """
    if test.p_value is None or test.p_value >= alpha or test.mean_difference == 0.0:
        return NO_DIFFERENCE
    return f"{model if test.mean_difference < 0.0 else against} better"


def check_level(alpha: float) -> float:
    """Give the level of a test back.

    Raises
    ------
    EvaluationError
        If it does not lie strictly between 0 and 1.
    """
    if not 0.0 < alpha < 1.0:
        raise EvaluationError(f"alpha={alpha!r} is not between 0 and 1; write for example 0.05")
    return float(alpha)


def _difference(loss: Floats, against: Floats) -> Floats:
    if loss.ndim != 1 or loss.shape != against.shape or loss.size == 0:
        raise EvaluationError(
            f"losses have the shapes {loss.shape} and {against.shape}; give two series over the same "
            "forecast times"
        )
    for name, series in (("loss", loss), ("against", against)):
        if not np.all(np.isfinite(series)):
            at = np.flatnonzero(~np.isfinite(series))[:3].tolist()
            raise EvaluationError(
                f"{name} is not finite at positions {at}; find out which forecasts are broken"
            )
    return loss - against


def _standard_error(difference: Floats, overlap: int, scale: float) -> tuple[float | None, str | None]:
    """Give the corrected standard error of the mean: None with a reason, or 0 for a constant difference."""
    n = difference.size
    lags = hac_lags(n, overlap=overlap)
    factor = hln_factor(n, overlap + 1)
    if not enough_times(n, lags) or factor == 0.0:
        return (
            None,
            f"{n} forecast times are too few for {lags} lags; at least {least_times(lags)} are needed",
        )
    if is_constant(difference, scale):
        return 0.0, None
    return math.sqrt(long_run_variance(difference, lags) / n) / factor, None
