"""The books of all entities and of the market, and what an event that passes between them does to both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from quantattn.errors import StateError
from quantattn.forecasters.streaming.information.book import Book, Key, Known


class Version(NamedTuple):
    """An event version as the books take it.

    Attributes
    ----------
    event_id : str
        Its event.
    revision : int
        Which version, from 0.
    event_time, available_at : int
        Nanoseconds since the epoch, UTC.
    values : dict of int to float
        Features by place; those that it lacks are left out.
    """

    event_id: str
    revision: int
    event_time: int
    available_at: int
    values: dict[int, float]


class Books:
    """Features as they stand for every entity.

    An entity's own events come first, and market-wide ones where none of those has a feature. Of an event
    that has versions in both, the highest revision alone counts, but only for that entity: other readers of
    the market never saw the versions that are its own.

    Parameters
    ----------
    features : sequence of str
        Names, for messages.
    depth : int
        How many events each book keeps for each feature.
    """

    def __init__(self, features: Sequence[str], depth: int) -> None:
        self._features = tuple(features)
        self._depth = depth
        self.market = Book(len(self._features), depth, self._release_market)
        self.own: dict[str, Book] = {}
        self.foreign: set[str] = set()
        """Events in the market's lists whose revision 0 some entity may have seen, and forgotten."""
        self.holders: dict[str, tuple[Book, ...]] = {}
        """By event id, the entities' books that know of it."""

    def open(self, entity: str) -> Book:
        """Give the book of an entity, an empty one if it has none yet."""
        book = self.own.get(entity)
        if book is None:
            book = self.own[entity] = Book(len(self._features), self._depth, self._release_own)
        return book

    def see_own(self, entity: str, version: Version) -> None:
        """Take an entity's own event version."""
        book = self.own.get(entity) or self.open(entity)
        event_id, revision, happened, available, values = version
        known = book.events.get(event_id)
        if known is not None:
            if revision > known.revision:
                book.revise(known, happened, revision, values)
            return
        wide = self.market.events.get(event_id)
        if wide is None:
            exact = not revision or not (book.dropped or self.market.dropped)
            known = Known((happened, available, event_id), revision, exact, not revision, values)
        else:
            # Only revision 0 is ever forgotten without a trace, so where the market saw it, nobody else did.
            exact = wide.exact and (wide.whole or not book.dropped)
            highest = max(revision, wide.revision)
            standing = values if revision > wide.revision else {}
            known = Known((happened, wide.key[1], event_id), highest, exact, not revision, standing)
            if wide.held:
                book.shared.add(event_id)
        book.events[event_id] = known
        self.holders[event_id] = (*self.holders.get(event_id, ()), book)
        book.put(known)

    def see_market(self, version: Version) -> None:
        """Take a market-wide event version."""
        book = self.market
        event_id, revision, happened, available, values = version
        known = book.events.get(event_id)
        if known is None:
            exact = not revision or not book.dropped
            known = Known((happened, available, event_id), revision, exact, not revision, values)
            book.events[event_id] = known
            book.put(known)
        elif revision > known.revision:
            book.revise(known, happened, revision, values)
        else:
            if not revision:
                known.whole = True
                self.foreign.discard(event_id)
            return
        if known.held and not known.whole:
            self.foreign.add(event_id)
        for mine in self.holders.get(event_id, ()):
            its = mine.events[event_id]
            if revision > its.revision:
                mine.remove(its)
                its.revision, its.values = revision, {}
            if known.held:
                mine.shared.add(event_id)

    def values(self, entity: str) -> npt.NDArray[np.float64]:
        """Give every feature as it stands for an entity; NaN where there is none.

        Raises
        ------
        StateError
            If one depends on what was forgotten.
        """
        book, market = self.own.get(entity), self.market
        if book is None:
            if market.lost:
                self._refuse(entity, *next(iter(market.lost.items())))
            return market.current.copy()
        if book.lost or market.lost or book.shared or (self.foreign and book.dropped):
            return self._values_one_by_one(entity, book)
        own = book.current
        return np.where(own == own, own, market.current)

    def _values_one_by_one(self, entity: str, book: Book) -> npt.NDArray[np.float64]:
        found = book.current.copy()
        for feature, kept in enumerate(book.kept):
            if feature in book.lost:
                self._refuse(entity, feature, book.lost[feature])
            if not kept:
                found[feature] = self._market_value(entity, book, feature)
        return found

    def _market_value(self, entity: str, book: Book, feature: int) -> float:
        """Find a feature's market-wide value for an entity that has versions of market-wide events."""
        best: Known | None = None
        best_key: Key = (0, 0, "")
        certain, several = False, False
        for event in reversed(self.market.kept[feature]):
            if best is not None and event.key[0] < best_key[0]:
                break
            its = book.events.get(event.key[2])
            if its is None:
                key, exact = event.key, event.exact and (event.whole or not book.dropped)
            elif its.revision > event.revision:
                continue  # It is superseded for this entity.
            else:
                key, exact = (event.key[0], its.key[1], event.key[2]), its.exact
            several = best is not None
            if best is None or key > best_key:
                best, best_key, certain = event, key, exact
        floor = self.market.floors[feature]
        if best is None:
            if floor is None:
                return np.nan
            self._refuse(entity, feature, self.market.lost.get(feature, floor[2]))
        # Forgotten events keep below the floor: the entity can only have known them earlier than the market.
        if certain:
            certain = floor is None or best_key > floor
        else:
            certain = not several and (floor is None or best_key[0] > floor[0])
        if not certain:
            self._refuse(entity, feature, best.key[2])
        return best.values[feature]

    def _refuse(self, entity: str, feature: int, event_id: str) -> NoReturn:
        raise StateError(
            f"feature {self._features[feature]!r} as it stands for entity {entity!r} is not certain: "
            f"revisions reached beyond the {self._depth} latest events that are remembered of each feature "
            f"(event {event_id!r}); replay the log with a larger book_depth than {self._depth}"
        )

    def _release_own(self, book: Book, event: Known) -> None:
        if event.revision:
            event.values = {}
            return
        event_id = event.key[2]
        del book.events[event_id]
        book.dropped = True
        others = self.holders.pop(event_id)
        if len(others) > 1:
            self.holders[event_id] = tuple(other for other in others if other is not book)

    def _release_market(self, book: Book, event: Known) -> None:
        event_id = event.key[2]
        if not event.whole:
            self.foreign.discard(event_id)
        for mine in self.holders.get(event_id, ()):
            mine.shared.discard(event_id)
        if event.revision:
            event.values = {}
            return
        del book.events[event_id]
        book.dropped = True
