"""What an event log holds, at a glance: sizes, lags, session parts, ties, duplicates, gaps and rejects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.events.sessions import PARTS
from quantattn.pit.events.summary_text import as_text
from quantattn.pit.events.taken import Taken
from quantattn.pit.events.tally import (
    Tally,
    by_frequency,
    content_hashes,
    count_distinct,
    lags,
    pick,
    ties_and_gaps,
)
from quantattn.pit.events.views import is_retraction
from quantattn.pit.timestamps import Nanoseconds, iso, nanoseconds_of

QUANTILES: Final = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
"""The quantiles of the lag that a summary gives; each is one of the lags."""

_GAPS: Final = 5


@dataclass(frozen=True)
class Gap:
    """A stretch without any event.

    Parameters
    ----------
    start, end : int
        ``available_at`` of the events on both sides, nanoseconds since the epoch.
    """

    start: int
    end: int

    @property
    def length(self) -> int:
        """Its length in nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True, repr=False)
class EventSummary:
    """What an event log holds; prints as aligned text.

    Parameters
    ----------
    events : int
        Event versions.
    rejects : mapping of str to int
        Refused input rows by reason, the most frequent first.
    rows_read, rows_refused : int or None
        Rows that the intake read and refused; None where that is not known.
    bare_dates : int or None
        Rows that are known from the next session's open, because their publication stamp is a bare date (or
        a naive midnight of a declared zone).
    entities : mapping of str to int
        Events of each entity, the most frequent first; market-wide events are not among them.
    market_wide : int
        Events that name no entity.
    kinds : mapping of str to int
        Events of each kind, the most frequent first.
    first, last : int or None
        The first and last ``available_at``, nanoseconds since the epoch; None for an empty log.
    first_event, last_event : int or None
        The first and last ``event_time``.
    revisions : int
        Versions with a revision above 0.
    retractions : int or None
        Versions that withdraw their event; None where that was not counted (a scan).
    lag_quantiles : mapping of float to int
        ``available_at - event_time`` in nanoseconds, at `QUANTILES`; negative for announced events.
    session_parts : mapping of str to int
        Events by the part of the calendar's session in which they became available: ``before_open``,
        ``in_session``, ``after_close``, ``no_session`` (weekends and holidays) and ``unknown`` (years that
        the calendar does not record).
    calendar : str
        That calendar.
    tied : int
        Events that share their ``available_at`` with another.
    largest_tie : int
        How many events share the most crowded instant; 1 if no events are tied, 0 for an empty log.
    duplicates : int
        Events whose entity, event time, kind, text and features all equal those of another event with
        another id (beyond the first of them). Rows refused as duplicates are among the rejects.
    gaps : tuple of Gap
        The longest stretches without any event, longest first.
    null_text : int
        Events without text.
    null_features : mapping of str to int
        Events without each feature.
    """

    events: int
    rejects: Mapping[str, int]
    rows_read: int | None
    rows_refused: int | None
    bare_dates: int | None
    entities: Mapping[str, int]
    market_wide: int
    kinds: Mapping[str, int]
    first: int | None
    last: int | None
    first_event: int | None
    last_event: int | None
    revisions: int
    retractions: int | None
    lag_quantiles: Mapping[float, int]
    session_parts: Mapping[str, int]
    calendar: str
    tied: int
    largest_tie: int
    duplicates: int
    gaps: tuple[Gap, ...]
    null_text: int
    null_features: Mapping[str, int]

    @property
    def outside_session(self) -> float:
        """The share of events that became available outside the sessions of the calendar; NaN without any."""
        known = self.events - self.session_parts["unknown"]
        return 1.0 - self.session_parts["in_session"] / known if known else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as plain values that JSON holds: times as text, durations in seconds."""
        plain = asdict(self)
        for name in ("first", "last", "first_event", "last_event"):
            plain[name] = None if plain[name] is None else iso(plain[name])
        plain["lag_quantiles"] = {str(q): lag / 1e9 for q, lag in self.lag_quantiles.items()}
        plain["gaps"] = [
            {"start": iso(gap.start), "end": iso(gap.end), "seconds": gap.length / 1e9} for gap in self.gaps
        ]
        return plain

    def __str__(self) -> str:
        """Give the summary as aligned text."""
        return as_text(self)

    __repr__ = __str__


def summarise(
    events: pl.DataFrame,
    features: tuple[str, ...],
    rejects: Mapping[str, int],
    taken: Taken | None,
    calendar: str,
) -> EventSummary:
    """Describe events that are all at hand, in canonical order.

    Raises
    ------
    CalendarError
        If `calendar` is unknown.
    """
    tally = Tally(features, calendar)
    tally.add(events)
    return put_together(
        tally,
        calendar,
        rejects,
        taken,
        available=iter([nanoseconds_of(events["available_at"])]),
        lag=iter([np.sort(lags(events))]),
        content=iter([np.sort(content_hashes(events, features))]),
        retractions=int(is_retraction(events, features).sum()),
    )


def put_together(
    tally: Tally,
    calendar: str,
    rejects: Mapping[str, int],
    taken: Taken | None,
    *,
    available: Iterable[Nanoseconds],
    lag: Iterable[Nanoseconds],
    content: Iterable[npt.NDArray[np.uint64]],
    retractions: int | None,
) -> EventSummary:
    """Make a summary from counts and from sequences in nondecreasing order, which may come in parts."""
    tied, largest, gaps = ties_and_gaps(available, _GAPS)
    places = [int(quantile * (tally.events - 1)) for quantile in QUANTILES] if tally.events else []
    first, last = tally.span("available_at")
    first_event, last_event = tally.span("event_time")
    return EventSummary(
        events=tally.events,
        rejects=dict(rejects),
        rows_read=None if taken is None else taken.rows,
        rows_refused=None if taken is None else taken.refused,
        bare_dates=None if taken is None else taken.dates,
        entities=by_frequency(tally.entities),
        market_wide=tally.market_wide,
        kinds=by_frequency(tally.kinds),
        first=first,
        last=last,
        first_event=first_event,
        last_event=last_event,
        revisions=tally.revisions,
        retractions=retractions,
        lag_quantiles=dict(zip(QUANTILES, pick(lag, places), strict=False)),
        session_parts=dict(zip(PARTS, tally.parts.tolist(), strict=True)),
        calendar=calendar,
        tied=tied,
        largest_tie=largest,
        duplicates=tally.events - count_distinct(content),
        gaps=tuple(Gap(start, end) for start, end in gaps),
        null_text=tally.null_text,
        null_features=tally.null_features,
    )
