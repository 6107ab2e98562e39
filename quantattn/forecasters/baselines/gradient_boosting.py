"""Gradient-boosted trees on everything the attention models see as of the forecast."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.ridge import known_features
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable


class GradientBoostingBaseline(BaselineForecaster):
    """Histogram gradient boosting of the squared error on all as-of features, pooled.

    Missing features go down a branch of their own. There is no early stopping, since it would hold
    out rows at random, across time.

    Parameters
    ----------
    iterations : int, default 200
        Number of trees.
    learning_rate : float, default 0.05
        Shrinkage of each tree.
    min_samples_leaf : int, default 50
        Training rows in a leaf, at least.
    max_leaf_nodes : int, default 8
        Leaves of a tree, at most.
    seed : int, default 0
        For the subsample that places the bins when there are over 200,000 training rows.

    Attributes
    ----------
    features_ : tuple of str
        The as-of features with at least one known value in the training rows.
    model_ : sklearn.ensemble.HistGradientBoostingRegressor
        The trees.

    References
    ----------
    Friedman (2001), "Greedy Function Approximation: A Gradient Boosting Machine", Annals of
    Statistics 29(5).
    """

    name: ClassVar[str] = "gradient_boosting"

    features_: tuple[str, ...]
    model_: Any

    def __init__(
        self,
        iterations: int = 200,
        learning_rate: float = 0.05,
        min_samples_leaf: int = 50,
        max_leaf_nodes: int = 8,
        seed: int = 0,
    ) -> None:
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.seed = seed

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        self._check_parameters()
        inputs = known_features(table, rows, self.name)
        known = np.asarray(np.isfinite(inputs).any(axis=0))
        self.features_ = tuple(name for name, keep in zip(table.feature_names, known, strict=True) if keep)
        model = HistGradientBoostingRegressor(
            max_iter=self.iterations,
            learning_rate=self.learning_rate,
            min_samples_leaf=self.min_samples_leaf,
            max_leaf_nodes=self.max_leaf_nodes,
            early_stopping=False,
            random_state=self.seed,
        )
        self.model_ = model.fit(inputs[:, known], targets)

    def _check_parameters(self) -> None:
        least = {"iterations": 1, "min_samples_leaf": 1, "max_leaf_nodes": 2, "seed": 0}
        for parameter, minimum in least.items():
            value = getattr(self, parameter)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
                raise ForecasterError(
                    f"{self.name}: {parameter}={value!r} is not an integer from {minimum}; correct it"
                )
        if not 0 < self.learning_rate < np.inf:
            raise ForecasterError(
                f"{self.name}: learning_rate={self.learning_rate!r} is not positive; use for example 0.05"
            )

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        if rows.size == 0:
            return np.empty(0)
        return np.asarray(self.model_.predict(table.features(self.features_, rows)), dtype=np.float64)
