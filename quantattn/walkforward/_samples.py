"""What splitting reads from a samples frame, checked, and the rules of time over its arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import SplitError
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, may_train, nanoseconds_of
from quantattn.walkforward._stretches import Rows, Stretch

Mask = npt.NDArray[np.bool_]

_INSTANTS = ("forecast_time", "label_end_time", "label_available_at")


class Samples(NamedTuple):
    """The columns of a samples frame that matter here, as arrays; `position` is among distinct `times`."""

    entity: pl.Series
    forecast_time: Nanoseconds
    label_available_at: Nanoseconds
    times: Nanoseconds
    position: npt.NDArray[np.int64]

    def rows_between(self, start: int, stop: int) -> Rows:
        """Give the rows whose forecast time has a position in ``[start, stop)``, ascending."""
        return np.flatnonzero((self.position >= start) & (self.position < stop)).astype(np.int64)

    def span(self, rows: Rows) -> tuple[int, int]:
        """Give the first and last forecast time of rows."""
        return int(self.forecast_time[rows].min()), int(self.forecast_time[rows].max())

    def runs(self, rows: Rows, side: str, reason: str = "kept") -> list[Stretch]:
        """Give the stretches of neighbouring forecast times that rows cover, in order of time."""
        if not rows.size:
            return []
        positions, counts = np.unique(self.position[rows], return_counts=True)
        first = np.flatnonzero(np.diff(positions, prepend=positions[0] - 2) > 1)
        last = np.append(first[1:], len(positions)) - 1
        n_rows = np.add.reduceat(counts, first)
        return [
            Stretch(side, reason, int(self.times[positions[a]]), int(self.times[positions[b]]), int(n))
            for a, b, n in zip(first, last, n_rows, strict=True)
        ]


def read_samples(samples: pl.DataFrame) -> Samples:
    """Check a samples frame and take out what splitting needs.

    Parameters
    ----------
    samples : polars.DataFrame
        With the columns `entity`, `forecast_time`, `label_end_time` and `label_available_at`.

    Returns
    -------
    Samples

    Raises
    ------
    SplitError
        If a column or a label end is missing, or a label is known at or before its forecast or its end.
    """
    if not isinstance(samples, pl.DataFrame):
        raise SplitError(
            f"samples is a {type(samples).__name__}, not a polars DataFrame; pass PointInTimeDataset.samples"
        )
    missing = [name for name in ("entity", *_INSTANTS) if name not in samples.columns]
    if missing:
        raise SplitError(
            f"samples lacks the columns {missing}; purging needs the times at which labels end and become "
            "known: pass PointInTimeDataset.samples"
        )
    if samples.is_empty():
        raise SplitError(
            "samples is empty: there are 0 forecast times; check the clock, the labels and the universe"
        )
    for name in _INSTANTS:
        if samples[name].dtype != TIME:
            raise SplitError(f"column {name!r} has type {samples[name].dtype}, not {TIME}; convert it first")
        if samples[name].null_count():
            rows = samples[name].is_null().arg_true()
            raise SplitError(
                f"column {name!r} is missing in {len(rows)} rows, first {rows.head(3).to_list()}; without it "
                "purging cannot be decided, so drop those rows or give their labels an end"
            )
    _refuse(
        samples,
        pl.col("label_available_at") < pl.col("label_end_time"),
        "label_available_at before label_end_time, but no label is known before it ends",
    )
    _refuse(
        samples,
        pl.col("label_available_at") <= pl.col("forecast_time"),
        "label_available_at at or before forecast_time, but a label begins after the forecast",
    )
    forecast_time, known = (nanoseconds_of(samples[name]) for name in ("forecast_time", "label_available_at"))
    times, position = np.unique(forecast_time, return_inverse=True)
    return Samples(samples["entity"], forecast_time, known, times, position.astype(np.int64).reshape(-1))


def _refuse(samples: pl.DataFrame, wrong: pl.Expr, what: str) -> None:
    rows = samples.select(wrong.alias("wrong"))["wrong"].arg_true()
    if len(rows):
        raise SplitError(
            f"{len(rows)} rows, first {rows.head(3).to_list()}, have {what}; correct the labels' times"
        )


def known_by(label_available_at: Nanoseconds | int, cutoff: Nanoseconds | int) -> Mask:
    """Apply the one rule of training to arrays, or to an array and one instant.

    Parameters
    ----------
    label_available_at, cutoff : ndarray of int64 or int
        Nanoseconds since the epoch, UTC; at least one is an array, and two have one shape.

    Returns
    -------
    ndarray of bool
        True where they are equal.
    """
    known, cutoffs = np.broadcast_arrays(
        np.asarray(label_available_at, dtype=np.int64), np.asarray(cutoff, dtype=np.int64)
    )
    frame = pl.DataFrame({"known": instants(known), "cutoff": instants(cutoffs)})
    return frame.select(may_train(pl.col("known"), pl.col("cutoff"))).to_series().to_numpy()
