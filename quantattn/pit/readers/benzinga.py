"""Benzinga headlines of the Kaggle collection for backtests: analyst ratings and partner headlines.

Source: https://www.kaggle.com/datasets/miguelaenlle/massive-stock-news-analysis-db-for-nlpbacktests:
``raw_analyst_ratings.csv``, ``raw_partner_headlines.csv`` and ``analyst_ratings_processed.csv``, 2009 to
2020.

Columns: an index without a name (or ``Unnamed: 0``), ``headline``, ``url``, ``publisher``, ``date``,
``stock``; in the processed file ``title`` instead of ``headline``, and neither url nor publisher. Read
are ``headline`` or ``title``, ``date`` and ``stock``.

Zone: ``date`` mixes two kinds of stamps. The newest articles of each stock bear a time with an offset,
``2020-06-05 10:30:54-04:00``; most bear ``2020-05-22 00:00:00`` without one, which is a date in New York.
The partner file holds dates alone, and its author advises to treat them as news of the *next* day.

How ``available_at`` is derived:

* A date is known at the open of the next session.
* A stamp with an offset: the author speaks of UTC-4, and no page says whether the clock really stood at
  -04:00 in winter or New York's wall time was given the summer's offset. The *later* of both readings
  counts: as written, and as wall time in New York. They differ by one hour in winter alone.
* In the processed file times are cut to the minute (10:30:54 became 10:30:00): known one minute later.
* Then ``latency`` is added.

Traps: a parser that is not told of both kinds makes all dates missing, or midnights in UTC, which leaks a
day's news into its morning. A headline that names several stocks stands once for each. Titles such as
"Stocks That Hit 52-Week Highs" repeat prices. The processed file has some 2,500 broken rows, whose dates
are no dates: refused as ``unreadable_time`` or ``missing_time``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from quantattn.pit._zones import SECOND
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._benzinga_clock import ZONE, later_reading
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._news import make_log, match_columns, read_columns, stack
from quantattn.pit.readers._stamp_text import held, instant_text
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import instants

_FORMAT: Final = "benzinga"
_STAMP: Final = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2})(:[0-5][0-9])?(\.[0-9]{1,9})?"
    r" ?([+-][0-9]{2}):?([0-9]{2})$"
)
_CUT: Final = 60 * SECOND


@reader(
    _FORMAT,
    title="Benzinga headlines of the Kaggle collection, 2009 to 2020 (CSV)",
    gives="events",
    files="raw_analyst_ratings.csv, raw_partner_headlines.csv, analyst_ratings_processed.csv, also .gz, .zip",
)
def read_benzinga(
    paths: Paths,
    *,
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read Benzinga headlines; the module's documentation says how they are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files of the collection.
    latency : str
        From publication until this system has the headline.
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
        If a file is missing.
    EventDataError
        If a file is not of this format, ragged, truncated or not UTF-8, or no row can be used.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`.
    """
    files = paths_of(paths)
    return make_log(
        _with_known(stack(files, _read_file)),
        files,
        of_kind="news",
        strict=strict,
        event_time="date",
        available_at="known",
        entity="stock",
        text="text",
        time_zone=ZONE,
        latency=latency,
        calendar=calendar,
    )


def _read_file(path: Path) -> pl.DataFrame:
    columns = match_columns(path, format=_FORMAT, needed=("date", "stock"), optional=("headline", "title"))
    if "headline" not in columns:
        columns = match_columns(path, format=_FORMAT, needed=("title", "date", "stock"))
    text = "headline" if "headline" in columns else "title"
    table = read_columns(path, {name: columns[name] for name in ("date", "stock", text)})
    return (
        table.select(pl.all().cast(pl.String))
        .rename({text: "text"})
        .with_columns(cut=pl.lit(text == "title"))
    )


def _with_known(table: pl.DataFrame) -> pl.DataFrame:
    """Add ``known``: the later reading of stamps with an offset, and the others as they are written."""
    written = pl.col("date").str.strip_chars()
    parts = [written.str.extract(_STAMP, place) for place in range(1, 7)]
    clock = pl.concat_str(parts[1], parts[2].fill_null(":00"), parts[3].fill_null(""))
    wall = table.select(
        pl.concat_str(parts[0], clock, separator=" ").str.to_datetime(
            "%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us"
        )
    ).to_series()
    hours, minutes = parts[4].cast(pl.Int64), parts[5].cast(pl.Int64)
    east = hours.abs() * 60 + minutes
    sign = pl.when(parts[4].str.starts_with("-")).then(-1).otherwise(1)
    split = (
        table.with_columns(held(wall).to_physical().alias("wall"))
        .select("wall", "cut", row=pl.int_range(pl.len()), offset=sign * east * 60 * SECOND)
        .drop_nulls()
    )
    later = later_reading(split["wall"].to_numpy(), split["offset"].to_numpy())
    later = later + np.where(split["cut"].to_numpy(), _CUT, 0)
    known = pl.DataFrame({"row": split["row"], "known": instant_text(instants(later))})
    joined = table.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    return joined.join(known, on="row", how="left", maintain_order="left").with_columns(
        pl.coalesce("known", "date")
    )
