"""What the baselines share that train in epochs on a scaled target."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable
from quantattn.forecasters.baselines.windows import windowed_tokens
from quantattn.forecasters.fitted import TargetScale
from quantattn.forecasters.tokens import EntityTokens


class EpochBaseline(BaselineForecaster):
    """A baseline that trains on the scaled target and may stop on the validation rows.

    Subclasses write ``_train`` and ``_forecast``. Where all training targets are equal there is nothing to
    train: that number is the forecast, and :meth:`notes` says so.

    Attributes
    ----------
    target_ : TargetScale
        Centre and scale of the training targets.
    constant_ : float or None
        The training target where all are equal.
    best_epoch_ : int or None
        The epoch, from 0, whose weights were kept; None where nothing was trained.
    """

    stochastic: ClassVar[bool] = True

    target_: TargetScale
    constant_: float | None
    best_epoch_: int | None

    def notes(self) -> dict[str, Any]:
        """Give the epoch that was kept, a constant target, and the window that is all that it sees."""
        found: dict[str, Any] = {"best epoch": self.best_epoch_}
        if self.constant_ is not None:
            found["constant training target"] = self.constant_
        if self.information_window is not None:
            found["information set"] = f"the last {self.information_window} visible events only"
        return found

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        self._fit_stopping(table, rows, targets, np.empty(0, np.int64))

    def _fit_stopping(
        self, table: SampleTable, rows: Integers, targets: Floats, validation: Integers
    ) -> None:
        self._check_parameters()
        self.target_ = TargetScale.fit(targets)
        scaled = np.full(len(table), np.nan)
        for side in (rows, validation):
            scaled[side] = self.target_.apply(table.targets(side))
        self.constant_ = float(targets[0]) if targets.min() == targets.max() else None
        self.best_epoch_ = None
        if self.constant_ is None:
            self.best_epoch_ = self._train(table, rows, validation, scaled)

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        if self.constant_ is not None:
            return np.full(rows.size, self.constant_)
        return self.target_.invert(self._forecast(table, rows))

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse impossible arguments of the constructor."""

    @abstractmethod
    def _train(self, table: SampleTable, rows: Integers, validation: Integers, scaled: Floats) -> int:
        """Learn from rows whose targets are ``scaled[rows]``; give the epoch that was kept."""

    @abstractmethod
    def _forecast(self, table: SampleTable, rows: Integers) -> Floats:
        """Forecast rows in units of the scaled target."""


def side_tokens(table: SampleTable, rows: Integers) -> list[EntityTokens]:
    """Give, entity by entity, the queries of some rows and the events that they read.

    Raises
    ------
    DataError
        If the table lacks the tokens of an entity.
    """
    assert table.sequences is not None
    return [table.sequences.tokens_of(entity).select(rows) for entity in table.positions_by_entity(rows)]


def side_windows(table: SampleTable, rows: Integers, window: int) -> list[EntityTokens]:
    """Give a sequence of the last `window` events for each of some rows, entity by entity.

    Raises
    ------
    DataError
        If the table lacks the tokens of an entity.
    """
    assert table.sequences is not None
    return [
        tokens
        for entity, positions in table.positions_by_entity(rows).items()
        for tokens in windowed_tokens(table.sequences, entity, rows[positions], window)
    ]
