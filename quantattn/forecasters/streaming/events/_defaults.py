"""What a frame of events may leave to the defaults of an event, and columns that say the same otherwise."""

from __future__ import annotations

import polars as pl

from quantattn.errors import EventDataError
from quantattn.forecasters.streaming.events.event import instant
from quantattn.pit.events.schema import COLUMNS
from quantattn.pit.timestamps import TIME

_MARK = "scheduled"


def with_defaults(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Give a frame the columns of an event log that it may lack, and their types.

    Parameters
    ----------
    frame : polars.DataFrame
        Without ``revision`` it is 0, without ``text`` null. Instants may be of another unit or zone, texts
        with their zone or nanoseconds since the epoch, UTC; whole numbers and columns without a value may
        have any type that holds them. What cannot be meant is left as it is.

    Returns
    -------
    frame : polars.DataFrame
        The same rows, without ``scheduled``.
    scheduled : polars.Series of bool
        Which of them are marked as scheduled; none, where there is no such column.

    Raises
    ------
    EventDataError
        If the column ``entity`` is missing, which no default can stand for, or a revision is no Int32.
    TimestampError
        If a text is no instant with its zone.
    """
    if "entity" not in frame.columns:
        raise EventDataError(
            f"events lack the column 'entity'; they have {frame.columns}; add it, null for market-wide ones"
        )
    scheduled = pl.Series(_MARK, [False], pl.Boolean).new_from_index(0, frame.height)
    if frame.schema.get(_MARK) == pl.Boolean:
        scheduled = frame[_MARK].fill_null(False)
        frame = frame.drop(_MARK)
    if "revision" not in frame.columns:
        frame = frame.with_columns(revision=pl.lit(0, pl.Int32))
    if "text" not in frame.columns:
        frame = frame.with_columns(text=pl.lit(None, pl.String))
    made = [_as(frame[name], COLUMNS.get(name, pl.Float64())) for name in frame.columns]
    return frame.with_columns(made), scheduled


def _as(column: pl.Series, wanted: pl.DataType) -> pl.Series:
    kind = column.dtype
    if kind == wanted:
        return column
    if kind == pl.Null:
        return column.cast(wanted)
    if wanted == TIME:
        return _instants(column)
    if wanted == pl.Int32 and kind.is_integer():
        try:
            return column.cast(pl.Int32)
        except pl.exceptions.PolarsError as error:
            raise EventDataError(
                f"column {column.name!r} of the events has numbers beyond Int32; count revisions from 0"
            ) from error
    if wanted == pl.Float64 and (kind.is_integer() or kind == pl.Float32):
        return column.cast(pl.Float64)
    return column


def _instants(column: pl.Series) -> pl.Series:
    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        if kind.time_zone is None:
            return column
        if kind.time_unit == "ns":
            return column.dt.convert_time_zone("UTC")
    elif kind not in (pl.String, pl.Int64):
        return column
    values = [None if value is None else instant(value, column.name) for value in column.to_list()]
    return pl.Series(column.name, values, pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
