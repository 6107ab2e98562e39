"""Price histories as Parquet files that say what is in them, so that they can be read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from quantattn.errors import DataError, PriceDataError
from quantattn.files import atomic_path
from quantattn.pit._regular import refuse_unreadable
from quantattn.pit._tables import refuse_rows
from quantattn.pit.events.storage import ENTRY as EVENTS
from quantattn.pit.prices.bars import (
    join_sessions,
    numbers,
    refuse_crossed,
    refuse_duplicates,
    refuse_early_ends,
)
from quantattn.pit.prices.building import FIGURES, KEYS, available_from, gaps_in
from quantattn.pit.prices.halts import HALTS
from quantattn.pit.timestamps import TIME, instants

if TYPE_CHECKING:
    from quantattn.pit.prices.history import PriceHistory

VERSION: Final = 1
ENTRY: Final = b"quantattn.prices"
"""Where in the metadata of a file it says what it is."""

_DECLARED: Final = (
    "calendar",
    "latency",
    "frequency",
    "bar_length",
    "missing_bars",
    "zero_volume",
    "adjustment",
)
_TYPES: Final = {"entity": pl.String(), "session": pl.Date()}
_FOREIGN: Final = "was not written by `quantattn ingest` or PriceHistory.write; read it with format 'prices'"


def write_prices(prices: PriceHistory, path: str | Path) -> None:
    """Write bars to one Parquet file, whole or not at all.

    Parameters
    ----------
    prices : PriceHistory
        The bars, with what was declared of them.
    path : str or Path
        The file. Equal content gives equal bytes.
    """
    halts = [
        {"entity": entity, "start": start, "end": end}
        for entity, start, end in prices.halts.with_columns(pl.col("start", "end").to_physical()).iter_rows()
    ]
    entry = {name: getattr(prices, name) for name in _DECLARED} | {"version": VERSION, "halts": halts}
    table = prices.frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    table = table.replace_schema_metadata({ENTRY: json.dumps(entry, sort_keys=True)})
    with atomic_path(Path(path)) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def stored_fields(path: str | Path) -> dict[str, Any]:
    """Read a file that :func:`write_prices` made, as the arguments of ``PriceHistory``; see its ``read``."""
    file = Path(path)
    entry = price_entry(file)
    if entry is None:
        if EVENTS.encode() in (pq.read_metadata(file).metadata or {}):
            raise PriceDataError(f"{file} holds events, not prices; read it with EventLog.read")
        raise PriceDataError(f"{file} {_FOREIGN}")
    try:
        frame = pl.read_parquet(file, glob=False, hive_partitioning=False)
    except pl.exceptions.PolarsError as failure:
        raise _not_whole(file, failure) from failure
    _check(frame, entry, file)
    halts = pl.DataFrame(
        {
            "entity": pl.Series([halt["entity"] for halt in entry["halts"]], dtype=pl.String),
            **{end: _times([halt[end] for halt in entry["halts"]]) for end in ("start", "end")},
        },
        schema=HALTS,
    )
    declared = {name: entry[name] for name in _DECLARED}
    gaps = gaps_in(frame, entry["calendar"], entry["frequency"], entry["missing_bars"], halts)
    return {"frame": frame, "gaps": gaps, "halts": halts, **declared}


def price_entry(file: Path) -> dict[str, Any] | None:
    """Give what a file says of itself; None if it is some other Parquet file.

    Raises
    ------
    UsageError
        If the file is missing or cannot be opened.
    PriceDataError
        If it is no whole Parquet file, or of another version.
    """
    refuse_unreadable(file)
    try:
        text = (pq.read_schema(file).metadata or {}).get(ENTRY)
    except (pa.ArrowException, OSError) as failure:
        raise _not_whole(file, failure) from failure
    if text is None:
        return None
    try:
        entry = json.loads(text)
        if entry["version"] == VERSION and all(name in entry for name in (*_DECLARED, "halts")):
            return dict(entry)
        said = f"is of version {entry['version']} of the format, not {VERSION}"
    except (ValueError, KeyError, TypeError) as failure:
        said = f"describes itself wrongly ({failure!r})"
    raise PriceDataError(f"{file} {said}; ingest it again with this version of quantattn")


def _check(frame: pl.DataFrame, entry: dict[str, Any], file: Path) -> None:
    wanted = {name: _TYPES.get(name, TIME) for name in KEYS} | {"close": pl.Float64()}
    wanted |= {name: pl.Float64() for name in FIGURES if name in frame.columns}
    wrong = [name for name, dtype in wanted.items() if frame.schema.get(name) != dtype]
    if wrong:
        raise PriceDataError(
            f"{file} was altered since it was written: columns {wrong} lack or changed; ingest anew"
        )
    try:
        _check_values(frame, entry)
    except DataError as failure:
        raise PriceDataError(f"{file} was altered since it was written: {failure}") from failure
    backwards = frame.select(
        (pl.col("event_time") <= pl.col("event_time").shift(1).over("entity")).any()
        | (pl.col("entity") < pl.col("entity").shift(1)).any()
    ).item()
    if backwards:
        raise PriceDataError(
            f"{file} was altered since it was written: its bars are out of order; ingest anew"
        )


def _check_values(frame: pl.DataFrame, entry: dict[str, Any]) -> None:
    """Hold bars to what :meth:`PriceHistory.from_frame` promises of them."""
    if frame.is_empty():
        return
    for name in KEYS:
        lacking = frame[name].is_null()
        refuse_rows(frame, lacking, list(KEYS), f"column {name!r} is null", "ingest anew", PriceDataError)
    for name in FIGURES:
        if name in frame.columns:
            numbers(frame, name, name)
    refuse_crossed(frame)
    due = available_from(frame["event_time"], entry["latency"])
    refuse_rows(
        frame,
        frame["available_at"] < due,
        ["entity", "event_time", "available_at"],
        f"bars are known earlier than {entry['latency'] / 1e9:g} s after their end",
        "ingest anew",
        PriceDataError,
    )
    if entry["frequency"] == "session":
        bars = join_sessions(frame, entry["calendar"], "session")
        refuse_duplicates(bars)
        refuse_early_ends(bars, "event_time")


def _times(values: list[int | None]) -> pl.Series:
    known = instants([0 if value is None else value for value in values])
    return pl.select(pl.when(pl.Series(values, dtype=pl.Int64).is_not_null()).then(known)).to_series()


def _not_whole(file: Path, failure: Exception) -> PriceDataError:
    said = " ".join(str(failure).split())[:300]
    return PriceDataError(f"{file} is not a whole Parquet file ({said}); copy or write it again")
