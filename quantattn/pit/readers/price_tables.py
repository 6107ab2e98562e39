"""Tables of your own bars: long (a row for each entity and bar) or wide (a column of closes for each entity).

Columns: you name those that play a part. Daily bars have a column ``session`` of dates, local to the
exchange; intraday bars (long tables alone) have ``event_time`` instead, with ``stamps`` saying whether it
marks the start or the end of a bar, ``bar_length``, and ``time_zone`` for naive stamps.

How ``available_at`` is derived: the end of the bar (for daily ones the official close, half days included)
plus ``latency``.

Traps: nothing is guessed about stamps; a bar that is dated by its start and read by its end leaks a bar.
Prices that a vendor adjusted for splits or dividends contain later years: say ``adjusted=true``, so that
levels are refused. A row that breaks the data contract is an error, for a price that is missing changes every
return around it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import polars as pl

from quantattn.errors import DataError, PriceDataError, UsageError
from quantattn.pit._tables import refuse_rows
from quantattn.pit.prices import PriceHistory
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._table_files import read_table
from quantattn.pit.readers.prices_table import read_prices
from quantattn.pit.readers.registry import reader

_ZONED: Final = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$"


@reader(
    "prices",
    title="A table of your own bars, long or wide, daily or intraday",
    gives="prices",
    files=".csv, .tsv (also .gz), .parquet",
)
def read_price_tables(
    paths: Paths,
    *,
    session: str | None = None,
    event_time: str | None = None,
    stamps: Literal["session", "start", "end"] = "session",
    close: str | None = None,
    entity: str | None = None,
    name: str | None = None,
    open: str | None = None,
    high: str | None = None,
    low: str | None = None,
    volume: str | None = None,
    calendar: str = "XNYS",
    latency: str = "60s",
    time_zone: str | None = None,
    bar_length: str | None = None,
    gaps: Literal["raise", "drop"] = "raise",
    outside: Literal["raise", "drop", "keep"] = "raise",
    missing_bars: Literal["gap", "no_trade"] = "gap",
    adjusted: bool = False,
    separator: str | None = None,
) -> PriceHistory:
    """Read price tables of one layout.

    Parameters
    ----------
    paths : str, Path or sequence of them
        The files.
    session : str, optional
        Column of session dates. By default date.
    event_time : str, optional
        Column of the stamps of intraday bars.
    stamps : {"session", "start", "end"}
        What dates a bar: its session, its start or its end.
    close : str, optional
        Column of the closes of a long table. Without it the table is wide.
    entity : str, optional
        Column of the entities of a long table.
    name : str, optional
        The one entity of a long table without such a column.
    open, high, low, volume : str, optional
        Further columns of a long table.
    calendar : str
        The exchange's calendar.
    latency : str
        From the end of a bar until this system has it.
    time_zone : str, optional
        Zone of naive stamps.
    bar_length : str, optional
        Span of an intraday bar, such as 5min.
    gaps : {"raise", "drop"}
        What to do about sessions or stretches without a bar.
    outside : {"raise", "drop", "keep"}
        What to do about intraday bars outside the official hours.
    missing_bars : {"gap", "no_trade"}
        What an absent intraday bar means.
    adjusted : bool
        Whether a vendor adjusted the prices.
    separator : str, optional
        One character between the fields of text files.

    Returns
    -------
    PriceHistory

    Raises
    ------
    UsageError, PriceDataError, TimestampError, CalendarError
        As :func:`read_prices` and :meth:`PriceHistory.from_frame`.
    """
    files = paths_of(paths)
    figures = {"open": open, "high": high, "low": low, "close": close, "volume": volume}
    named = {figure: column for figure, column in figures.items() if column is not None}
    intraday = stamps != "session"
    if intraday != (event_time is not None):
        raise UsageError("intraday bars need both event_time=, their column, and stamps='start' or 'end'")
    if intraday and session is not None:
        raise UsageError("session= dates daily bars and event_time= intraday ones; leave one of them out")
    tables = [
        _intraday(file, event_time, entity, name, named, separator)
        if event_time is not None
        else read_prices(
            file,
            session=session or "date",
            close=close,
            entity=entity,
            open=open,
            high=high,
            low=low,
            volume=volume,
            name=name,
            separator=separator,
        )
        for file in files
    ]
    given = [figure for figure in (*named, "close") if figure in tables[0].columns]
    try:
        return PriceHistory.from_frame(
            pl.concat(tables),
            entity="entity",
            session=None if intraday else "session",
            event_time="stamp" if intraday else None,
            stamps=stamps,
            calendar=calendar,
            latency=latency,
            time_zone=time_zone if intraday else None,
            bar_length=bar_length,
            gaps=gaps,
            frequency="intraday" if intraday else "session",
            outside=outside,
            missing_bars=missing_bars,
            adjusted=adjusted,
            **{figure: figure for figure in given},  # type: ignore[arg-type]
        )
    except DataError as failure:
        raise type(failure)(f"{', '.join(map(str, files[:3]))}: {failure}") from failure


def _intraday(
    file: Path,
    event_time: str,
    entity: str | None,
    name: str | None,
    figures: dict[str, str],
    separator: str | None,
) -> pl.DataFrame:
    """Read one long table of intraday bars, its stamps as times and its figures as numbers."""
    if "close" not in figures:
        raise UsageError("intraday bars stand in a long table, which needs close=")
    if (entity is None) == (name is None):
        raise UsageError("a long table needs either entity=, its column, or name=, its only entity")
    wanted = {"event_time": event_time, "entity": entity, **figures}
    table = read_table(file, error=PriceDataError, separator=separator, wanted=wanted)
    names = pl.lit(name) if entity is None else pl.col(entity).cast(pl.String)
    numbers = [_number(table, column, file).alias(figure) for figure, column in figures.items()]
    return table.select(names.alias("entity"), _times(table, event_time, file).alias("stamp"), *numbers)


def _number(table: pl.DataFrame, column: str, file: Path) -> pl.Series:
    if table[column].dtype != pl.String:
        return table[column].cast(pl.Float64)
    values = table[column].str.strip_chars().cast(pl.Float64, strict=False)
    bad = values.is_null() & table[column].is_not_null()
    what = f"{file}: column {column!r} is not a number"
    refuse_rows(table, bad, [column], what, "correct those rows", PriceDataError)
    return values.fill_nan(None)


def _times(table: pl.DataFrame, column: str, file: Path) -> pl.Series:
    """Read ISO 8601 stamps, all of them zoned or all of them naive."""
    written = table[column]
    if written.dtype != pl.String:
        return written
    text = written.str.strip_chars().str.replace("T", " ", literal=True).str.replace("Z$", "+00:00")
    zoned = text.str.contains(_ZONED)
    form = "%Y-%m-%d %H:%M:%S%.f%:z" if zoned.any() else "%Y-%m-%d %H:%M:%S%.f"
    times = text.str.to_datetime(form, time_unit="ns", strict=False)
    refuse_rows(
        table,
        times.is_null(),
        [column],
        f"{file}: column {column!r} has stamps that are no times like the others",
        "write all as 2024-11-29 09:30:00, or all with their offset, 2024-11-29 09:30:00-05:00",
        PriceDataError,
    )
    return times
