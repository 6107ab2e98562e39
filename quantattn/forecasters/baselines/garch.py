"""GARCH(1,1), the standard of volatility forecasting, one model for each entity."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._bars import at_last_visible_bar, ewma
from quantattn.forecasters.baselines._checks import require_count
from quantattn.forecasters.baselines._garch import (
    GarchParameters,
    estimate,
    horizon_variance,
    next_variances,
)
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.ewma import VARIANCE_FLOOR
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable

FALLBACK_DECAY = 0.94
"""Of the variance of an entity without a model of its own: RiskMetrics, the GARCH(1,1) with omega = 0."""


class GarchBaseline(BaselineForecaster):
    r"""Forecast from a GARCH(1,1) of each entity's daily log returns.

    :math:`r_t = \mu + e_t`, :math:`\sigma_t^2 = \omega + \alpha e_{t-1}^2 + \beta\sigma_{t-1}^2`, estimated
    once per fold by Gaussian quasi maximum likelihood (the arch package) on the returns of every bar with
    ``available_at`` up to the last ``label_available_at`` of the training rows, which is never after
    ``fit_time``. With these parameters fixed, the recursion then runs over the bars visible at each forecast
    and no further.

    With :math:`V` the expected variance over the target's sessions (see `skipped`) and :math:`h` the horizon:

    - log variance: ``log(V) + intercept``, the intercept being the mean residual of the training rows, since
      the mean of a logarithm lies below the logarithm of the mean;
    - variance: ``ratio * V``, with the ratio of the training means;
    - return: :math:`h\mu`, nothing further fitted;
    - direction: :math:`2\Phi(h\mu / \sqrt{V}) - 1`, the expected sign under normal returns.

    Nulls: a bar without a return is passed over. An entity with fewer than `min_returns` returns, or whose
    estimation fails, has no model: its V is the horizon times its exponentially weighted variance of decay
    0.94, its mean 0, and it is listed in :attr:`fallbacks_`. A row without any visible return is forecast by
    0 for returns and else by the training mean. :meth:`notes` counts both.

    Parameters
    ----------
    min_returns : int, default 250
        Returns that an entity needs for a model of its own; about a year of sessions.
    skipped : int, default 1
        Sessions between the last visible bar and the first return of the target. It is the entry bar, whose
        own return is not part of a label (see :func:`quantattn.pit.realised_variance`).

    Attributes
    ----------
    parameters_ : dict of str to GarchParameters
        By entity, for those that have a model.
    fallbacks_ : dict of str to str
        Why each other entity has none.
    intercept_, slope_ : float
        The forecast of a variance is ``intercept_ + slope_ * signal``, the signal being V or its logarithm.
    empty_ : float
        The forecast where no return is visible.

    References
    ----------
    Bollerslev (1986), "Generalized Autoregressive Conditional Heteroskedasticity", Journal of Econometrics
    31(3), equations 1 and 2. Baillie and Bollerslev (1992), "Prediction in Dynamic Models with
    Time-Dependent Conditional Variances", Journal of Econometrics 52(1-2), for several sessions ahead.
    """

    name: ClassVar[str] = "garch"
    needs_bars: ClassVar[bool] = True

    parameters_: dict[str, GarchParameters]
    fallbacks_: dict[str, str]
    intercept_: float
    slope_: float
    empty_: float
    unseen_: int

    def __init__(self, min_returns: int = 250, skipped: int = 1) -> None:
        self.min_returns = min_returns
        self.skipped = skipped

    def notes(self) -> dict[str, Any]:
        """Count the models, say who has none and why, and count the training rows without a return."""
        return {
            "entities with a model": len(self.parameters_),
            "entities on the EWMA fallback": dict(sorted(self.fallbacks_.items())),
            "training rows without a visible return": self.unseen_,
        }

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        self._check_parameters()
        cutoff = int(table.label_times[rows].max())
        self.parameters_, self.fallbacks_ = {}, {}
        for entity in sorted(table.positions_by_entity(np.arange(len(table), dtype=np.int64))):
            fitted = self._estimate(table, entity, cutoff)
            if isinstance(fitted, GarchParameters):
                self.parameters_[entity] = fitted
            else:
                self.fallbacks_[entity] = fitted
        trained = table.positions_by_entity(rows)
        if not any(entity in self.parameters_ for entity in trained):
            reasons = Counter(self.fallbacks_[entity] for entity in trained).most_common(3)
            shown = ", ".join(f"{reason} ({times} times)" for reason, times in reasons)
            raise ForecasterError(
                f"garch: none of {len(trained)} training entities has a model: {shown}; start the bars "
                f"earlier, lower min_returns (now {self.min_returns}), or leave this model out"
            )
        self.empty_ = 0.0 if table.kind == "return" else float(targets.mean())
        self.intercept_, self.slope_ = 0.0, 1.0
        variance, _ = self._moments(table, rows)
        known = np.isfinite(variance)
        self.unseen_ = int((~known).sum())
        if table.kind == "variance" and known.any():
            signal, level = _signal(table, variance[known]), float(targets[known].mean())
            if table.log:
                self.intercept_ = level - float(signal.mean())
            elif signal.mean() > 0:
                self.slope_ = level / float(signal.mean())

    def _estimate(self, table: SampleTable, entity: str, cutoff: int) -> GarchParameters | str:
        if entity not in table.bars_by_entity:
            return "it has no bars"
        available_at, returns = table.bars_by_entity[entity]
        visible = returns[available_at <= cutoff]
        visible = visible[np.isfinite(visible)]
        if visible.size < self.min_returns:
            return f"{visible.size} returns are known at the fit, fewer than {self.min_returns}"
        return estimate(visible)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        variance, mean = self._moments(table, rows)
        known = np.isfinite(variance)
        if table.kind == "return":
            forecasts = mean
        elif table.kind == "direction":
            forecasts = 2.0 * ndtr(mean / np.sqrt(np.maximum(variance, VARIANCE_FLOOR))) - 1.0
        else:
            forecasts = self.intercept_ + self.slope_ * _signal(table, variance)
        result: Floats = np.where(known, forecasts, self.empty_)
        return result

    def _moments(self, table: SampleTable, rows: Integers) -> tuple[Floats, Floats]:
        """Give expected variance (NaN if unknown) and mean over the target's sessions, shapes (m,)."""
        variance, mean = np.full(rows.size, np.nan), np.zeros(rows.size)
        for entity, positions in table.positions_by_entity(rows).items():
            own = rows[positions]
            model = self.parameters_.get(entity)
            if model is None:
                spread = at_last_visible_bar(table, own, lambda returns: ewma(returns**2, FALLBACK_DECAY))
                variance[positions] = table.horizon * spread
                continue
            following = at_last_visible_bar(table, own, partial(next_variances, parameters=model))
            variance[positions] = horizon_variance(following, model, table.horizon, self.skipped)
            mean[positions] = table.horizon * model.mean
        return variance, mean

    def _check_parameters(self) -> None:
        for parameter, least in (("min_returns", 10), ("skipped", 0)):
            require_count(self.name, parameter, getattr(self, parameter), least)


def _signal(table: SampleTable, variance: Floats) -> Floats:
    """Give what the forecast of a variance is linear in: the expected variance, or its logarithm."""
    return np.log(np.maximum(variance, table.horizon * VARIANCE_FLOOR)) if table.log else variance
