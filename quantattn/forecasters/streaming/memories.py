"""The memories of a streaming forecaster: one for the market, one for each entity with events of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl

from quantattn.forecasters.streaming import bulk
from quantattn.forecasters.streaming.coder import EventCoder
from quantattn.forecasters.streaming.events.event import MARKET, Event
from quantattn.forecasters.streaming.health.monitor import HealthMonitor
from quantattn.forecasters.streaming.network.stream import NetworkStream
from quantattn.forecasters.tokens import Floats, Integers
from quantattn.pit.timestamps import nanoseconds_of

NEVER = np.iinfo(np.int64).min
"""In the place of an instant: no event yet."""


class Memories:
    """Writes coded events to the memories that they reach, and says which memory an entity reads.

    An entity that had no event of its own yet reads the market's memory. Its first own event makes it a
    memory of its own, a copy of that: which is what its sequence would have come to from the beginning.

    Parameters
    ----------
    network : NetworkStream
        Empty; gets the market's memory.
    coder : EventCoder
        Codes the events.
    monitor : HealthMonitor
        Is told of every write.
    """

    def __init__(self, network: NetworkStream, coder: EventCoder, monitor: HealthMonitor) -> None:
        self._network, self._coder, self._monitor = network, coder, monitor
        network.add(MARKET)
        monitor.added(MARKET)
        self.restored()

    def restored(self) -> None:
        """Take up the memories that the network has now; the market's is one of them."""
        network = self._network
        wide = network.count(MARKET)
        self._written = wide + sum(network.count(name) - wide for name in network.entities if name != MARKET)
        self._names = [MARKET, *(name for name in network.entities if name != MARKET)]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._last: Integers = np.full(max(64, 2 * len(self._names)), NEVER, np.int64)
        for place, name in enumerate(self._names):
            last = network.last_event(name)
            self._last[place] = NEVER if last is None else last

    @property
    def entities(self) -> tuple[str, ...]:
        """Entities with a memory of their own, in the order in which they got it."""
        return tuple(self._names[1:])

    @property
    def latest(self) -> int | None:
        """When the latest event became available."""
        latest = int(self._last[: len(self._names)].max())
        return None if latest == NEVER else latest

    @property
    def events(self) -> int:
        """Events written, each counted once, however many memories it reached."""
        return self._written

    def read_by(self, entity: str) -> tuple[str, int]:
        """Give the memory that an entity reads, and the last event in it (:data:`NEVER` before any)."""
        place = self._places.get(entity, 0)
        return self._names[place], int(self._last[place])

    def refuse_full(self, entities: Sequence[str | None], events: int = 1) -> None:
        """Refuse events for which a cache has no room.

        Parameters
        ----------
        entities : sequence of str or None
            Whose events are to come; None for market-wide ones, which reach all.
        events : int
            How many of each.

        Raises
        ------
        StateError
            Naming the entity.
        """
        network = self._network
        if network.config.attention != "softmax" or network.cache.limit is None:
            return
        for entity in entities:
            for name in self._names if entity is None else (entity,):
                like = name if name in self._places else MARKET
                network.cache.allow(name, network.count(like) + events)

    def refuse_full_by(self, events: Sequence[str | None]) -> None:
        """Refuse events, given by their entities, for which a cache has no room, as above."""
        network = self._network
        if network.config.attention != "softmax" or network.cache.limit is None:
            return
        counts = Counter(events)
        wide = counts.pop(None, 0)
        if wide:
            self.refuse_full([None], wide)
        for entity, own in counts.items():
            self.refuse_full([entity], own + wide)

    def write(self, event: Event) -> None:
        """Write one event."""
        if event.entity is None:
            self._write_to_all(event)
        else:
            self._write_own(event.entity, event)
        self._written += 1

    def _write_own(self, entity: str, event: Event) -> None:
        at = event.available_at
        place = self._places.get(entity)
        if place is None:
            place = self._fork(entity)
        before = int(self._last[place])
        token = self._coder.event(event, at if before == NEVER else before)
        self._network.write(entity, token, at)
        self._last[place] = at
        if self._monitor.checks:
            self._monitor.wrote(entity, token, at)

    def _write_to_all(self, event: Event) -> None:
        at, size = event.available_at, len(self._names)
        last = self._last[:size]
        # The copies differ in the time since the last event alone.
        before = np.where(last == NEVER, at, last)
        token = self._coder.event(event, at)
        if size == 1:
            token = self._coder.for_each(token, at, before)[0]
            self._network.write(MARKET, token, at)
            tokens = token[None]
        else:
            tokens = self._coder.for_each(token, at, before)
            self._network.write_each(self._names, tokens, at)
        last[:] = at
        if self._monitor.checks:
            self._monitor.wrote_each(self._names, tokens, at)

    def write_table(
        self, frame: pl.DataFrame, text: Floats | None, entities: Sequence[str] | None = None
    ) -> None:
        """Write many events.

        Parameters
        ----------
        frame : polars.DataFrame
            Of an event log, in canonical order.
        text : ndarray of float32, shape (n, text_width), optional
            Its hashed text, if it is at hand.
        entities : sequence of str, optional
            Its entities in the order in which new ones get their memories; by default that of their first
            events.
        """
        for entity in entities or ():
            if entity not in self._places:
                self._fork(entity)
        for block, hashed in bulk.blocks_of(frame, text):
            rows = bulk.Rows.of(block)
            for entity in rows.own:
                if entity not in self._places:
                    self._fork(entity)
            encoded = self._coder.encoded(block, hashed)
            self._write_block(encoded, nanoseconds_of(block["available_at"]), rows)
            self._written += block.height

    def _write_block(self, encoded: Floats, times: Integers, rows: bulk.Rows) -> None:
        monitor = self._monitor
        reached = self._names if rows.market.size else list(rows.own)
        shorter, longer = bulk.shorter_and_longer(reached, rows)
        if shorter:
            places = [self._places[name] for name in shorter]
            firsts = times[[sequence[0] for sequence in shorter.values()]]
            lasts = np.where(self._last[places] == NEVER, firsts, self._last[places])
            bulk.write_rounds(self._network, monitor, encoded, times, shorter, lasts)
        kept = bulk.write_sequences(self._network, encoded, times, longer, monitor.watched)
        for name, (tokens, at) in kept.items():
            monitor.wrote_sequence(name, tokens, at)
        for taken in (shorter, longer):
            if taken:
                ends = times[[sequence[-1] for sequence in taken.values()]]
                self._last[[self._places[name] for name in taken]] = ends

    def _fork(self, entity: str) -> int:
        self._network.add(entity, like=MARKET)
        self._monitor.added(entity, like=MARKET)
        place = len(self._names)
        if place == self._last.size:
            self._last = np.concatenate([self._last, np.full(place, NEVER, np.int64)])
        self._names.append(entity)
        self._places[entity] = place
        self._last[place] = self._last[0]
        return place
