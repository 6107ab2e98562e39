"""GARCH(1,1): its estimation by arch, its recursion and its forecasts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from quantattn.forecasters.baselines.table import Floats

_PERCENT = 100.0
"""arch wants returns in per cent; its optimiser stalls on smaller numbers."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class GarchParameters:
    """One entity's model: r_t = mean + e_t, s_t = omega + alpha e_{t-1}^2 + beta s_{t-1}.

    Parameters
    ----------
    mean : float
        Daily log return.
    omega, alpha, beta : float
        Of the daily variance, in squared log returns.
    start : float
        The variance before the first return.
    """

    mean: float
    omega: float
    alpha: float
    beta: float
    start: float

    @property
    def persistence(self) -> float:
        """Share of a variance shock that is left a session later."""
        return self.alpha + self.beta


def estimate(returns: Floats) -> GarchParameters | str:
    """Estimate by Gaussian quasi maximum likelihood, as arch does it.

    Parameters
    ----------
    returns : ndarray of float64, shape (b,)
        Daily log returns, finite and in order.

    Returns
    -------
    GarchParameters or str
        Why there is no estimate, where there is none.
    """
    from arch.univariate import arch_model  # it takes a second to load, and few studies need it

    if returns.min() == returns.max():
        return "its returns never change"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = arch_model(_PERCENT * returns, mean="Constant", vol="GARCH", p=1, q=1, rescale=False)
        try:
            result = model.fit(disp="off", show_warning=False)
        except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
            return f"the likelihood cannot be maximised ({error})"
    if result.convergence_flag != 0:
        return "the optimiser did not converge"
    mean, omega, alpha, beta = (float(result.params[name]) for name in ("mu", "omega", "alpha[1]", "beta[1]"))
    mean, omega = mean / _PERCENT, omega / _PERCENT**2
    values = (mean, omega, alpha, beta)
    if not np.isfinite(values).all() or omega <= 0 or alpha < 0 or beta < 0 or alpha + beta > 1 + _ROUNDING:
        return f"the estimate (mean, omega, alpha, beta)={values} is no process"
    # The optimiser may end a rounding beyond the bound, which is persistence one.
    return GarchParameters(
        mean, omega, alpha, min(beta, 1.0 - alpha), start=backcast(returns - returns.mean())
    )


def backcast(residuals: Floats) -> float:
    """Give the variance before the first return as arch does: a weighted mean of the first 75 squares."""
    first = residuals[:75]
    weights = 0.94 ** np.arange(first.size)
    return float((weights / weights.sum() * first**2).sum())


def next_variances(returns: Floats, parameters: GarchParameters) -> Floats:
    """Give the variance of the session after each bar, from that bar and earlier ones alone.

    Parameters
    ----------
    returns : ndarray of float64, shape (b,)
        Daily log returns; NaN where missing. A bar without a return is passed over: the recursion goes from
        one known return to the next, in the estimation and here.
    parameters : GarchParameters
        Fixed.

    Returns
    -------
    ndarray of float64, shape (b,)
        NaN until the first known return.
    """
    known = np.isfinite(returns)
    squares = (returns[known] - parameters.mean) ** 2
    variances = np.full(returns.size, np.nan)
    if squares.size:
        # s_1 is omega + (alpha + beta) * start, as arch begins.
        first = parameters.omega + parameters.persistence * parameters.start
        shocks = parameters.omega + parameters.alpha * squares
        # A recursion, so that later returns cannot change earlier results by as much as a rounding.
        filtered, _ = lfilter([1.0], [1.0, -parameters.beta], shocks, zi=[parameters.beta * first])
        places = np.maximum.accumulate(np.where(known, np.cumsum(known) - 1, -1))
        variances = np.where(places >= 0, filtered[np.maximum(places, 0)], np.nan)
    return variances


def horizon_variance(following: Floats, parameters: GarchParameters, horizon: int, skipped: int) -> Floats:
    """Sum the expected variances of the `horizon` sessions that come after `skipped` ones.

    The variance k sessions ahead is ``level + persistence ** (k - 1) * (following - level)`` with the
    unconditional ``level = omega / (1 - persistence)``; it is taken by recursion, which also holds where the
    persistence is one and there is no level.

    Parameters
    ----------
    following : ndarray of float64, shape (m,)
        Variance of the next session; NaN where unknown.
    parameters : GarchParameters
        Fixed.
    horizon, skipped : int
        Sessions that are summed, and sessions before them that are not.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    ahead, total = following.copy(), np.zeros_like(following)
    for session in range(skipped + horizon):
        if session >= skipped:
            total += ahead
        ahead = parameters.omega + parameters.persistence * ahead
    return total
