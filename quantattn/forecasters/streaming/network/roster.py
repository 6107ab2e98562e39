"""The entities of a stream by name, and their memories: made, copied, taken away and put back."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from quantattn.errors import StateError
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.network.cache import CachePolicy
from quantattn.forecasters.streaming.network.kernels.plan import (
    ASKED,
    COUNT,
    LAST_EVENT,
    LEAST_READ,
    LEAST_WRITTEN,
)
from quantattn.forecasters.streaming.network.packing import PackedNetwork
from quantattn.forecasters.streaming.network.states import (
    Arrays,
    Header,
    LinearMemories,
    Memories,
    Shapes,
    SoftmaxMemories,
)
from quantattn.forecasters.tokens import Integers

_ONE: Shapes = {
    "last_event": ((1,), np.int64),
    "count": ((1,), np.int64),
    "least_denominator": ((1,), np.float64),
}


class Roster:
    """The memories of a stream's entities.

    Parameters
    ----------
    packed : PackedNetwork
        The network that writes them.
    attention : {"linear", "softmax"}
        Its attention.
    cache : CachePolicy
        How a softmax cache grows.
    """

    def __init__(self, packed: PackedNetwork, attention: Attention, cache: CachePolicy) -> None:
        self._softmax = attention == "softmax"
        self._cache = cache
        self._memories: Memories = SoftmaxMemories(packed) if self._softmax else LinearMemories(packed)
        self._numbers: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        """Where the header of each entity's memory lies; it never moves."""
        self._last: tuple[tuple[str, ...], Integers] = ((), np.array([], np.int64))
        self._adding = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Entities in the order in which they were added."""
        return tuple(self._numbers)

    def number(self, entity: str) -> int:
        """Give the number of an entity's memory.

        Raises
        ------
        StateError
            If it has none.
        """
        number = self._numbers.get(entity)
        if number is None:
            raise StateError(f"entity {entity!r} has no memory; add it, or write its events first")
        return number

    def header(self, entity: str) -> Header:
        """Give the header of an entity's memory."""
        return self._memories.header(self.number(entity))

    def empty(self, events: int) -> tuple[int, int]:
        """Make a memory of no entity, with room for so many events; give its number and address."""
        number = self._memories.new()
        self._memories.make_room(number, events + 1)
        return number, self._memories.address(number)

    def add(self, entity: str, like: int) -> int:
        """Make an entity's memory as a copy of another, and give its address; it may be there already."""
        with self._adding:
            if entity not in self.addresses:
                number = self._memories.new()
                self._memories.copy(number, like)
                self._numbers[entity] = number
                self.addresses[entity] = self._memories.address(number)
            return self.addresses[entity]

    def addresses_of(self, entities: Sequence[str]) -> Integers | None:
        """Give the addresses of known entities; None where one is not known."""
        names = tuple(entities)
        last_names, last = self._last
        if names != last_names:
            try:
                last = np.array([self.addresses[name] for name in names], np.int64)
            except KeyError:
                return None
            self._last = (names, last)
        return last

    def last_event(self, entity: str) -> int | None:
        """Give when an entity's last event became available."""
        header = self.header(entity)
        return int(header[LAST_EVENT]) if header[COUNT] > 1 else None

    def count(self, entity: str) -> int:
        """Give an entity's events."""
        return int(self.header(entity)[COUNT]) - 1

    def make_room(self, entity: str, events: int) -> None:
        """Let an entity's cache grow where it has no room for so many events more.

        Raises
        ------
        StateError
            If it may not have them.
        """
        if self._softmax:
            header = self.header(entity)
            self._cache.allow(entity, int(header[COUNT]) - 1 + events)
            self._grow(entity, int(header[COUNT]) + events)

    def allow_one(self, entities: Sequence[str]) -> None:
        """Make room for an event of each entity, or of none where one may not have it."""
        if self._softmax:
            for entity in entities:
                self._cache.allow(entity, self.count(entity) + 1)
            for entity in entities:
                self.make_room(entity, 1)

    def _grow(self, entity: str, tokens: int) -> None:
        number = self.number(entity)
        present = int(self._memories.header(number)[ASKED])
        if tokens > present:
            # One more than the events: the start token.
            self._memories.make_room(number, self._cache.capacity(tokens - 1, max(present - 1, 0)) + 1)

    def memory(self, entity: str) -> Arrays:
        """Give copies of everything that an entity's memory is; reads leave no trace in it."""
        header = self.header(entity)
        return {
            "last_event": np.array([self.last_event(entity) or 0], np.int64),
            "count": np.array([self.count(entity)], np.int64),
            "least_denominator": header[[LEAST_WRITTEN]].view(np.float64),
            **self._memories.arrays(self.number(entity)),
        }

    def check(self, entity: str, memory: Mapping[str, np.ndarray]) -> None:
        """Refuse what no memory of this network can be.

        Raises
        ------
        StateError
            If an array is missing, unknown, of another shape or type, or holds what no stream writes.
        """
        names = {*_ONE, *self._memories.shapes(1)}
        if set(memory) != names:
            raise StateError(
                f"a memory of {entity!r} holds {sorted(memory)}, expected {sorted(names)}; it is "
                "of another network"
            )
        _fits(entity, memory, _ONE)
        count, last = int(memory["count"][0]), int(memory["last_event"][0])
        least = float(memory["least_denominator"][0])
        if count < 0 or not least > 0:
            raise StateError(
                f"a memory of {entity!r} holds {count} events up to {last} and the denominator {least}, "
                "which no stream writes; take another snapshot"
            )
        _fits(entity, memory, self._memories.shapes(count + 1))
        for name in self._memories.shapes(1):
            if not np.isfinite(memory[name]).all():
                raise StateError(
                    f"{name} of a memory of {entity!r} is not finite; take an older snapshot, or replay the "
                    "entity from the beginning"
                )
        if self._softmax:
            self._cache.allow(entity, count)

    def fill(self, entity: str, memory: Mapping[str, np.ndarray]) -> None:
        """Put a checked memory in the place of an entity's own."""
        count = int(memory["count"][0])
        header = self.header(entity)
        if self._softmax:
            self._grow(entity, count + 1)
        self._memories.fill(self.number(entity), memory)
        header[COUNT], header[LAST_EVENT] = count + 1, memory["last_event"][0]
        least = [float(memory["least_denominator"][0]), np.inf]
        header[[LEAST_WRITTEN, LEAST_READ]] = np.array(least).view(np.int64)

    def least_denominator(self, entity: str) -> float:
        """Give the smallest denominator that a write or a read of an entity met."""
        return float(self.header(entity)[[LEAST_WRITTEN, LEAST_READ]].view(np.float64).min())

    def numbers(self, entity: str) -> Arrays:
        """Give copies of what an entity's reads depend on."""
        return self._memories.arrays(self.number(entity))

    def nbytes(self, entity: str) -> int:
        """Give the bytes that an entity's memory holds."""
        return self._memories.nbytes(self.number(entity))


def _fits(entity: str, memory: Mapping[str, np.ndarray], shapes: Shapes) -> None:
    """Refuse arrays of another shape or type."""
    for name, (shape, kind) in shapes.items():
        array = memory[name]
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != kind:
            came = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise StateError(
                f"{name} of a memory of {entity!r} is {came}, expected {np.dtype(kind)} {shape}; it is of "
                "another network"
            )
