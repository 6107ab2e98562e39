"""Any scikit-learn estimator as a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._checks import copied, first_line, real_numbers, require_count
from quantattn.forecasters.baselines._columns import FittedColumns, Impute, fit_columns
from quantattn.forecasters.baselines._identity import fingerprint, parameter_texts
from quantattn.forecasters.baselines._randomness import isolated_randomness, reseed
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable

EstimatorFactory = Callable[[int], Any]
"""Makes an unfitted estimator with ``fit(X, y)`` and ``predict(X)`` from a seed."""

_CHECKED = 32


class EstimatorBaseline(BaselineForecaster):
    """Forecast by an estimator with the interface of scikit-learn, on as-of features, pooled.

    The estimator is given arrays and nothing else: ``fit`` the features and targets of the training rows,
    ``predict`` the features of one row at a time, so that it can learn nothing from the company of a row,
    and its bits do not depend on it. What it draws from the global generators of Python, numpy and torch is
    decided by the seed and put back afterwards. Columns are chosen, filled and scaled by the training rows;
    one that is null in all of them is left out, and :meth:`notes` names it. A classifier (it has
    ``predict_proba``) forecasts the expected direction, ``sum(classes * probabilities)``, and takes no other
    target.

    Parameters
    ----------
    factory : callable
        From a seed to a new, unfitted estimator.
    label : str
        The model's name.
    features : sequence of str, optional
        As-of features, with or without their prefix; all by default.
    impute : {"mean", "median", "none"}, default "mean"
        What stands in for a missing value; "none" leaves NaN to the estimator.
    scale : bool, default False
        Whether to standardise the columns.
    together : bool, default False
        Give ``predict`` all rows at once, which is faster. Only for estimators whose forecast of a row
        depends on that row alone, bit for bit, such as trees; on up to 32 rows this is checked.
    seed : int, default 0
        Handed to `factory`.

    Attributes
    ----------
    estimator_ : object
        The fitted estimator.
    columns_ : FittedColumns
        The columns, and what fills and scales them.
    """

    stochastic: ClassVar[bool] = True

    estimator_: Any
    columns_: FittedColumns

    def __init__(
        self,
        factory: EstimatorFactory,
        label: str,
        features: Sequence[str] | None = None,
        impute: Impute = "mean",
        scale: bool = False,
        together: bool = False,
        seed: int = 0,
    ) -> None:
        self.factory = factory
        self.label = label
        self.features = features
        self.impute = impute
        self.scale = scale
        self.together = together
        self.seed = seed

    @property
    def name(self) -> str:  # type: ignore[override]
        """The label."""
        return self.label

    def notes(self) -> dict[str, Any]:
        """Name the features that no training row has."""
        return (
            {"features never known in training": list(self.columns_.unknown)} if self.columns_.unknown else {}
        )

    def identity(self) -> dict[str, Any]:
        """Give the class of the estimator, its own parameters and the factory's source, as JSON values."""
        with isolated_randomness(self.seed):
            estimator = self._made()
        kind = type(estimator)
        own = estimator.get_params() if hasattr(estimator, "get_params") else {}
        arguments = {name: value for name, value in self.get_params().items() if name != "factory"}
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "parameters": parameter_texts({**own, **arguments}),
            "code": fingerprint((self.factory, estimator, arguments)),
        }

    def _made(self) -> Any:
        try:
            estimator = self.factory(self.seed)
            with isolated_randomness(self.seed):
                again = self.factory(self.seed)
        except Exception as error:
            raise ForecasterError(
                f"{self.name}: the factory failed ({first_line(error)}); it takes a seed and "
                "gives an estimator"
            ) from error
        for method in ("fit", "predict"):
            if not callable(getattr(estimator, method, None)):
                raise ForecasterError(
                    f"{self.name}: the factory gave a {type(estimator).__name__}, which has no {method}; "
                    "give an estimator with the interface of scikit-learn"
                )
        learned = [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]
        if estimator is getattr(self, "estimator_", None) or learned:
            raise ForecasterError(
                f"{self.name}: the factory gave an estimator that is fitted already ({learned[:3]}); make a "
                "new one at each call, as in lambda seed: Ridge()"
            )
        if again is estimator:
            raise ForecasterError(
                f"{self.name}: the factory gave the same {type(estimator).__name__} twice, which would train "
                "on from fold to fold; make a new one at each call, as in lambda seed: Ridge()"
            )
        # What it holds may be another's: a step of a pipeline that is made once and trained in each fold.
        return copied(self.name, estimator)

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        require_count(self.name, "seed", self.seed, 0)
        self.columns_ = fit_columns(
            table, rows, features=self.features, impute=self.impute, scale=self.scale, name=self.name
        )
        inputs = self.columns_.transform(table, rows)
        with isolated_randomness(self.seed):
            estimator = self._made()
            if hasattr(estimator, "predict_proba") and table.kind != "direction":
                raise ForecasterError(
                    f"{self.name}: {type(estimator).__name__} is a classifier, and the target is a "
                    f"{table.kind}; register a regressor, or forecast directions"
                )
            try:
                estimator.fit(inputs, targets.copy())
            except Exception as error:
                raise ForecasterError(
                    f"{self.name}: {type(estimator).__name__}.fit failed on {inputs.shape[0]} rows of "
                    f"{inputs.shape[1]} columns ({first_line(error)}); correct the "
                    "estimator, its features or impute"
                ) from error
        self.estimator_ = estimator

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        if rows.size == 0:
            return np.empty(0)
        inputs = self.columns_.transform(table, rows)
        with isolated_randomness(self.seed):
            if not self.together:
                alone = np.array([self._forecasts(inputs[row : row + 1])[0] for row in range(rows.size)])
                if not np.array_equal(self._forecasts(inputs[:1]), alone[:1], equal_nan=True):
                    raise ForecasterError(
                        f"{self.name}: {type(self.estimator_).__name__} forecasts the same row "
                        "anew as another number; predict must not learn"
                    )
                return alone
            forecasts = self._forecasts(inputs)
            for row in np.unique(np.linspace(0, rows.size - 1, _CHECKED).astype(np.int64)).tolist():
                single = self._forecasts(inputs[row : row + 1])
                if not np.array_equal(single, forecasts[row : row + 1], equal_nan=True):
                    raise ForecasterError(
                        f"{self.name}: row {row} is forecast as {single[0]!r} alone and {forecasts[row]!r} "
                        f"among {rows.size} rows; register the estimator with together=False"
                    )
        return forecasts

    def _forecasts(self, inputs: Floats) -> Floats:
        """Ask the estimator for some rows, shape (m, k), the draws beginning anew."""
        reseed(self.seed)
        try:
            if hasattr(self.estimator_, "predict_proba"):
                shares = np.asarray(self.estimator_.predict_proba(inputs.copy()), dtype=np.float64)
                # Class by class, not by BLAS: its sums depend on the number of rows.
                given = sum(
                    float(direction) * share
                    for direction, share in zip(self.estimator_.classes_, shares.T, strict=True)
                )
            else:
                given = self.estimator_.predict(inputs.copy())
            forecasts = real_numbers(given)
        except Exception as error:
            raise ForecasterError(
                f"{self.name}: {type(self.estimator_).__name__} cannot forecast {inputs.shape[0]} rows of "
                f"{inputs.shape[1]} columns ({first_line(error)}); correct the "
                "estimator or impute"
            ) from error
        if forecasts.shape == (len(inputs), 1):
            forecasts = forecasts[:, 0]
        if forecasts.shape != (len(inputs),):
            raise ForecasterError(
                f"{self.name}: {type(self.estimator_).__name__} gave forecasts of shape {forecasts.shape} "
                f"for {len(inputs)} rows; register an estimator with one output"
            )
        return forecasts
