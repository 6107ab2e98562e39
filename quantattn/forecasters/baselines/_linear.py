"""Ridge regression with standardised columns, reproducible to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines.table import Floats


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear function ``intercept + sum(coefficients * (x - means))``.

    Parameters
    ----------
    means : ndarray of float64, shape (k,)
        Training means over the known values; they also stand in for missing values.
    coefficients : ndarray of float64, shape (k,)
        On the scale of the inputs.
    intercept : float
        The forecast at the means, which is the mean target.
    """

    means: Floats
    coefficients: Floats
    intercept: float

    def predict(self, inputs: Floats) -> Floats:
        """Evaluate the function on ``inputs``, shape (m, k), NaN where missing; gives shape (m,).

        Absurd inputs overflow to values that are not finite, which the caller refuses.
        """
        # Column by column, not by BLAS: the bits of a forecast do not depend on the other rows.
        forecasts = np.full(inputs.shape[0], self.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            for column, mean, coefficient in zip(inputs.T, self.means, self.coefficients, strict=True):
                forecasts += coefficient * np.where(np.isnan(column), 0.0, column - mean)
        return forecasts


def fit_ridge(inputs: Floats, targets: Floats, penalty: float) -> LinearFit:
    """Minimise ``mean((y - f(x))**2) + penalty * sum(b**2)``, b on standardised inputs.

    Parameters
    ----------
    inputs : ndarray of float64, shape (m, k)
        NaN where missing; a missing value counts as its column's mean.
    targets : ndarray of float64, shape (m,)
    penalty : float
        Positive; relative to the unit variance of a standardised column, whatever m is.

    Returns
    -------
    LinearFit
        A constant or never-known column gets the coefficient 0; the intercept is not penalised.

    Raises
    ------
    ForecasterError
        If the penalty is not positive.
    """
    if not (np.isfinite(penalty) and penalty > 0):
        raise ForecasterError(f"penalty={penalty!r} is not a positive number; use for example 1e-4")
    rows, width = inputs.shape
    known = ~np.isnan(inputs)
    means, scales = np.zeros(width), np.zeros(width)
    scaled = np.zeros((width, rows))
    for column in range(width):
        values = inputs[known[:, column], column]
        if values.size == 0 or values.min() == values.max():
            means[column] = values[0] if values.size else 0.0
            continue
        means[column] = values.mean()
        centred = np.where(known[:, column], inputs[:, column] - means[column], 0.0)
        scales[column] = np.sqrt((centred**2).mean())
        if scales[column] > 0:
            scaled[column] = centred / scales[column]
    level = float(targets.mean())
    # Sums instead of BLAS products: the same bits for every number of threads.
    gram = np.zeros((width, width))
    for row in range(width):
        for column in range(row, width):
            gram[row, column] = gram[column, row] = (scaled[row] * scaled[column]).mean()
    moment = np.array([(column * (targets - level)).mean() for column in scaled])
    weights = np.linalg.solve(gram + penalty * np.eye(width), moment) if width else moment
    coefficients = np.divide(weights, scales, out=np.zeros(width), where=scales > 0)
    return LinearFit(means, coefficients, level)
