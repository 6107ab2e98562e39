"""The summary of an event log as text in two columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from quantattn.pit.timestamps import iso

if TYPE_CHECKING:
    from quantattn.pit.events.summary import EventSummary

_LISTED: Final = 5
_LONGEST: Final = 40
_SECOND: Final = 1_000_000_000
_UNITS: Final = ((86_400 * _SECOND, "d"), (3_600 * _SECOND, "h"), (60 * _SECOND, "min"), (_SECOND, "s"))
_HIDDEN: Final = re.compile(r"[^\S ]|[^\x20-\x7e\u00a1-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def as_text(summary: EventSummary) -> str:
    """Write a summary in two aligned columns.

    Parameters
    ----------
    summary : EventSummary
        The summary.

    Returns
    -------
    str
        Lines of a label and its figures. Names from the data are shortened, and hold nothing that a
        terminal would obey.
    """
    lines = list(_lines(summary))
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label:<{width}}  {said}".rstrip() for label, said in lines)


def _lines(summary: EventSummary) -> Iterator[tuple[str, str]]:
    total = summary.events
    if summary.rows_read is not None:
        yield "rows read", f"{summary.rows_read:,}, of which {summary.rows_refused:,} were refused"
    yield "events", f"{total:,}"
    if summary.rejects or not summary.rows_refused:
        yield "refused rows", _counts(summary.rejects, None) or "none"
    if summary.bare_dates is not None:
        yield "bare dates", f"{summary.bare_dates:,}, known from the next session's open"
    if summary.first is not None and summary.last is not None:
        yield "available", f"{iso(summary.first)} to {iso(summary.last)}"
    if summary.first_event is not None and summary.last_event is not None:
        yield "happened", f"{iso(summary.first_event)} to {iso(summary.last_event)}"
    yield f"entities ({len(summary.entities):,})", _counts(summary.entities, _LISTED) or "none"
    yield "market-wide", _share(summary.market_wide, total)
    yield f"kinds ({len(summary.kinds):,})", _counts(summary.kinds, _LISTED) or "none"
    yield "revisions", _share(summary.revisions, total)
    if summary.retractions is not None:
        yield "retractions", _share(summary.retractions, total)
    if summary.lag_quantiles:
        values = list(summary.lag_quantiles.values())
        if values[0] == values[-1]:
            yield "lag of knowledge", f"{_duration(values[0])} of every event"
            values = []
        quantiles = [f"{_percent(q)} {_duration(lag)}" for q, lag in summary.lag_quantiles.items()]
        if values:
            yield "lag of knowledge", ", ".join(quantiles)
    for part, count in summary.session_parts.items():
        if count or part != "unknown":
            yield f"{part.replace('_', ' ')} ({summary.calendar})", _share(count, total)
    yield "tied in time", f"{_share(summary.tied, total)}, at most {summary.largest_tie:,} at one instant"
    yield "same content again", _share(summary.duplicates, total)
    for place, gap in enumerate(summary.gaps):
        label = "" if place else "longest gaps"
        yield label, f"{_duration(gap.length)} from {iso(gap.start)} to {iso(gap.end)}"
    yield "without text", _share(summary.null_text, total)
    for name, count in summary.null_features.items():
        yield f"without {_name(name)}", _share(count, total)


def _counts(counts: Mapping[str, int], most: int | None) -> str:
    shown = [f"{_name(name)} {count:,}" for name, count in list(counts.items())[:most]]
    more = len(counts) - len(shown)
    return ", ".join([*shown, f"{more:,} more"] if more else shown)


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / total:.1%})" if total else f"{count:,}"


def _percent(quantile: float) -> str:
    return {0.0: "least", 0.5: "median", 1.0: "most"}.get(quantile, f"{quantile:.0%}")


def _duration(nanoseconds: int) -> str:
    """Write a duration with its greatest units, such as ``2d 3h`` or ``1.5s``."""
    if nanoseconds < 0:
        return "-" + _duration(-nanoseconds)
    if nanoseconds < 60_000_000_000:
        return f"{nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".") + "s"
    parts, rest = [], nanoseconds
    for length, unit in _UNITS:
        number, rest = divmod(rest, length)
        if number:
            parts.append(f"{number:,}{unit}")
    return " ".join(parts[:2])


def _name(name: str) -> str:
    shown = _HIDDEN.sub("\ufffd", name)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "\u2026"
