"""What a baseline is, and the checks that all of them share."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from quantattn.errors import DataError, ForecasterError, UsageError
from quantattn.forecasters.baselines._checks import first_line, real_numbers
from quantattn.forecasters.baselines._identity import fingerprint, parameter_texts
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable, TargetKind

Inputs = Literal["table", "events", "tokens"]
"""What a baseline reads: the sample table alone, the events behind it too, or the tokens of the fold too."""


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


def checked_forecasts(name: str, given: object, n_rows: int) -> Floats:
    """Refuse forecasts that are not one real number for each row.

    Raises
    ------
    ForecasterError
        If they are complex, no numbers, or of another shape than ``(n_rows,)``.
    """
    try:
        forecasts = real_numbers(given)
    except (TypeError, ValueError) as error:
        raise ForecasterError(
            f"{name}: the forecasts are not real numbers ({first_line(error)}); correct its predict"
        ) from error
    if forecasts.shape != (n_rows,):
        raise ForecasterError(
            f"{name}: forecasts of shape {forecasts.shape} for {n_rows} rows; give one number for each"
        )
    return forecasts


class BaselineForecaster(ABC):
    """A baseline with checked input: subclasses write ``_fit`` and ``_predict``.

    `fit` learns from the training rows alone; `predict` forecasts each row from what was visible
    strictly before its forecast time (and from what was learned). Class attributes say what a baseline
    needs: `inputs` (see :data:`Inputs`), `stochastic` (chance plays a part, so each seed is a run of its
    own) and `needs_bars` (it reads the bars of the entities).

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
    inputs: ClassVar[Inputs] = "table"
    stochastic: ClassVar[bool] = False
    needs_bars: ClassVar[bool] = False

    kind_: TargetKind
    horizon_: int
    log_: bool
    n_rows_: int
    target_floor_: float

    @property
    def information_window(self) -> int | None:
        """How many of the last visible events it reads, if not all: another information set then."""
        return None

    def fit(
        self,
        table: SampleTable,
        rows: npt.NDArray[np.int64],
        *,
        validation: npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """Learn from training rows.

        Parameters
        ----------
        table : SampleTable
            May hold later rows; only `rows` are learned from.
        rows : ndarray of int64, shape (m,)
            Distinct positions in ``table.samples``.
        validation : ndarray of int64, shape (v,), optional
            Rows to stop on, for the baselines that train in epochs; none of `rows`. Others leave it alone.

        Returns
        -------
        BaselineForecaster
            Itself.

        Raises
        ------
        ForecasterError
            If there are no training rows, or nothing can be learned from them.
        DataError
            If rows are outside the table or repeated, a column is missing, a target is missing or not
            finite, or the table lacks the events or tokens that the baseline reads.
        """
        self.__dict__.pop("n_rows_", None)  # a fit that fails leaves nothing fitted
        self._check_inputs(table)
        chosen = table.rows(rows)
        if chosen.size == 0:
            raise ForecasterError(
                f"{self.name}: rows is empty, so there is nothing to train on; use a longer training window"
            )
        # Ascending, for what is learned must not depend on the order in which rows are named.
        chosen = np.sort(chosen)
        values, counts = np.unique(chosen, return_counts=True)
        if values.size < chosen.size:
            raise DataError(
                f"{self.name}: rows holds {values[counts > 1][:3].tolist()} more than once; "
                "give each row once"
            )
        held_out = np.sort(
            table.rows(np.empty(0, np.int64) if validation is None else validation, argument="validation")
        )
        shared = np.intersect1d(chosen, held_out)
        if shared.size:
            raise DataError(
                f"{self.name}: validation holds {shared[:3].tolist()}, which are training rows; "
                "keep them apart"
            )
        targets = table.targets(chosen)
        self._fit_stopping(table, chosen, targets, held_out)
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
        self._check_inputs(table)
        chosen = table.rows(rows)
        forecasts = checked_forecasts(self.name, self._predict(table, chosen), chosen.size)
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

    def set_params(self, **parameters: Any) -> Self:
        """Replace arguments of the constructor; what was fitted is given up.

        Parameters
        ----------
        **parameters : Any
            By name, as in :meth:`get_params`.

        Returns
        -------
        BaselineForecaster
            Itself.

        Raises
        ------
        UsageError
            If there is no such argument; the message lists those that there are.
        """
        known = self.get_params()
        unknown = sorted(set(parameters) - set(known))
        if unknown:
            raise UsageError(f"{self.name} has no parameters {unknown}; it has {sorted(known)}")
        for name, value in parameters.items():
            setattr(self, name, value)
        self.__dict__.pop("n_rows_", None)
        return self

    def notes(self) -> dict[str, Any]:
        """Give what a reader of the forecasts must be told, as JSON values: fallbacks, by name and counted.

        Returns
        -------
        dict
            Empty if everything went the usual way.
        """
        return {}

    def identity(self) -> dict[str, Any]:
        """Give what this model is, as JSON values: equal models give equal ones, whatever was fitted.

        Returns
        -------
        dict
            The class and the arguments of the constructor, as text, and a hash over the code and these.
        """
        kind, arguments = type(self), self.get_params()
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "parameters": parameter_texts(arguments),
            "code": fingerprint((kind, arguments)),
        }

    def __repr__(self) -> str:
        """Name the class and its arguments."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({arguments})"

    def _check_inputs(self, table: SampleTable) -> None:
        """Refuse a table without what this baseline reads."""
        if self.inputs == "table":
            return
        if table.sequences is None:
            raise DataError(
                f"{self.name} reads the events behind the samples, and sequences of the table is None; give "
                "SampleTable(..., sequences=EventSequences.of(history))"
            )
        if self.inputs == "tokens" and table.sequences.tokens is None:
            raise DataError(
                f"{self.name} reads the fold's tokens, and the table's sequences have none; give "
                "table.sequences.with_tokens(encode(history, encoders), encoders) of the fold's encoders"
            )

    def _fit_stopping(
        self, table: SampleTable, rows: Integers, targets: Floats, validation: Integers
    ) -> None:
        """Learn from checked rows; override to stop on the checked validation rows, shape (v,)."""
        self._fit(table, rows, targets)

    @abstractmethod
    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        """Learn from checked rows, shape (m,), and their finite targets."""

    @abstractmethod
    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        """Forecast checked rows, shape (m,)."""
