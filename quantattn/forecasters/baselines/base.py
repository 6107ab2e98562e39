"""What a baseline is, and the checks that all of them share."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable, TargetKind


@runtime_checkable
class Baseline(Protocol):
    """The interface of a baseline: constructor stores, `fit` learns, `predict` forecasts."""

    @property
    def name(self) -> str:
        """The model's name in the forecasts table."""

    def fit(self, table: SampleTable, rows: npt.NDArray[np.int64]) -> Self:
        """Learn from the training rows alone."""

    def predict(self, table: SampleTable, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Forecast rows, each from what was visible at its forecast time."""

    def get_params(self) -> dict[str, Any]:
        """Give the constructor's arguments."""


class BaselineForecaster(ABC):
    """A baseline with checked input: subclasses write ``_fit`` and ``_predict``.

    `fit` learns from the training rows alone; `predict` forecasts each row from what was visible
    strictly before its forecast time (and from what was learned).

    Attributes
    ----------
    kind_, horizon_, log_
        The target that it was fitted to.
    n_rows_ : int
        Training rows.
    target_floor_ : float
        Smallest positive training target; 0 if there is none.
    """

    name: ClassVar[str]

    kind_: TargetKind
    horizon_: int
    log_: bool
    n_rows_: int
    target_floor_: float

    def fit(self, table: SampleTable, rows: npt.NDArray[np.int64]) -> Self:
        """Learn from training rows.

        Parameters
        ----------
        table : SampleTable
            May hold later rows; only `rows` are learned from.
        rows : ndarray of int64, shape (m,)
            Distinct positions in ``table.samples``.

        Returns
        -------
        BaselineForecaster
            Itself.

        Raises
        ------
        ForecasterError
            If there are no training rows, or nothing can be learned from them.
        DataError
            If rows are outside the table or repeated, a column is missing, or a target is missing or
            not finite.
        """
        chosen = table.rows(rows)
        if chosen.size == 0:
            raise ForecasterError(
                f"{self.name}: rows is empty, so there is nothing to train on; use a longer training window"
            )
        values, counts = np.unique(chosen, return_counts=True)
        if values.size < chosen.size:
            raise DataError(
                f"{self.name}: rows holds {values[counts > 1][:3].tolist()} more than once; "
                "give each row once"
            )
        targets = table.targets(chosen)
        self._fit(table, chosen, targets)
        self.kind_, self.horizon_, self.log_ = table.kind, table.horizon, table.log
        self.n_rows_ = int(chosen.size)
        positive = targets[targets > 0]
        self.target_floor_ = float(positive.min()) if positive.size else 0.0
        return self

    def predict(self, table: SampleTable, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Forecast rows.

        Parameters
        ----------
        table : SampleTable
            With the same target as in `fit`.
        rows : ndarray of int64, shape (m,)
            Positions in ``table.samples``, in any order.

        Returns
        -------
        ndarray of float64, shape (m,)
            On the scale of the target. A variance (not its logarithm) is never forecast below the
            smallest positive training target, so that it stays positive.

        Raises
        ------
        ForecasterError
            If it is not fitted, was fitted to another target, or gives a forecast that is not finite.
        DataError
            If rows are outside the table, or a column is missing.
        """
        if not hasattr(self, "n_rows_"):
            raise ForecasterError(f"{self.name} is not fitted; call fit(table, rows) first")
        fitted, given = (self.kind_, self.horizon_, self.log_), (table.kind, table.horizon, table.log)
        if fitted != given:
            raise ForecasterError(
                f"{self.name} was fitted to (kind, horizon, log)={fitted}, the table has {given}; fit again"
            )
        chosen = table.rows(rows)
        forecasts = self._predict(table, chosen)
        if self.kind_ == "variance" and not self.log_:
            forecasts = np.maximum(forecasts, self.target_floor_)
        bad = np.flatnonzero(~np.isfinite(forecasts))
        if bad.size:
            shown = table.samples[chosen[bad[:3]]].select("entity", "forecast_time").rows()
            raise ForecasterError(
                f"{self.name}: {bad.size} forecasts are not finite, first {shown}; "
                "check the features and bars there"
            )
        return forecasts

    def get_params(self) -> dict[str, Any]:
        """Give the constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        """Name the class and its arguments."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({arguments})"

    @abstractmethod
    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        """Learn from checked rows, shape (m,), and their finite targets."""

    @abstractmethod
    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        """Forecast checked rows, shape (m,)."""
