"""Yahoo Finance bars as yfinance saves them: CSV or Parquet of a frame, or the frame itself.

Source: https://ranaroussi.github.io/yfinance/reference/api/yfinance.download.html and, for the layouts,
https://github.com/ranaroussi/yfinance/issues/2193 and /2269. Layouts, told apart by their header:

* flat: ``Date, Open, High, Low, Close, [Adj Close,] Volume`` (also with ``Dividends, Stock Splits`` of
  ``Ticker.history``); the instrument is named by ``ticker=``, or by ``ticker=from_name`` after the file
  (``AAPL.csv``);
* two levels, since 0.2.51 the default of ``download``: lines ``Price,Close,High,...``,
  ``Ticker,AAPL,AAPL,...`` and ``Date,,,``; also the other way round (``group_by="ticker"``), unnamed as
  older versions wrote it, and in the columns of a frame or Parquet file;
* long: a flat table with a column ``Ticker``.

Stamps: daily ones are session dates (naive, or midnights of the exchange); intraday ones mark the *start*
of a bar and need ``interval=``. How ``available_at`` is derived: the end of the bar plus ``latency``; a
daily bar ends at the official close.

Traps: ``auto_adjust=True`` has been the default of ``download`` since 0.2.51
(https://github.com/ranaroussi/yfinance/pull/2147): prices are divided by dividends and splits *of later
years*, so their levels are nothing that anybody saw. Yahoo adjusts for splits even without it. Say
``adjusted=true`` or ``false`` for what ``auto_adjust`` was; in both cases the history is marked as adjusted
by the vendor, which refuses its levels as features, and with ``false`` returns lack dividends. An ``Adj
Close`` beside ``Close`` is left out, and contradicts ``adjusted=true``. The last bar of a download made
during the session is not finished: drop it. A ticker without a bar at a stamp has empty cells there, which
are no bar. Weekly and monthly bars are stamped at their start without saying when they end; download daily
ones. Pickle files can run code and are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import exchange_zone, refuse_rows, to_instants
from quantattn.pit._zones import DAY
from quantattn.pit.prices import PriceHistory
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._yfinance_tables import FIGURES, long_table
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import instants

_FORMAT: Final = "yfinance"
_FROM_NAME: Final = "from_name"
_INTERVALS: Final = {
    "1d": None,
    "1m": "1min",
    "2m": "2min",
    "5m": "5min",
    "15m": "15min",
    "30m": "30min",
    "60m": "60min",
    "90m": "90min",
    "1h": "60min",
    "4h": "240min",
}


@reader(
    _FORMAT,
    title="Yahoo Finance bars as yfinance saves them",
    gives="prices",
    files=".csv (also .gz), .parquet",
)
def read_yfinance(
    paths: Paths | pd.DataFrame,
    *,
    adjusted: bool,
    interval: Literal["1d", "1m", "2m", "5m", "15m", "30m", "60m", "90m", "1h", "4h"] = "1d",
    ticker: str | None = None,
    calendar: str = "XNYS",
    latency: str = "60s",
    time_zone: str | None = None,
    gaps: Literal["raise", "drop"] = "raise",
    outside: Literal["raise", "drop", "keep"] = "raise",
) -> PriceHistory:
    """Read yfinance bars; the module's documentation says which layouts and traps there are.

    Parameters
    ----------
    paths : str, Path, sequence of them, or pandas.DataFrame
        Files that a frame was saved to, or the frame.
    adjusted : bool
        Whether they were downloaded with auto_adjust=True, the default of yfinance.
    interval : str
        The interval of the download.
    ticker : str, optional
        The instrument of a flat table; from_name takes the name of the file without its suffix.
    calendar : str
        The exchange's calendar.
    latency : str
        From the end of a bar until this system has it.
    time_zone : str, optional
        Zone of naive intraday stamps.
    gaps : {"raise", "drop"}
        What to do about sessions without a bar.
    outside : {"raise", "drop", "keep"}
        What to do about intraday bars before and after the official hours.

    Returns
    -------
    PriceHistory
        With ``adjustment == "vendor"``.

    Raises
    ------
    UsageError
        If a file is missing or a pickle, or options do not go together.
    PriceDataError
        If a file is of no such layout, ragged, truncated or not UTF-8, or the bars break the data contract.
    TimestampError, CalendarError
        As :meth:`PriceHistory.from_frame`.
    """
    if interval not in _INTERVALS:
        raise UsageError(
            f"interval={interval!r} is unknown; use {', '.join(_INTERVALS)} (of longer ones, daily)"
        )
    table = _with_entities(paths, ticker, adjusted=adjusted)
    stamps, dates = _stamps(table, calendar, time_zone)
    length = _INTERVALS[interval]
    if dates is None and length is None:
        raise UsageError(
            f"stamps such as {table['stamp'][0]!r} are times of day; pass interval= as it was in the "
            "download, for example interval='5m'"
        )
    if dates is not None and length is not None:
        raise UsageError(
            f"interval={interval!r} has times of day, and the stamps are dates; pass interval='1d'"
        )
    figures = {figure: figure for figure in FIGURES if figure in table.columns}
    bars = (
        table.drop("stamp").with_columns(session=dates)
        if dates is not None
        else table.with_columns(stamp=stamps)
    )
    return PriceHistory.from_frame(
        bars,
        entity="entity",
        session=None if dates is None else "session",
        event_time=None if dates is not None else "stamp",
        stamps="session" if dates is not None else "start",
        bar_length=length,
        frequency="session" if dates is not None else "intraday",
        missing_bars="gap" if dates is not None else "no_trade",
        calendar=calendar,
        latency=latency,
        gaps=gaps,
        outside=outside,
        adjusted=True,
        **figures,  # type: ignore[arg-type]
    )


def _with_entities(paths: Paths | pd.DataFrame, ticker: str | None, *, adjusted: bool) -> pl.DataFrame:
    """Read every file into one long table with a name for each row."""
    if isinstance(paths, pd.DataFrame):
        return _named(long_table(paths, "frame", adjusted=adjusted), ticker, None)
    files = paths_of(paths)
    tables = [_named(long_table(file, str(file), adjusted=adjusted), ticker, file) for file in files]
    flat = ticker not in (None, _FROM_NAME) and len(files) > 1
    if flat:
        raise UsageError(
            f"ticker={ticker!r} names the instrument of one file, and there are {len(files)}; pass "
            f"ticker={_FROM_NAME!r} for files that are named after theirs"
        )
    return pl.concat(tables, how="diagonal")


def _named(table: pl.DataFrame, ticker: str | None, file: Path | None) -> pl.DataFrame:
    source = "the frame" if file is None else str(file)
    if "entity" in table.columns:
        if ticker is not None:
            raise UsageError(f"{source} names its instruments itself; leave ticker={ticker!r} out")
        return table
    if ticker is None or (ticker == _FROM_NAME and file is None):
        raise UsageError(
            f"{source} does not name its instrument; pass ticker=, for example ticker='AAPL', or "
            f"ticker={_FROM_NAME!r} for a file that is named after it"
        )
    name = file.name.partition(".")[0] if ticker == _FROM_NAME and file is not None else ticker
    return table.with_columns(entity=pl.lit(name))


def _stamps(table: pl.DataFrame, calendar: str, time_zone: str | None) -> tuple[pl.Series, pl.Series | None]:
    """Give the instants of the stamps, and their dates if they are dates or midnights of the exchange."""
    written = table["stamp"].str.strip_chars()
    day = pl.Series(written.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False))
    clock = written.str.slice(11)
    naive = ~clock.str.contains(r"Z|[+-]\d\d:?\d\d$")
    if (
        (clock == "") | (naive & clock.str.contains(r"^00:00(:00(\.0+)?)?$"))
    ).all() and day.null_count() == 0:
        return instants(np.zeros(table.height, dtype=np.int64)), day
    moments = to_instants(table.with_columns(stamp=_moments(table, written, naive)), "stamp", time_zone)
    local = moments.dt.convert_time_zone(exchange_zone(calendar)).dt.replace_time_zone(None)
    if ((local.to_physical() % DAY) == 0).all():
        return moments, local.dt.date()
    return moments, None


def _moments(table: pl.DataFrame, written: pl.Series, naive: pl.Series) -> pl.Series:
    """Read stamps with a clock: all of them zoned, with whatever offsets, or all of them naive."""
    if naive.n_unique() > 1:
        refuse_rows(
            table,
            naive,
            ["entity", "stamp"],
            "some stamps have an offset and these have none",
            "write all of them alike",
            PriceDataError,
        )
    text = written.str.replace("T", " ", literal=True).str.replace("Z", "+00:00", literal=True)
    form = "%Y-%m-%d %H:%M:%S" if naive.all() else "%Y-%m-%d %H:%M:%S%:z"
    moments = text.str.to_datetime(form, time_unit="ns", strict=False)
    refuse_rows(
        table,
        moments.is_null(),
        ["entity", "stamp"],
        "stamps are no times as yfinance writes them",
        "correct those rows",
        PriceDataError,
    )
    return moments
