"""What live information remembers, read back from plain arrays of which every part is checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from quantattn.errors import StateError
from quantattn.forecasters.streaming.information._arrays import TYPES, Memory
from quantattn.forecasters.streaming.information._books import Books
from quantattn.forecasters.streaming.information._chains import Chain, Chains
from quantattn.forecasters.streaming.information.book import Book, Known
from quantattn.pit.dataset.one_event import PRIME


def restored(memory: Memory, features: Sequence[str], scope: str, depth: int) -> tuple[Books, Chains]:
    """Make what :func:`~._information_arrays.memory_of` was given.

    Raises
    ------
    StateError
        If the memory is damaged, or of other features, another scope or depth.
    """
    return _Reader(memory, features, scope, depth).read()


def _refuse(why: str) -> NoReturn:
    raise StateError(
        f"the memory of the information sets is damaged: {why}; restore another snapshot, or replay the log"
    )


def _hold(what: str, fits: object) -> None:
    if not fits:
        _refuse(what)


class _Reader:
    """One reading of a memory; every part is checked before it is used."""

    def __init__(self, memory: Memory, features: Sequence[str], scope: str, depth: int) -> None:
        self._memory = memory
        self._features, self._scope, self._depth = tuple(features), scope, depth

    def read(self) -> tuple[Books, Chains]:
        self._check_arrays()
        self._refuse_others()
        self._entities = self._texts("entities")
        _hold("an entity occurs twice", len(set(self._entities)) == len(self._entities))
        chains = self._chains()
        books = Books(self._features, self._depth)
        all_books = [books.market, *map(books.open, self._entities)]
        events = self._events(all_books)
        self._lists(all_books, events)
        self._bare(all_books, events)
        for event in events:
            if not event.held:
                gone = event.revision > 0 and not event.values
                _hold(f"event {event.key[2]!r} is remembered for nothing", gone)
            if not event.revision:
                _hold(f"event {event.key[2]!r} lacks its revision 0", event.whole)
        _connect(books)
        return books, chains

    def _check_arrays(self) -> None:
        missing, unknown = TYPES.keys() - self._memory.keys(), self._memory.keys() - TYPES.keys()
        if missing or unknown:
            _refuse(f"arrays {sorted(missing)} are missing and {sorted(unknown)} unknown")
        for name, wanted in TYPES.items():
            array = self._memory[name]
            if not isinstance(array, np.ndarray) or array.dtype != wanted:
                kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                _refuse(f"{name} is of type {kind}, not an array of {np.dtype(wanted)}")
            if array.ndim != (2 if name == "chain" else 1):
                _refuse(f"{name} has shape {array.shape}")

    def _refuse_others(self) -> None:
        scope, stored = self._texts("scope", 1)[0], self._list("depth", 1)[0]
        for what, theirs, ours in (
            ("features", tuple(self._texts("features")), self._features),
            ("scope", scope, self._scope),
            ("depth", stored, self._depth),
        ):
            if theirs != ours:
                raise StateError(
                    f"the memory of the information sets has {what} {theirs!r}, not {ours!r}; restore it "
                    f"with the {what} that it was made with"
                )

    def _list(self, name: str, size: int) -> list[Any]:
        array = self._memory[name]
        _hold(f"{name} has shape {array.shape}, not {size} rows", array.shape[0] == size)
        found: list[Any] = array.tolist()
        return found

    def _bounds(self, name: str, count: int | None, size: int) -> list[int]:
        offsets = self._memory[name]
        count = offsets.size - 1 if count is None else count
        found: list[int] = self._list(name, count + 1)
        rises = count >= 0 and found[0] == 0 and found[-1] == size and bool((np.diff(offsets) >= 0).all())
        _hold(f"{name} do not rise from 0 to {size}", rises)
        return found

    def _texts(self, name: str, count: int | None = None) -> list[str]:
        content = self._memory[f"{name}_bytes"].tobytes()
        bounds = self._bounds(f"{name}_offsets", count, len(content))
        try:
            return [content[begin:end].decode() for begin, end in pairwise(bounds)]
        except UnicodeDecodeError as error:
            _refuse(f"{name} are not UTF-8 ({error.reason})")

    def _chains(self) -> Chains:
        count = 1 + len(self._entities)
        _hold(f"chain has shape {self._memory['chain'].shape}", self._memory["chain"].shape == (count, 2))
        values = [low | high << 64 for low, high in self._list("chain", count)]
        rest = [self._list(name, count) for name in ("joined", "count", "newest")]
        made = [Chain(*state) for state in zip(values, *rest, strict=True)]
        market = made[0]
        _hold("a chain is no number of its field", max(values) < PRIME)
        _hold("the market joined itself", market.joined == 0 and market.count >= 0)
        fits = all(0 <= chain.joined <= market.count and chain.count > 0 for chain in made[1:])
        _hold("a chain counts events that were not there", fits)
        chains = Chains()
        chains.market = market
        chains.own = dict(zip(self._entities, made[1:], strict=True))
        return chains

    def _events(self, books: list[Book]) -> list[Known]:
        owners = self._memory["event_book"]
        size = owners.shape[0]
        ids = self._texts("event_ids", size)
        names = ("event_book", "event_time", "first_available", "revision", "exact", "whole")
        columns = [self._list(name, size) for name in names]
        _hold(
            "events are of unknown books",
            size == 0 or (min(columns[0]) >= 0 and max(columns[0]) < len(books)),
        )
        _hold("events are not sorted by book", bool((np.diff(owners) >= 0).all()))
        _hold("a revision is negative", size == 0 or min(columns[3]) >= 0)
        number = self._memory["value"].shape[0]
        bounds = self._bounds("value_offsets", size, number)
        places, values = self._list("value_feature", number), self._list("value", number)
        _hold("a value is not finite", bool(np.isfinite(self._memory["value"]).all()))
        wide = len(self._features)
        events: list[Known] = []
        for event_id, (begin, end), owner, happened, first, revision, exact, whole in zip(
            ids, pairwise(bounds), *columns, strict=True
        ):
            mine = places[begin:end]
            rising = all(a < b for a, b in pairwise([-1, *mine, wide]))
            _hold(f"features of event {event_id!r} are not in their order", rising)
            book = books[owner]
            _hold(f"event {event_id!r} occurs twice in a book", event_id not in book.events)
            standing = dict(zip(mine, values[begin:end], strict=True))
            known = Known((happened, first, event_id), revision, exact, whole, standing)
            book.events[event_id] = known
            events.append(known)
        for book, dropped in zip(books, self._list("dropped", len(books)), strict=True):
            book.dropped = dropped
        return events

    def _lists(self, books: list[Book], events: list[Known]) -> None:
        wide = len(self._features)
        size = wide * len(books)
        number = self._memory["kept"].shape[0]
        bounds, kept = self._bounds("kept_offsets", size, number), self._list("kept", number)
        _hold("lists hold unknown events", not kept or (min(kept) >= 0 and max(kept) < len(events)))
        there = self._list("floor_there", size)
        floors = zip(
            self._list("floor_time", size),
            self._list("floor_available", size),
            self._texts("floor_ids", size),
            strict=True,
        )
        lost = self._memory["lost"]
        names = dict(zip(lost.tolist(), self._texts("lost_ids", lost.shape[0]), strict=True))
        for place, (floor, known) in enumerate(zip(floors, there, strict=True)):
            book, feature = books[place // wide], place % wide
            mine = [events[number] for number in kept[bounds[place] : bounds[place + 1]]]
            where = f"the list of feature {self._features[feature]!r} in book {place // wide}"
            _hold(f"{where} is longer than {self._depth}", len(mine) <= self._depth)
            for event in mine:
                fits = feature in event.values and book.events.get(event.key[2]) == event
                _hold(f"{where} holds event {event.key[2]!r}, which lacks it", fits)
                event.held += 1
            keys = [event.key for event in mine]
            if known:
                book.floors[feature] = floor
                keys.insert(0, floor)
            _hold(f"{where} is not sorted", all(a < b for a, b in pairwise(keys)))
            _hold(f"{where} is lost without a reason", (place in names) == (known and not mine))
            book.kept[feature] = mine
            if mine:
                book.current[feature] = mine[-1].values[feature]
            elif known:
                book.lost[feature] = names[place]
        _hold("unknown lists are lost", all(0 <= place < size for place in names))

    def _bare(self, books: list[Book], events: list[Known]) -> None:
        number = self._memory["bare"].shape[0]
        bounds, bare = self._bounds("bare_offsets", len(books), number), self._list("bare", number)
        _hold("unknown events are bare", not bare or (min(bare) >= 0 and max(bare) < len(events)))
        for book, (begin, end) in zip(books, pairwise(bounds), strict=True):
            _hold(f"more than {self._depth} events are bare", end - begin <= self._depth)
            for event in (events[place] for place in bare[begin:end]):
                event_id = event.key[2]
                fits = book.events.get(event_id) == event and not event.values and not event.revision
                _hold(f"event {event_id!r} is not bare, or is so twice", fits and event_id not in book.bare)
                book.bare[event_id] = event
                event.held = 1


def _connect(books: Books) -> None:
    """Find again which events an entity shares with the market, and which ones are foreign to it."""
    for book in books.own.values():
        for event_id in book.events:
            books.holders[event_id] = (*books.holders.get(event_id, ()), book)
            wide = books.market.events.get(event_id)
            if wide is not None and wide.held:
                book.shared.add(event_id)
    books.foreign.update(
        event_id for event_id, event in books.market.events.items() if event.held and not event.whole
    )
