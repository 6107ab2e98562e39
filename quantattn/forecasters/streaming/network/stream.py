"""One network on many entities, event by event: tokens in, the numbers of its head out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Never

import numpy as np

from quantattn.errors import StateError
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming.network import kernels
from quantattn.forecasters.streaming.network.cache import CachePolicy
from quantattn.forecasters.streaming.network.inputs import (
    FAR,
    FLOAT32,
    as_instant,
    as_instants,
    as_tokens,
    refuse_event,
    refuse_numbers,
    refuse_read,
    refuse_twice,
)
from quantattn.forecasters.streaming.network.kernels import plan as places
from quantattn.forecasters.streaming.network.packing import Floats, aligned, pack
from quantattn.forecasters.streaming.network.roster import Roster
from quantattn.forecasters.streaming.network.states import Arrays
from quantattn.forecasters.tokens import Integers


class NetworkStream:
    """Steps a network one event at a time; reads never change what it remembers.

    The cost of a step does not depend on the length of the history for the linear attention; the softmax
    twin keeps every key and value. Whichever call writes or reads, and in whatever company, an entity's
    memory and its forecasts have the same bits.

    Parameters
    ----------
    network : AttentionNetwork
        A trained network.
    cache : CachePolicy
        How the softmax cache grows.

    Notes
    -----
    A read at an instant must come before any event that became available then or later is written: the
    caller keeps the order of the clock, and a violation is a :class:`~quantattn.errors.ClockError`.
    """

    def __init__(self, network: AttentionNetwork, *, cache: CachePolicy = CachePolicy()) -> None:  # noqa: B008
        self.config = network.config
        self.cache = cache
        self._packed = pack(network)
        self._events, self._queries = (network.event_width,), (network.query_width,)
        self._outputs = network.outputs
        self._roster = Roster(self._packed, network.config.attention, cache)
        self._addresses = self._roster.addresses
        self._blank: int | None = None
        rates = [0.0 if life is None else 1.0 / life for life in network.config.half_lives]
        self._rates = aligned(2 * 8 * -(-len(rates) // 8)).view(np.float64)
        self._rates[: len(rates)] = rates
        self._one_row = self._room(1)
        self._table = np.zeros(places.PLAN_SIZE, np.int64)
        self._table[: len(self._packed.sizes)] = self._packed.sizes
        self._table[places.IS_SOFTMAX] = network.config.attention == "softmax"
        self._table[places.WEIGHTS] = self._packed.weights.ctypes.data
        self._table[places.RATES] = self._rates.ctypes.data
        self._table[places.ROOM] = self._one_row.ctypes.data
        self._plan = int(self._table.ctypes.data)

    def __getstate__(self) -> Never:
        """Refuse to be copied or pickled: a copy would write to the addresses of the original."""
        raise StateError(
            "a NetworkStream cannot be copied or pickled; make a new one of the same network and restore the "
            "memory of each entity"
        )

    @property
    def n_outputs(self) -> int:
        """Raw numbers of the head for each read."""
        return self._outputs

    @property
    def entities(self) -> tuple[str, ...]:
        """Entities with a memory, in the order in which they were added."""
        return self._roster.names

    def _room(self, rows: int) -> Floats:
        _, _, width, heads, _, inner, outputs = self._packed.sizes
        return aligned(rows * places.room_for_a_row(width, inner, outputs, heads))

    def _start(self, roster: Roster) -> tuple[int, int, int]:
        """Make a memory of the start token alone; give its number, its address and the bad reads."""
        number, address = roster.empty(self.cache.capacity(1))
        token = np.zeros(self._events, np.float32)
        return number, address, kernels.write_one(self._plan, address, token, 0, 1)

    def _address(self, entity: str) -> int:
        """Give the address of an entity's memory, and make it where there is none."""
        address = self._addresses.get(entity)
        if address is None:
            if self._blank is None:
                blank, _, bad = self._start(self._roster)
                if bad:
                    refuse_numbers(bad, entity, None)
                self._blank = blank
            address = self._roster.add(entity, self._blank)
        return address

    def _addresses_of(self, entities: Sequence[str]) -> Integers:
        known = self._roster.addresses_of(entities)
        return np.array([self._address(entity) for entity in entities], np.int64) if known is None else known

    def add(self, entity: str, like: str | None = None) -> None:
        """Make the memory of an entity.

        Parameters
        ----------
        entity : str
            The entity; a write, or a read, of an unknown one adds it too.
        like : str, optional
            An entity whose memory to copy, bit for bit; by default only the start token is written.

        Raises
        ------
        StateError
            If the entity has a memory, or `like` has none.
        """
        if entity in self._addresses:
            raise StateError(f"entity {entity!r} has a memory already; use another name")
        if like is None:
            self._address(entity)
        else:
            self._roster.add(entity, self._roster.number(like))

    def last_event(self, entity: str) -> int | None:
        """Give when the last event written became available; None where there was none."""
        return self._roster.last_event(entity)

    def count(self, entity: str) -> int:
        """Give how many events were written; the start token is none."""
        return self._roster.count(entity)

    def write(self, entity: str, token: Floats, available_at: int) -> None:
        """Write one event of an entity.

        Parameters
        ----------
        entity : str
            The entity whose sequence grows.
        token : ndarray of float32, shape (event_width,)
            The event token.
        available_at : int
            Nanoseconds since the epoch, UTC; not before the entity's last event.

        Raises
        ------
        ClockError
            If the event is older than the memory.
        ShapeError
            If the token has another width or is not float32.
        StateError
            If the cache would hold more events than its policy allows.
        DenominatorError
            If the token, or one before it, is not finite; the entity's memory is spoiled then.
        """
        if (
            token.__class__ is not np.ndarray
            or token.dtype != FLOAT32
            or token.shape != self._events
            or not token.flags.carray
        ):
            token = as_tokens(token, self._events, "event token")
        if available_at.__class__ is not int or not -FAR <= available_at < FAR:
            available_at = as_instant(available_at)
        address = self._addresses.get(entity) or self._address(entity)
        status = kernels.write_one(self._plan, address, token, available_at, 0)
        if status:
            if status == places.FULL:
                self._roster.make_room(entity, 1)
                status = kernels.write_one(self._plan, address, token, available_at, 0)
            if status:
                self._refuse_write(status, entity, available_at)

    def write_sequence(self, entity: str, tokens: Floats, available_at: Integers) -> None:
        """Write several events of an entity in order, bit for bit as :meth:`write` one by one.

        Parameters
        ----------
        entity : str
            The entity whose sequence grows.
        tokens : ndarray of float32, shape (n, event_width)
            Event tokens in canonical order.
        available_at : ndarray of int64, shape (n,)
            Nanoseconds since the epoch, UTC; nondecreasing and not before the entity's last event.

        Raises
        ------
        ClockError
            If an event is older than the one before it; none is written then.
        ShapeError
            If the tokens have another width or are not float32.
        StateError
            If the cache would hold more events than its policy allows; none is written then.
        DenominatorError
            If a token, or one before it, is not finite; the entity's memory is spoiled then.
        """
        times = as_instants(available_at, np.size(available_at))
        tokens = as_tokens(tokens, (len(times), *self._events), "event tokens")
        if not len(times):
            return
        address = self._address(entity)
        last = self.last_event(entity)
        before = np.concatenate([times[:1] if last is None else np.array([last], np.int64), times[:-1]])
        if (times < before).any():
            at = int(np.argmax(times < before))
            refuse_event(entity, int(times[at]), int(before[at]))
        self._roster.make_room(entity, len(times))
        self._write_rows([entity], np.full(len(times), address), tokens, times)

    def write_each(self, entities: Sequence[str], tokens: Floats, available_at: Integers | int) -> None:
        """Write one event of each of several entities, bit for bit as :meth:`write` one by one.

        Parameters
        ----------
        entities : sequence of str, length n
            Distinct entities.
        tokens : ndarray of float32, shape (n, event_width)
            An event token of each.
        available_at : ndarray of int64, shape (n,), or int
            Nanoseconds since the epoch, UTC; not before the last event of each entity.

        Raises
        ------
        UsageError
            If an entity is given twice.
        ClockError
            If an event is older than its entity's memory; none is written then.
        ShapeError
            If the tokens have another shape or are not float32.
        StateError
            If a cache would hold more events than its policy allows; none is written then.
        DenominatorError
            If a token, or one before it, is not finite; the memories of those entities are spoiled then.
        """
        times = as_instants(available_at, len(entities))
        tokens = as_tokens(tokens, (len(entities), *self._events), "event tokens")
        if len(set(entities)) != len(entities):
            refuse_twice(entities)
        if not len(entities):
            return
        headers = self._addresses_of(entities)
        late = kernels.first_late(headers.ctypes.data, times.ctypes.data, len(times), 0)
        if late >= 0:
            self._refuse_write(places.OUT_OF_ORDER, entities[late], int(times[late]))
        self._roster.allow_one(entities)
        self._write_rows(entities, headers, tokens, times)

    def _write_rows(
        self, entities: Sequence[str], headers: Integers, tokens: Floats, times: Integers
    ) -> None:
        """Write checked events, of one entity or of as many as there are events."""
        notes = np.empty((len(times), 2), np.int64)
        room = self._room(min(places.ROWS, len(times)))
        kernels.write_several(
            self._plan,
            headers.ctypes.data,
            tokens.ctypes.data,
            times.ctypes.data,
            len(times),
            room.ctypes.data,
            notes.ctypes.data,
        )
        if notes[:, 0].any():
            at = int(np.argmax(notes[:, 0] > 0))
            refuse_numbers(int(notes[at, 0]), entities[at % len(entities)], int(times[at]))

    def _refuse_write(self, status: int, entity: str, at: int) -> Never:
        if status == places.OUT_OF_ORDER:
            refuse_event(entity, at, self._roster.last_event(entity) or 0)
        refuse_numbers(status, entity, at)

    def _refuse_read(self, status: int, entity: str, at: int) -> Never:
        if status == places.OUT_OF_ORDER:
            refuse_read(entity, at, self._roster.last_event(entity) or 0)
        refuse_numbers(status, entity, at)

    def read(self, entity: str, token: Floats, at: int) -> Floats:
        """Read the numbers of the head for an entity; its memory stays as it is.

        Parameters
        ----------
        entity : str
            The entity.
        token : ndarray of float32, shape (query_width,)
            The query token.
        at : int
            The forecast time in nanoseconds since the epoch, UTC; strictly after the entity's last event.

        Returns
        -------
        ndarray of float32, shape (outputs,)
            In units of the scaled targets; :func:`~quantattn.forecasters.heads.distribution` says what they
            mean.

        Raises
        ------
        ClockError
            If an event that is not visible at `at` was already written.
        ShapeError
            If the token has another width or is not float32.
        DenominatorError
            If the token, or an event of the entity, is not finite.
        """
        if (
            token.__class__ is not np.ndarray
            or token.dtype != FLOAT32
            or token.shape != self._queries
            or not token.flags.carray
        ):
            token = as_tokens(token, self._queries, "query token")
        if at.__class__ is not int or not -FAR <= at < FAR:
            at = as_instant(at)
        address = self._addresses.get(entity) or self._address(entity)
        out = np.empty(self._outputs, np.float32)
        status = kernels.read_one(self._plan, address, token, at, out)
        if status:
            self._refuse_read(status, entity, at)
        return out

    def read_each(self, entities: Sequence[str], tokens: Floats, at: Integers | int) -> Floats:
        """Read the numbers of the head for several entities, bit for bit as :meth:`read` one by one.

        Parameters
        ----------
        entities : sequence of str, length n
            The entities; one may come several times.
        tokens : ndarray of float32, shape (n, query_width)
            A query token for each.
        at : ndarray of int64, shape (n,), or int
            Forecast times in nanoseconds since the epoch, UTC; strictly after each entity's last event.

        Returns
        -------
        ndarray of float32, shape (n, outputs)

        Raises
        ------
        ClockError, ShapeError, DenominatorError
            As for :meth:`read`.
        """
        times = as_instants(at, len(entities))
        tokens = as_tokens(tokens, (len(entities), *self._queries), "query tokens")
        if not len(entities):
            return np.empty((0, self._outputs), np.float32)
        headers = self._addresses_of(entities)
        late = kernels.first_late(headers.ctypes.data, times.ctypes.data, len(times), 1)
        if late >= 0:
            self._refuse_read(places.OUT_OF_ORDER, entities[late], int(times[late]))
        return self._read_rows(entities, headers, tokens, times)

    def _read_rows(
        self, entities: Sequence[str], headers: Integers, tokens: Floats, times: Integers
    ) -> Floats:
        """Read for checked queries."""
        out = np.empty((len(times), self._outputs), np.float32)
        notes = np.empty((len(times), 2), np.int64)
        room = self._room(min(places.ROWS, len(times)))
        kernels.read_several(
            self._plan,
            headers.ctypes.data,
            tokens.ctypes.data,
            len(times),
            room.ctypes.data,
            out.ctypes.data,
            notes.ctypes.data,
        )
        if notes[:, 0].any():
            at = int(np.argmax(notes[:, 0] > 0))
            refuse_numbers(int(notes[at, 0]), entities[at], int(times[at]))
        return out

    def memory(self, entity: str) -> Arrays:
        """Give copies of everything that an entity's memory is.

        Parameters
        ----------
        entity : str
            The entity.

        Returns
        -------
        dict of str to ndarray
            ``last_event``, ``count`` (int64) and ``least_denominator`` (float64), of one element each. Of
            the linear attention ``S`` (layers, heads, rank, rank), key features before values, and ``z``
            (layers, heads, rank), both float32. Of the softmax attention ``keys`` and ``values`` (float32;
            layers, heads, events + 1, rank) and ``clock`` (float64; heads, events + 1), the start token
            first. Reads leave no trace in it.

        Raises
        ------
        StateError
            If the entity has no memory.
        """
        return self._roster.memory(entity)

    def restore(self, entity: str, memory: Mapping[str, np.ndarray]) -> None:
        """Make or replace the memory of an entity by what :meth:`memory` gave.

        Parameters
        ----------
        entity : str
            The entity.
        memory : mapping of str to ndarray
            Of the same network; copied.

        Raises
        ------
        StateError
            If an array is missing, unknown, of another shape or type, or holds what is not finite.
        """
        self._roster.check(entity, memory)
        self._address(entity)
        self._roster.fill(entity, memory)

    def least_denominator(self, entity: str) -> float:
        """Give the smallest denominator that a write or a read of an entity met; infinity before any.

        Weights of the softmax attention are relative to the largest, so its denominators are at least 1.
        """
        return self._roster.least_denominator(entity)

    def state_norm(self, entity: str) -> float:
        """Give the root of the sum of squares of all that an entity's reads are computed from."""
        arrays = self._roster.numbers(entity)
        arrays.pop("clock", None)
        return float(np.sqrt(sum(float(np.square(x, dtype=np.float64).sum()) for x in arrays.values())))

    def non_finite(self, entity: str) -> int:
        """Count the numbers of an entity's memory that are not finite."""
        return sum(int(x.size - np.isfinite(x).sum()) for x in self._roster.numbers(entity).values())

    def state_bytes(self, entity: str) -> int:
        """Give the bytes that one entity's memory holds."""
        return self._roster.nbytes(entity)

    def warm_up(self) -> None:
        """Compile (or load from the cache) all writes and reads, on a memory that is thrown away."""
        roster = Roster(self._packed, self.config.attention, self.cache)
        _, address, _ = self._start(roster)
        event, query = (np.zeros((1, *shape), np.float32) for shape in (self._events, self._queries))
        headers, times = np.array([address], np.int64), np.zeros(1, np.int64)
        kernels.write_one(self._plan, address, event[0], 0, 0)
        self._write_rows([""], headers, event, times)
        kernels.read_one(self._plan, address, query[0], 1, np.empty(self._outputs, np.float32))
        self._read_rows([""], headers, query, times)
        kernels.first_late(headers.ctypes.data, times.ctypes.data, 1, 0)
