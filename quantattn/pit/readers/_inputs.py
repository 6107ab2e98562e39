"""What readers of single formats share: their paths, whole text files, and rows refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from quantattn.errors import DataError, EventDataError, UsageError
from quantattn.pit._regular import refuse_unreadable
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.reasons import EXPLANATIONS
from quantattn.pit.events.schema import REJECTS
from quantattn.pit.readers._formats import looks_like
from quantattn.pit.readers._surrogates import load_json

Paths = str | Path | Sequence[str | Path]

FILE: Final = "file"
"""The column that names the file of a row of a log's table."""
PLACE: Final = "place"
"""The column that says in words where a row of a log's table stands."""
NUMBER: Final = "number"
"""The column of a row's number in its file, from 0, the header line not counted."""
_SHOWN: Final = 3
_UNSAFE: Final = r"[\x00-\x1f\x7f-\x9f]"


@dataclass(frozen=True)
class Fault:
    """A reason to refuse rows before they are read as events.

    Parameters
    ----------
    bad : polars.Expr
        Boolean over the table; null counts as false.
    reason : str
        The short name under which such rows are counted.
    column : str
        The column whose value is quoted.
    meaning : str
        What is wrong with it, in words.
    """

    bad: pl.Expr
    reason: str
    column: str
    meaning: str


def paths_of(paths: Paths) -> list[Path]:
    """Give the files of a request, each of which can be opened.

    Raises
    ------
    UsageError
        If there is none, or one is missing, a folder, a pipe or unreadable.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not files:
        raise UsageError("paths= is empty; give at least one file")
    for file in files:
        refuse_unreadable(file)
    return files


def read_text(path: Path, error: type[DataError]) -> str:
    """Read a file of UTF-8 text, with or without a byte order mark.

    Raises
    ------
    DataError
        As `error`, when it is empty or not UTF-8; the message names the line.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise error(f"{path} is not UTF-8 in line {line}; save it as UTF-8") from failure
    if not text.strip():
        raise error(f"{path} is empty; give a file with data")
    return text


def read_json(path: Path, error: type[DataError], *, wanted: str) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
        UTF-8 text.
    error : type of DataError
        What to raise.
    wanted : str
        The format asked for, for the message.

    Raises
    ------
    DataError
        As `error`, when it is no JSON or cut off.
    """
    text = read_text(path, error)
    try:
        return load_json(text)
    except (json.JSONDecodeError, RecursionError) as failure:
        where = f"line {failure.lineno}" if isinstance(failure, json.JSONDecodeError) else "its depth"
        if text.lstrip()[:1] not in ("{", "["):
            raise wrong_format(path, wanted, "it is no JSON", error) from failure
        raise error(f"{path} is not whole JSON (at {where}); download it again") from failure


def wrong_format(path: Path, wanted: str, why: str, error: type[DataError]) -> DataError:
    """Give the error for a file that is not of the format asked for, naming the one that it looks like."""
    other = looks_like(path)
    remedy = (
        f"it looks like format {other!r}: read it as that"
        if other not in (None, wanted)
        else f"see `quantattn ingest --describe {wanted}` for its shape"
    )
    return error(f"{path} is not of format {wanted!r} ({why}); {remedy}")


def read_log(
    table: pl.DataFrame,
    *,
    faults: Sequence[Fault] = (),
    files: Sequence[Path] = (),
    strict: bool = False,
    **arguments: Any,
) -> EventLog:
    """Make an event log from a table, after refusing the rows that a format's own rules refuse.

    Parameters
    ----------
    table : polars.DataFrame
        One row for each entry of the source; with several files, a column ``file`` names the row's file. A
        column ``place`` says where a row stands in words, a column ``number`` which row of its file it is.
    faults : sequence of Fault
        Judged in order; a row falls for the first.
    files : sequence of Path
        Where the table comes from, for messages.
    strict : bool
        Whether to raise when a row is refused.
    **arguments
        As in :meth:`EventLog.from_frame`.

    Returns
    -------
    EventLog
        Rejects are numbered by the rows of each file.

    Raises
    ------
    EventDataError
        If no row can be used, or with `strict` if one is refused.
    """
    source = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    if table.is_empty():
        raise EventDataError(f"{source} holds no entries; give a file with data")
    numbered = table.with_row_index("#row").with_columns(pl.col("#row").cast(pl.Int64))
    refused = [pl.DataFrame(schema=REJECTS)]
    for fault in faults:
        bad = fault.bad.fill_null(False)
        # Expressions over text of columns that are cut up differently read out of bounds in polars.
        fallen = numbered.filter(bad).rechunk()
        if fallen.height:
            refused.append(_rejects(fallen, fault))
            numbered = numbered.filter(~bad)
    try:
        log = EventLog.from_frame(numbered, **arguments)
    except DataError as failure:
        raise type(failure)(f"{source}: {failure}") from failure
    later = log.rejects.with_columns(
        row=numbered["#row"].gather(log.rejects["row"]), reason=pl.col("reason").cast(pl.String)
    )
    rejects = pl.concat([*refused, later.select(*REJECTS).cast(REJECTS)]).sort("row").rechunk()
    if rejects.height:
        rejects = _placed(rejects, table, several=len(files) > 1)
    if rejects.height and (strict or not len(log)):
        raise EventDataError(complaint(source, rejects, table.height))
    return replace(log, rejects=rejects)


def _placed(rejects: pl.DataFrame, table: pl.DataFrame, *, several: bool) -> pl.DataFrame:
    """Give refused rows the numbers that they have in their files, and say which file it is."""
    rows = rejects["row"]
    if NUMBER in table.columns:
        rejects = rejects.with_columns(row=table[NUMBER].gather(rows).cast(pl.Int64))
    elif several and FILE in table.columns:
        within = table.select(pl.int_range(pl.len()).over(FILE)).to_series()
        rejects = rejects.with_columns(row=within.gather(rows).cast(pl.Int64))
    named = PLACE if PLACE in table.columns else FILE
    if named == PLACE or (several and FILE in table.columns):
        origin = table[named].gather(rows).cast(pl.String).rechunk()
        rejects = rejects.with_columns(detail=pl.format("{}: {}", origin, pl.col("detail")))
    return rejects


def _rejects(fallen: pl.DataFrame, fault: Fault) -> pl.DataFrame:
    shown = (
        pl.col(fault.column).cast(pl.String, strict=False).str.slice(0, 80).str.replace_all(_UNSAFE, "\ufffd")
    )
    value = pl.when(shown.is_null()).then(pl.lit("null")).otherwise(pl.format("'{}'", shown))
    detail = pl.format("column '{}' is {}: {}", pl.lit(fault.column), value, pl.lit(fault.meaning))
    return fallen.select(row="#row", reason=pl.lit(fault.reason), detail=detail)


def complaint(source: str, rejects: pl.DataFrame, height: int) -> str:
    """Say how many rows of a source are refused, quoting the first."""
    counts = rejects.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    counted = ", ".join(f"{number} {reason}" for reason, number in counts.iter_rows())
    first = "; ".join(f"row {row}: {detail}" for row, _, detail in rejects.head(_SHOWN).iter_rows())
    remedy = EXPLANATIONS.get(rejects["reason"][0], ("", "correct those rows, or leave strict out"))[1]
    return f"{source}: {rejects.height} of {height} rows are refused ({counted}); first {first}; {remedy}"
