"""The heterogeneous autoregression: a day, a week and a month of the past."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._bars import at_last_visible_bar, trailing_sum
from quantattn.forecasters.baselines._linear import LinearFit, fit_ridge
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import FEATURE_PREFIX, Floats, Integers, SampleTable

WINDOWS = (1, 5, 22)
"""Sessions in a day, a week and a month."""


class HarBaseline(BaselineForecaster):
    """Regress the target on its own past over 1, 5 and 22 sessions, pooled over entities.

    For variance the regressors are the as-of features ``log_rv_1``, ``log_rv_5`` and ``log_rv_22`` (their
    exponentials when the target is not a logarithm); for returns and directions, the trailing log
    returns over those windows, from the visible bars. A missing regressor counts as its training mean.

    Parameters
    ----------
    penalty : float, default 1e-4
        Ridge penalty on standardised regressors; small, to keep the fit defined.

    Attributes
    ----------
    coefficients_ : ndarray of float64, shape (3,)
        For 1, 5 and 22 sessions, on the scale of the regressors.
    intercept_ : float
        The forecast where all regressors are zero.

    References
    ----------
    Corsi (2009), "A Simple Approximate Long-Memory Model of Realized Volatility", Journal of Financial
    Econometrics 7(2).
    """

    name: ClassVar[str] = "har"
    needs_bars: ClassVar[bool] = True

    fit_: LinearFit

    def __init__(self, penalty: float = 1e-4) -> None:
        self.penalty = penalty

    @property
    def coefficients_(self) -> Floats:
        """Coefficients of the 1, 5 and 22 session regressors, shape (3,)."""
        return self.fit_.coefficients

    @property
    def intercept_(self) -> float:
        """The forecast where all regressors are zero."""
        return self.fit_.intercept - float(self.fit_.coefficients @ self.fit_.means)

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        inputs = _regressors(table, rows)
        if not np.isfinite(inputs).any():
            raise ForecasterError(
                f"har: no training row has any of the {WINDOWS} session regressors; start the history "
                "earlier, or leave this model out"
            )
        self.fit_ = fit_ridge(inputs, targets, self.penalty)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        return self.fit_.predict(_regressors(table, rows))


def _regressors(table: SampleTable, rows: Integers) -> Floats:
    """Give the three regressors, shape (m, 3); NaN where missing."""
    if table.kind == "variance":
        logs = table.features([f"{FEATURE_PREFIX}log_rv_{width}" for width in WINDOWS], rows)
        return logs if table.log else np.exp(logs)

    def trailing(width: int) -> Floats:
        return at_last_visible_bar(table, rows, lambda returns: trailing_sum(returns, width))

    return np.stack([trailing(width) for width in WINDOWS], axis=1)
