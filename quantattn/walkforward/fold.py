"""One fold of a walk-forward: which rows are on which side, and which were purged and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from quantattn.errors import SplitError
from quantattn.pit.timestamps import TIME, iso
from quantattn.walkforward._stretches import (
    Rows,
    Stretch,
    account,
    dropped_counts,
    dropped_words,
    side_words,
)

__all__ = ["PURGED_SCHEMA", "Fold", "Rows", "require_walk_forward"]

PURGED_SCHEMA: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    "entity": pl.String(),
    "forecast_time": TIME,
    "side": pl.String(),
    "reason": pl.String(),
}
"""Columns of :attr:`Fold.purged`."""


@dataclass(frozen=True, eq=False, repr=False)
class Fold:
    """One fold: row indices into the samples frame, the purged rows, and the two cutoffs.

    Everything it trains on lies before its test. Folds of a cross-validation that train on both sides of
    their test are a :class:`~quantattn.walkforward.CombinatorialFold` and have no `fit_time`.

    Attributes
    ----------
    index : int
        The fold's number, from 0 in order of time.
    train, validation, test : ndarray of int64
        Row indices into the samples, ascending. `validation` is empty where there is none.
    purged : polars.DataFrame
        One row per sample that lies in the training or validation window and was left out: `row`,
        `entity`, `forecast_time`, `side` (``"train"`` or ``"validation"``) and `reason`:
        ``"label"`` (its label is known only after the cutoff), ``"embargo"`` (known within the embargo
        before the cutoff) or ``"purged_size"`` (one of the further forecast times asked for).
    fit_time : int
        The instant at which the fold's model is trained: the last nanosecond before the first test forecast.
    validation_time : int
        The cutoff of the training side: the last nanosecond before the first validation forecast, or
        `fit_time` without validation. Encoders and scalers see only what is visible up to it.
    train_span, validation_span, test_span : tuple of int, or None
        First and last forecast time of each side, nanoseconds UTC; None for an empty validation.
    runs : tuple of Stretch
        The stretches of neighbouring forecast times on each side, kept and dropped; see :meth:`stretches`.
    n_before, n_after : int
        Rows outside of the fold: earlier than its training window, later than its test block.
    n_between : int
        Rows outside of the fold between its fit and its test block, where an earlier fold's model serves it.
    """

    index: int
    train: Rows
    validation: Rows
    test: Rows
    purged: pl.DataFrame
    fit_time: int
    validation_time: int
    train_span: tuple[int, int]
    validation_span: tuple[int, int] | None
    test_span: tuple[int, int]
    runs: tuple[Stretch, ...] = field(default=())
    n_before: int = 0
    n_after: int = 0
    n_between: int = 0

    def __repr__(self) -> str:
        """Say the sides, what was dropped and why, and when the model is fitted."""
        sides = [side_words(side, n_rows, span) for side, n_rows, span in self._sides() if n_rows]
        dropped = dropped_words(self.purged)
        return f"Fold {self.index}: {', '.join(sides)}; {dropped}; fitted at {iso(self.fit_time)}"

    def _sides(self) -> list[tuple[str, int, tuple[int, int] | None]]:
        return [
            ("train", len(self.train), self.train_span),
            ("validation", len(self.validation), self.validation_span),
            ("test", len(self.test), self.test_span),
        ]

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many rows of the windows were left out, by reason; reasons without a row are not listed."""
        return dropped_counts(self.purged)

    def summary(self) -> pl.DataFrame:
        """Account for every sample: on which side it is, or why it is on none.

        Returns
        -------
        polars.DataFrame
            One row per side and reason: `side` (null outside of the windows), `reason` (``"kept"``,
            ``"label"``, ``"embargo"``, ``"purged_size"``; ``"before"`` the training window, ``"between"`` the
            fit of an earlier fold and the test block, ``"after"`` the test block), `n_rows`, `start` and
            `end` (first and last forecast time, UTC; null outside). The numbers of rows add up to the height
            of the samples.
        """
        return account(self._sides(), self.purged, self.n_before, self.n_after, self.n_between)

    def stretches(self) -> list[Stretch]:
        """Give what lies where on the time line, side by side, kept and dropped.

        Returns
        -------
        list of Stretch
            In no particular order. A forecast time at which some entities were kept and others dropped is in
            a stretch of both.
        """
        if self.runs:
            return list(self.runs)
        kept = [Stretch(side, "kept", *span, n) for side, n, span in self._sides() if span is not None and n]
        stretches = _purged_stretches(self.purged)
        return kept + [Stretch(s["side"], s["reason"], s["start"], s["end"], s["n_rows"]) for s in stretches]

    def spans(self) -> dict[str, str | None]:
        """Give the fold's instants as ISO 8601 text in UTC.

        Returns
        -------
        dict
            `fit_time`, `validation_time` and the first and last forecast time of each side:
            `train_start`, `train_end`, `validation_start`, `validation_end` (None without validation),
            `test_start`, `test_end`. Ends are inclusive.
        """
        sides = {"train": self.train_span, "validation": self.validation_span, "test": self.test_span}
        result: dict[str, str | None] = {
            "fit_time": iso(self.fit_time),
            "validation_time": iso(self.validation_time),
        }
        for side, span in sides.items():
            result[f"{side}_start"] = None if span is None else iso(span[0])
            result[f"{side}_end"] = None if span is None else iso(span[1])
        return result

    def purged_spans(self) -> list[dict[str, Any]]:
        """Give the purged stretches, one per side and reason.

        Returns
        -------
        list of dict
            `side`, `reason`, `start`, `end` (first and last forecast time, ISO text, inclusive) and `n_rows`.
        """
        stretches = _purged_stretches(self.purged)
        return [row | {"start": iso(row["start"]), "end": iso(row["end"])} for row in stretches]


def _purged_stretches(purged: pl.DataFrame) -> list[dict[str, Any]]:
    if purged.is_empty():
        return []
    stretches = (
        purged.group_by("side", "reason")
        .agg(
            pl.col("forecast_time").min().to_physical().alias("start"),
            pl.col("forecast_time").max().to_physical().alias("end"),
            pl.len().alias("n_rows"),
        )
        .sort("start", "end", "side", "reason")
    )
    return stretches.to_dicts()


def require_walk_forward(folds: Iterable[object], *, needed_by: str) -> None:
    """Refuse folds that are no walk-forward.

    Parameters
    ----------
    folds : iterable
        What was given as folds.
    needed_by : str
        What needs them, for the message: ``"run_folds"``.

    Raises
    ------
    SplitError
        If one of them is not a :class:`Fold`, for example a fold of ``CombinatorialPurged``, which trains on
        forecasts after its test.
    """
    for fold in folds:
        if not isinstance(fold, Fold):
            raise SplitError(
                f"{needed_by} needs folds of a walk-forward, and one is a {type(fold).__name__}, which has "
                "no instant at which a model could have been fitted before its test; split with WalkForward"
            )
