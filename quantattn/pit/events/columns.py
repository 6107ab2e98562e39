"""Columns of foreign tables as polars columns of text and numbers, with the unusable rows marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from quantattn.errors import EventDataError, TimestampError
from quantattn.pit._tables import require_columns
from quantattn.pit._zones import check_time_zone
from quantattn.pit.events.arrow_zones import in_known_zones

_EXACT: Final[dict[Any, float]] = {pl.Float16: 2.0**11, pl.Float32: 2.0**24, pl.Float64: 2.0**53}
_DECODED: Final = 10_000
_NOT_A_NUMBER: Final = ("", "nan", "na", "n/a", "null", "none", "-", ".")


def take_columns(frame: object, wanted: Mapping[str, str | None]) -> pl.DataFrame:
    """Take the named columns of a table into polars.

    Parameters
    ----------
    frame : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or an Arrow table
        Anything that speaks the Arrow C stream interface counts as an Arrow table, for example a DuckDB
        relation or a reader of record batches; a named level of a pandas index counts as a column.
    wanted : mapping of str to (str or None)
        Argument name to column name; None means that the argument was not given.

    Returns
    -------
    polars.DataFrame
        The columns wanted and no others.

    Raises
    ------
    EventDataError
        If the table is of another kind, lacks a column, has it twice, or a column cannot be converted.
    """
    names = list(dict.fromkeys(name for name in wanted.values() if name is not None))
    # Expressions over text of columns that are cut up differently read out of bounds in polars.
    return _chosen(frame, names, wanted).rechunk()


def _chosen(frame: object, names: list[str], wanted: Mapping[str, str | None]) -> pl.DataFrame:
    if isinstance(frame, pl.LazyFrame):
        _require(frame.collect_schema().names(), wanted)
        return frame.select(names).collect()
    if isinstance(frame, pd.DataFrame):
        return _from_pandas(frame, names, wanted)
    if isinstance(frame, pl.DataFrame):
        _require(frame.columns, wanted)
        return frame.select(names)
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        labels = frame.column_names
        _refuse_repeated(names, labels)
        _require(labels, wanted)
        # Columns that play no part may be of types that polars dies of.
        frame = in_known_zones(frame.select(names))
    table = _from_arrow(frame)
    _require(table.columns, wanted)
    return table.select(names).select(_unless_garbled(table[name]) for name in names)


def _from_arrow(frame: object) -> pl.DataFrame:
    if not (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")):
        raise EventDataError(
            f"frame is a {type(frame).__name__}; give a polars or pandas DataFrame or an Arrow table"
        )
    source: Any = frame
    try:
        table = pl.DataFrame(source)
    # A foreign stream may fail with whatever its maker raises.
    except (Exception, pl.exceptions.PanicException) as error:
        raise EventDataError(
            f"frame is an Arrow table that polars cannot read ({error}); correct it"
        ) from error
    return table


def _unless_garbled(column: pl.Series) -> pl.Series:
    """Give Arrow text, which nobody has checked, or its bytes where some are not UTF-8."""
    if column.dtype != pl.String:
        return column
    raw = column.cast(pl.Binary)
    try:
        raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        return raw
    return column


def decoded(column: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """Read bytes as UTF-8 text.

    Parameters
    ----------
    column : polars.Series
        Of any type; only bytes are changed.

    Returns
    -------
    column : polars.Series
        String instead of Binary.
    garbled : polars.Series of Boolean or None
        The rows whose bytes are no UTF-8; None if the column holds no bytes.
    """
    if column.dtype != pl.Binary:
        return column, None
    parts = [_decode(column.slice(start, _DECODED)) for start in range(0, column.len(), _DECODED)]
    text = pl.concat([pl.Series(column.name, [], dtype=pl.String), *parts])
    return text.rechunk(), text.is_null() & column.is_not_null()


def _decode(column: pl.Series) -> pl.Series:
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series(column.name, [_decode_one(value) for value in column], dtype=pl.String)


def _decode_one(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _require(present: Iterable[str], wanted: Mapping[str, str | None]) -> None:
    require_columns(pl.DataFrame(schema=dict.fromkeys(present, pl.Null())), wanted, EventDataError)


def _refuse_repeated(names: list[str], labels: list[Any]) -> None:
    repeated = [name for name in names if labels.count(name) > 1]
    if repeated:
        raise EventDataError(f"column {repeated[0]!r} occurs more than once in the frame; keep one of them")


def _from_pandas(frame: pd.DataFrame, names: list[str], wanted: Mapping[str, str | None]) -> pl.DataFrame:
    labels = list(frame.columns)
    _refuse_repeated(names, labels)
    if not any(isinstance(label, str) for label in labels):
        raise EventDataError(f"frame has no column names that are text: {labels[:3]}; flatten or rename them")
    levels = [name for name in frame.index.names if name is not None and name not in labels]
    _require([name for name in [*labels, *levels] if isinstance(name, str)], wanted)
    return pl.DataFrame(
        [
            _series_from_pandas(
                pd.Series(frame.index.get_level_values(name)) if name in levels else frame[name], name
            )
            for name in names
        ]
    )


def _series_from_pandas(series: pd.Series[Any], name: str) -> pl.Series:
    try:
        if series.dtype == object:
            return pl.Series(name, _written_out(series.tolist()))
        if isinstance(series.dtype, pd.DatetimeTZDtype):
            series = _in_nameable_zone(series)
        return pl.from_pandas(series.reset_index(drop=True)).alias(name)
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError) as error:
        odd = [row for row, value in enumerate(series.tolist()) if _is_odd(value)][:3]
        where = f", first in rows {odd}" if odd else ""
        raise EventDataError(
            f"column {name!r} cannot be read ({error}){where}; make it one plain type"
        ) from error


def _is_odd(value: object) -> bool:
    """Say whether a value is bytes, or text that no encoding of Unicode can write."""
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, bytes)


def _in_nameable_zone(series: pd.Series[Any]) -> pd.Series[Any]:
    """Give stamps of zones that only pandas can name, such as fixed offsets, in UTC."""
    try:
        check_time_zone(str(series.dt.tz))
    except TimestampError:
        in_utc: pd.Series[Any] = series.dt.tz_convert("UTC")
        return in_utc
    return series


def _written_out(values: list[Any]) -> list[Any]:
    """Make Python objects one type: times, and whatever is mixed, become text that says the same."""
    present = [None if _is_missing(value) else value for value in values]
    kinds = {type(value) for value in present if value is not None}
    if any(issubclass(kind, date) for kind in kinds) or len(kinds) > 1:
        return [value if value is None else _as_written(value) for value in present]
    return present


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value)


def _as_written(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str | bool | int | float | Decimal | np.generic):
        return str(value)
    raise TypeError(f"it mixes text or times with {type(value).__name__}")


def as_text(column: pl.Series) -> pl.Series:
    """Give a column of names or text as String; whole floats become integers first.

    Raises
    ------
    EventDataError
        If the column is of a type that has no plain text.
    """
    dtype = column.dtype
    if dtype.is_float():
        named = column.fill_nan(None).drop_nulls()
        if not bool((named == named.floor()).all()):
            raise EventDataError(
                f"column {column.name!r} has type {dtype} with fractions, which name nothing; cast it to text"
            )
        # From here on neighbouring integers share one float.
        unsure = named.filter(named.abs() >= _EXACT[dtype.base_type()])
        if unsure.len():
            raise EventDataError(
                f"column {column.name!r} has type {dtype} with values such as {unsure[0]}, which name no one "
                "integer; read the column as text or integers"
            )
        # pandas turns integers into floats where one of them is missing.
        return column.fill_nan(None).cast(pl.Int64).cast(pl.String)
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Boolean) or dtype.is_integer():
        return column.cast(pl.String)
    raise EventDataError(f"column {column.name!r} has type {dtype}, which is not text; cast it to String")


def as_numbers(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Give a feature column as Float64 and the rows in which it holds something else.

    Returns
    -------
    values : polars.Series of Float64
        NaN and "no value" are null, minus zero is zero.
    unreadable : polars.Series of Boolean
        Text that is no number.

    Raises
    ------
    EventDataError
        If the column is of a type that holds no numbers.
    """
    dtype = column.dtype
    unreadable = pl.repeat(False, column.len(), dtype=pl.Boolean, eager=True)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        text = column.cast(pl.String).str.strip_chars()
        values = text.cast(pl.Float64, strict=False)
        unreadable = values.is_null() & text.is_not_null() & ~text.str.to_lowercase().is_in(_NOT_A_NUMBER)
    elif dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        values = column.cast(pl.Float64)
    else:
        raise EventDataError(
            f"column {column.name!r} has type {dtype}, which is not a number; cast it to Float64"
        )
    # One zero, so that equal values have equal bits.
    clean = pl.when(values == 0.0).then(0.0).when(values.is_not_nan()).then(values)
    return pl.select(clean).to_series().alias(column.name), unreadable


def as_revisions(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Give a revision column as Int32 and the rows in which it holds no whole number from 0 on.

    Raises
    ------
    EventDataError
        If the column is of a type that holds no numbers.
    """
    values, unreadable = as_numbers(column)
    whole = (values == values.floor()) & values.is_between(0, np.iinfo(np.int32).max)
    bad = unreadable | ~whole.fill_null(True)
    return pl.select(pl.when(~bad).then(values)).to_series().cast(pl.Int32), bad
