"""What every baseline gets: samples, their as-of features, and the bars behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import DataError
from quantattn.forecasters.baselines.sequences import EventSequences
from quantattn.pit.timestamps import TIME, nanoseconds_of

TargetKind = Literal["variance", "return", "direction"]
"""What a target measures; it decides how a baseline turns bars into a forecast."""

FEATURE_PREFIX = "asof_"
"""Only columns whose names begin so are features; keys and labels can never slip in."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_NEVER = np.iinfo(np.int64).max
_SAMPLES: Final = pl.Schema(
    {"entity": pl.String(), "forecast_time": TIME, "y_true": pl.Float64(), "label_available_at": TIME}
)
_BARS: Final = pl.Schema({"entity": pl.String(), "available_at": TIME, "log_return": pl.Float64()})


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples with everything that a baseline may look at.

    Parameters
    ----------
    samples : polars.DataFrame
        The samples of a point-in-time dataset: ``entity`` (String), ``forecast_time`` (TIME),
        ``y_true`` (Float64) and ``label_available_at`` (TIME), both null while a label is unknown, and
        ``horizon`` where there is one. Other columns are not looked at.
    as_of : polars.DataFrame
        Aligned row by row with `samples`: the value of each feature in the last event visible at the
        forecast time. Columns whose names begin with ``asof_`` are the features (numeric; null or NaN
        where missing); ``entity`` and ``forecast_time``, where present, must agree with `samples`.
    bars : polars.DataFrame
        Daily bars in canonical order: ``entity`` (String), ``available_at`` (TIME), ``log_return``
        (Float64; null where there is no previous close). Bars without an entity are not used.
    kind : {"variance", "return", "direction"}
        What the target measures.
    horizon : int
        Sessions that the target spans.
    log : bool, default False
        For variance: the target is the natural logarithm of the realised variance. Else without effect.
    sequences : EventSequences, optional
        The events behind the samples, for the baselines that read them.

    Raises
    ------
    DataError
        If a column is missing or of another type, the frames are not aligned, or an argument is
        impossible.
    """

    samples: pl.DataFrame
    as_of: pl.DataFrame
    bars: pl.DataFrame
    kind: TargetKind
    horizon: int
    log: bool = False
    sequences: EventSequences | None = None

    def __post_init__(self) -> None:
        """Check the columns, the types and the alignment."""
        if self.kind not in get_args(TargetKind):
            raise DataError(f"kind={self.kind!r} is unknown; use one of {list(get_args(TargetKind))}")
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int) or self.horizon < 1:
            raise DataError(
                f"horizon={self.horizon!r} is not a positive number of sessions; use for example 5"
            )
        _check_schema(self.samples, _SAMPLES, "samples")
        _check_schema(self.bars, _BARS, "bars")
        for name in ("entity", "forecast_time"):
            _refuse(self.samples[name].is_null(), f"column {name!r} of samples is null", "drop those rows")
        _refuse(self.bars["available_at"].is_null(), "column 'available_at' of bars is null", "date the bars")
        _refuse(
            ~self.bars["log_return"].is_finite(),
            "column 'log_return' of bars is not finite",
            "use null for a missing return",
        )
        self._check_horizon()
        self._check_as_of()
        if self.sequences is not None:
            self.sequences.check(self.samples)

    def __len__(self) -> int:
        """Count the samples."""
        return self.samples.height

    def __repr__(self) -> str:
        """Name the table by its size."""
        return (
            f"SampleTable({len(self)} samples, {len(self.feature_names)} as-of features, "
            f"{self.bars.height} bars, kind={self.kind!r}, horizon={self.horizon}, log={self.log})"
        )

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The as-of feature columns, in the order of the frame."""
        return tuple(name for name in self.as_of.columns if name.startswith(FEATURE_PREFIX))

    @cached_property
    def forecast_times(self) -> Integers:
        """Forecast time of each sample, nanoseconds since the epoch, UTC, shape (n,)."""
        return nanoseconds_of(self.samples["forecast_time"])

    @cached_property
    def outcomes(self) -> Floats:
        """Target of each sample, shape (n,); NaN while unknown."""
        return self.samples["y_true"].to_numpy().astype(np.float64)

    @cached_property
    def label_times(self) -> Integers:
        """When each label can be known, nanoseconds, shape (n,); the largest integer while unknown."""
        known = self.samples["label_available_at"].is_not_null().to_numpy()
        stamps = self.samples["label_available_at"].to_physical().fill_null(0).to_numpy()
        return np.where(known & np.isfinite(self.outcomes), stamps, _NEVER)

    def rows(self, rows: npt.ArrayLike, *, argument: str = "rows") -> Integers:
        """Read row positions.

        Parameters
        ----------
        rows : array_like of int, shape (m,)
            Positions in :attr:`samples`.
        argument : str
            The argument's name, for the error message.

        Returns
        -------
        ndarray of int64, shape (m,)

        Raises
        ------
        DataError
            If they are not integers, not one-dimensional, or outside the table.
        """
        array = np.asarray(rows)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise DataError(
                f"{argument} is {array.dtype} of shape {array.shape}; "
                "give a one-dimensional array of row positions"
            )
        positions = array.astype(np.int64)
        outside = np.flatnonzero((positions < 0) | (positions >= len(self)))
        if outside.size:
            raise DataError(
                f"{argument} holds {positions[outside[:3]].tolist()}, outside the table's {len(self)} rows; "
                "give positions in samples"
            )
        return positions

    def targets(self, rows: Integers) -> Floats:
        """Give the targets of training rows.

        Parameters
        ----------
        rows : ndarray of int64, shape (m,)

        Returns
        -------
        ndarray of float64, shape (m,)

        Raises
        ------
        DataError
            If a target is missing or not finite, or nobody knows when its label became available.
        """
        values = self.outcomes[rows]
        unusable = np.flatnonzero(~np.isfinite(values) | (self.label_times[rows] == _NEVER))
        if unusable.size:
            first = rows[unusable[:3]]
            shown = (
                self.samples[first].select("entity", "forecast_time", "y_true", "label_available_at").rows()
            )
            raise DataError(
                f"y_true is not a dated finite number in {unusable.size} training rows, first "
                f"{first.tolist()} ({shown}); train on rows with known labels only"
            )
        return values

    def features(self, names: Sequence[str], rows: Integers) -> Floats:
        """Give as-of features of rows.

        Parameters
        ----------
        names : sequence of str
            Feature columns, with their prefix.
        rows : ndarray of int64, shape (m,)

        Returns
        -------
        ndarray of float64, shape (m, len(names))
            NaN where missing.

        Raises
        ------
        DataError
            If the table lacks a feature.
        """
        missing = [name for name in names if name not in self.feature_names]
        if missing:
            raise DataError(
                f"as_of lacks the features {missing}, it has {list(self.feature_names)}; build the events "
                "with market_events, or leave this model out"
            )
        columns = [self.as_of[name].cast(pl.Float64).to_numpy()[rows] for name in names]
        return np.stack(columns, axis=1) if columns else np.empty((rows.size, 0))

    @cached_property
    def bars_by_entity(self) -> dict[str, tuple[Integers, Floats]]:
        """Each entity's bars: ``available_at`` in nanoseconds and log returns (NaN where null)."""
        grouped = self.bars.drop_nulls("entity").partition_by("entity", as_dict=True, maintain_order=True)
        return {
            str(key[0]): (
                nanoseconds_of(part["available_at"]),
                part["log_return"].to_numpy().astype(np.float64),
            )
            for key, part in grouped.items()
        }

    def positions_by_entity(self, rows: Integers) -> dict[str, Integers]:
        """Give, for each entity, the positions within `rows` that belong to it.

        Parameters
        ----------
        rows : ndarray of int64, shape (m,)

        Returns
        -------
        dict of str to ndarray of int64
            Together they cover ``range(m)`` once.
        """
        frame = pl.DataFrame({"entity": self.samples["entity"].gather(rows)}).with_row_index("position")
        grouped = frame.partition_by("entity", as_dict=True, maintain_order=True)
        return {str(key[0]): part["position"].to_numpy().astype(np.int64) for key, part in grouped.items()}

    def _check_horizon(self) -> None:
        if "horizon" in self.samples.columns:
            others = self.samples["horizon"] != self.horizon
            _refuse(
                others, f"column 'horizon' of samples differs from horizon={self.horizon}", "pass one horizon"
            )

    def _check_as_of(self) -> None:
        if self.as_of.height != len(self):
            raise DataError(
                f"as_of has {self.as_of.height} rows and samples {len(self)}; they must be aligned row by row"
            )
        for name in ("entity", "forecast_time"):
            if name in self.as_of.columns and not self.as_of[name].equals(self.samples[name]):
                raise DataError(
                    f"column {name!r} of as_of differs from samples; align the two frames row by row"
                )
        for name in self.feature_names:
            column = self.as_of[name]
            if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
                raise DataError(f"feature {name!r} of as_of has type {column.dtype}; cast it to Float64")
            _refuse(
                column.cast(pl.Float64).is_infinite(),
                f"feature {name!r} of as_of is infinite",
                "use null instead",
            )


def _check_schema(frame: pl.DataFrame, schema: pl.Schema, where: str) -> None:
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise DataError(f"{where} lacks the columns {missing}, it has {frame.columns}; add them")
    for name, dtype in schema.items():
        if frame.schema[name] != dtype:
            raise DataError(f"column {name!r} of {where} has type {frame.schema[name]}, not {dtype}; cast it")


def _refuse(condition: pl.Series, fault: str, remedy: str) -> None:
    rows = condition.fill_null(value=False).arg_true()
    if rows.len():
        raise DataError(f"{fault} in {rows.len()} rows, first {rows.head(3).to_list()}; {remedy}")
