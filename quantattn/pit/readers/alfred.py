"""ALFRED and FRED: macroeconomic series as they stood in each vintage.

Source: https://fred.stlouisfed.org/docs/api/fred/series_observations.html and
https://alfred.stlouisfed.org/help/downloaddata. Layouts, told apart by their content:

* the API's JSON with ``output_type=1`` or ``4``: ``observations`` of ``realtime_start``, ``realtime_end``,
  ``date``, ``value``; also a table of these columns (CSV, tab-separated text, Parquet), with ``series_id``
  or without;
* vintages side by side, ``output_type=2`` or ``3`` and the download "by vintage date": a column of dates
  (``date``, ``observation_date`` or ``DATE``) and one column ``SERIES_YYYYMMDD`` for each vintage, as JSON,
  CSV or tab-separated text;
* a plain FRED download, ``observation_date,SERIES``: it holds *final* values alone and is refused, unless
  ``final_values_lag=`` declares how long after its date each value is taken as known. That dates the
  release, and still shows figures that were revised later: a look-ahead that a backtest has to state.

Where nothing names the series, it is called after the file (``PAYEMS.json``), or ``series=`` names it. All
events are market-wide; ``kind`` is the series, ``value`` the figure, and ``growth=1,12`` adds growth rates
within one vintage, see :meth:`EventLog.from_vintages`. A value that changes is a revision, one that is
withdrawn a retraction: where a ``realtime_end`` is over and no next value follows, from the day after it.

How ``available_at`` is derived: ``realtime_start``, or the vintage's date, is a date and no time: known at
the open of the next session. Where all vintages of the files came out at one wall time in New York, such as
08:30, ``release_time=`` says so. ``date`` is the period described, never a time of knowledge.

Traps: ``.`` is a missing value. The API cuts ``realtime_start`` and ``realtime_end`` to the span asked for:
values older than the span are known from its begin (late, and safe), and its end withdraws nothing. Asked
without a span it gives one vintage, today's: nothing is known before the download, and a warning says so.
Pages cut at ``limit`` are refused. ``frequency`` is taken from the dates where they tell (first days of
months one, three or twelve months apart, one weekday, or all of them); FRED stamps months and quarters at
their first day and weeks at their last.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import gcd
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.errors import DataError, EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._alfred_tables import final_values, vintage_rows
from quantattn.pit.readers._inputs import Paths, complaint, paths_of
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import duration_nanoseconds

_FORMAT: Final = "alfred"
_DAY: Final = 86_400 * 10**9
_WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MONTHS: Final = {1: "M", 3: "Q", 12: "A"}
_ENOUGH: Final = 3


@reader(
    _FORMAT,
    title="ALFRED and FRED vintages of macroeconomic series",
    gives="events",
    files=".json, .csv, .tsv, .txt, .parquet",
)
def read_alfred(
    paths: Paths,
    *,
    series: str | None = None,
    frequency: str | None = None,
    growth: str | None = None,
    release_time: str | None = None,
    final_values_lag: str | None = None,
    scheduled: bool = False,
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read ALFRED vintages; the module's documentation says which layouts and traps there are.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files of one or more series.
    series : str, optional
        The series of files that do not name it. By default the name of the file without its suffix.
    frequency : str, optional
        D, W-SUN to W-SAT (the day a week ends on), M, Q or A. By default what the dates tell.
    growth : str, optional
        Lags of growth rates in periods, parted by commas, such as 1,12.
    release_time : str, optional
        HH:MM in New York at which every vintage came out. By default a vintage is known at the next open.
    final_values_lag : str, optional
        For plain FRED files, which hold final values: how long after its date each is taken as known.
    scheduled : bool
        Whether values may come out before their period is over, as surveys and projections do.
    latency : str
        From the release until this system has it.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        With the features ``value`` and ``growth_k``. Rejects are numbered by the observations of each file
        (of vintages side by side, by the lines of dates).

    Raises
    ------
    UsageError
        If a file is missing, an option makes no sense, or the frequency cannot be told.
    EventDataError
        If a file is of no such layout, a plain FRED file, a page, ragged, truncated or not UTF-8, or no row
        can be used.

    Warns
    -----
    UserWarning
        If all values of a series are of one vintage, or final values are read as declared.
    """
    files = paths_of(paths)
    lags = _lags(growth)
    lag = None if final_values_lag is None else _days(final_values_lag)
    tables = [vintage_rows(file, series) if lag is None else final_values(file, lag) for file in files]
    table = pl.concat(tables)
    if lag is not None:
        warnings.warn(
            f"values are read as known {final_values_lag} after their date, but they are final ones: "
            "revisions made later are in them; download the vintages from ALFRED to avoid that look-ahead",
            UserWarning,
            stacklevel=2,
        )
    _warn_of_single_vintages(table)
    table = table.with_columns(_frequencies(table, frequency), _stamps(release_time))
    try:
        log = EventLog.from_vintages(
            table,
            series="series",
            period="date",
            vintage="vintage",
            value="value",
            frequency="frequency",
            stamped="within",
            growth=lags,
            time_zone=None if release_time is None else "America/New_York",
            calendar=calendar,
            latency=latency,
            scheduled=scheduled,
        )
    except DataError as failure:
        raise type(failure)(f"{_named(files)}: {failure}") from failure
    rejects = log.rejects.with_columns(row=table["row"].gather(log.rejects["row"]))
    if len(files) > 1:
        origin = table["file"].gather(log.rejects["row"])
        rejects = rejects.with_columns(detail=pl.format("{}: {}", origin, pl.col("detail")))
    if rejects.height and (strict or not len(log)):
        raise EventDataError(complaint(_named(files), rejects, table.height))
    return replace(log, rejects=rejects)


def _named(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{len(files)} files"


def _lags(growth: str | None) -> list[int]:
    try:
        return [] if growth is None else [int(lag) for lag in growth.split(",")]
    except ValueError as failure:
        raise UsageError(
            f"growth={growth!r} is no list of lags; write for example growth='1,12'"
        ) from failure


def _days(lag: str) -> int:
    days, rest = divmod(duration_nanoseconds(lag, argument="final_values_lag"), _DAY)
    if rest or days < 1:
        raise UsageError(
            f"final_values_lag={lag!r} is not a number of days above zero; write for example '45D'"
        )
    return days


def _stamps(release_time: str | None) -> pl.Expr:
    """Give vintages as text: bare dates, or with the wall time declared."""
    date = pl.col("vintage").dt.to_string("%Y-%m-%d")
    if release_time is None:
        return date.alias("vintage")
    hour, _, minute = release_time.partition(":")
    good = len(hour) == len(minute) == 2 and (hour + minute).isdigit() and int(hour) < 24 and int(minute) < 60
    if not good or release_time == "00:00":
        raise UsageError(
            f"release_time={release_time!r} is no time of release; write HH:MM, for example '08:30'"
        )
    return pl.format("{}T{}:00", date, pl.lit(release_time)).alias("vintage")


def _warn_of_single_vintages(table: pl.DataFrame) -> None:
    single = table.group_by("series").agg(pl.col("vintage").drop_nulls().n_unique(), pl.len())
    names = single.filter((pl.col("vintage") == 1) & (pl.col("len") > 1))["series"].drop_nulls().sort()
    if names.len():
        shown = ", ".join(names.head(3))
        warnings.warn(
            f"all values of {shown} are of one vintage: nothing of them is known before it; ask ALFRED for "
            "realtime_start=1776-07-04 and realtime_end=9999-12-31 to have the earlier ones",
            UserWarning,
            stacklevel=3,
        )


def _frequencies(table: pl.DataFrame, declared: str | None) -> pl.Series:
    """Give the frequency of each row's series, as declared or as its dates tell."""
    if declared is not None:
        return pl.Series("frequency", [declared], dtype=pl.String).new_from_index(0, table.height)
    dates = table.select("series", "date").drop_nulls().unique().sort("series", "date")
    found = {
        str(name): _told(part["date"]) for (name,), part in dates.partition_by("series", as_dict=True).items()
    }
    unsure = [name for name, frequency in found.items() if frequency is None]
    if unsure:
        raise UsageError(
            f"the dates of series {unsure[0]!r} do not tell its frequency; pass frequency= with D, W-SAT, M, "
            "Q or A"
        )
    return table["series"].replace_strict(found, default="M", return_dtype=pl.String).alias("frequency")


def _told(dates: pl.Series) -> str | None:
    if dates.len() < _ENOUGH:
        return None
    if (dates.dt.day() == 1).all():
        months = (dates.dt.year().cast(pl.Int64) * 12 + dates.dt.month()).unique().sort().diff().drop_nulls()
        return _MONTHS.get(gcd(*months.to_list()))
    weekdays = dates.dt.weekday().unique()
    return f"W-{_WEEKDAYS[weekdays[0] - 1]}" if weekdays.len() == 1 else "D"
