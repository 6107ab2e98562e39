"""Delimited text as Arrow tables of strings, and what is wrong with text that cannot be read."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from csv import Error as BadRow
from csv import reader as rows_of
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
from pyarrow import csv

from quantattn.errors import DataError
from quantattn.pit.readers._compressed import open_bytes

Ragged = Callable[[int, str], None]
"""Called with the number (from 1, the header line included) and the text of a ragged row."""

# A row must fit into a block: the longest articles do. Up to 32 blocks are read ahead of a stream.
_BLOCK: Final = 1 << 24
_STREAMED: Final = 1 << 22


@dataclass(frozen=True)
class Layout:
    """How the fields of a text file are laid out.

    Parameters
    ----------
    separator : str
        One ASCII character between the fields.
    header : sequence of str, optional
        The names of the columns of a file without a header line; its fields are never quoted.
    encoding : str
        As Python names it.
    """

    separator: str
    header: Sequence[str] | None = None
    encoding: str = "utf8"

    def reading(self, *, block: int = _BLOCK, threads: bool = True) -> Any:
        """Give pyarrow's options of reading."""
        names = None if self.header is None else list(self.header)
        return csv.ReadOptions(
            block_size=block, column_names=names, use_threads=threads, encoding=self.encoding
        )

    def parsing(self, ragged: Ragged | None = None) -> Any:
        """Give pyarrow's options of parsing; ragged rows are an error unless a function takes them."""
        return csv.ParseOptions(
            delimiter=self.separator,
            quote_char='"' if self.header is None else False,
            newlines_in_values=self.header is None,
            invalid_row_handler=None if ragged is None else _Skip(ragged),
        )


@dataclass(frozen=True)
class _Skip:
    ragged: Ragged

    def __call__(self, row: Any) -> str:
        self.ragged(row.number, row.text)
        return "skip"


def text_columns(path: Path, layout: Layout, error: type[DataError]) -> list[str]:
    """Name the columns of a text file; its rows are not judged.

    Raises
    ------
    DataError
        As `error`, if it is empty, or its first block is not of the encoding.
    """
    if layout.header is not None:
        return list(layout.header)
    with _whole(path, layout, error), _source(path, error) as source:
        decoder = codecs.getincrementaldecoder(layout.encoding)()
        head = decoder.decode(source.read(_STREAMED)).removeprefix("\ufeff")
    try:
        for columns in rows_of(io.StringIO(head, newline=""), delimiter=layout.separator):
            if columns:
                return columns
    except BadRow as failure:
        raise error(f"{path} has no header line ({failure}); give a file with one") from failure
    raise error(f"{path} is empty; give a file with a header line and data")


def read_text_table(path: Path, layout: Layout, columns: list[str], error: type[DataError]) -> pl.DataFrame:
    """Read columns of a text file, all as text, only empty fields null.

    Raises
    ------
    DataError
        As `error`, if it is not UTF-8, ragged, has an unclosed quote or is cut off.
    """
    refuse_open_quote(path, layout, error)
    with _whole(path, layout, error), _source(path, error) as source:
        return _framed(
            csv.read_csv(source, layout.reading(), layout.parsing(), _conversion(columns)), columns
        )


def read_text_batches(
    path: Path, layout: Layout, columns: list[str], error: type[DataError], ragged: Ragged | None
) -> Iterator[pl.DataFrame]:
    """Read columns of a text file piece by piece; see :func:`read_text_table`."""
    refuse_open_quote(path, layout, error)
    # pyarrow shows ragged rows to a function as text, and loses what it raises about bytes that are none.
    if ragged is not None and (line := _line_not_utf8(path, error)) is not None:
        raise error(f"{path} is not UTF-8 in line {line}; save it as UTF-8")
    with _whole(path, layout, error), _source(path, error) as source:
        # Only a single thread knows the number of a row, however many cores there are.
        reading = layout.reading(block=_STREAMED, threads=ragged is None)
        for batch in csv.open_csv(source, reading, layout.parsing(ragged), _conversion(columns)):
            yield _framed(pa.Table.from_batches([batch]), columns)


def refuse_open_quote(path: Path, layout: Layout, error: type[DataError]) -> None:
    """Refuse an odd number of quotes: a field that is never closed would swallow the rest of the file."""
    if layout.header is not None:
        return
    quotes = 0
    with _whole(path, layout, error), _source(path, error) as stream:
        while block := stream.read(_BLOCK):
            quotes += block.count(b'"')
    if quotes % 2:
        raise error(
            f"{path} has an unclosed quote (an odd number of '\"'); close it, or double quotes in text"
        )


@contextmanager
def _source(path: Path, error: type[DataError]) -> Iterator[Any]:
    """Give what pyarrow reads bytes from; it unpacks gzip itself, and faster."""
    if path.suffix.lower() == ".zip":
        with open_bytes(path, error) as stream:
            yield stream
    else:
        packed = "gzip" if path.suffix.lower() == ".gz" else None
        with pa.input_stream(str(path), compression=packed) as stream:
            yield stream


@contextmanager
def _whole(path: Path, layout: Layout, error: type[DataError]) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as failure:
        raise error(f"{path} {_fault(path, layout, failure, error)}") from failure


def _conversion(columns: list[str]) -> Any:
    return csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.large_string()),
        include_columns=columns,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )


def _framed(table: Any, columns: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    frame.columns = columns
    return frame


def _fault(path: Path, layout: Layout, failure: Exception, error: type[DataError]) -> str:
    number = _line_not_utf8(path, error) if layout.encoding == "utf8" else None
    if number is not None:
        return f"is not UTF-8 in line {number}; save it as UTF-8"
    if isinstance(failure, OSError):
        return f"cannot be read to its end ({one_line(failure)}); copy or compress it again"
    if "Empty CSV file" in str(failure):
        return "is empty; give a file with a header line and data"
    if "straddl" in str(failure):
        return f"has a row longer than {_STREAMED >> 20} MiB; shorten it, or convert the file to Parquet"
    # Only a single thread knows the row's number.
    try:
        with _source(path, error) as source:
            csv.read_csv(source, layout.reading(threads=False), layout.parsing())
    except pa.ArrowException as again:
        failure = again
    remedy = "the fields of the header line" if layout.header is None else f"{len(layout.header)} fields"
    return f"cannot be parsed ({one_line(failure)}); give every row {remedy}"


def _line_not_utf8(path: Path, error: type[DataError]) -> int | None:
    try:
        with _source(path, error) as stream:
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


def one_line(failure: BaseException) -> str:
    """Give a message on one line, not longer than a reader bears."""
    return " ".join(str(failure).split())[:300]
