"""Foreign tables at the door: into polars, with their columns checked and the faults quoted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import polars as pl
from pyarrow import ArrowException

from quantattn.errors import DataError, TimestampError
from quantattn.pit._zones import check_time_zone
from quantattn.pit._zones import localise as zone_times
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import TIME, instants

_SHOWN = 3


def to_polars(frame: object, *, index_column: str | None, error: type[DataError]) -> pl.DataFrame:
    """Take a polars, pandas or Arrow table as a polars frame.

    Parameters
    ----------
    frame : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or Arrow table
        The table.
    index_column : str or None
        A column that a pandas ``DatetimeIndex`` of that name may stand in for.
    error : type of DataError
        What to raise.

    Returns
    -------
    polars.DataFrame
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pd.DataFrame):
        if (
            index_column is not None
            and index_column not in frame.columns
            and frame.index.name == index_column
        ):
            frame = frame.reset_index()
        odd = [name for name in frame.columns if not isinstance(name, str)]
        if odd:
            raise error(
                f"frame has column names that are not text: {odd[:_SHOWN]}; rename or stack them first"
            )
        repeated = frame.columns[frame.columns.duplicated()].tolist()
        if repeated:
            raise error(f"frame has repeated column names: {repeated[:_SHOWN]}; keep one of each")
        return pl.DataFrame([_from_pandas(frame[name], error) for name in frame.columns])
    if hasattr(frame, "__arrow_c_stream__"):
        return pl.DataFrame(frame)
    raise error(f"frame is a {type(frame).__name__}; give a polars or pandas DataFrame or an Arrow table")


def _from_pandas(column: pd.Series[Any], error: type[DataError]) -> pl.Series:
    try:
        return pl.from_pandas(column)
    except (pl.exceptions.PolarsError, ArrowException, TypeError, ValueError) as fault:
        raise error(
            f"column {column.name!r} cannot be converted ({fault}); "
            "give it one plain type, or drop it if it is not needed"
        ) from fault


def require_columns(frame: pl.DataFrame, wanted: Mapping[str, str | None], error: type[DataError]) -> None:
    """Refuse a table that lacks a column an argument names.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    wanted : mapping of str to (str or None)
        Argument name to column name; None means that the argument was not given.
    error : type of DataError
        What to raise.
    """
    for argument, column in wanted.items():
        if column is None or column in frame.columns:
            continue
        near = difflib.get_close_matches(column.lower(), [name.lower() for name in frame.columns], n=3)
        hint = [name for name in frame.columns if name.lower() in near] or list(frame.columns)
        raise error(
            f"{argument}={column!r} is not a column of the table; pass {argument}= with one of "
            f"{', '.join(repr(name) for name in hint[:12])}"
        )


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Suggest the known names nearest to an unknown one: text to append, or nothing."""
    folded = {other.strip().lower(): other for other in known}
    near = difflib.get_close_matches(name.strip().lower(), list(folded), n=2, cutoff=0.75)
    return f" (did you mean {' or '.join(repr(folded[other]) for other in near)}?)" if near else ""


def quote_rows(frame: pl.DataFrame, bad: pl.Series, columns: Sequence[str]) -> str:
    """Quote the first rows where `bad` is true: how many there are, row numbers and values.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    bad : polars.Series of Boolean
        Row mask; null counts as false.
    columns : sequence of str
        The columns to show.

    Returns
    -------
    str
        For example ``"2 rows, first row 3 (entity='A', close=0.0), row 7 (entity='B', close=-1.0)"``.
    """
    rows = bad.fill_null(False).arg_true()
    shown = rows.head(_SHOWN).to_list()
    names = list(dict.fromkeys(columns))
    values = [printable(frame[name][shown]).to_list() for name in names]
    quoted = [
        f"row {number} ({', '.join(f'{c}={_plain(v[place])}' for c, v in zip(names, values, strict=True))})"
        for place, number in enumerate(shown)
    ]
    return f"{len(rows)} row{'s' if len(rows) != 1 else ''}, first {', '.join(quoted)}"


def printable(values: pl.Series) -> pl.Series:
    """Give values that can be shown: dates and times of years that nothing can write become text."""
    if values.dtype != pl.Date and not isinstance(values.dtype, pl.Datetime):
        return values
    year = values.dt.year()
    writable = (year.is_between(1, 9999)).fill_null(False)
    if (writable | values.is_null()).all():
        return values
    unit = "days" if values.dtype == pl.Date else getattr(values.dtype, "time_unit", "")
    held = pl.select(pl.when(writable).then(values)).to_series()
    far = pl.format("{} {} from 1970-01-01", values.to_physical().cast(pl.Int64), pl.lit(unit))
    return (
        pl.select(pl.when(values.is_null() | writable).then(held.cast(pl.String)).otherwise(far))
        .to_series()
        .alias(values.name)
    )


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, str) or value is None else str(value)


def refuse_rows(
    frame: pl.DataFrame,
    bad: pl.Series,
    columns: Sequence[str],
    what: str,
    remedy: str,
    error: type[DataError],
) -> None:
    """Raise `error` when any row of `bad` is true, quoting the first such rows.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    bad : polars.Series of Boolean
        Row mask; null counts as false.
    columns : sequence of str
        The columns to quote.
    what, remedy : str
        The beginning and the end of the message.
    error : type of DataError
        What to raise.
    """
    if bad.any():
        raise error(f"{what}: {quote_rows(frame, bad, columns)}; {remedy}")


def clean_names(frame: pl.DataFrame, column: str, error: type[DataError]) -> pl.Series:
    """Give a column of entity names as text, refusing null, blank and confusable names.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    column : str
        Text, categorical or integer names.
    error : type of DataError
        What to raise.

    Returns
    -------
    polars.Series of String
    """
    names = frame[column]
    if not (names.dtype in (pl.String, pl.Categorical, pl.Enum) or names.dtype.is_integer()):
        raise error(f"column {column!r} has type {names.dtype}; cast it: entity names are text or integers")
    names = names.cast(pl.String)
    refuse_rows(
        frame,
        names.is_null() | (names.str.strip_chars() == ""),
        [column],
        f"column {column!r} names no entity",
        "drop those rows or name their entity",
        error,
    )
    refuse_rows(
        frame,
        names != names.str.strip_chars(),
        [column],
        f"column {column!r} has entity names with spaces around them",
        "strip them, so that 'A' and 'A ' are one entity",
        error,
    )
    distinct = names.unique().sort()
    folded = distinct.str.to_lowercase()
    twins = distinct.filter(folded.is_duplicated()).to_list()
    if twins:
        same = [name for name in twins if name.lower() == twins[0].lower()]
        raise error(
            f"column {column!r} has entity names that differ only in case: {', '.join(map(repr, same))}; "
            "give one entity one spelling, and rename those that are really different"
        )
    return names


def to_instants(frame: pl.DataFrame, column: str, time_zone: str | None) -> pl.Series:
    """Give a column of timestamps as UTC instants.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    column : str
        A Datetime column, zoned or naive.
    time_zone : str or None
        The zone of naive stamps; zoned stamps keep theirs.

    Returns
    -------
    polars.Series of Datetime("ns", "UTC")

    Raises
    ------
    TimestampError
        If stamps are missing, naive without a declared zone, doubtful on a daylight-saving night, or
        outside 1678 to 2261.
    """
    stamps = frame[column]
    if not isinstance(stamps.dtype, pl.Datetime):
        raise TimestampError(
            f"column {column!r} has type {stamps.dtype}, not Datetime; parse it first, with its zone "
            "(a column of plain dates is a session column)"
        )
    refuse_rows(
        frame,
        stamps.is_null(),
        [column],
        f"column {column!r} has no time",
        "drop or date those rows",
        TimestampError,
    )
    refuse_rows(
        frame,
        ~stamps.dt.year().is_between(1678, 2261).fill_null(False),
        [column],
        f"column {column!r} is outside the years 1678 to 2261",
        "correct those rows",
        TimestampError,
    )
    if stamps.dtype.time_zone is None:
        if time_zone is None:
            raise TimestampError(
                f"column {column!r} holds naive timestamps: "
                f"{quote_rows(frame, stamps.is_not_null(), [column])}; "
                "declare their zone with time_zone=, for example time_zone='America/New_York'"
            )
        return localise(stamps, time_zone, frame, column)
    return stamps.dt.convert_time_zone("UTC").cast(TIME)


def localise(stamps: pl.Series, time_zone: str, frame: pl.DataFrame, column: str) -> pl.Series:
    """Read naive wall times in a zone as UTC, refusing those that a daylight-saving night repeats or skips.

    `frame` and `column` are what the error message quotes.
    """
    check_time_zone(time_zone)
    wall = stamps.cast(pl.Datetime("ns")).to_physical().to_numpy()
    moments, repeated, skipped = zone_times(wall, time_zone)
    refuse_rows(
        frame,
        pl.Series(repeated | skipped, dtype=pl.Boolean),
        [column],
        f"column {column!r} has wall times that {time_zone} repeats or skips on a daylight-saving night",
        "give those stamps in UTC",
        TimestampError,
    )
    return instants(moments, stamps.name)


def exchange_zone(calendar: str) -> str:
    """Give the IANA zone of an exchange's wall clock."""
    return TradingCalendar(calendar).time_zone
