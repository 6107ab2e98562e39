"""One fold of a walk-forward: which rows are on which side, and which were purged and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.timestamps import TIME, iso

Rows = npt.NDArray[np.int64]

PURGED_SCHEMA: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    "entity": pl.String(),
    "forecast_time": TIME,
    "side": pl.String(),
    "reason": pl.String(),
}
"""Columns of :attr:`Fold.purged`."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold: row indices into the samples frame, the purged rows, and the two cutoffs.

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
    """

    index: int
    train: Rows = field(repr=False)
    validation: Rows = field(repr=False)
    test: Rows = field(repr=False)
    purged: pl.DataFrame = field(repr=False)
    fit_time: int
    validation_time: int
    train_span: tuple[int, int]
    validation_span: tuple[int, int] | None
    test_span: tuple[int, int]

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
        if self.purged.is_empty():
            return []
        stretches = (
            self.purged.group_by("side", "reason")
            .agg(
                pl.col("forecast_time").min().to_physical().alias("start"),
                pl.col("forecast_time").max().to_physical().alias("end"),
                pl.len().alias("n_rows"),
            )
            .sort("start", "end", "side", "reason")
        )
        return [row | {"start": iso(row["start"]), "end": iso(row["end"])} for row in stretches.to_dicts()]
