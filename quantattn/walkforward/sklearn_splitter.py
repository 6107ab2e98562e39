"""Folds as a scikit-learn splitter: the same row indices, checked against what is being split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from quantattn.errors import SplitError
from quantattn.walkforward._sizes import parse_switch
from quantattn.walkforward._stretches import Rows


class AnyFold(Protocol):
    """A fold with row indices: a `Fold` or a `CombinatorialFold`."""

    @property
    def train(self) -> Rows:
        """Rows to train on."""

    @property
    def validation(self) -> Rows:
        """Rows held out of training; a fold that has no such side raises `SplitError`."""

    @property
    def test(self) -> Rows:
        """Rows to forecast."""


class Splitter(Protocol):
    """What gives folds: `WalkForward`, `CombinatorialPurged`."""

    def split(self, samples: pl.DataFrame) -> Sequence[AnyFold]:
        """Split a samples frame."""


class SklearnSplitter:
    """A scikit-learn splitter over the rows of one samples frame, for the argument `cv`.

    scikit-learn sees a matrix and no times, so the folds are made from the samples, once, and the matrix must
    have exactly their rows in their order, as ``PointInTimeDataset.as_of_features()`` has.

    .. warning::

        **After a search.** ``GridSearchCV`` refits the best model on *all* rows, test blocks included. Its
        scores are honest, its `best_estimator_` has seen everything; pass ``refit=False``, or search inside a
        fold with ``walk_forward.as_splitter(samples[fold.train])`` and the rows ``X[fold.train]``.

    Parameters
    ----------
    splitter : WalkForward or CombinatorialPurged
        Gives the folds.
    samples : polars.DataFrame
        As for ``WalkForward.split``.
    merge_validation : bool, default=False
        Train on the validation side too. Rows that were purged from the training side towards validation stay
        out. By default the validation side is set aside, for scikit-learn has no use for it.

    Raises
    ------
    SplitError
        As the splitter's `split`.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import cross_val_score
    >>> from quantattn.walkforward import WalkForward
    >>> days = pl.Series([f"2024-01-{day:02d}T00:00:00Z" for day in range(1, 11)])
    >>> days = days.str.to_datetime(time_unit="ns")
    >>> known = days.dt.offset_by("36h")
    >>> times = {"forecast_time": days, "label_end_time": known, "label_available_at": known}
    >>> samples = pl.DataFrame({"entity": ["A"] * 10, **times})
    >>> splitter = WalkForward(train_size=4, test_size=3).as_splitter(samples)
    >>> for train, test in splitter.split():
    ...     print(train, test)
    [0 1 2] [4 5 6]
    [3 4 5] [7 8 9]
    >>> X = np.arange(10.0)[:, None]
    >>> print(cross_val_score(Ridge(alpha=1e-9), X, 2 * X.ravel(), cv=splitter).round(6))
    [1. 1.]
    """

    def __init__(self, splitter: Splitter, samples: pl.DataFrame, *, merge_validation: bool = False) -> None:
        self.splitter = splitter
        self.merge_validation = parse_switch(merge_validation, "merge_validation")
        self.folds = tuple(splitter.split(samples))
        self.n_samples = samples.height

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Give the row indices of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Features: numpy, pandas, polars or sparse. Only the number of rows is looked at.
        y : array-like of shape (n_samples,), optional
            Targets. Only the number of rows is looked at.
        groups : object, optional
            Ignored; it is there for scikit-learn.

        Returns
        -------
        iterator of (ndarray of int64, ndarray of int64)
            Training and test rows, in order of the folds.

        Raises
        ------
        SplitError
            If `X` or `y` has not as many rows as the samples, or no rows. It is raised here,
            before the first fold.
        """
        for name, given in (("X", X), ("y", y)):
            self._check_rows(name, given)
        return iter([(self._train(fold), fold.test.copy()) for fold in self.folds])

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Give the number of folds; the arguments are there for scikit-learn and ignored."""
        return len(self.folds)

    def _train(self, fold: AnyFold) -> Rows:
        if not self.merge_validation:
            return fold.train.copy()
        return np.union1d(fold.train, fold.validation)

    def _check_rows(self, name: str, given: Any) -> None:
        if given is None:
            return
        shape = getattr(given, "shape", None)
        try:
            n_rows = int(shape[0]) if shape else len(given)
        except TypeError as error:
            raise SplitError(
                f"{name} is a {type(given).__name__} without rows to count; give an array or a frame (of a "
                "lazy frame, what .collect() gives)"
            ) from error
        if n_rows != self.n_samples:
            raise SplitError(
                f"{name} has {n_rows} rows and the samples that were split have {self.n_samples}; give one "
                "row per sample in the samples' order (inside a fold, split samples[fold.train] instead)"
            )

    def __repr__(self) -> str:
        """Say what splits, and into how much."""
        return f"SklearnSplitter({self.splitter!r}, {self.n_samples} samples, {len(self.folds)} folds)"
