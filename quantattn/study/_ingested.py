"""Files that ``quantattn ingest`` wrote, which say themselves what their columns mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from quantattn.errors import DataError
from quantattn.pit import EventLog
from quantattn.pit.events.storage import find_entry
from quantattn.pit.ingest_record import IngestRecord, find_record
from quantattn.pit.readers.price_files import price_entry, read_price_file

PARQUET = (".parquet", ".pq")
_FIGURES = ("open", "high", "low", "close", "volume")


@dataclass(frozen=True)
class IngestedBars:
    """The bars of a price file, and what was declared of them.

    Parameters
    ----------
    frame : polars.DataFrame
        ``session``, ``entity`` and the figures.
    calendar : str
        The calendar that they were checked against.
    latency : int
        Nanoseconds from a bar's end until it is known.
    adjusted : bool
        Whether a vendor adjusted them.
    """

    frame: pl.DataFrame
    calendar: str
    latency: int
    adjusted: bool


def holds_events(path: str) -> bool:
    """Say whether a file was written by ``EventLog.write``.

    Raises
    ------
    DataError, UsageError
        If it cannot be opened, or is no whole Parquet file.
    """
    return path.lower().endswith(PARQUET) and find_entry(Path(path)) is not None


def holds_prices(path: str) -> bool:
    """Say whether a file was written by ``write_prices``.

    Raises
    ------
    DataError, UsageError
        If it cannot be opened, or is no whole Parquet file.
    """
    return path.lower().endswith(PARQUET) and price_entry(Path(path)) is not None


def read_record(path: str) -> IngestRecord | None:
    """Read how ``quantattn ingest`` made a file; None for any other file.

    Raises
    ------
    DataError, UsageError
        If it cannot be opened, is no whole Parquet file, or its record is of another version.
    """
    return find_record(Path(path)) if path.lower().endswith(PARQUET) else None


def read_ingested_events(path: str) -> EventLog:
    """Read the events of a file that ``quantattn ingest`` wrote."""
    return EventLog.read(path)


def read_ingested_bars(path: str) -> IngestedBars:
    """Read the bars of a file that ``quantattn ingest`` wrote.

    Raises
    ------
    DataError
        If they are intraday bars.
    """
    prices = read_price_file(path)
    if prices.frequency != "session":
        raise DataError(
            f"{path} holds intraday bars, and a study reads one bar for each session; ingest daily bars, or "
            "write those of PriceHistory.to_sessions() with write_prices"
        )
    chosen = ["session", "entity", *(name for name in _FIGURES if name in prices.frame.columns)]
    return IngestedBars(
        prices.frame.select(chosen), prices.calendar, prices.latency, prices.adjustment != "none"
    )
