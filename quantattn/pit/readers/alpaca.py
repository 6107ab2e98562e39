"""Alpaca news: answers of ``/v1beta1/news``, or messages of its stream, as JSON.

Source: https://docs.alpaca.markets/reference/news-3; articles are Benzinga's, from 2015 on.

Files: ``{"news": [...], "next_page_token": ...}``, one such page or a list of them, a list of articles,
or JSON lines of either; also with ``.gz`` or ``.zip``. Fields of an article: ``id``, ``headline``,
``summary``, ``content``, ``created_at``, ``updated_at``, ``symbols``, ``source``, ``url``, ``author``,
``images``.

Zone: UTC (RFC 3339, ``2021-12-31T11:08:42Z``).

How ``available_at`` is derived: the later of ``created_at`` and ``updated_at``, plus ``latency``. An
article that was edited comes with its *final* text, whose time is ``updated_at``; under ``created_at`` it
would tell what became known later. ``show_edits_early=True`` takes ``created_at`` nevertheless. Where the
files hold several versions of one article (downloads of different days), they become revisions 0, 1, 2 in
the order of ``updated_at``.

One event for each symbol, ``id/symbol``; the feature ``n_symbols`` tells how many an article names. An
article with an empty list is market-wide, unless ``untagged="reject"``.

Traps: the text of an earlier version that was never downloaded cannot be had, so most articles are known
later here than they were. ``symbols`` may be edited too. Tickers are those of the time of the article,
and are reused. ``content`` is HTML and is empty unless it was asked for.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import polars as pl

from quantattn.pit.events.log import EventLog
from quantattn.pit.events.stamps import TimeRules
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers._json_items import Item, joined, plain_text, read_items
from quantattn.pit.readers._news import (
    Untagged,
    article_ids,
    check_choice,
    make_log,
    symbol_rows,
    warn_of_further_pages,
)
from quantattn.pit.readers._stamp_text import later_of, versions
from quantattn.pit.readers.registry import reader

_FORMAT: Final = "alpaca"
_NEEDED: Final = ("headline", "created_at", "updated_at", "symbols")
_TEXTS: Final = {
    "headline": ("headline",),
    "headline_and_summary": ("headline", "summary"),
    "everything": ("headline", "summary", "content"),
}


@reader(
    _FORMAT,
    title="Alpaca news (JSON)",
    gives="events",
    files="answers of /v1beta1/news, .json, .jsonl, also .gz, .zip",
)
def read_alpaca(
    paths: Paths,
    *,
    text: Literal["headline", "headline_and_summary", "everything"] = "headline",
    show_edits_early: bool = False,
    untagged: Untagged = "market",
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read Alpaca news; the module's documentation says how edits are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        JSON files.
    text : {"headline", "headline_and_summary", "everything"}
        What the text holds; markup is removed.
    show_edits_early : bool
        Whether to show the final text of an edited article from its creation on, which leaks.
    untagged : {"market", "reject"}
        Whether an article without symbols is market-wide or refused.
    latency : str
        From the stamp until this system has the article.
    calendar : str
        The calendar whose next session makes a stamp known that is a bare date.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Of kind ``news``, with the feature ``n_symbols``. Rejects name the item, numbered from 0.

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
        If no page given is the last one: each has a ``next_page_token``.
    """
    check_choice("text", text, tuple(_TEXTS))
    check_choice("untagged", untagged, ("market", "reject"))
    files = paths_of(paths)
    pages: list[dict[str, Any]] = []
    items = [
        item
        for path in files
        for item in read_items(path, format=_FORMAT, listed=("news",), needed=_NEEDED, pages=pages)
    ]
    warn_of_further_pages(pages, "next_page_token", files)
    table = symbol_rows(items, _fields(items, _TEXTS[text]), listed="symbols", untagged=untagged)
    rules = TimeRules(calendar=calendar)
    updated = later_of(table["created_at"], table["updated_at"], rules)
    event_id = article_ids(table)
    table = table.with_columns(
        event_id=event_id,
        updated_at=table["created_at"] if show_edits_early else updated,
        revision=versions(event_id, updated),
        n_symbols=pl.col("n_entities"),
    )
    return make_log(
        table,
        files,
        of_kind="news",
        strict=strict,
        event_time="created_at",
        available_at="updated_at",
        entity="entity",
        event_id="event_id",
        revision="revision",
        text="text",
        features=["n_symbols"],
        latency=latency,
        calendar=calendar,
    )


def _fields(items: list[Item], texts: tuple[str, ...]) -> dict[str, list[str | None]]:
    return {
        "id": [item.text("id") for item in items],
        "created_at": [item.text("created_at") for item in items],
        "updated_at": [item.text("updated_at") for item in items],
        "text": [joined(plain_text(item.text(name)) for name in texts) for item in items],
    }
