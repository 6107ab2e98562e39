"""The layouts of ALFRED and FRED files, as one table: a row for each series, date and vintage."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, Final

import polars as pl

from quantattn.errors import DataError, EventDataError, UsageError
from quantattn.pit._tables import nearest_names
from quantattn.pit.readers._inputs import read_json, read_text, wrong_format
from quantattn.pit.readers._stamp_text import text_columns
from quantattn.pit.readers._table_files import read_table

ROWS: Final = pl.Schema(
    {
        "file": pl.String(),
        "row": pl.Int64(),
        "series": pl.String(),
        "date": pl.Date(),
        "vintage": pl.Date(),
        "value": pl.String(),
    }
)
"""The columns of the tables given here; ``row`` is the place in the file, from 0."""

_FORMAT: Final = "alfred"
_VINTAGE: Final = re.compile(r"(.+)_(\d{8})")
_DATES: Final = ("date", "observation_date", "DATE")
_SPANS: Final = ("realtime_start", "value")
_PARQUET: Final = (".parquet", ".pq")
_FOREVER: Final = "9999-12-31"
_SINGLE: Final = (
    "it holds one value for each date, the final one, and not when it was known; download all vintages from "
    "ALFRED (output_type=2, or realtime_start=1776-07-04 and realtime_end=9999-12-31), or declare "
    "final_values_lag= and with it a look-ahead"
)


def vintage_rows(path: Path, series: str | None) -> pl.DataFrame:
    """Read a file of vintages.

    Parameters
    ----------
    path : Path
        JSON, CSV, tab-separated text or Parquet.
    series : str, optional
        The series, where the file does not name it; by default after the file.

    Returns
    -------
    polars.DataFrame
        Of the schema `ROWS`; a null value is one that is missing or withdrawn.

    Raises
    ------
    EventDataError
        If the file is broken, is of another layout, holds final values alone or is one page of several.
    """
    table = _table(path)
    name = path.name.partition(".")[0] if series is None else series
    if set(_SPANS) <= set(table.columns):
        return _from_spans(table, path, name, given=series is not None)
    date = next((column for column in _DATES if column in table.columns), None)
    columns = [column for column in table.columns if column != date]
    if date is None:
        raise _without_dates(path, table)
    if all(_VINTAGE.fullmatch(column) for column in columns) and columns:
        return _from_sides(table, path, date, columns)
    if len(columns) == 1:
        raise EventDataError(f"{path}: {_SINGLE}")
    odd = next((column for column in columns if not _VINTAGE.fullmatch(column)), "")
    raise wrong_format(path, _FORMAT, f"column {odd!r} is no SERIES_YYYYMMDD", EventDataError)


def final_values(path: Path, lag: int) -> pl.DataFrame:
    """Read a plain FRED file, each value as known `lag` days after its date.

    Raises
    ------
    UsageError
        If the file has vintages, which need no lag.
    EventDataError
        If it is broken or of another layout.
    """
    table = _table(path)
    date = next((column for column in _DATES if column in table.columns), None)
    columns = [column for column in table.columns if column != date]
    if "realtime_start" in columns or (columns and all(_VINTAGE.fullmatch(column) for column in columns)):
        raise UsageError(f"{path} has vintages; leave final_values_lag= out")
    if date is None or not columns:
        raise _without_dates(path, table)
    days = _dates(table, date)
    parts = [
        pl.DataFrame(
            {
                "file": path.name,
                "row": pl.int_range(table.height, eager=True),
                "series": column,
                "date": days,
                "vintage": days.dt.offset_by(f"{lag}d"),
                "value": _value(table[column]),
            }
        )
        for column in columns
    ]
    return pl.concat(parts).cast(ROWS).filter(pl.col("value").is_not_null())


def _table(path: Path) -> pl.DataFrame:
    """Read whatever holds the table as columns of text."""
    if path.suffix.lower() in _PARQUET:
        return text_columns(read_table(path, error=EventDataError), EventDataError)
    text = read_text(path, EventDataError)
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(path)
    lines = text.splitlines()
    separator = "\t" if "\t" in lines[0] else ","
    try:
        records = list(csv.reader(io.StringIO(text), delimiter=separator, strict=True))
    except csv.Error as failure:
        raise EventDataError(f"{path} cannot be parsed ({failure}); download it again") from failure
    header, rows = [name.strip() for name in records[0]], [row for row in records[1:] if row]
    if len(set(header)) < len(header):
        raise EventDataError(f"{path} has repeated columns; download it again")
    ragged = next((number for number, row in enumerate(rows) if len(row) != len(header)), None)
    if ragged is not None:
        raise EventDataError(
            f"{path}: row {ragged} has {len(rows[ragged])} fields, the header {len(header)}; get it again"
        )
    if not rows:
        raise EventDataError(f"{path} holds no rows; give a file with data")
    return pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String()), orient="row")


def _from_json(path: Path) -> pl.DataFrame:
    content = read_json(path, EventDataError, wanted=_FORMAT)
    listed = content.get("observations") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise wrong_format(path, _FORMAT, "it lists no observations", EventDataError)
    if not listed:
        raise EventDataError(f"{path} lists no observations; check its dates")
    count, offset = content.get("count"), content.get("offset", 0)
    if isinstance(count, int) and (offset or len(listed) < count) and "value" in listed[0]:
        raise EventDataError(
            f"{path} is a page of {len(listed)} of {count} observations; ask for all of them with "
            "limit=100000, or for fewer realtime dates"
        )
    names = dict.fromkeys(name for item in listed for name in item)
    columns: dict[str, list[Any]] = {
        name: [None if item.get(name) is None else str(item[name]) for item in listed] for name in names
    }
    return pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String()))


def _without_dates(path: Path, table: pl.DataFrame) -> DataError:
    near = nearest_names("observation_date", table.columns) or nearest_names("date", table.columns)
    return wrong_format(path, _FORMAT, f"it has no column {' or '.join(_DATES)}{near}", EventDataError)


def _dates(table: pl.DataFrame, column: str) -> pl.Series:
    return table[column].str.strip_chars().str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)


def _value(column: pl.Series) -> pl.Series:
    text = column.str.strip_chars()
    return pl.select(pl.when(~text.is_in(["", "."])).then(text)).to_series()


def _from_spans(table: pl.DataFrame, path: Path, name: str, *, given: bool) -> pl.DataFrame:
    """Read rows with ``realtime_start``, adding the withdrawals that their ``realtime_end`` tells."""
    date = next((column for column in _DATES if column in table.columns), None)
    if date is None:
        raise _without_dates(path, table)
    named = "series_id" in table.columns and not given
    ends = table["realtime_end"] if "realtime_end" in table.columns else pl.Series([_FOREVER] * table.height)
    rows = pl.DataFrame(
        {
            "file": [path.name] * table.height,
            "row": list(range(table.height)),
            "series": table["series_id"].str.strip_chars() if named else [name] * table.height,
            "date": _dates(table, date),
            "vintage": _dates(table, "realtime_start"),
            "value": _value(table["value"]),
            "end": ends.str.strip_chars().str.to_date("%Y-%m-%d", strict=False),
        }
    )
    following = pl.col("vintage").shift(-1).over("series", "date", order_by="vintage")
    after = pl.col("end") + pl.duration(days=1)
    # The end of the span that was asked for is no withdrawal.
    over = (pl.col("end") < pl.col("end").max().over("series")) & (following.is_null() | (following > after))
    withdrawn = rows.filter(over.fill_null(False)).with_columns(
        after.alias("vintage"), value=pl.lit(None, pl.String)
    )
    return pl.concat([rows, withdrawn]).select(list(ROWS)).cast(ROWS)


def _from_sides(table: pl.DataFrame, path: Path, date: str, columns: list[str]) -> pl.DataFrame:
    """Read vintages that stand side by side; an empty cell says nothing, a dot that there is no value."""
    long = (
        table.with_columns(_dates(table, date).alias(date))
        .with_row_index("row")
        .unpivot(columns, index=["row", date], variable_name="column", value_name="value")
        .filter(pl.col("value").str.strip_chars().fill_null("") != "")
    )
    parts = pl.col("column").str.extract_groups(_VINTAGE.pattern).struct
    rows = long.select(
        file=pl.lit(path.name),
        row="row",
        series=parts.field("1"),
        date=date,
        vintage=parts.field("2").str.to_date("%Y%m%d", strict=False),
        value="value",
    )
    if rows.is_empty():
        raise EventDataError(f"{path} has no values; give a file with data")
    return rows.with_columns(_value(rows["value"]).alias("value")).cast(ROWS)
