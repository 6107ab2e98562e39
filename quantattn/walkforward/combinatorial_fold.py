"""One split of a combinatorial cross-validation: several test blocks, training rows on all their sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import polars as pl

from quantattn.errors import SplitError
from quantattn.walkforward._stretches import (
    Rows,
    Stretch,
    account,
    dropped_counts,
    dropped_words,
    moment,
    side_words,
)
from quantattn.walkforward.fold import PURGED_SCHEMA

COMBINATORIAL_PURGED_SCHEMA: dict[str, pl.DataType] = {
    **PURGED_SCHEMA,
    "test_fold": pl.Int64(),
    "position": pl.String(),
}
"""Columns of :attr:`CombinatorialFold.purged`."""


@dataclass(frozen=True, eq=False, repr=False)
class CombinatorialFold:
    """One split of ``CombinatorialPurged``: row indices into the samples frame, and the dropped rows.

    .. warning::

        **Not a walk-forward.** Training rows lie after test rows: `n_train_after` of them are later than the
        first test forecast. No model could have been fitted on them in time, so there is no `fit_time`, and
        asking for it (or for `validation` and the spans of a :class:`~quantattn.walkforward.Fold`) raises
        `SplitError`. The study's engine and the audit refuse such folds.

    Attributes
    ----------
    index : int
        The split's number, from 0, in the order of ``CombinatorialPurged.test_set_index``.
    train : ndarray of int64
        Row indices into the samples, ascending.
    tests : tuple of ndarray of int64
        Row indices of each test block, ascending in each, blocks in order of time.
    test_folds : tuple of int
        The number of each test block among the `n_folds` blocks.
    path_ids : tuple of int
        The backtest path that each test block belongs to.
    purged : polars.DataFrame
        One row per sample on no side: `row`, `entity`, `forecast_time`, `side` (``"train"``), `reason`
        (``"label"``: its label interval overlaps the block's; ``"embargo"``; ``"purged_size"``), `test_fold`
        (the first test block for which the reason holds) and `position` (``"before"`` or ``"after"`` it).
    test_spans : tuple of (int, int)
        Each test block's first forecast time and the last instant at which one of its labels becomes known,
        nanoseconds UTC: what no label interval of a training row may overlap.
    n_train_after : int
        How many training rows are later than the first test forecast.
    runs : tuple of Stretch
        The stretches of neighbouring forecast times on each side, kept and dropped.
    """

    index: int
    train: Rows
    tests: tuple[Rows, ...]
    test_folds: tuple[int, ...]
    path_ids: tuple[int, ...]
    purged: pl.DataFrame
    test_spans: tuple[tuple[int, int], ...]
    n_train_after: int
    runs: tuple[Stretch, ...] = field(default=())

    @property
    def test(self) -> Rows:
        """All test rows, ascending; ``CombinatorialPurged.recombine`` takes forecasts in this order."""
        return np.sort(np.concatenate(self.tests))

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many rows are on no side, by reason; reasons without a row are not listed."""
        return dropped_counts(self.purged)

    def summary(self) -> pl.DataFrame:
        """Account for every sample: on which side it is, or why it is on none.

        Returns
        -------
        polars.DataFrame
            One row per side and reason: `side`, `reason` (``"kept"``, ``"label"``, ``"embargo"``,
            ``"purged_size"``), `n_rows`, `start` and `end` (first and last forecast time, UTC). The numbers
            of rows add up to the height of the samples.
        """
        sides = []
        for side in ("train", "test"):
            runs = [run for run in self.runs if run.side == side and run.reason == "kept"]
            span = (min(run.start for run in runs), max(run.end for run in runs)) if runs else None
            sides.append((side, sum(run.n_rows for run in runs), span))
        return account(sides, self.purged, 0, 0)

    def stretches(self) -> list[Stretch]:
        """Give what lies where on the time line, kept and dropped, in no particular order."""
        return list(self.runs)

    def __repr__(self) -> str:
        """Say the test blocks, the training rows, what was dropped and why."""
        tests = ", ".join(
            f"{number} from {moment(start)} (path {path})"
            for number, (start, _), path in zip(self.test_folds, self.test_spans, self.path_ids, strict=True)
        )
        return (
            f"CombinatorialFold {self.index}: {side_words('train', len(self.train), None)} "
            f"({self.n_train_after} later than the first test), {side_words('test', len(self.test), None)} "
            f"in blocks {tests}; {dropped_words(self.purged)}"
        )

    @property
    def fit_time(self) -> NoReturn:
        """There is none: raises `SplitError`."""
        self._no_walk_forward("fit_time")

    @property
    def validation_time(self) -> NoReturn:
        """There is none: raises `SplitError`."""
        self._no_walk_forward("validation_time")

    @property
    def validation(self) -> NoReturn:
        """There is none: raises `SplitError`."""
        self._no_walk_forward("validation side")

    @property
    def train_span(self) -> NoReturn:
        """There is none, for training rows lie around the tests: raises `SplitError`."""
        self._no_walk_forward("train_span")

    @property
    def validation_span(self) -> NoReturn:
        """There is none: raises `SplitError`."""
        self._no_walk_forward("validation_span")

    @property
    def test_span(self) -> NoReturn:
        """There is none, for there are several test blocks: raises `SplitError`."""
        self._no_walk_forward("test_span")

    def _no_walk_forward(self, what: str) -> NoReturn:
        raise SplitError(
            f"split {self.index} of CombinatorialPurged has no {what}: {self.n_train_after} of its training "
            "rows are later than its first test forecast, so it is no walk-forward; use WalkForward where "
            "one is needed, or the fold's train, tests and test_spans"
        )
