"""Which rows are trained on, which are held out, and what was known when: the checks of `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import getattr_static
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import DataError, ForecasterError, LeakageError
from quantattn.forecasters.targets import Targets
from quantattn.forecasters.tokens import Integers
from quantattn.pit.timestamps import iso, nanoseconds_of

Bools = npt.NDArray[np.bool_]


class FoldLike(Protocol):
    """What `fit` and `predict` read of a :class:`~quantattn.walkforward.Fold`."""

    @property
    def train(self) -> Integers:
        """Rows to train on."""

    @property
    def validation(self) -> Integers:
        """Rows to stop on; may be empty."""

    @property
    def test(self) -> Integers:
        """Rows to forecast."""

    @property
    def fit_time(self) -> int:
        """The instant at which the model is trained, nanoseconds UTC."""


_OF_A_FOLD = ("train", "validation", "test", "fit_time")


def fold_of(rows: object) -> FoldLike | None:
    """Give what looks like a fold, or None for rows.

    Nothing is read of it, since folds of a cross-validation refuse to be asked for a `fit_time`.
    """
    missing = object()
    if any(getattr_static(rows, name, missing) is missing for name in _OF_A_FOLD):
        return None
    return cast(FoldLike, rows)


@dataclass(frozen=True)
class Sides:
    """Checked rows of a fit.

    Parameters
    ----------
    train, validation : ndarray of int64
        Rows of the samples, rising; the second may be empty.
    train_known, validation_known : ndarray of bool, shape (m, targets)
        Which of their targets are there and could be known at `cutoff` and at `fit_time`.
    cutoff : int
        Nanoseconds since the epoch, UTC: the last before the first validation forecast, or `fit_time`.
    fit_time : int
        Nanoseconds since the epoch, UTC.
    """

    train: Integers
    validation: Integers
    train_known: Bools
    validation_known: Bools
    cutoff: int
    fit_time: int


def checked_rows(rows: npt.ArrayLike, n_samples: int, argument: str) -> Integers:
    """Give rows as a rising array.

    Raises
    ------
    ForecasterError
        If they are not whole numbers, lie outside of the samples or come twice.
    """
    given = np.asarray(rows)
    if given.size == 0:
        return np.empty(0, np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ForecasterError(
            f"{argument} has shape {given.shape} and type {given.dtype}; give a list of row numbers of the "
            "samples, such as fold.train"
        )
    ordered = np.sort(given.astype(np.int64))
    if ordered[0] < 0 or ordered[-1] >= n_samples:
        outside = ordered[(ordered < 0) | (ordered >= n_samples)][:3].tolist()
        raise ForecasterError(f"{argument} holds rows {outside}; the samples have rows 0 to {n_samples - 1}")
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise ForecasterError(f"{argument} holds rows {twice[:3].tolist()} twice; give each row once")
    return ordered


def check_sides(
    samples: pl.DataFrame,
    targets: Targets,
    train: npt.ArrayLike,
    validation: npt.ArrayLike,
    fit_time: int | None,
    *,
    strict: bool,
) -> Sides:
    """Check the rows of a fit against the rules of time.

    Parameters
    ----------
    samples : polars.DataFrame
        The dataset's samples.
    targets : Targets
        By row of the samples.
    train, validation : array-like of int
        Rows.
    fit_time : int or None
        Nanoseconds since the epoch, UTC; by default the instant at which their last target is known.
    strict : bool
        Refuse rows whose target cannot be known in time; otherwise such targets count as missing.

    Returns
    -------
    Sides

    Raises
    ------
    ForecasterError
        If there is no training row, a row is on both sides, or no training target is known.
    DataError
        If a target of the rows is infinite; what other rows hold does not matter.
    LeakageError
        If a training target is known only after the first validation forecast or `fit_time`, or a
        validation target only after `fit_time`.
    """
    if len(targets.values) != samples.height:
        raise ForecasterError(
            f"targets have {len(targets.values)} rows and the samples {samples.height}; give one row for each"
        )
    training = checked_rows(train, samples.height, "rows")
    held_out = checked_rows(validation, samples.height, "validation")
    if not len(training):
        raise ForecasterError("rows is empty, so there is nothing to train on; lengthen the training window")
    both = np.intersect1d(training, held_out)
    if len(both):
        raise ForecasterError(f"rows {both[:3].tolist()} are in validation too; keep the sides apart")
    times = nanoseconds_of(samples["forecast_time"])
    if fit_time is None:
        every = np.concatenate([training, held_out])
        there = ~np.isnan(targets.values[every])
        last = targets.available_at[every][there].max(initial=times[every].max())
        fit_time = int(last)
    cutoff = min(fit_time, int(times[held_out].min()) - 1) if len(held_out) else fit_time
    train_known, validation_known = targets.known(training, cutoff), targets.known(held_out, fit_time)
    if strict:
        ends = "the first validation forecast" if len(held_out) else "fit_time"
        _refuse_unknown(targets, training, "rows", cutoff, ends)
        _refuse_unknown(targets, held_out, "validation", fit_time, "fit_time")
    _refuse_infinite(targets, training, cutoff)
    _refuse_infinite(targets, held_out, fit_time)
    if not train_known.any():
        raise ForecasterError(
            f"no target of the {len(training)} training rows is known by {iso(cutoff)}; lengthen the "
            "training window"
        )
    return Sides(training, held_out, train_known, validation_known, cutoff, fit_time)


def _refuse_unknown(targets: Targets, rows: Integers, argument: str, cutoff: int, ends: str) -> None:
    """Refuse rows whose targets are there but come too late; missing ones say so themselves later."""
    late = (~np.isnan(targets.values[rows]) & (targets.available_at[rows] > cutoff)).any(axis=1)
    if late.any():
        first = int(rows[late][0])
        known_at = iso(int(targets.available_at[first].max()))
        raise LeakageError(
            f"{argument}: {int(late.sum())} rows have targets that are known only after {ends} "
            f"({iso(cutoff)}), first row {first}, known at {known_at}; purge them, as WalkForward does"
        )


def _refuse_infinite(targets: Targets, rows: Integers, cutoff: int) -> None:
    """Refuse rows with an infinite target that is known by the cutoff; one known later is never read."""
    infinite = (np.isinf(targets.values[rows]) & (targets.available_at[rows] <= cutoff)).any(axis=1)
    if infinite.any():
        raise DataError(
            f"targets are infinite in sample rows {rows[infinite][:3].tolist()}; drop them or set them to NaN"
        )
