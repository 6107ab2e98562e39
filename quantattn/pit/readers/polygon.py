"""Polygon (Massive) news: answers of ``/v2/reference/news``, as JSON.

Source: https://polygon.io/docs/stocks/get_v2_reference_news.

Files: ``{"results": [...], "status": ..., "next_url": ...}``, one such page or a list of them, a list of
articles, or JSON lines of either; also with ``.gz`` or ``.zip``. Fields of an article: ``id``,
``publisher`` (``name`` ...), ``title``, ``author``, ``published_utc``, ``article_url``, ``tickers``,
``amp_url``, ``image_url``, ``description``, ``keywords``, ``insights`` (``ticker``, ``sentiment``,
``sentiment_reasoning``).

Zone: UTC (``2024-06-24T18:33:53Z``).

How ``available_at`` is derived: ``published_utc`` plus ``latency``, which has no default. The stamp is
the publisher's; when Polygon had the article is in no field, so whoever reads the file has to say how
long it took.

One event for each ticker, ``id/ticker``; the feature ``n_tickers`` tells how many an article names. An
article with an empty list is market-wide, unless ``untagged="reject"``.

Traps: there is no stamp of an update. An article that was edited shows its final text under its first
time, and this reader cannot see it; two downloads of one article that differ are refused as
``conflicting_duplicate``. ``insights`` are the output of a language model, which articles from before
that model can only have got later, with knowledge of what came of them: they are not read.
``later_insights=True`` adds them as the feature ``insight_sentiment`` (1, 0, -1), which leaks.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._json_items import Item, joined, plain_text, read_items
from quantattn.pit.readers._news import (
    ITEM,
    Untagged,
    article_ids,
    check_choice,
    make_log,
    symbol_rows,
    warn_of_further_pages,
)
from quantattn.pit.readers.registry import reader

_FORMAT: Final = "polygon"
_NEEDED: Final = ("title", "published_utc", "tickers")
_TEXTS: Final = {"title": ("title",), "title_and_description": ("title", "description")}
_SENTIMENTS: Final = {"positive": 1.0, "neutral": 0.0, "negative": -1.0}


@reader(
    _FORMAT,
    title="Polygon (Massive) news (JSON)",
    gives="events",
    files="answers of /v2/reference/news, .json, .jsonl, also .gz, .zip",
)
def read_polygon(
    paths: Paths,
    *,
    latency: str,
    text: Literal["title", "title_and_description"] = "title",
    later_insights: bool = False,
    untagged: Untagged = "market",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read Polygon news; the module's documentation says what its stamps do not tell.

    Parameters
    ----------
    paths : str, Path or sequence of them
        JSON files.
    latency : str
        From the publisher's stamp until this system has the article, such as ``"15min"``.
    text : {"title", "title_and_description"}
        What the text holds; markup is removed.
    later_insights : bool
        Whether to add the sentiments of ``insights``, which were made later.
    untagged : {"market", "reject"}
        Whether an article without tickers is market-wide or refused.
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
        As in :meth:`EventLog.from_frame`.

    Warns
    -----
    UserWarning
        If no page given is the last one: each has a ``next_url``.
    """
    check_choice("text", text, tuple(_TEXTS))
    check_choice("untagged", untagged, ("market", "reject"))
    files = paths_of(paths)
    pages: list[dict[str, Any]] = []
    items = [
        item
        for path in files
        for item in read_items(path, format=_FORMAT, listed=("results",), needed=_NEEDED, pages=pages)
    ]
    warn_of_further_pages(pages, "next_url", files)
    table = symbol_rows(items, _fields(items, _TEXTS[text]), listed="tickers", untagged=untagged)
    features = ["n_tickers"]
    if later_insights:
        features.append("insight_sentiment")
        table = table.join(_insights(items), on=[ITEM, "entity"], how="left", maintain_order="left")
    table = table.with_columns(
        event_id=article_ids(table),
        n_tickers=pl.col("n_entities"),
    )
    return make_log(
        table,
        files,
        of_kind="news",
        strict=strict,
        event_time="published_utc",
        entity="entity",
        event_id="event_id",
        text="text",
        features=features,
        latency=latency,
        calendar=calendar,
    )


def _fields(items: list[Item], texts: tuple[str, ...]) -> dict[str, list[str | None]]:
    return {
        "id": [item.text("id") for item in items],
        "published_utc": [item.text("published_utc") for item in items],
        "text": [joined(plain_text(item.text(name)) for name in texts) for item in items],
    }


def _insights(items: list[Item]) -> pl.DataFrame:
    """Give ``item, entity, insight_sentiment`` of the first insight of each item on each ticker."""
    rows: dict[tuple[int, str], float | None] = {}
    for number, item in enumerate(items):
        insights: Any = item.fields.get("insights") or []
        if not isinstance(insights, list) or not all(isinstance(insight, dict) for insight in insights):
            raise EventDataError(f"{item.place}: field 'insights' is no list of objects; correct it")
        for insight in insights:
            name, sentiment = insight.get("ticker"), insight.get("sentiment")
            if isinstance(name, str) and isinstance(sentiment, str):
                rows.setdefault((number, name.strip()), _SENTIMENTS.get(sentiment.strip().lower()))
    return pl.DataFrame(
        [(number, name, value) for (number, name), value in rows.items()],
        schema={ITEM: pl.Int64, "entity": pl.String, "insight_sentiment": pl.Float64},
        orient="row",
    )
