"""A :class:`~quantattn.pit.WhyReport` as text, Markdown and HTML.

Whatever comes from events is untrusted: texts are shown as Python writes them, so that control characters
cannot steer a terminal, and are escaped for the language that they are put into.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import polars as pl

from quantattn.pit.timestamps import iso, nanoseconds_of

_WIDEST = 100
"""Characters of an event's text that are shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400 * 10**9, "d"), (3_600 * 10**9, "h"), (60 * 10**9, "min"))
_SPECIAL = re.compile(r"[\\`*_{}\[\]|~<>&$:.@]")
"""What Markdown, or HTML within it, or who looks for addresses would take for more than a character."""

_FOREIGN = frozenset({"whose", "kind", "event", "text"})
"""Columns whose content comes from events."""


class Facts(NamedTuple):
    """What is said of a forecast above its tables."""

    forecast_time: int
    n_visible: int
    info_hash: str
    scope: str
    time_zone: str | None = None


class _Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def span(nanoseconds: int) -> str:
    """Give a length of time exactly, such as ``"1 d 2 h 3.5 s"`` or ``"1 ns"``."""
    if nanoseconds < 1_000:
        return f"{nanoseconds} ns"
    parts = []
    for size, unit in _UNITS:
        count, nanoseconds = divmod(nanoseconds, size)
        if count:
            parts.append(f"{count} {unit}")
    whole, rest = divmod(nanoseconds, 10**9)
    if nanoseconds:
        parts.append(f"{whole}{f'.{rest:09d}'.rstrip('0') if rest else ''} s")
    return " ".join(parts)


def local(nanoseconds: int, zone: str) -> str:
    """Give an instant on the wall clock of a zone, such as ``"2022-11-25 12:45:00 -05:00"``."""
    seconds, rest = divmod(nanoseconds, 10**9)
    wall = (_EPOCH + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone))
    decimals = f".{rest:09d}".rstrip("0") if rest else ""
    # The offset follows the seconds, as ISO 8601 has it.
    text = wall.isoformat(" ", "seconds")
    return f"{text[:19]}{decimals} {text[19:]}"


def as_text(entity: str, facts: Facts, visible: pl.DataFrame, hidden: pl.DataFrame) -> str:
    """Tell a report as text, with one version a line."""
    lines = [_headline(_plain(entity), facts), *_more(facts)]
    for table in _tables(facts, visible, hidden):
        lines += ["", f"{table.title}:"]
        if not table.rows:
            lines.append("  none")
            continue
        grid = [table.head, *table.rows]
        widths = [max(len(row[place]) for row in grid) for place in range(len(table.head))]
        for row in grid:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def as_markdown(entity: str, facts: Facts, visible: pl.DataFrame, hidden: pl.DataFrame) -> str:
    """Tell a report as Markdown."""
    lines = [f"### {_headline(_marked(_plain(entity)), facts)}", "", *_more(facts)]
    for table in _tables(facts, visible, hidden):
        lines += ["", f"**{table.title}**", ""]
        if not table.rows:
            lines.append("none")
            continue
        lines += [_line(table.head), _line(["---"] * len(table.head))]
        for row in table.rows:
            cells = zip(table.head, row, strict=True)
            lines.append(_line([_marked(cell) if name in _FOREIGN else cell for name, cell in cells]))
    return "\n".join(lines)


def as_html(entity: str, facts: Facts, visible: pl.DataFrame, hidden: pl.DataFrame) -> str:
    """Tell a report as HTML without scripts or styles of its own."""
    parts = [f"<h4>{html.escape(_headline(_plain(entity), facts))}</h4>"]
    parts += [f"<p>{html.escape(line)}</p>" for line in _more(facts)]
    for table in _tables(facts, visible, hidden):
        parts.append(f"<p><b>{html.escape(table.title)}</b></p>")
        if not table.rows:
            parts.append("<p>none</p>")
            continue
        body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in table.rows)
        parts.append(
            f"<table><thead><tr>{_cells(table.head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
        )
    return f"<div>{''.join(parts)}</div>"


def _headline(entity: str, facts: Facts) -> str:
    return f"Forecast for {entity} at {iso(facts.forecast_time)}: {facts.n_visible} event versions visible"


def _more(facts: Facts) -> list[str]:
    zone = facts.time_zone
    told = [] if zone is None else [f"That is {local(facts.forecast_time, zone)} in {zone}"]
    return [*told, f"Information set {facts.info_hash}, scope {facts.scope}"]


def _tables(facts: Facts, visible: pl.DataFrame, hidden: pl.DataFrame) -> tuple[_Table, _Table]:
    shared = ("whose", "kind", "event", "revision")
    zone = () if facts.time_zone is None else (facts.time_zone,)
    seen = _Table(
        f"Last {visible.height} of {facts.n_visible} visible: available before the forecast",
        ("available at", *zone, "before it by", *shared, "standing", "text"),
        _rows(visible, facts, _standing),
    )
    unseen = _Table(
        f"Next {hidden.height} not visible: available at the forecast or later",
        ("hidden until", *zone, "missed by", *shared, "what it is", "text"),
        _rows(hidden, facts, _novelty),
    )
    return seen, unseen


def _rows(
    frame: pl.DataFrame, facts: Facts, remark: Callable[[pl.DataFrame], Sequence[str]]
) -> list[tuple[str, ...]]:
    told: list[tuple[str, ...]] = []
    stamps = nanoseconds_of(frame["available_at"]).tolist()
    content = frame.select("entity", "kind", "event_id", "revision", "text").rows()
    for stamp, said, (entity, kind, event_id, revision, text) in zip(
        stamps, remark(frame), content, strict=True
    ):
        away = abs(stamp - facts.forecast_time)
        told.append(
            (
                iso(stamp),
                *(() if facts.time_zone is None else (local(stamp, facts.time_zone),)),
                span(away) if away else "0 s, the same instant",
                "market" if entity is None else _plain(entity),
                _plain(kind),
                _plain(event_id),
                str(revision),
                said,
                "(none)" if text is None else _shortened(text),
            )
        )
    return told


def _standing(frame: pl.DataFrame) -> list[str]:
    times = frame["superseded_at"].to_physical().to_list()
    return ["stands" if time is None else f"superseded {iso(time)}" for time in times]


def _novelty(frame: pl.DataFrame) -> list[str]:
    rows = frame.select("revises", "revision").rows()
    return [
        "a new event"
        if old is None
        else f"replaces revision {old}"
        if old < number
        else f"older than revision {old}"
        for old, number in rows
    ]


def _plain(name: str) -> str:
    """Write a name as it is if it is printable, otherwise as Python does."""
    return name if name.isprintable() and name.strip() == name and name else repr(name)


def _shortened(text: str) -> str:
    cut = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
    return repr(cut)


def _marked(cell: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", cell)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
