"""Why rows are refused, what each reason means and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

from quantattn.errors import EventDataError, UsageError
from quantattn.files import atomic_path
from quantattn.pit.events.schema import REJECTS

MARKET: Final = "*"
"""The entity that marks a market-wide event in a column that otherwise names instruments."""

_SHOWN: Final = 3

EXPLANATIONS: Final = {
    "missing_time": ("no time", "date those rows or drop them"),
    "unreadable_time": (
        "not an ISO 8601 date or time",
        "write 2024-11-29 or 2024-11-29T13:00:00-05:00, or parse the column first",
    ),
    "naive_time": (
        "no time zone",
        "declare the zone of the source, for example time_zone='America/New_York'; cast bare dates to Date",
    ),
    "ambiguous_time": ("occurs twice when the clocks go back", "give those stamps their UTC offset"),
    "nonexistent_time": ("skipped by the clocks of its zone", "give those stamps their UTC offset"),
    "leap_second": (
        "a leap second, which UTC nanoseconds cannot hold",
        "move those stamps to the next second",
    ),
    "out_of_range": ("outside 1677-09-21 to 2262-04-11", "correct those stamps"),
    "date_only": ("a date without a time", "pass date_only='next_session' or give the times"),
    "outside_calendar": (
        "no session of the calendar is known after that date",
        "choose a calendar that covers the dates, or drop the rows",
    ),
    "available_before_event": (
        "available before it happened",
        "swap the columns if they are the wrong way round, or pass scheduled=True for announced events",
    ),
    "in_the_future": (
        "later than now=, when this table was made",
        "correct those stamps (a wrong century, day and month swapped, milliseconds read as seconds) or now=",
    ),
    "not_utf8": ("bytes that are not UTF-8", "decode the column with the encoding it was written in"),
    "null_event_id": ("no event id", "fill the ids, or leave event_id out to derive them from the content"),
    "null_entity": ("no entity", f"name the entity, or write {MARKET!r} for a market-wide event"),
    "bad_revision": ("not a whole number from 0 on", "number the versions of each event 0, 1, 2"),
    "bad_feature": ("not a number", "correct the value or leave it empty"),
    "infinite_feature": ("not finite", "correct the value or leave it empty"),
    "bad_frequency": ("no known frequency", "write D, W-SUN to W-SAT (the day a week ends on), M, Q or A"),
    "bad_period": (
        "not a date, or not the day of its period that stamped= declares",
        "correct the stamps, or say where in its period a stamp lies with stamped=",
    ),
    "null_series": ("no series", "name the series or drop those rows"),
    "repeated_vintage": (
        "repeats an earlier row of the same series, period and vintage",
        "drop the repetitions",
    ),
    "conflicting_vintage": (
        "states another value for the same series, period and vintage",
        "keep the right one, or give vintages of one day their times",
    ),
    "duplicate": (
        "repeats an earlier row with the same event id and revision",
        "drop the repetitions, or map event_id if they are different events",
    ),
    "conflicting_duplicate": (
        "shares its event id and revision with a row of other content",
        "number the versions with a revision column, or make the ids unique, for example id and ticker",
    ),
}
"""What each reason means and what to do about it."""


def counts_of(rejects: pl.DataFrame) -> dict[str, int]:
    """Count rejects by reason, the most frequent first."""
    counts = rejects.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    return dict(counts.iter_rows())


def complain(rejects: pl.DataFrame, height: int) -> EventDataError:
    """Give the error that a strict intake raises, quoting the first rejects of a table of `height` rows."""
    first = [f"row {row}: {detail}" for row, _, detail in rejects.head(_SHOWN).iter_rows()]
    counted = ", ".join(f"{number} {reason}" for reason, number in counts_of(rejects).items())
    remedy = EXPLANATIONS[rejects["reason"][0]][1]
    return EventDataError(
        f"{rejects.height} of {height} event rows are refused ({counted}); first {'; '.join(first)}; {remedy}"
    )


def checked_path(path: object) -> Path:
    """Give a path on this machine.

    Raises
    ------
    UsageError
        If it is something else, or empty.
    """
    if not isinstance(path, str | Path) or path == "":
        raise UsageError(f"path={path!r} is no path; give a file name")
    return Path(path)


def checked_target(path: object) -> Path:
    """Give the path of a file to write.

    Raises
    ------
    UsageError
        If it is no path, or a folder.
    """
    file = checked_path(path)
    if file.is_dir():
        raise UsageError(f"{file} is a folder; give a file in it")
    return file


def write_rejects(rejects: pl.DataFrame, path: str | Path) -> None:
    """Write a list of refused rows, whole or not at all.

    Parameters
    ----------
    rejects : polars.DataFrame
        ``row, reason, detail``.
    path : str or Path
        A file that ends in ``.parquet`` or ``.csv``.

    Raises
    ------
    UsageError
        If the path has another suffix.
    """
    _write(iter([rejects]), rejects.schema, path)


def write_reject_batches(batches: Iterable[pl.DataFrame], path: str | Path) -> int:
    """Write ``file, row, reason, detail`` of refused rows that come in parts; give their number.

    Raises
    ------
    UsageError
        If the path has another suffix than ``.parquet`` or ``.csv``.
    """
    return _write(batches, pl.Schema({"file": pl.String(), **REJECTS}), path)


def _write(batches: Iterable[pl.DataFrame], schema: pl.Schema, path: str | Path) -> int:
    file = checked_target(path)
    if file.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{file} has no suffix that rejects are written as; use .parquet or .csv")
    empty = pl.DataFrame(schema=schema).to_arrow(compat_level=pl.CompatLevel.oldest())
    rows = 0
    with atomic_path(file) as temporary, _writer(temporary, file.suffix, empty.schema) as writer:
        for batch in batches:
            rows += batch.height
            writer.write_table(batch.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return rows


def _writer(file: Path, suffix: str, schema: pa.Schema) -> Any:
    return csv.CSVWriter(file, schema) if suffix == ".csv" else pq.ParquetWriter(file, schema)
