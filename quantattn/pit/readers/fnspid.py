"""FNSPID news: ``All_external.csv`` and ``nasdaq_exteral_data.csv`` of the Hugging Face dataset.

Source: Dong, Fan and Peng, FNSPID: A Comprehensive Financial News Dataset in Time Series (2024),
https://arxiv.org/abs/2402.06698, files at https://huggingface.co/datasets/Zihan1004/FNSPID.

Columns: ``Date``, ``Article_title``, ``Stock_symbol``, ``Url``, ``Publisher``, ``Author``, ``Article``,
``Lsa_summary``, ``Luhn_summary``, ``Textrank_summary``, ``Lexrank_summary``; an index column without a
name, or ``Unnamed: 0``, may come first. Read are ``Date``, ``Stock_symbol``, ``Url`` and the text asked for.

Zone: every ``Date`` says ``UTC``, for example ``2020-06-05 06:30:54 UTC``. That is not to be believed:

* More than 99 % of the rows bear midnight: a date, which became a time on the way.
* Those of Benzinga that bear a time of day are *eight hours early*. The first four rows of
  ``All_external.csv`` say 06:30:54, 06:45:20, 00:30:07 and 08:45:06 UTC; the same articles in the collection
  that they come from (:mod:`quantattn.pit.readers.benzinga`) say 10:30:54, 10:45:20, 04:30:07 and 12:45:06
  at -04:00, which is 14:30:54 UTC and so on. The offset was subtracted where it had to be added.
* Other whole hours, such as ``23:00:00``, look like the midnight of some other zone.

How ``available_at`` is derived: by default the time of day is not used. An article is known at the open of
the next session after its date, plus ``latency``. A whole hour from 12:00 on may be a midnight east of
Greenwich and counts as the following date. The date ends at 09:00 UTC of the next day, so that a stamp that
is eight hours early, or nine in a winter whose offset was wrong at the source, is not known too early in any
calendar. ``clock="corrected"`` puts Benzinga's times of day right, dated as the reader of that collection
does; ``clock="trusted"`` takes all times of day as written, which leaks.

Traps: the summaries and any sentiment column are the output of later programs, and the articles were
fetched years later: read only where ``text=`` asks for them. Rows without a symbol (Reuters, Bloomberg,
Lenta) are refused unless ``untagged="market"``. The same story occurs many times, also for one symbol:
identical rows are refused as duplicates. ``Stock_symbol`` is the vendor's of the day of collection. The
files are large (23 GB): they are read piece by piece, and ``symbols=`` keeps what is wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.reasons import MARKET
from quantattn.pit.readers._benzinga_clock import HOUR, later_reading
from quantattn.pit.readers._inputs import NUMBER, Fault, Paths, paths_of
from quantattn.pit.readers._news import (
    Untagged,
    check_choice,
    make_log,
    match_columns,
    ragged_fault,
    stack,
    untagged_fault,
)
from quantattn.pit.readers._stamp_text import held, instant_text, text_columns
from quantattn.pit.readers._table_files import read_batches
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import instants

_NEEDED: Final = ("Date", "Article_title", "Stock_symbol", "Url")
_TEXTS: Final = {
    "title": ("Article_title",),
    "article": ("Article",),
    "title_and_article": ("Article_title", "Article"),
    "lsa_summary": ("Lsa_summary",),
    "luhn_summary": ("Luhn_summary",),
    "textrank_summary": ("Textrank_summary",),
    "lexrank_summary": ("Lexrank_summary",),
}
_CLOCKS: Final = ("ignored", "corrected", "trusted")
_OFFSET: Final = -4 * HOUR
# Nine hours *behind* Greenwich: the database reverses the sign.
_DATES_END: Final = "Etc/GMT+9"
_NAIVE: Final = Fault(
    pl.col("Date").str.contains(r"^ *[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+ *$")
    & ~pl.col("Date").str.contains(r"[ T]00:00(:00)?(\.0+)? *$"),
    "naive_time",
    "Date",
    "no time zone; this copy of the dataset was rewritten",
)
_STAMP: Final = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-5][0-9])(?:\.[0-9]+)? ?(?:UTC|Z|\+00:?00)$"
)
_RAGGED: Final = "ragged"
_EMPTY: Final = pl.DataFrame(
    schema={
        NUMBER: pl.Int64,
        "Date": pl.String,
        "Stock_symbol": pl.String,
        "Url": pl.String,
        "text": pl.String,
    }
)
_BENZINGA: Final = r"^https?://([a-z0-9-]+\.)*benzinga\.com/"


@reader(
    "fnspid",
    title="FNSPID news of US stocks, 1999 to 2023 (CSV)",
    gives="events",
    files="All_external.csv, nasdaq_exteral_data.csv, also .gz, .zip and Parquet",
)
def read_fnspid(
    paths: Paths,
    *,
    symbols: str | None = None,
    text: Literal[
        "title",
        "article",
        "title_and_article",
        "lsa_summary",
        "luhn_summary",
        "textrank_summary",
        "lexrank_summary",
    ] = "title",
    clock: Literal["ignored", "corrected", "trusted"] = "ignored",
    untagged: Untagged = "reject",
    ragged: Literal["refuse", "reject"] = "refuse",
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read FNSPID news; the module's documentation says why its times of day are not used.

    Parameters
    ----------
    paths : str, Path or sequence of them
        News files of the dataset.
    symbols : str, optional
        Keep only the rows of these symbols, separated by commas, as the file spells them; and those without
        a symbol where they are market-wide.
    text : str
        ``"title"``, or with what was fetched and computed later: ``"article"``, ``"title_and_article"``,
        ``"lsa_summary"``, ``"luhn_summary"``, ``"textrank_summary"``, ``"lexrank_summary"``.
    clock : {"ignored", "corrected", "trusted"}
        What to make of times of day: nothing; Benzinga's put right; all as they are written.
    untagged : {"reject", "market"}
        Whether a row without a symbol is refused or market-wide.
    ragged : {"refuse", "reject"}
        Whether a row with more or fewer fields than the header is an error or a reject.
    latency : str
        From publication until this system has the article.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Of kind ``news``, without features. Rows are numbered file by file, from 0, the header not counted.

    Raises
    ------
    UsageError
        If a file is missing or an option unknown.
    EventDataError
        If a file is not of this format, ragged, truncated or not UTF-8, or no row can be used.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`.
    """
    check_choice("text", text, tuple(_TEXTS))
    check_choice("clock", clock, _CLOCKS)
    check_choice("untagged", untagged, ("reject", "market"))
    check_choice("ragged", ragged, ("refuse", "reject"))
    wanted = _symbols(symbols)
    files = paths_of(paths)

    def read(path: Path) -> pl.DataFrame:
        return _read_file(
            path, _TEXTS[text], wanted, untagged=untagged == "market", collect=ragged == "reject"
        )

    table = _dated(stack(files, read), clock)
    if table.is_empty():
        raise EventDataError(f"no row of {files[0]} and its like is of {symbols}; use symbols of the file")
    market = untagged == "market"
    return make_log(
        table.with_columns(entity=_symbol().fill_null(MARKET) if market else _symbol()),
        files,
        of_kind="news",
        strict=strict,
        faults=[ragged_fault(_RAGGED), untagged_fault("Stock_symbol"), _NAIVE],
        event_time="Date",
        entity="entity",
        text="text",
        time_zone=_DATES_END,
        latency=latency,
        calendar=calendar,
    )


def _symbols(symbols: str | None) -> list[str] | None:
    if symbols is None:
        return None
    named = [name.strip() for name in symbols.split(",") if name.strip()]
    if not named:
        raise UsageError(f"symbols={symbols!r} names none; write for example 'AAPL,MSFT'")
    return named


def _read_file(
    path: Path, texts: tuple[str, ...], symbols: list[str] | None, *, untagged: bool, collect: bool
) -> pl.DataFrame:
    columns = match_columns(path, format="fnspid", needed=(*_NEEDED, *texts))
    lines: list[tuple[int, str]] = []
    batches = read_batches(
        path,
        error=EventDataError,
        wanted=columns,
        ragged=(lambda number, line: lines.append((number, line))) if collect else None,
    )
    parts = [_EMPTY]
    rows = 0
    text = pl.concat_str([columns[name] for name in texts], separator="\n", ignore_nulls=True)
    for batch in batches:
        part = (
            text_columns(batch, EventDataError)
            .with_row_index(NUMBER, offset=rows)
            .select(
                pl.col(NUMBER).cast(pl.Int64),
                *(pl.col(columns[name]).alias(name) for name in ("Date", "Stock_symbol", "Url")),
                text=pl.when(text != "").then(text),
            )
        )
        rows += batch.height
        parts.append(part if symbols is None else part.filter(_symbol().is_in(symbols).fill_null(untagged)))
    if not rows and not lines:
        raise EventDataError(f"{path} holds no rows; give a file with data")
    # Numbers of pyarrow count the header line as the first.
    skipped = np.array([number - 2 for number, _ in lines], dtype=np.int64)
    numbers = np.setdiff1d(np.arange(rows + len(lines)), skipped)
    table = pl.concat(parts).with_columns(pl.lit(None, dtype=pl.String).alias(_RAGGED))
    table = table.with_columns(pl.Series(NUMBER, numbers[table[NUMBER].to_numpy()], dtype=pl.Int64))
    told = pl.Series(_RAGGED, [line for _, line in lines], dtype=pl.String)
    left_out = pl.DataFrame([pl.Series(NUMBER, skipped), told])
    return pl.concat([table, left_out], how="diagonal").sort(NUMBER)


def _symbol() -> pl.Expr:
    symbol = pl.col("Stock_symbol").str.strip_chars()
    return pl.when(symbol != "").then(symbol)


def _dated(table: pl.DataFrame, clock: str) -> pl.DataFrame:
    """Write ``Date`` as the text that the intake reads: a date, an instant, or else as it was."""
    written = pl.col("Date").str.strip_chars()
    digits = pl.concat_str(written.str.extract(_STAMP, 1), written.str.extract(_STAMP, 2), separator=" ")
    read = digits.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us", time_zone="UTC")
    moment = pl.col("moment")
    minutes = moment.dt.minute().cast(pl.Int64) * 60 + moment.dt.second()
    evening = (minutes == 0) & (moment.dt.hour() >= 12)
    timed = (minutes != 0) | (moment.dt.hour() != 0)
    if clock == "ignored":
        timed = pl.lit(False)
    elif clock == "corrected":
        timed = timed & pl.col("Url").str.to_lowercase().str.contains(_BENZINGA).fill_null(False)
    parts = table.with_columns(held(table.select(read).to_series()).alias("moment")).with_columns(
        date=pl.when(evening).then(moment.dt.offset_by("1d")).otherwise("moment").dt.to_string("%Y-%m-%d"),
        timed=timed,
    )
    instant = instant_text(_corrected(parts["moment"]) if clock == "corrected" else parts["moment"])
    stamp = pl.when(parts["timed"]).then(instant).otherwise(parts["date"])
    return parts.with_columns(Date=pl.coalesce(stamp, "Date"))


def _corrected(moments: pl.Series) -> pl.Series:
    """Undo the offset that was subtracted instead of added, and read the wall clock again."""
    wall = moments.fill_null(strategy="zero").to_physical().to_numpy() - _OFFSET
    later = instants(later_reading(wall, np.full_like(wall, _OFFSET)), "later")
    return (
        pl.DataFrame([moments, later])
        .select(pl.when(pl.col(moments.name).is_not_null()).then("later"))
        .to_series()
    )
