"""Parquet files as polars frames, also those with types that polars cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from quantattn.errors import DataError
from quantattn.pit._tables import refuse_rows
from quantattn.pit.readers._text_files import one_line

_EPOCH: Final = date(1970, 1, 1)
_FIRST_DAY: Final = (date.min - _EPOCH).days
_LAST_DAY: Final = (date.max - _EPOCH).days
_PER_DAY: Final = {"us": 86_400_000_000, "ms": 86_400_000}
_DIGITS: Final = 38
"""What a decimal of polars holds."""


def parquet_names(path: Path, error: type[DataError]) -> list[str]:
    """Name the columns of a Parquet file, in its order.

    Raises
    ------
    DataError
        As `error`, if it is no whole Parquet file.
    """
    return list(_schema(path, error).names)


def read_parquet(path: Path, columns: Sequence[str], error: type[DataError]) -> pl.DataFrame:
    """Read columns of a Parquet file; the others may be of any type.

    Parameters
    ----------
    path : Path
        An existing file.
    columns : sequence of str
        Names of its columns, each once.
    error : type of DataError
        What to raise.

    Returns
    -------
    polars.DataFrame
        Times of a zone that polars does not know, such as ``+05:30``, are in UTC: Parquet stores instants.

    Raises
    ------
    DataError
        As `error`, if the file is not whole, a column is of a type that polars cannot hold, or holds a time
        outside the years 1 to 9999.
    """
    schema = _schema(path, error)
    for name in columns:
        if (odd := _unknown(schema.field(name).type)) is not None:
            raise error(f"{path}: column {name!r} has type {odd}, which cannot be read; cast or drop it")
    try:
        # polars gives up on a file with any column that it cannot hold, wanted or not.
        if all(_plain(field.type) for field in schema):
            lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            frame = lazy.select(columns).collect()
        else:
            frame = _by_arrow(path, columns)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError) as failure:
        raise _not_whole(path, failure, error) from failure
    for name in columns:
        _refuse_far(path, frame, name, error)
    return frame


def _schema(path: Path, error: type[DataError]) -> Any:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as failure:
        raise _not_whole(path, failure, error) from failure


def _by_arrow(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    # A path of one file: folders named a=b above it are no columns.
    table = pq.ParquetFile(path).read(columns=list(columns)).select(list(columns))
    fields = [
        field.with_type(pa.timestamp(field.type.unit, "UTC")) if _strange_zone(field.type) else field
        for field in table.schema
    ]
    frame = pl.from_arrow(table.cast(pa.schema(fields)))
    assert isinstance(frame, pl.DataFrame)  # a table never becomes a Series
    return frame


def _strange_zone(dtype: Any) -> bool:
    """Say whether times are of a zone that polars does not know."""
    if not pa.types.is_timestamp(dtype) or dtype.tz is None:
        return False
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(dtype.tz)
    except pl.exceptions.PolarsError:
        return True
    return False


def _plain(dtype: Any) -> bool:
    return not _strange_zone(dtype) and _unknown(dtype) is None


def _unknown(dtype: Any) -> str | None:
    """Give the type, or the type inside it, that polars cannot hold."""
    if pa.types.is_nested(dtype):
        inner = (dtype.field(place).type for place in range(dtype.num_fields))
        return next((str(kind) for kind in inner if not _plain(kind)), None)
    if pa.types.is_dictionary(dtype):
        return None if _plain(dtype.value_type) else str(dtype)
    return str(dtype) if pa.types.is_decimal(dtype) and dtype.precision > _DIGITS else None


def _refuse_far(path: Path, frame: pl.DataFrame, name: str, error: type[DataError]) -> None:
    """Refuse times that no calendar reaches; polars aborts when it writes them as text."""
    dtype = frame.schema[name]
    # Nanoseconds reach from 1677 to 2262.
    if not (isinstance(dtype, pl.Datetime) and dtype.time_unit != "ns") and dtype != pl.Date:
        return
    steps = _PER_DAY[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1
    # A day less on both sides: a zone may move the time over the edge.
    physical = frame[name].to_physical()
    refuse_rows(
        physical.to_frame(),
        ~physical.is_between((_FIRST_DAY + 1) * steps, _LAST_DAY * steps - 1),
        [name],
        f"{path}: column {name!r} holds times outside the years 1 to 9999 ({dtype})",
        "correct those rows",
        error,
    )


def _not_whole(path: Path, failure: BaseException, error: type[DataError]) -> DataError:
    return error(f"{path} is not a whole Parquet file ({one_line(failure)}); copy or write it again")
