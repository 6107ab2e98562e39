"""CSV and Parquet files as polars frames, whole or refused: no row is repaired, padded or dropped unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.errors import DataError, UsageError
from quantattn.pit._regular import refuse_unreadable
from quantattn.pit._tables import require_columns
from quantattn.pit.readers._compressed import unpacked_name
from quantattn.pit.readers._parquet_files import parquet_names, read_parquet
from quantattn.pit.readers._text_files import (
    Layout,
    Ragged,
    read_text_batches,
    read_text_table,
    text_columns,
)

_SEPARATED: Final = {".csv": ",", ".tsv": "\t"}
_PARQUET: Final = (".parquet", ".pq")
_PACKED: Final = (".gz", ".zip")


def read_table(
    path: Path,
    *,
    error: type[DataError],
    separator: str | None = None,
    wanted: Mapping[str, str | None] | None = None,
    header: Sequence[str] | None = None,
    encoding: str = "utf8",
) -> pl.DataFrame:
    """Read a table file.

    Parameters
    ----------
    path : Path
        A file that ends in ``.csv`` or ``.tsv``, also with ``.gz`` or ``.zip``, in ``.zip`` around one of
        them, ``.parquet`` or ``.pq``. Text files are UTF-8 with a header line; all their columns are read as
        text, and only an empty field is null, so that a ticker ``NA`` stays one.
    error : type of DataError
        What to raise when the content is unusable.
    separator : str, optional
        One character between the fields of a text file; by default a comma, or a tab in ``.tsv``.
    wanted : mapping of str to (str or None), optional
        Argument name to column name; only these columns are read. By default all.
    header : sequence of str, optional
        The names of the columns of a text file that has no header line; its fields are then never quoted.
    encoding : str
        Of a text file; with another one than ``"utf8"``, such as ``"latin1"``, no byte is refused.

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    UsageError
        If the file is missing, a folder, unreadable or of an unknown suffix.
    DataError
        As `error`: truncated Parquet, Parquet columns of a type or with times that polars cannot hold, text
        that is not UTF-8, rows with more or fewer fields than the header, an unclosed quote, repeated or
        missing columns, no rows, a damaged archive.
    """
    suffix = _suffix(path, error)
    refuse_unreadable(path)
    if suffix in _PARQUET:
        table = read_parquet(path, _chosen(path, parquet_names(path, error), wanted, error), error)
    else:
        layout = _layout(suffix, separator, header, encoding)
        present = text_columns(path, layout, error)
        if len(present) == 1 and (other := next((mark for mark in ";,\t|" if mark in present[0]), None)):
            raise error(f"{path} has one column only, {present[0]!r}; pass separator={other!r}")
        table = read_text_table(path, layout, _chosen(path, present, wanted, error), error)
    if table.is_empty():
        raise error(f"{path} holds no rows; give a file with data")
    return table


def table_columns(
    path: Path, *, error: type[DataError], separator: str | None = None, encoding: str = "utf8"
) -> list[str]:
    """Name the columns of a table file, in its order.

    Parameters
    ----------
    path, error, separator, encoding
        As in :func:`read_table`.

    Returns
    -------
    list of str

    Raises
    ------
    UsageError, DataError
        As in :func:`read_table`, as far as the first block of the file shows it.
    """
    suffix = _suffix(path, error)
    refuse_unreadable(path)
    if suffix in _PARQUET:
        return parquet_names(path, error)
    return text_columns(path, _layout(suffix, separator, None, encoding), error)


def read_batches(
    path: Path,
    *,
    error: type[DataError],
    wanted: Mapping[str, str | None],
    separator: str | None = None,
    ragged: Ragged | None = None,
) -> Iterator[pl.DataFrame]:
    """Read a table file piece by piece, in bounded memory.

    Parameters
    ----------
    path, error, wanted, separator
        As in :func:`read_table`.
    ragged : callable, optional
        Called with the number (from 1, the header line included) and the text of every row with more or
        fewer fields than the header, which is then left out. By default such a row is an error.

    Yields
    ------
    polars.DataFrame
        The wanted columns of the next rows.

    Raises
    ------
    UsageError, DataError
        As in :func:`read_table`, when the reading gets there.
    """
    suffix = _suffix(path, error)
    refuse_unreadable(path)
    if suffix in _PARQUET:
        yield read_parquet(path, _chosen(path, parquet_names(path, error), wanted, error), error)
        return
    layout = _layout(suffix, separator, None)
    columns = _chosen(path, text_columns(path, layout, error), wanted, error)
    yield from read_text_batches(path, layout, columns, error, ragged)


def _suffix(path: Path, error: type[DataError]) -> str:
    plain = (*_SEPARATED, *_PARQUET)
    packed = path.name.lower().endswith(_PACKED)
    if packed:
        refuse_unreadable(path)
    name = unpacked_name(path, error) if packed else path.name.lower()
    found = next((suffix for suffix in (_SEPARATED if packed else plain) if name.endswith(suffix)), None)
    if found is None:
        inside = f" (it holds {name!r})" if packed else ""
        known = (*plain, *(f"{suffix}{pack}" for suffix in _SEPARATED for pack in _PACKED))
        raise UsageError(f"{path} has no suffix that names a format{inside}; use one of {', '.join(known)}")
    return found


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


def _layout(
    suffix: str, separator: str | None, header: Sequence[str] | None, encoding: str = "utf8"
) -> Layout:
    mark = _SEPARATED[suffix] if separator is None else separator
    if len(mark) != 1 or not mark.isascii():
        raise UsageError(f"separator={mark!r} is not one ASCII character; use ',', ';' or '\\t'")
    return Layout(mark, header, encoding)
