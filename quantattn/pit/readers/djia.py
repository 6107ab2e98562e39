r"""The Kaggle set of world news and the Dow Jones: ``Combined_News_DJIA.csv`` and ``RedditNews.csv``.

Source: Sun, Daily News for Stock Market Prediction (2016),
https://www.kaggle.com/datasets/aaron7sun/stocknews: the 25 most popular titles of r/worldnews of each
day, 2008-06-08 to 2016-07-01.

Columns: ``Combined_News_DJIA.csv`` has ``Date``, ``Label`` and ``Top1`` to ``Top25``, one row for each
session; ``RedditNews.csv`` has ``Date`` and ``News``, one row for each title, every calendar day. Read
are the date and the titles. Every title is a market-wide event; an empty cell is none (some days have
fewer than 25).

Zone: none. Dates alone; where Reddit's day begins is not documented.

How ``available_at`` is derived: the open of the next session after the date, plus ``latency``.

Traps:

* ``Label`` is the outcome (whether the index closed at least as high as the day before) and is never
  read.
* Rank and choice are from the future of the titles: votes accrue for a day after the publication, so that
  being among the 25, and the place there, was not known when the title came. The place is not read, and
  the order of the events does not depend on it. The choice itself cannot be undone: a title here *became*
  popular.
* A row of a session holds the news of its own day, before and after the close; to use it for the same
  day's return, as the set's task proposes, leaks.
* Early titles are wrapped as Python bytes, ``b'...'`` or ``b"..."``, with escapes such as
  ``\xe2\x80\x99``: they are unwrapped, so that the quotes are not a mark of the year.
* ``DJIA_table.csv`` is prices, not news.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._inputs import NUMBER, Paths, paths_of
from quantattn.pit.readers._news import make_log, match_columns, read_columns, stack
from quantattn.pit.readers.registry import reader

_FORMAT: Final = "djia"
_TOPS: Final = tuple(f"Top{place}" for place in range(1, 26))
_ZONE: Final = "America/New_York"
_WRAPPED: Final = re.compile(r"""^\s*b(['"])(.*)\1\s*$""", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_CONTROLS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


@reader(
    _FORMAT,
    title="World news titles of the Kaggle Dow Jones set, 2008 to 2016 (CSV)",
    gives="events",
    files="Combined_News_DJIA.csv, RedditNews.csv, also .gz, .zip",
)
def read_djia(
    paths: Paths,
    *,
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read the titles of the Dow Jones set; the module's documentation says why neither label nor rank is.

    Parameters
    ----------
    paths : str, Path or sequence of them
        One of the two files, or both: a title that both hold on one date is one event.
    latency : str
        From publication until this system has the titles.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Market-wide events of kind ``news``, without features. Rejects name the row of the file, from 0.

    Raises
    ------
    UsageError
        If a file is missing.
    EventDataError
        If a file is not of this format, ragged, truncated or not UTF-8, or no row can be used.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`.
    """
    files = paths_of(paths)
    return make_log(
        stack(files, _read_file),
        files,
        of_kind="news",
        strict=strict,
        event_time="Date",
        text="text",
        time_zone=_ZONE,
        latency=latency,
        calendar=calendar,
    )


def _read_file(path: Path) -> pl.DataFrame:
    columns = match_columns(path, format=_FORMAT, needed=("Date",), optional=("News", *_TOPS))
    titles = [name for name in columns if name != "Date"]
    if not titles:
        match_columns(path, format=_FORMAT, needed=("Date", "Top1"))
    table = read_columns(path, columns).select(pl.all().cast(pl.String))
    table = table.with_row_index(NUMBER).with_columns(pl.col(NUMBER).cast(pl.Int64))
    long = table.unpivot(titles, index=[NUMBER, "Date"], value_name="text").filter(
        pl.col("text").str.strip_chars().fill_null("") != ""
    )
    unwrapped = pl.Series("text", [_unwrap(text) for text in long["text"]], dtype=pl.String)
    return long.select(NUMBER, "Date", unwrapped)


def _unwrap(title: str) -> str:
    """Give the text of a title that was written as a Python bytes literal."""
    found = _WRAPPED.match(title)
    if found is None:
        return title
    content = _ESCAPE.sub(_unescaped, found[2].encode())
    return content.decode("utf-8", errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code: bytes = found[1]
    if len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code in (b"\\", b"'", b'"'):
        return code
    return _CONTROLS.get(code, found[0])
