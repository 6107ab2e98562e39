"""RiskMetrics: an exponentially weighted moving average of what the bars showed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._bars import at_last_visible_bar, ewma
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable

VARIANCE_FLOOR = 1e-8
"""Least daily variance whose logarithm is taken: a volatility of one basis point a day."""


class EwmaBaseline(BaselineForecaster):
    """Forecast from the exponentially weighted mean over the visible daily bars.

    - log variance: ``log(horizon * variance) + intercept``, with ``variance`` the weighted mean of the
      squared daily log returns and the intercept the mean residual of the training rows (the mean of
      a logarithm lies below the logarithm of the mean);
    - variance: ``ratio * horizon * variance``, with the ratio of the training means;
    - return: ``horizon`` times the weighted mean of the daily log returns, nothing fitted;
    - direction: intercept and slope on weighted mean over weighted root mean square of the returns.

    Without a visible bar the forecast is 0 for returns and else the training mean.

    Parameters
    ----------
    decay : float, default 0.94
        Weight of a bar relative to the next one.

    Attributes
    ----------
    intercept_, slope_ : float
        The forecast is ``intercept_ + slope_ * signal`` with the signals above.
    fallback_ : float
        The forecast where no bar is visible.

    References
    ----------
    J.P. Morgan and Reuters (1996), "RiskMetrics: Technical Document", 4th edition.
    """

    name: ClassVar[str] = "ewma"
    needs_bars: ClassVar[bool] = True

    intercept_: float
    slope_: float
    fallback_: float

    def __init__(self, decay: float = 0.94) -> None:
        self.decay = decay

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        if not 0 < self.decay < 1:
            raise ForecasterError(f"ewma: decay={self.decay!r} is not between 0 and 1; use for example 0.94")
        signal = self._signal(table, rows)
        known = np.isfinite(signal)
        if not known.any():
            raise ForecasterError(
                "ewma: no bar with a log_return is visible at any training row; give the bars of these "
                "entities, or leave this model out"
            )
        self.fallback_ = 0.0 if table.kind == "return" else float(targets.mean())
        self.intercept_, self.slope_ = _calibrate(table, signal[known], targets[known])

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        signal = self._signal(table, rows)
        forecasts: Floats = np.where(
            np.isfinite(signal), self.intercept_ + self.slope_ * signal, self.fallback_
        )
        return forecasts

    def _signal(self, table: SampleTable, rows: Integers) -> Floats:
        def mean(returns: Floats) -> Floats:
            return ewma(returns, self.decay)

        def variance(returns: Floats) -> Floats:
            return ewma(returns**2, self.decay)

        if table.kind == "return":
            return table.horizon * at_last_visible_bar(table, rows, mean)
        spread = at_last_visible_bar(table, rows, variance)
        if table.kind == "direction":
            return at_last_visible_bar(table, rows, mean) / np.sqrt(np.maximum(spread, VARIANCE_FLOOR))
        return (
            table.horizon * spread
            if not table.log
            else np.log(table.horizon * np.maximum(spread, VARIANCE_FLOOR))
        )


def _calibrate(table: SampleTable, signal: Floats, targets: Floats) -> tuple[float, float]:
    """Give intercept and slope of the target on the signal, as far as each kind fits them."""
    if table.kind == "return":
        return 0.0, 1.0
    if table.kind == "variance" and table.log:
        return float((targets - signal).mean()), 1.0
    if table.kind == "variance":
        return 0.0, float(targets.mean() / signal.mean()) if signal.mean() > 0 else 0.0
    centred = signal - signal.mean()
    square = float((centred**2).mean())
    slope = float((centred * targets).mean()) / square if square > 0 else 0.0
    return float(targets.mean() - slope * signal.mean()), slope
