"""CSV and Parquet files as polars frames, whole or refused: no row is repaired, padded or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
from pyarrow import csv

from quantattn.errors import DataError, UsageError
from quantattn.pit._tables import require_columns

_SEPARATED: Final = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
_PARQUET: Final = (".parquet", ".pq")
_BLOCK: Final = 1 << 24


def read_table(
    path: Path,
    *,
    error: type[DataError],
    separator: str | None = None,
    wanted: Mapping[str, str | None] | None = None,
) -> pl.DataFrame:
    """Read a table file.

    Parameters
    ----------
    path : Path
        A file that ends in ``.csv``, ``.tsv``, either with ``.gz``, ``.parquet`` or ``.pq``. Text files are
        UTF-8 with a header line; all their columns are read as text, and only an empty field is null, so
        that a ticker ``NA`` stays one.
    error : type of DataError
        What to raise when the content is unusable.
    separator : str, optional
        One character between the fields of a text file; by default a comma, or a tab in ``.tsv``.
    wanted : mapping of str to (str or None), optional
        Argument name to column name; only these columns are read. By default all.

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    UsageError
        If the file is missing, a folder, unreadable or of an unknown suffix.
    DataError
        As `error`: truncated Parquet, text that is not UTF-8, rows with more or fewer fields than the
        header, an unclosed quote, repeated or missing columns, no rows.
    """
    suffix = _suffix(path)
    try:
        with path.open("rb"):
            pass
    except OSError as failure:
        raise UsageError(
            f"{path} cannot be read ({failure.strerror}); check the path and its permissions"
        ) from failure
    if suffix in _PARQUET:
        table = _read_parquet(path, wanted, error)
    else:
        table = _read_text(path, _SEPARATED[suffix] if separator is None else separator, wanted, error)
    if table.is_empty():
        raise error(f"{path} holds no rows; give a file with data")
    return table


def _suffix(path: Path) -> str:
    known = (*_SEPARATED, *_PARQUET)
    for suffix in known:
        if path.name.lower().endswith(suffix):
            return suffix
    raise UsageError(f"{path} has no suffix that names a format; use one of {', '.join(known)}")


def _chosen(
    path: Path, present: list[str], wanted: Mapping[str, str | None] | None, error: type[DataError]
) -> list[str]:
    repeated = sorted({name for name in present if present.count(name) > 1})
    if repeated:
        raise error(f"{path} has more than one column {repeated[0]!r}; rename them")
    if wanted is None:
        return present
    try:
        require_columns(pl.DataFrame(schema=dict.fromkeys(present, pl.Null())), wanted, error)
    except error as failure:
        raise error(f"{path}: {failure}") from failure
    return list(dict.fromkeys(name for name in wanted.values() if name is not None))


def _read_parquet(
    path: Path, wanted: Mapping[str, str | None] | None, error: type[DataError]
) -> pl.DataFrame:
    try:
        # A name with brackets is a name, not a pattern.
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        present = lazy.collect_schema().names()
        columns = _chosen(path, present, wanted, error)
        return lazy.select(columns).collect()
    except pl.exceptions.PolarsError as failure:
        raise error(
            f"{path} is not a whole Parquet file ({_one_line(failure)}); copy or write it again"
        ) from failure


def _read_text(
    path: Path, separator: str, wanted: Mapping[str, str | None] | None, error: type[DataError]
) -> pl.DataFrame:
    if len(separator) != 1 or not separator.isascii():
        raise UsageError(f"separator={separator!r} is not one ASCII character; use ',', ';' or '\\t'")
    parsing = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    try:
        _refuse_open_quote(path, error)
        with csv.open_csv(path, parse_options=parsing) as opened:
            present = opened.schema.names
        if len(present) == 1 and (other := next((mark for mark in ";,\t|" if mark in present[0]), None)):
            raise error(f"{path} has one column only, {present[0]!r}; pass separator={other!r}")
        columns = _chosen(path, present, wanted, error)
        conversion = csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.large_string()),
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        table = csv.read_csv(path, parse_options=parsing, convert_options=conversion)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as failure:
        raise error(f"{path} {_text_fault(path, parsing, failure)}") from failure
    frame = pl.DataFrame(table)
    frame.columns = columns
    return frame


def _refuse_open_quote(path: Path, error: type[DataError]) -> None:
    """Refuse an odd number of quotes: a field that is never closed would swallow the rest of the file."""
    quotes = 0
    with pa.input_stream(str(path), compression="detect") as stream:
        while block := stream.read(_BLOCK):
            quotes += block.count(b'"')
    if quotes % 2:
        raise error(
            f"{path} has an unclosed quote (an odd number of '\"'); close it, or double quotes in text"
        )


def _text_fault(path: Path, parsing: csv.ParseOptions, failure: Exception) -> str:
    number = _line_not_utf8(path)
    if number is not None:
        return f"is not UTF-8 in line {number}; save it as UTF-8"
    if isinstance(failure, OSError):
        return f"cannot be read to its end ({_one_line(failure)}); copy or compress it again"
    if "Empty CSV file" in str(failure):
        return "is empty; give a file with a header line and data"
    # Only a single thread knows the row's number.
    single = csv.ReadOptions(use_threads=False)
    try:
        csv.read_csv(path, read_options=single, parse_options=parsing)
    except pa.ArrowException as again:
        failure = again
    return f"cannot be parsed ({_one_line(failure)}); give every row the fields of the header line"


def _line_not_utf8(path: Path) -> int | None:
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            number, rest = 1, b""
            while block := stream.read(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    line.decode()
                    number += 1
            rest.decode()
    except UnicodeDecodeError:
        return number
    except OSError:
        pass
    return None


def _one_line(failure: Exception) -> str:
    return " ".join(str(failure).split())[:300]
