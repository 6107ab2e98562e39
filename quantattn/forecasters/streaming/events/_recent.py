"""The ids that were written last, and how far back those reach that are forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from quantattn.forecasters.streaming.events.event import Key

Id = tuple[str, int]
"""Event id and revision."""


class Recent:
    """The last so many event versions, each with the key that it was written with.

    Parameters
    ----------
    most : int
        So many are known.

    Attributes
    ----------
    forgotten : tuple or None
        The highest key of those that are no longer known; None while nothing is forgotten.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.forgotten: Key | None = None
        self._keys: dict[Id, Key] = {}

    def __contains__(self, version: object) -> bool:
        """Whether an event version is known."""
        return version in self._keys

    def __len__(self) -> int:
        """Give how many are known."""
        return len(self._keys)

    def get(self, version: Id) -> Key | None:
        """Give the key that an event version was written with; None if it is not known."""
        return self._keys.get(version)

    def in_order(self) -> Iterator[Key]:
        """Give the keys of those that are known, in the order in which they were written."""
        return iter(self._keys.values())

    def isdisjoint(self, versions: Iterator[Any]) -> bool:
        """Whether none of several event versions is known."""
        return self._keys.keys().isdisjoint(versions)

    def add(self, key: Key) -> None:
        """Remember one more, and forget the oldest where they are too many."""
        self._keys[key[2:]] = key
        if len(self._keys) > self.most:
            self._forget(self._keys.pop(next(iter(self._keys))))

    def _forget(self, gone: Key) -> None:
        if self.forgotten is None or gone > self.forgotten:
            self.forgotten = gone

    def on_trial(self) -> Recent:
        """Give one that goes on from this one and leaves it as it is."""
        return _OnTrial(self)


class _OnTrial(Recent):
    """Holds what is added and what is forgotten since, over another one that is not copied."""

    def __init__(self, before: Recent) -> None:
        super().__init__(before.most)
        self.forgotten = before.forgotten
        self._before = before
        self._oldest = before.in_order()
        self._left = len(before)
        self._added: deque[Key] = deque()
        self._gone: set[Id] = set()

    def __contains__(self, version: object) -> bool:
        if version in self._keys:
            return True
        return version in self._before and version not in self._gone

    def add(self, key: Key) -> None:
        self._keys[key[2:]] = key
        self._added.append(key)
        if self._left + len(self._added) <= self.most:
            return
        if self._left:
            self._left -= 1
            gone = next(self._oldest)
            self._gone.add(gone[2:])
        else:
            gone = self._added.popleft()
            del self._keys[gone[2:]]
        self._forget(gone)
