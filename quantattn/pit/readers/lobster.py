"""LOBSTER: the messages of a NASDAQ limit order book, one file for each ticker and day.

Source: https://lobsterdata.com/info/DataStructure.php and the readme of its sample files. The file name says
ticker and date: ``AAPL_2012-06-21_34200000_57600000_message_10.csv`` (begin and end in milliseconds after
midnight, then the number of book levels); ``..._orderbook_10.csv`` lies beside it. No header line.

Columns of a message: seconds after midnight in New York with up to nine decimals; type; order id; size in
shares; price in dollars times 10000; direction (1 buy, -1 sell, of the resting order). Types, which become
``kind``: 1 ``submission``, 2 ``cancellation`` (partial), 3 ``deletion``, 4 ``execution``, 5
``hidden_execution``, 6 ``cross`` (auction), 7 a halt, which its price tells apart: -1 ``halt``, 0
``quoting_resumes``, 1 ``trading_resumes``.

Features: ``price`` (dollars), ``size``, ``direction``; with ``levels=`` also ``ask_price_1``, ``ask_size_1``,
``bid_price_1``, ``bid_size_1`` and so on: the book *after* the message, from the same line of the orderbook
file. Entity: the ticker of the file name. ``event_id`` is ``TICKER:date:line`` with nine digits, so that the
canonical order keeps the file's order among messages of one nanosecond.

How ``available_at`` is derived: the stamp is that of the exchange's matching engine; whoever listens knows it
later, by ``latency`` (a millisecond unless you declare your own).

Traps: stamps are read digit by digit, for a float holds no nanoseconds of a day; more than nine decimals were
written by a float and are refused. A halt has no price, size or direction: its fields are codes. Hidden
executions have order id 0 and appear in no book. An empty level of the book is filled with 9999999999 or
-9999999999 and is read as none. Order ids are no feature. Lines that go back in time mean a damaged file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit._zones import DAY, SECOND
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._compressed import open_bytes
from quantattn.pit.readers._inputs import Fault, Paths, paths_of, read_log, wrong_format
from quantattn.pit.readers._table_files import read_table
from quantattn.pit.readers.registry import reader

_FORMAT: Final = "lobster"
_NAME: Final = re.compile(
    r"(?P<ticker>.+)_(?P<date>\d{4}-\d{2}-\d{2})_\d+_\d+_(?P<part>message|orderbook)_(?P<levels>\d+)\.csv(\.gz)?$"
)
_COLUMNS: Final = ("Time", "Event Type", "Order ID", "Size", "Price", "Direction")
_KINDS: Final = {
    "1": "submission",
    "2": "cancellation",
    "3": "deletion",
    "4": "execution",
    "5": "hidden_execution",
    "6": "cross",
}
_HALTS: Final = {"-1": "halt", "0": "quoting_resumes", "1": "trading_resumes"}
_HALT: Final = "7"
_TIME: Final = r"^([0-9]{1,5})(?:\.([0-9]{1,9}))?$"
_TICKS: Final = 10_000.0
_EMPTY_LEVEL: Final = ("9999999999", "-9999999999")
_BOTH: Final = ("ask", "bid")
_SIDES: Final = ("ask_price", "ask_size", "bid_price", "bid_size")


@reader(
    _FORMAT,
    title="LOBSTER limit order book messages (NASDAQ)",
    gives="events",
    files="TICKER_YYYY-MM-DD_START_END_message_LEVELS.csv",
)
def read_lobster(paths: Paths, *, levels: int = 0, latency: str = "1ms", strict: bool = False) -> EventLog:
    """Read LOBSTER message files; the module's documentation says what the columns mean.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Message files with the names that LOBSTER gives them, also with ``.gz``.
    levels : int
        How many levels of the book to take from the orderbook file beside each message file.
    latency : str
        From the exchange's stamp until this system has the message.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        With the features ``price``, ``size``, ``direction`` and those of the book; rows are numbered file by
        file.

    Raises
    ------
    UsageError
        If a file is missing or its name says neither ticker nor date, or `levels` is negative or more than
        the file has.
    EventDataError
        If a file is not of this format, ragged, truncated, not UTF-8 or goes back in time, or its orderbook
        has another number of lines; or if no row can be used.
    """
    files = paths_of(paths)
    if levels < 0:
        raise UsageError(f"levels={levels} is negative; give 0 for no book, or a number of levels")
    named = [(file, _named(file, levels)) for file in files]
    table = pl.concat([_messages(file, match, levels) for file, match in named])
    book = [f"{side}_{level}" for level in range(1, levels + 1) for side in _SIDES]
    halted = pl.col("Event Type") == _HALT
    price, size = (pl.col(name).cast(pl.Int64, strict=False) for name in ("Price", "Size"))
    kind = (
        pl.when(halted)
        .then(pl.col("Price").replace_strict(_HALTS, default=None, return_dtype=pl.String))
        .otherwise(pl.col("Event Type").replace_strict(_KINDS, default=None, return_dtype=pl.String))
    )
    order = ~halted
    return read_log(
        table.with_columns(
            kind=kind,
            size=pl.when(order).then(size),
            direction=pl.when(order).then("Direction"),
            dollars=_dollars(table["Price"]),
        ).with_columns(price=pl.when(order).then("dollars")),
        faults=[
            Fault(pl.col("stamp").is_null(), "unreadable_time", "Time", "not seconds after midnight"),
            Fault(kind.is_null() & halted, "unknown_type", "Price", "not the -1, 0 or 1 of a halt"),
            Fault(kind.is_null(), "unknown_type", "Event Type", "not a type of message, 1 to 7"),
            Fault(order & (price.fill_null(0) <= 0), "bad_price", "Price", "not a price"),
            Fault(order & (size.fill_null(0) <= 0), "bad_size", "Size", "not a number of shares"),
            Fault(
                order & ~pl.col("Direction").is_in(["1", "-1"]), "bad_direction", "Direction", "not 1 or -1"
            ),
        ],
        files=files,
        strict=strict,
        event_time="stamp",
        entity="ticker",
        event_id="event_id",
        kind="kind",
        features=["price", "size", "direction", *book],
        time_zone="America/New_York",
        latency=latency,
    )


def _named(path: Path, levels: int) -> re.Match[str]:
    """Take a file name apart."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise UsageError(
            f"{path} does not say its ticker and date; give it the name that LOBSTER gave it, such as "
            "AAPL_2012-06-21_34200000_57600000_message_10.csv"
        )
    if match["part"] == "orderbook":
        raise UsageError(f"{path} is an orderbook file; give the message file beside it, and levels=")
    if levels > int(match["levels"]):
        raise UsageError(f"levels={levels} is more than the {match['levels']} levels of {path.name}")
    return match


def _messages(path: Path, match: re.Match[str], levels: int) -> pl.DataFrame:
    """Read one message file as text, with the instant of each line on the wall clock of New York."""
    first = _first_line(path)
    if first.count(",") != len(_COLUMNS) - 1:
        raise wrong_format(path, _FORMAT, f"a line has {first.count(',') + 1} fields, not 6", EventDataError)
    table = read_table(path, error=EventDataError, header=_COLUMNS)
    parts = pl.col("Time").str.strip_chars().str.extract_groups(_TIME).struct
    second, nano = parts.field("1").cast(pl.Int64), parts.field("2").str.pad_end(9, "0").cast(pl.Int64)
    elapsed = second * SECOND + nano.fill_null(0)
    day = pl.lit(match["date"]).str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ns"))
    line = pl.int_range(1, pl.len() + 1).cast(pl.String).str.zfill(9)
    table = table.with_columns(
        stamp=pl.when(elapsed < DAY).then(day + elapsed.cast(pl.Duration("ns"))),
        ticker=pl.lit(match["ticker"]),
        event_id=pl.format("{}:{}:{}", pl.lit(match["ticker"]), pl.lit(match["date"]), line),
        file=pl.lit(path.name),
    )
    _refuse_backwards(path, table["stamp"])
    return pl.concat([table, _book(path, table.height, levels)], how="horizontal") if levels else table


def _dollars(prices: pl.Series) -> pl.Series:
    """Give prices in dollars, each the float nearest to it; polars divides by a constant less exactly."""
    whole = prices.cast(pl.Int64, strict=False)
    exact = pl.Series(whole.fill_null(0).to_numpy() / _TICKS)
    return pl.select(pl.when(whole.is_not_null()).then(exact)).to_series()


def _first_line(path: Path) -> str:
    with open_bytes(path, EventDataError) as file:
        return file.readline(4096).decode("utf-8", errors="replace")


def _refuse_backwards(path: Path, stamps: pl.Series) -> None:
    back = (stamps < stamps.forward_fill().shift(1)).arg_true()
    if back.len():
        raise EventDataError(
            f"{path} goes back in time in {back.len()} lines, first line {back[0] + 1}; the order of lines "
            "is the sequence of messages, so download the file again"
        )


def _book(path: Path, height: int, levels: int) -> pl.DataFrame:
    """Read the first levels of the book after each message."""
    file = path.with_name(path.name.replace("_message_", "_orderbook_"))
    if not file.is_file():
        raise UsageError(f"levels={levels} needs {file}, the orderbook file; put it there, or pass levels=0")
    match = _NAME.fullmatch(file.name)
    assert match is not None  # it differs from a message file's name in one word
    columns = [f"{side}_{level}" for level in range(1, int(match["levels"]) + 1) for side in _SIDES]
    book = read_table(file, error=EventDataError, header=columns)
    if book.height != height:
        raise EventDataError(
            f"{file} has {book.height} lines and {path.name} {height}; they belong together line by line, so "
            "download both again"
        )
    chosen = book.select(columns[: levels * len(_SIDES)])
    figures: list[pl.Expr] = []
    for price, size in (
        (f"{side}_price_{n}", f"{side}_size_{n}") for n in range(1, levels + 1) for side in _BOTH
    ):
        filled = ~pl.col(price).is_in(_EMPTY_LEVEL)
        figures.append(pl.when(filled).then(_dollars(chosen[price])).alias(price))
        figures.append(pl.when(filled).then(size).alias(size))
    return chosen.select(figures)
