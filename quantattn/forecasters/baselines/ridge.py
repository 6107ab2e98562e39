"""Ridge regression on everything the attention models see as of the forecast."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._linear import LinearFit, fit_ridge
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable


class RidgeBaseline(BaselineForecaster):
    """Regress the target on all as-of features, pooled: the linear answer to "is attention needed?".

    Features are standardised by their training rows; a missing value counts as the training mean.

    Parameters
    ----------
    penalty : float, default 1e-3
        Ridge penalty on standardised features, relative to their unit variance.

    Attributes
    ----------
    features_ : tuple of str
        The as-of features that it was fitted on.
    coefficients_ : ndarray of float64, shape (k,)
        On the scale of the features; 0 for a constant or never-known one.
    intercept_ : float
        The forecast where all features are zero.

    References
    ----------
    Hoerl and Kennard (1970), "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
    Technometrics 12(1).
    """

    name: ClassVar[str] = "ridge"

    features_: tuple[str, ...]
    fit_: LinearFit

    def __init__(self, penalty: float = 1e-3) -> None:
        self.penalty = penalty

    @property
    def coefficients_(self) -> Floats:
        """Coefficients on the scale of the features, shape (k,)."""
        return self.fit_.coefficients

    @property
    def intercept_(self) -> float:
        """The forecast where all features are zero."""
        return self.fit_.intercept - float(self.fit_.coefficients @ self.fit_.means)

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        inputs = known_features(table, rows, self.name)
        self.features_ = table.feature_names
        self.fit_ = fit_ridge(inputs, targets, self.penalty)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        return self.fit_.predict(table.features(self.features_, rows))


def known_features(table: SampleTable, rows: Integers, name: str) -> Floats:
    """Give all as-of features of training rows, shape (m, k), and refuse to learn from none.

    Raises
    ------
    ForecasterError
        If no training row has any feature.
    """
    inputs = table.features(table.feature_names, rows)
    if not np.isfinite(inputs).any():
        raise ForecasterError(
            f"{name}: no training row has any as-of feature (columns {list(table.feature_names)}); "
            "give events with numeric features, or leave this model out"
        )
    return inputs
