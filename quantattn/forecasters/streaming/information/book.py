"""What one slot, an entity's own events or the market's, remembers to tell features as they stand.

The rule is that of :mod:`quantattn.pit.dataset.as_of`: every event counts once, by its highest revision, and
a feature's value is that of the event with the greatest key among those that have it. The key is
``(event_time, first available_at of any version, event_id)``.

A book keeps the greatest keys of each feature and forgets the rest. For each feature it knows a *floor*: all
current events with a greater key are kept, and none of those that were forgotten has a greater one. So what
is kept is always the true top of the list, and a list that revisions have emptied down to the floor is
*lost*: its value is unknown until an event above the floor comes.

Events without any feature are kept too, the last ones to arrive, for a revision may give them some. An event
of which only revision 0 was seen may be forgotten without a trace. If a revision of it comes later,
all is known but when its first version became available, which matters among events that happened at once.
The key then holds the latest instant that it can have been, the event is not *exact*, and where the order of
two events is not certain, all that happened then or before is forgotten. An event that was ever revised
leaves its id and revision for good, so that an older version that comes late is known to be superseded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

Key = tuple[int, int, str]

LAST: Final = 2**63 - 1
"""An instant after all others: no event's first version became available then."""

_key_of = attrgetter("key")


class Known:
    """What a book knows of an event.

    Attributes
    ----------
    key : tuple of int, int, str
        When it happened, when its first version became available (at the latest, if not `exact`), its id.
    revision : int
        The highest that was seen; in an entity's book, among market-wide versions too.
    exact : bool
        Whether the second part of the key is certain.
    whole : bool
        Whether revision 0 was seen here, so that no other slot can have seen it.
    values : dict of int to float
        Features of the current version, by place; empty where none is held.
    held : int
        In how many features' lists it is; 1 for one that is kept without features.
    """

    __slots__ = ("exact", "held", "key", "revision", "values", "whole")

    def __init__(
        self, key: Key, revision: int, exact: bool, whole: bool, values: dict[int, float], held: int = 0
    ) -> None:
        self.key = key
        self.revision = revision
        self.exact = exact
        self.whole = whole
        self.values = values
        self.held = held


class Book:
    """The events that one slot remembers.

    Parameters
    ----------
    width : int
        Number of features.
    depth : int
        How many events to keep for each.
    release : callable
        Called with the book and an event that is in no list any more.

    Attributes
    ----------
    current : ndarray of float64, shape (width,)
        Values as they stand; NaN where there is none, or it is lost.
    kept : list of list of Known
        By feature, the least key first.
    floors : list of Key or None
        By feature, the greatest key that a forgotten event can have; None if nothing was forgotten.
    lost : dict of int to str
        Features whose value depends on what was forgotten, and the id of the event that made it so.
    events : dict of str to Known
        By id: all that are in a list, and all that were ever revised.
    bare : dict of str to Known
        Of these, those that never had a feature, the oldest first.
    dropped : bool
        Whether an event was forgotten without a trace.
    shared : set of str
        In an entity's book, the ids of its events that the market's lists hold too.
    """

    __slots__ = (
        "_release",
        "bare",
        "current",
        "depth",
        "dropped",
        "events",
        "floors",
        "kept",
        "lost",
        "shared",
    )

    def __init__(self, width: int, depth: int, release: Callable[[Book, Known], None]) -> None:
        self.current: npt.NDArray[np.float64] = np.full(width, np.nan)
        self.depth = depth
        self.kept: list[list[Known]] = [[] for _ in range(width)]
        self.floors: list[Key | None] = [None] * width
        self.lost: dict[int, str] = {}
        self.events: dict[str, Known] = {}
        self.bare: dict[str, Known] = {}
        self.dropped = False
        self.shared: set[str] = set()
        self._release = release

    def put(self, event: Known) -> None:
        """Take an event, which is in no list, into those of its features."""
        if not event.values and not event.revision:
            self._keep_bare(event)
            return
        happened = event.key[0]
        held = 0
        for feature, value in event.values.items():
            kept = self.kept[feature]
            # Most events happened after all others: they are above any floor, and in no doubt.
            if kept and kept[-1].key[0] < happened:
                kept.append(event)
                self.current[feature] = value
                held += 1
                if len(kept) > self.depth:
                    self._forget_least(feature, kept)
            elif self._insert(feature, kept, event, value):
                held += 1
        event.held = held
        if not held:
            self._release(self, event)

    def remove(self, event: Known) -> None:
        """Take a version that was superseded out of all lists."""
        if not event.held:
            return
        if not event.values:
            del self.bare[event.key[2]]
        for feature in event.values:
            kept = self.kept[feature]
            place = bisect_left(kept, event.key, key=_key_of)
            if place == len(kept) or kept[place] is not event:
                continue
            del kept[place]
            if not kept:
                self._empty(feature, event)
            elif place == len(kept):
                self.current[feature] = kept[-1].values[feature]
        event.held = 0

    def revise(self, event: Known, happened: int, revision: int, values: dict[int, float]) -> None:
        """Let a higher revision take the place of the current version."""
        self.remove(event)
        event.key = (happened, event.key[1], event.key[2])
        event.revision = revision
        event.values = values
        self.put(event)

    def _keep_bare(self, event: Known) -> None:
        self.bare[event.key[2]] = event
        event.held = 1
        if len(self.bare) > self.depth:
            oldest = self.bare.pop(next(iter(self.bare)))
            oldest.held = 0
            self._release(self, oldest)

    def _insert(self, feature: int, kept: list[Known], event: Known, value: float) -> bool:
        """Find the place of an event in a list, and say whether it is in."""
        key, floor = event.key, self.floors[feature]
        if floor is not None and key <= floor:
            return False
        place = bisect_right(kept, key, key=_key_of)
        if self._in_doubt(kept, place, event, floor):
            self._forget_until(feature, kept, event)
            return False
        kept.insert(place, event)
        if self.lost:
            self.lost.pop(feature, None)
        if kept[-1] is event:
            self.current[feature] = value
        if len(kept) > self.depth:
            self._forget_least(feature, kept, event)
        return kept[0] is event or place > 0

    @staticmethod
    def _in_doubt(kept: list[Known], place: int, event: Known, floor: Key | None) -> bool:
        """Say whether an event might stand elsewhere, had its first version or another's been remembered."""
        happened = event.key[0]
        if not event.exact:
            if floor is not None and floor[0] == happened:
                return True
            if place and kept[place - 1].key[0] == happened:
                return True
        # A greater key is certainly greater if it is exact.
        while place < len(kept) and kept[place].key[0] == happened:
            if not kept[place].exact:
                return True
            place += 1
        return False

    def _forget_least(self, feature: int, kept: list[Known], entering: Known | None = None) -> None:
        least = kept.pop(0)
        self.floors[feature] = least.key
        if least is not entering:
            least.held -= 1
            if not least.held:
                self._release(self, least)

    def _forget_until(self, feature: int, kept: list[Known], event: Known) -> None:
        """Forget all that happened when `event` did, or before."""
        floor = (event.key[0], LAST, "")
        place = bisect_right(kept, floor, key=_key_of)
        gone = kept[:place]
        del kept[:place]
        self.floors[feature] = floor
        if not kept:
            self._empty(feature, event)
        for other in gone:
            other.held -= 1
            if not other.held:
                self._release(self, other)

    def _empty(self, feature: int, event: Known) -> None:
        self.current[feature] = np.nan
        if self.floors[feature] is not None:
            self.lost[feature] = event.key[2]
