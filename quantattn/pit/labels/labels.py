"""Labels: targets with the interval that they measure, and from when on they can be known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import LabelError
from quantattn.pit._tables import refuse_rows
from quantattn.pit.labels.windows import DROPPED, Unit
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of, to_nanoseconds

LABELS: Final = pl.Schema(
    {
        "entity": pl.String(),
        "forecast_time": TIME,
        "horizon": pl.Int32(),
        "y_true": pl.Float64(),
        "label_start_time": TIME,
        "label_end_time": TIME,
        "label_available_at": TIME,
    }
)

Kind = Literal["variance", "return", "direction"]

_KINDS: Final = ("variance", "return", "direction")
_UNITS: Final = ("sessions", "seconds")


@dataclass(frozen=True, eq=False)
class Labels:
    """Targets of one kind and horizon, one for each entity and forecast time that has one.

    Parameters
    ----------
    frame : polars.DataFrame
        ``entity`` (String), ``forecast_time``, ``horizon`` (Int32, in `unit`), ``y_true`` (Float64, finite),
        ``label_start_time``, ``label_end_time``, ``label_available_at`` (UTC), sorted by forecast time and
        entity. ``forecast_time < label_start_time <= label_end_time <= label_available_at`` on every row.
    dropped : polars.DataFrame
        ``entity``, ``forecast_time``, ``reason`` of the pairs without a label: ``incomplete`` (the data end
        first), ``no_price`` (the entity has no bar where the label starts or ends, though the data go on),
        ``gap`` (a bar is missing inside), ``zero_variance`` (the price never moved, so the log is undefined),
        ``halted`` (trading was never resumed), ``delisted`` (the label spans a delisting whose return is not
        known, or begins after it), ``total_loss`` (a log return of a share that became worthless), ``closed``
        (an intraday window ends while the market is closed), ``dead_band`` (no direction).
    name : str
        What is measured, for example ``"log_realised_variance"``.
    horizon : int
        In `unit`.
    kind : {"variance", "return", "direction"}
        Which metrics apply.
    entities : tuple of str
        Every entity for which labels were asked, sorted, those without any included.
    unit : {"sessions", "seconds"}
        What horizons count: sessions, or seconds of the clock on the wall.

    Raises
    ------
    LabelError
        If a column is missing or of another type, a value is null or not finite, times are out of order,
        or an entity has two labels at one forecast time.
    """

    frame: pl.DataFrame
    dropped: pl.DataFrame
    name: str
    horizon: int
    kind: Kind
    entities: tuple[str, ...]
    unit: Unit = "sessions"

    def __post_init__(self) -> None:
        """Refuse labels that break the rules of time."""
        if self.kind not in _KINDS:
            raise LabelError(f"kind={self.kind!r} is unknown; use one of {', '.join(map(repr, _KINDS))}")
        if self.unit not in _UNITS:
            raise LabelError(f"unit={self.unit!r} is unknown; use one of {', '.join(map(repr, _UNITS))}")
        for title, frame, schema in (("frame", self.frame, LABELS), ("dropped", self.dropped, DROPPED)):
            if frame.schema != schema:
                raise LabelError(
                    f"{title} of the labels has columns {dict(frame.schema)}; "
                    f"give {dict(schema)}, in that order"
                )
        _refuse_bad_labels(self.frame)
        strangers = sorted(
            {*self.frame["entity"].unique(), *self.dropped["entity"].unique()} - {*self.entities}
        )
        if strangers:
            raise LabelError(f"entities of the labels lacks {strangers[:3]}, which have rows; list them too")

    def cut(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> Labels:
        """Keep the labels of forecasts made at or before an instant (their outcomes may be later)."""
        made = pl.col("forecast_time") <= pl.lit(instants([to_nanoseconds(t)]))
        return Labels(
            self.frame.filter(made),
            self.dropped.filter(made),
            self.name,
            self.horizon,
            self.kind,
            self.entities,
            self.unit,
        )

    def overlap_counts(self) -> pl.Series:
        """Count, for each label, the other labels of its entity that measure some of the same time.

        Two labels overlap iff each starts before the other ends: windows that touch share no return. A
        label without overlaps counts 0; with a forecast in every session and a horizon of h sessions,
        it is up to 2 (h - 1).

        Returns
        -------
        polars.Series of Int64
            ``overlap``, row by row with `frame`.
        """
        counts = np.zeros(self.frame.height, dtype=np.int64)
        starts = nanoseconds_of(self.frame["label_start_time"])
        ends = nanoseconds_of(self.frame["label_end_time"])
        rows_by_entity = self.frame.select("entity", row=pl.int_range(pl.len(), dtype=pl.Int64)).partition_by(
            "entity", as_dict=True
        )
        for part in rows_by_entity.values():
            rows = part["row"].to_numpy()
            counts[rows] = _overlaps(starts[rows], ends[rows])
        return pl.Series("overlap", counts)

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many labels were not produced, by reason."""
        return dict(self.dropped.group_by("reason").len().sort("reason").iter_rows())

    def __repr__(self) -> str:
        """Say what is measured and how many labels there are."""
        return (
            f"Labels({self.name}, horizon={self.horizon}, {self.frame.height} rows, "
            f"dropped={self.dropped_counts})"
        )


def _overlaps(starts: Nanoseconds, ends: Nanoseconds) -> Nanoseconds:
    begun = np.searchsorted(np.sort(starts), ends, side="left")
    over = np.searchsorted(np.sort(ends), starts, side="right")
    # A window without length is over where it begins: it was not counted as begun, and must not be as over.
    points = np.sort(starts[starts == ends])
    at_end = np.searchsorted(points, ends, side="right") - np.searchsorted(points, ends, side="left")
    count = begun - over + np.where(starts == ends, at_end, 0) - (starts < ends)
    return count.astype(np.int64)


def _refuse_bad_labels(frame: pl.DataFrame) -> None:
    shown = ["entity", "forecast_time"]
    for column in LABELS:
        refuse_rows(
            frame,
            frame[column].is_null(),
            shown,
            f"column {column!r} of the labels is null",
            "drop those rows",
            LabelError,
        )
    refuse_rows(
        frame,
        ~frame["y_true"].is_finite(),
        [*shown, "y_true"],
        "column 'y_true' of the labels is not finite",
        "drop those rows",
        LabelError,
    )
    for early, late, strict in (
        ("forecast_time", "label_start_time", True),
        ("label_start_time", "label_end_time", False),
        ("label_end_time", "label_available_at", False),
    ):
        wrong = frame[late] <= frame[early] if strict else frame[late] < frame[early]
        refuse_rows(
            frame,
            wrong,
            [*shown, early, late],
            f"column {late!r} of the labels is {'not after' if strict else 'before'} {early!r}",
            "correct those times: a label begins after its forecast and is known at its end or later",
            LabelError,
        )
    refuse_rows(
        frame,
        frame.select(pl.struct(shown).is_duplicated()).to_series(),
        shown,
        "an entity has more than one label at one forecast time",
        "keep one",
        LabelError,
    )
