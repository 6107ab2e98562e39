"""Numeric features on one scale, learned before a cutoff."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.encoders._checks import (
    column_names,
    numeric_column,
    require_columns,
    state_fields,
    stored_float,
    stored_int,
    stored_names,
    visible_before,
)
from quantattn.errors import CheckpointError, EncoderError
from quantattn.files import hash_json
from quantattn.pit.timestamps import nanoseconds_of, to_nanoseconds

_FIELDS = ("clip", "columns", "counts", "cutoff", "mean", "n_rows", "scale", "training_cutoff")
# A spread below this share of the largest magnitude is rounding, not information.
_CONSTANT = 1e-12


class NumericScaler:
    """Centre and scale numeric columns by the mean and standard deviation known before a cutoff.

    It filters the rows itself: nothing at or after the cutoff can touch what it learns. The sums are
    exact (correctly rounded), so neither the order of the rows nor the platform changes a bit.

    Parameters
    ----------
    clip : float, default 8.0
        Scaled values are clipped to plus and minus this many standard deviations.

    Attributes
    ----------
    columns_ : tuple of str
        The columns it was fitted on.
    mean_ : ndarray of float64, shape (k,)
        Mean over the non-null values; 0 for a column without any.
    scale_ : ndarray of float64, shape (k,)
        Population standard deviation; 0 for a constant or never-seen column, which is encoded as 0.
    counts_ : ndarray of int64, shape (k,)
        How many non-null values there were.
    n_rows_ : int
        How many rows were visible.
    cutoff_, training_cutoff_ : int
        The cutoff, and the latest time of a row below it; nanoseconds since the epoch, UTC.
    """

    columns_: tuple[str, ...]
    mean_: npt.NDArray[np.float64]
    scale_: npt.NDArray[np.float64]
    counts_: npt.NDArray[np.int64]
    n_rows_: int
    cutoff_: int
    training_cutoff_: int

    def __init__(self, clip: float = 8.0) -> None:
        self.clip = clip

    def fit(
        self, frame: pl.DataFrame, columns: Sequence[str], cutoff: int, *, time: str = "available_at"
    ) -> Self:
        """Learn mean and standard deviation of each column from the rows before `cutoff`.

        Parameters
        ----------
        frame : polars.DataFrame
            The numeric `columns` and the `time` column. Later rows may be there; they are not looked at.
        columns : sequence of str
            Numeric or Boolean columns; null means missing.
        cutoff : int
            Nanoseconds since the epoch, UTC. Only rows with a `time` strictly before it count.
        time : str, default "available_at"
            When a row could be known: ``available_at`` for events, ``forecast_time`` for as-of features
            (which hold what was visible strictly before it). ``Datetime("ns", "UTC")`` without nulls.

        Returns
        -------
        NumericScaler
            Itself.

        Raises
        ------
        EncoderError
            If a column is missing, not numeric or not finite before the cutoff, or no row is visible.
        TimestampError
            If `time` is not a column of UTC instants.
        """
        self._checked_clip()
        names = column_names(columns, "columns")
        limit = to_nanoseconds(cutoff)
        require_columns(frame, names, where="the frame to fit on")
        visible = visible_before(frame, limit, time)
        moments = [_moments(numeric_column(visible, name)) for name in names]
        self.columns_ = names
        self.mean_ = np.array([mean for mean, _, _ in moments], dtype=np.float64)
        self.scale_ = np.array([scale for _, scale, _ in moments], dtype=np.float64)
        self.counts_ = np.array([count for _, _, count in moments], dtype=np.int64)
        self.n_rows_ = visible.height
        self.cutoff_ = limit
        self.training_cutoff_ = int(nanoseconds_of(visible[time]).max())
        return self

    def transform(self, frame: pl.DataFrame) -> npt.NDArray[np.float32]:
        """Scale rows, each by itself.

        Parameters
        ----------
        frame : polars.DataFrame
            Holds :attr:`columns_`; their order does not matter.

        Returns
        -------
        ndarray of float32, shape (n, k)
            ``(value - mean) / scale`` within plus and minus `clip`; 0 where the value is null and in
            constant or never-seen columns.

        Raises
        ------
        EncoderError
            If it is not fitted, or a column is missing, not numeric or not finite.
        """
        self._check_fitted()
        require_columns(frame, self.columns_, where="the frame to scale")
        scaled = np.zeros((frame.height, len(self.columns_)), dtype=np.float32)
        for position, name in enumerate(self.columns_):
            column = numeric_column(frame, name)
            scale = self.scale_[position]
            if scale > 0:
                values = column.fill_null(float(self.mean_[position])).to_numpy()
                with np.errstate(over="ignore"):
                    scaled[:, position] = np.clip(
                        (values - self.mean_[position]) / scale, -self.clip, self.clip
                    )
        return scaled

    @property
    def fingerprint(self) -> str:
        """SHA-256 (64 hexadecimal digits) of the canonical JSON of :meth:`to_dict`."""
        return hash_json(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Give everything learned as plain values; floats survive JSON bit for bit.

        Raises
        ------
        EncoderError
            If it is not fitted.
        """
        self._check_fitted()
        return {
            "clip": float(self.clip),
            "columns": list(self.columns_),
            "counts": self.counts_.tolist(),
            "cutoff": self.cutoff_,
            "mean": self.mean_.tolist(),
            "n_rows": self.n_rows_,
            "scale": self.scale_.tolist(),
            "training_cutoff": self.training_cutoff_,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild a fitted scaler from :meth:`to_dict`.

        Raises
        ------
        CheckpointError
            If a field is missing, superfluous or impossible.
        """
        fields = state_fields(state, _FIELDS, "a NumericScaler")
        names = stored_names(fields["columns"], "columns")
        for field in ("mean", "scale", "counts"):
            if not isinstance(fields[field], list) or len(fields[field]) != len(names):
                raise CheckpointError(
                    f"stored {field} must hold one value for each of the {len(names)} columns; fit again"
                )
        scaler = cls(clip=stored_float(fields["clip"], "clip"))
        try:
            scaler._checked_clip()
        except EncoderError as error:
            raise CheckpointError(str(error)) from error
        scaler.columns_ = names
        scaler.mean_ = np.array([stored_float(value, "mean") for value in fields["mean"]], dtype=np.float64)
        scaler.scale_ = np.array(
            [stored_float(value, "scale") for value in fields["scale"]], dtype=np.float64
        )
        if bool(np.any(scaler.scale_ < 0)):
            raise CheckpointError(f"stored scale={fields['scale']!r} is negative; fit the encoder again")
        counts = [stored_int(value, "counts", minimum=0) for value in fields["counts"]]
        scaler.counts_ = np.array(counts, dtype=np.int64)
        scaler.n_rows_ = stored_int(fields["n_rows"], "n_rows", minimum=1)
        scaler.cutoff_ = stored_int(fields["cutoff"], "cutoff")
        scaler.training_cutoff_ = stored_int(fields["training_cutoff"], "training_cutoff")
        if scaler.training_cutoff_ >= scaler.cutoff_:
            raise CheckpointError(
                f"stored training_cutoff={scaler.training_cutoff_} is not before cutoff={scaler.cutoff_}; "
                "fit the encoder again"
            )
        return scaler

    def _checked_clip(self) -> None:
        if isinstance(self.clip, bool) or not isinstance(self.clip, int | float) or not self.clip > 0:
            raise EncoderError(f"clip={self.clip!r} is not a positive number; use for example clip=8.0")
        if not math.isfinite(self.clip):
            raise EncoderError(f"clip={self.clip!r} is not finite; use for example clip=8.0")

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise EncoderError("this NumericScaler is not fitted; call fit(frame, columns, cutoff) first")


def _moments(column: pl.Series) -> tuple[float, float, int]:
    """Give mean, population standard deviation (0 when constant) and count of the non-null values."""
    values = column.drop_nulls().to_numpy()
    if values.size == 0:
        return 0.0, 0.0, 0
    if values.min() == values.max():
        return float(values[0]), 0.0, int(values.size)
    # fsum rounds once, so the result is the same in every order and on every platform.
    try:
        mean = math.fsum(values.tolist()) / values.size
        with np.errstate(over="raise"):
            variance = math.fsum(((values - mean) ** 2).tolist()) / values.size
    except (OverflowError, FloatingPointError) as error:
        raise EncoderError(
            f"column {column.name!r} holds values up to {np.abs(values).max():.3g}, whose variance "
            "overflows; divide the column by a constant first"
        ) from error
    scale = math.sqrt(variance)
    if scale <= _CONSTANT * float(np.abs(values).max()):
        scale = 0.0
    return mean, scale, int(values.size)
