"""A user's own table of daily bars, long (a row for each entity and session) or wide (a column each)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import clean_names, refuse_rows, require_columns
from quantattn.pit.prices.bars import session_dates
from quantattn.pit.readers._table_files import read_table

_DATE: Final = (
    r"^([0-9]{4})[-/]?([0-9]{2})[-/]?([0-9]{2})"
    r"(?:[T ]00:00(?::00(?:\.0{1,9})?)?(?: ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?$"
)


def read_prices(
    path: str | Path,
    *,
    session: str = "date",
    close: str | None = None,
    entity: str | None = None,
    open: str | None = None,
    high: str | None = None,
    low: str | None = None,
    volume: str | None = None,
    name: str | None = None,
    entities: Sequence[str] | None = None,
    separator: str | None = None,
) -> pl.DataFrame:
    """Read daily bars from a file, for :meth:`PriceHistory.from_frame`.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (UTF-8 with a header line; also with ``.gz``), ``.parquet`` or ``.pq``.
    session : str
        The column of the session dates, local to the exchange: ISO dates, or midnights of any zone,
        whose date is taken as written. Times of day are refused, because they date bars, not sessions.
    close : str, optional
        The column of the closes of a long table. Without it the table is wide: each column but `session`
        holds the closes of the entity that it is named after, and an empty cell is no bar.
    entity : str, optional
        The column of the entities of a long table; by default all rows are of the entity `name`.
    open, high, low, volume : str, optional
        Further columns of a long table.
    name : str, optional
        The one entity of a long table that has no `entity` column.
    entities : sequence of str, optional
        The columns of a wide table to read; by default all.
    separator : str, optional
        The character between fields of a text file; by default a comma, or a tab in ``.tsv``.

    Returns
    -------
    polars.DataFrame
        ``session`` (Date), ``entity`` (String), then those of ``open, high, low, close, volume`` that were
        given (Float64), in the row order of the file; a wide table entity by entity.

    Raises
    ------
    UsageError
        If the file is missing or has another suffix, or the arguments are neither of a long table nor of
        a wide one.
    PriceDataError
        If the file is truncated, ragged or not UTF-8, lacks a column (the nearest name is given), or
        holds something that is no date or no number. Gaps, duplicates and prices that are not positive
        are found by :meth:`PriceHistory.from_frame`.

    Examples
    --------
    >>> bars = read_prices("closes.csv", session="Date")  # doctest: +SKIP
    >>> prices = PriceHistory.from_frame(bars, session="session")  # doctest: +SKIP
    """
    file = Path(path)
    columns = {"open": open, "high": high, "low": low, "close": close, "volume": volume}
    figures = {figure: column for figure, column in columns.items() if column is not None}
    try:
        if close is None:
            _refuse_long_arguments(entity, name, figures)
            return _read_wide(file, session, entities, separator)
        if entities is not None:
            raise UsageError("entities= chooses columns of a wide table; leave out close=, or entities=")
        if (entity is None) == (name is None):
            raise UsageError("a long table needs either entity=, its column, or name=, its only entity")
        return _read_long(file, session, entity, name, figures, separator)
    except PriceDataError as failure:
        text = str(failure)
        raise PriceDataError(text if text.startswith(str(file)) else f"{file}: {text}") from failure


def _refuse_long_arguments(entity: str | None, name: str | None, figures: dict[str, str]) -> None:
    given = [argument for argument, value in (("entity", entity), ("name", name)) if value is not None]
    given += list(figures)
    if given:
        raise UsageError(
            f"{given[0]}= is of a long table, which needs close= too; add close=, or leave it out"
        )


def _read_long(
    file: Path,
    session: str,
    entity: str | None,
    name: str | None,
    figures: dict[str, str],
    separator: str | None,
) -> pl.DataFrame:
    wanted = {"session": session, "entity": entity, **figures}
    table = read_table(file, error=PriceDataError, separator=separator, wanted=wanted)
    names = (
        pl.Series([name]).new_from_index(0, table.height)
        if entity is None
        else clean_names(table, entity, PriceDataError)
    )
    return pl.DataFrame(
        [
            _sessions(table, session),
            names.alias("entity"),
            *(_numbers(table, column).alias(figure) for figure, column in figures.items()),
        ]
    )


def _read_wide(
    file: Path, session: str, entities: Sequence[str] | None, separator: str | None
) -> pl.DataFrame:
    if isinstance(entities, str):
        raise UsageError(f"entities={entities!r} is one text; write entities=[{entities!r}]")
    listed = {f"entities[{place}]": column for place, column in enumerate(entities or ())}
    wanted = None if entities is None else {"session": session, **listed}
    table = read_table(file, error=PriceDataError, separator=separator, wanted=wanted)
    require_columns(table, {"session": session}, PriceDataError)
    columns = [column for column in table.columns if column != session]
    if not columns:
        raise PriceDataError(f"no column but {session!r}; a wide table has one for each entity")
    unnamed = [column for column in columns if not column.strip() or column.startswith("Unnamed: ")]
    if unnamed:
        raise PriceDataError(
            f"column {unnamed[0]!r} names no entity; drop it, or list the others in entities="
        )
    wide = pl.DataFrame([_sessions(table, session), *(_numbers(table, column) for column in columns)])
    return wide.unpivot(columns, index="session", variable_name="entity", value_name="close").drop_nulls(
        "close"
    )


def _sessions(table: pl.DataFrame, column: str) -> pl.Series:
    stamps = table[column]
    if stamps.dtype != pl.String:
        return session_dates(table, column, None)
    parts = stamps.str.strip_chars().str.extract_groups(_DATE).struct.unnest()
    dates = parts.select(pl.concat_str(pl.all(), separator="-").str.to_date("%Y-%m-%d", strict=False))
    refuse_rows(
        table,
        dates.to_series().is_null(),
        [column],
        f"column {column!r} holds no session date",
        "write dates as 2024-11-29; bars with times of day go to PriceHistory.from_frame with event_time=",
        PriceDataError,
    )
    return dates.to_series().alias("session")


def _numbers(table: pl.DataFrame, column: str) -> pl.Series:
    values = table[column]
    if values.dtype.is_numeric() or values.dtype == pl.Null:
        return values.cast(pl.Float64).fill_nan(None)
    if values.dtype != pl.String:
        raise PriceDataError(f"column {column!r} has type {values.dtype}, not numbers; leave it out")
    text = values.str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    refuse_rows(
        table,
        numbers.is_null() & text.is_not_null() & (text != ""),
        [column],
        f"column {column!r} is not a number",
        "correct those rows, or leave the column out",
        PriceDataError,
    )
    return numbers.fill_nan(None)
