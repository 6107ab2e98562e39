"""Counts over events that come in parts, and measures of values that come in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import CalendarError
from quantattn.pit.events.sessions import PARTS, session_parts
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of

_CONTENT = ("entity", "event_time", "kind", "text")


class Tally:
    """What can be counted part by part, in any order of the events.

    Parameters
    ----------
    features : sequence of str
        The feature columns.
    calendar : str
        The trading calendar of the session parts.
    """

    def __init__(self, features: Sequence[str], calendar: str) -> None:
        if not isinstance(calendar, str):
            raise CalendarError(f"calendar={calendar!r} is no trading calendar; write for example 'XNYS'")
        self._calendar = calendar
        self.events = self.market_wide = self.revisions = self.null_text = 0
        self.entities: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.parts = np.zeros(len(PARTS), dtype=np.int64)
        self.null_features = dict.fromkeys(features, 0)
        self._spans: dict[str, list[int]] = {"available_at": [], "event_time": []}

    def add(self, events: pl.DataFrame) -> None:
        """Count events, which have the log's columns."""
        if events.is_empty():
            return
        self.events += events.height
        self.market_wide += events["entity"].null_count()
        self.revisions += int((events["revision"] > 0).sum())
        self.null_text += events["text"].null_count()
        for name in self.null_features:
            self.null_features[name] += events[name].null_count()
        for counter, name in ((self.entities, "entity"), (self.kinds, "kind")):
            counts = events[name].drop_nulls().value_counts()
            counter.update(dict(counts.iter_rows()))
        for name, span in self._spans.items():
            stamps = nanoseconds_of(events[name])
            span[:] = [min([*span, int(stamps.min())]), max([*span, int(stamps.max())])]
        places = session_parts(nanoseconds_of(events["available_at"]), self._calendar)
        self.parts += np.bincount(places, minlength=len(PARTS))

    def span(self, name: str) -> tuple[int | None, int | None]:
        """Give the first and last instant of a time column, nanoseconds since the epoch."""
        span = self._spans[name]
        return (span[0], span[-1]) if span else (None, None)


def by_frequency(counter: Counter[str]) -> dict[str, int]:
    """Give counts, the greatest first and equal ones by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def lags(events: pl.DataFrame) -> Nanoseconds:
    """Give ``available_at - event_time`` in nanoseconds, at most what 64 bits hold."""
    known, happened = nanoseconds_of(events["available_at"]), nanoseconds_of(events["event_time"])
    lag = known - happened
    held = np.iinfo(np.int64)
    lag[(known >= 0) & (happened < 0) & (lag < 0)] = held.max
    lag[(known < 0) & (happened >= 0) & (lag >= 0)] = held.min
    return lag


def content_hashes(events: pl.DataFrame, features: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash what events say, whatever their ids, versions and availability."""
    return events.select(*_CONTENT, *features).hash_rows(seed=0).to_numpy()


def pick(ordered: Iterable[npt.NDArray[np.int64]], places: Sequence[int]) -> list[int]:
    """Give the values at places of a sequence that comes in parts."""
    wanted, found, start = sorted(set(places)), {}, 0
    for part in ordered:
        for place in wanted:
            if start <= place < start + part.size:
                found[place] = int(part[place - start])
        start += part.size
    return [found[place] for place in places]


def count_distinct(ordered: Iterable[npt.NDArray[np.uint64]]) -> int:
    """Count the distinct values of a nondecreasing sequence that comes in parts."""
    distinct, last = 0, None
    for part in ordered:
        if part.size:
            distinct += int(np.count_nonzero(part[1:] != part[:-1])) + int(last is None or part[0] != last)
            last = part[-1]
    return distinct


def ties_and_gaps(ordered: Iterable[Nanoseconds], most: int) -> tuple[int, int, list[tuple[int, int]]]:
    """Measure a nondecreasing sequence of instants that comes in parts.

    Parameters
    ----------
    ordered : iterable of ndarray of int64
        Nanoseconds since the epoch.
    most : int
        How many gaps to keep.

    Returns
    -------
    tied : int
        How many instants are shared with a neighbour.
    largest : int
        The size of the largest group of equal instants.
    gaps : list of (int, int)
        Start and end of the longest steps, the longest and earliest first.
    """
    tied = largest = count = 0
    last: int | None = None
    gaps: list[tuple[int, int]] = []
    for part in ordered:
        values, counts = np.unique(part, return_counts=True)
        if not values.size:
            continue
        if last is not None and values[0] == last:
            # This tie began in the part before.
            counts[0] += count
            tied -= count if count > 1 else 0
        elif last is not None:
            gaps.append((last, int(values[0])))
        tied += int(counts[counts > 1].sum())
        largest = max(largest, int(counts.max()))
        # Unsigned, because a step may be longer than 292 years.
        unsigned: npt.NDArray[np.uint64] = values.view(np.uint64)
        steps = unsigned[1:] - unsigned[:-1]
        longest = np.argsort(np.bitwise_not(steps), kind="stable")[:most]
        gaps += [(int(values[place]), int(values[place + 1])) for place in longest]
        gaps = sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:most]
        last, count = int(values[-1]), int(counts[-1])
    return tied, largest, gaps
