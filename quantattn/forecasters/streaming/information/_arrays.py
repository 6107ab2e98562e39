"""What live information remembers, as plain arrays.

A memory holds one book for the market and one for each entity, in this order. Texts are UTF-8 bytes and the
offsets at which they begin and end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain as chained
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from quantattn.forecasters.streaming.information._books import Books
from quantattn.forecasters.streaming.information._chains import Chains, arrays_of

Array = npt.NDArray[np.generic]
Memory = Mapping[str, Array]

_TEXTS: Final = ("features", "scope", "entities", "event_ids", "floor_ids", "lost_ids")
_NUMBERS: Final = (
    *("depth", "joined", "count", "newest", "event_book", "event_time", "first_available", "revision"),
    *(
        "value_offsets",
        "value_feature",
        "kept_offsets",
        "kept",
        "bare_offsets",
        "bare",
        "floor_time",
        "floor_available",
        "lost",
    ),
)
TYPES: Final[dict[str, type[np.generic]]] = {
    **dict.fromkeys(_NUMBERS, np.int64),
    **dict.fromkeys(("dropped", "exact", "whole", "floor_there"), np.bool_),
    **{f"{name}_bytes": np.uint8 for name in _TEXTS},
    **{f"{name}_offsets": np.int64 for name in _TEXTS},
    "chain": np.uint64,
    "value": np.float64,
}


def memory_of(
    features: Sequence[str], scope: str, depth: int, books: Books, chains: Chains
) -> dict[str, Array]:
    """Give copies of everything as arrays; :func:`~._information_reading.restored` takes them."""
    entities = list(chains.own)
    all_books = [books.market, *(books.own[entity] for entity in entities)]
    chain, joined, count, newest = arrays_of([chains.market, *chains.own.values()])
    events = [event for book in all_books for event in book.events.values()]
    values = [sorted(event.values.items()) for event in events]
    kept = [events_of for book in all_books for events_of in book.kept]
    place = {id(event): number for number, event in enumerate(events)}
    floors = [floor for book in all_books for floor in book.floors]
    wide = len(features)
    lost = sorted(
        (number * wide + feature, event_id)
        for number, book in enumerate(all_books)
        for feature, event_id in book.lost.items()
    )
    found: dict[str, Array] = {
        "depth": _integers([depth]),
        "chain": chain,
        "joined": joined,
        "count": count,
        "newest": newest,
        "dropped": _flags(book.dropped for book in all_books),
        "event_book": np.repeat(np.arange(len(all_books)), [len(book.events) for book in all_books]),
        "event_time": _integers(event.key[0] for event in events),
        "first_available": _integers(event.key[1] for event in events),
        "revision": _integers(event.revision for event in events),
        "exact": _flags(event.exact for event in events),
        "whole": _flags(event.whole for event in events),
        "value_offsets": _offsets(map(len, values)),
        "value_feature": _integers(feature for pairs in values for feature, _ in pairs),
        "value": np.array([value for pairs in values for _, value in pairs], dtype=np.float64),
        "kept_offsets": _offsets(map(len, kept)),
        "kept": _integers(place[id(event)] for event in chained.from_iterable(kept)),
        "bare_offsets": _offsets(len(book.bare) for book in all_books),
        "bare": _integers(place[id(event)] for book in all_books for event in book.bare.values()),
        "floor_there": _flags(floor is not None for floor in floors),
        "floor_time": _integers(floor[0] if floor else 0 for floor in floors),
        "floor_available": _integers(floor[1] if floor else 0 for floor in floors),
        "lost": _integers(number for number, _ in lost),
    }
    texts: dict[str, list[str]] = {
        "features": list(features),
        "scope": [scope],
        "entities": entities,
        "event_ids": [event.key[2] for event in events],
        "floor_ids": [floor[2] if floor else "" for floor in floors],
        "lost_ids": [event_id for _, event_id in lost],
    }
    for name, column in texts.items():
        encoded = [text.encode() for text in column]
        found[f"{name}_bytes"] = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
        found[f"{name}_offsets"] = _offsets(map(len, encoded))
    return found


def _integers(numbers: Any) -> npt.NDArray[np.int64]:
    return np.array(list(numbers), dtype=np.int64)


def _flags(flags: Any) -> npt.NDArray[np.bool_]:
    return np.array(list(flags), dtype=np.bool_)


def _offsets(sizes: Any) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(_integers(sizes))]).astype(np.int64)
