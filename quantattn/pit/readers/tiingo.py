"""Tiingo news: answers of ``/tiingo/news`` and bulk downloads, as JSON.

Source: https://www.tiingo.com/documentation/news; how backfilled articles are handled elsewhere:
https://www.quantconnect.com/docs/v2/writing-algorithms/datasets/tiingo/tiingo-news-feed.

Files: a list of articles, or JSON lines of them; also with ``.gz`` or ``.zip``. Fields: ``id``,
``title``, ``description``, ``publishedDate``, ``crawlDate``, ``tickers``, ``tags``, ``source``, ``url``.

Zone: UTC (``2019-01-29T22:20:01.696871Z`` or with ``+00:00``); a stamp without a zone is refused.

How ``available_at`` is derived: ``crawlDate``, when Tiingo had the article, but never before
``publishedDate``, plus ``latency``. ``publishedDate`` is what the publisher says, and may be set back;
``crawlDate`` is Tiingo's own clock.

One event for each ticker, ``id/TICKER``; the feature ``n_tickers`` tells how many an article names.
Tickers come in lower case and become upper-case. An article with an empty list is market-wide, unless
``untagged="reject"``. Articles of one id with several ``crawlDate`` become revisions 0, 1, 2.

Traps: when Tiingo adds a source, it takes in its archive: such articles have a ``crawlDate`` years after
their ``publishedDate``. They were published then, but no one could have had them from Tiingo, and which
sources were added says which of them succeeded. By default they are known when they were crawled.
``guess_backfill="1h"`` takes articles that were crawled more than one day late as known that long after
their publication, as LEAN does: a guess. Tickers and tags are the output of Tiingo's algorithms, which
may run again over old articles.
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from quantattn.errors import TimestampError
from quantattn.pit._zones import DAY
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.stamps import TimeRules
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._json_items import Item, joined, plain_text, read_items
from quantattn.pit.readers._news import Untagged, article_ids, check_choice, make_log, symbol_rows
from quantattn.pit.readers._stamp_text import instant_text, later_of, published, versions
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import duration_nanoseconds, instants, nanoseconds_of, shifted

_FORMAT: Final = "tiingo"
_NEEDED: Final = ("title", "publishedDate", "crawlDate", "tickers")
_TEXTS: Final = {"title": ("title",), "title_and_description": ("title", "description")}


@reader(
    _FORMAT,
    title="Tiingo news (JSON)",
    gives="events",
    files="answers of /tiingo/news, .json, .jsonl, also .gz, .zip",
)
def read_tiingo(
    paths: Paths,
    *,
    text: Literal["title", "title_and_description"] = "title",
    guess_backfill: str | None = None,
    untagged: Untagged = "market",
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read Tiingo news; the module's documentation says how articles are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        JSON files.
    text : {"title", "title_and_description"}
        What the text holds; markup is removed.
    guess_backfill : str, optional
        A duration such as ``"1h"``: how long after their publication articles are taken as known that were
        crawled more than one day later. By default they are known when they were crawled.
    untagged : {"market", "reject"}
        Whether an article without tickers is market-wide or refused.
    latency : str
        From the stamp until this system has the article.
    calendar : str
        The calendar whose next session makes a stamp known that is a bare date.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Of kind ``news``, with the feature ``n_tickers``. Rejects name the item, numbered from 0.

    Raises
    ------
    UsageError
        If a file is missing or an option unknown.
    EventDataError
        If a file is not of this format, truncated or not UTF-8, or no item can be used.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`; if `guess_backfill` is no duration or negative.
    """
    check_choice("text", text, tuple(_TEXTS))
    check_choice("untagged", untagged, ("market", "reject"))
    delay = (
        None if guess_backfill is None else duration_nanoseconds(guess_backfill, argument="guess_backfill")
    )
    if delay is not None and delay < 0:
        raise TimestampError(f"guess_backfill={guess_backfill!r} is negative; nothing is known unpublished")
    files = paths_of(paths)
    items = [item for path in files for item in read_items(path, format=_FORMAT, listed=(), needed=_NEEDED)]
    fields = _fields(items, _TEXTS[text])
    table = symbol_rows(items, fields, listed="tickers", untagged=untagged, upper=True)
    rules = TimeRules(calendar=calendar)
    crawled = later_of(table["crawlDate"], table["publishedDate"], rules)
    event_id = article_ids(table)
    table = table.with_columns(
        event_id=event_id,
        crawlDate=crawled if delay is None else _guessed(table["publishedDate"], crawled, delay, rules),
        revision=versions(event_id, crawled),
        n_tickers=pl.col("n_entities"),
    )
    return make_log(
        table,
        files,
        of_kind="news",
        strict=strict,
        event_time="publishedDate",
        available_at="crawlDate",
        entity="entity",
        event_id="event_id",
        revision="revision",
        text="text",
        features=["n_tickers"],
        latency=latency,
        calendar=calendar,
    )


def _fields(items: list[Item], texts: tuple[str, ...]) -> dict[str, list[str | None]]:
    return {
        "id": [item.text("id") for item in items],
        "publishedDate": [item.text("publishedDate") for item in items],
        "crawlDate": [item.text("crawlDate") for item in items],
        "text": [joined(plain_text(item.text(name)) for name in texts) for item in items],
    }


def _guessed(first: pl.Series, crawled: pl.Series, delay: int, rules: TimeRules) -> pl.Series:
    """Replace the crawl by the publication and a delay where they lie more than one day apart."""
    frame = pl.DataFrame(
        {"first": published(first, rules), "last": published(crawled, rules), "crawled": crawled}
    )
    late = pl.col("last") - pl.col("first") > pl.duration(nanoseconds=DAY)
    frame = frame.with_columns(first=pl.when(late).then("first"))
    known = frame["first"].is_not_null()
    moved = shifted(nanoseconds_of(frame["first"].filter(known)), delay, "guess_backfill")
    guess = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
    guess = guess.scatter(known.arg_true(), instant_text(instants(moved)))
    return (
        frame.with_columns(guess=guess)
        .select(pl.when(late.fill_null(False)).then("guess").otherwise("crawled"))
        .to_series()
    )
