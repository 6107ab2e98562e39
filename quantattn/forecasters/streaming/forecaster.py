"""The streaming forecaster: events in as they become available, forecasts out at any clock."""

from __future__ import annotations

import numpy as np

from quantattn.errors import ClockError, DenominatorError, ForecasterError, ShapeError
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming.packing import PackedNetwork, pack
from quantattn.forecasters.streaming.states import Clock, EntityState, Floats, LinearState, SoftmaxState
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY, Integers, decay_steps
from quantattn.pit.timestamps import iso


class _EntityMemory:
    """One entity's state and the clock of its last event."""

    def __init__(self, state: EntityState) -> None:
        self.state = state
        self.last_event: int | None = None


class StreamingForecaster:
    """Forecasts one event at a time; reads never change what it remembers.

    The cost of a step does not depend on the length of the history for the linear forecaster; the
    softmax twin keeps every key and value. Each entity is stepped alone, in one fixed arithmetic, so that
    forecasts do not depend on the company in which they are made.

    Parameters
    ----------
    network : AttentionNetwork
        A trained network.

    Notes
    -----
    A forecast at ``forecast_time`` must come before any event with ``available_at >= forecast_time`` is
    written: the caller keeps the order of the clock, and a violation is a :class:`ClockError`.
    """

    def __init__(self, network: AttentionNetwork) -> None:
        self.config = network.config
        self._packed: PackedNetwork = pack(network)
        self._memories: dict[str, _EntityMemory] = {}
        self._out = np.zeros(network.outputs, np.float32)
        self._no_steps = np.zeros(network.config.heads, np.float64)
        self._start = np.zeros(network.event_width, np.float32)

    @property
    def n_outputs(self) -> int:
        """Raw numbers of the head for each forecast."""
        return len(self._out)

    def _memory(self, entity: str) -> _EntityMemory:
        memory = self._memories.get(entity)
        if memory is None:
            state: EntityState
            state = (
                LinearState(self._packed) if self.config.attention == "linear" else SoftmaxState(self._packed)
            )
            memory = self._memories[entity] = _EntityMemory(state)
            self._check(memory.state.write(self._start, self._no_steps, is_start=True), entity, None)
        return memory

    @staticmethod
    def _expect(token: Floats, shape: tuple[int, ...], what: str) -> None:
        # In float64 the kernels would be compiled anew, with other bits.
        if token.shape != shape or token.dtype != np.float32:
            raise ShapeError(
                f"{what} of shape {token.shape} and type {token.dtype}, expected float32 {shape}; encode "
                "with the encoders that the network was trained with"
            )

    @staticmethod
    def _check(bad: int, entity: str, at: int | None) -> None:
        if bad:
            when = "the start token" if at is None else iso(at)
            raise DenominatorError(
                f"{bad} reads of entity {entity!r} at {when} met something that is not finite, or a "
                "denominator that is not positive; check the token's features, and replay the entity from "
                "the beginning"
            )

    def update(self, entity: str, token: Floats, available_at: int) -> None:
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
            If the event is older than the state.
        ShapeError
            If the token has another width or is not float32.
        DenominatorError
            If the token, or one before it, is not finite; the entity's memory is spoiled then.
        """
        self._expect(token, (self._packed.sizes[0],), "event token")
        memory = self._memory(entity)
        steps = self._steps(entity, memory, np.array([available_at], np.int64))[0]
        self._check(memory.state.write(token, steps, is_start=False), entity, available_at)
        memory.last_event = available_at

    def update_many(self, entity: str, tokens: Floats, available_at: Integers) -> None:
        """Write several events of an entity in order, bit for bit as :meth:`update` one by one.

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
        DenominatorError
            If a token, or one before it, is not finite; the entity's memory is spoiled then.
        """
        self._expect(tokens, (len(available_at), self._packed.sizes[0]), "event tokens")
        if not len(tokens):
            return
        memory = self._memory(entity)
        steps = self._steps(entity, memory, available_at)
        self._check(memory.state.write_many(tokens, steps), entity, int(available_at[-1]))
        memory.last_event = int(available_at[-1])

    def _steps(self, entity: str, memory: _EntityMemory, available_at: Integers) -> Clock:
        """Give the half-lives since the event before, per event and head, refusing to go back in time."""
        first = int(available_at[0]) if memory.last_event is None else memory.last_event
        elapsed = np.diff(available_at, prepend=first)
        if (elapsed < 0).any():
            at = int(np.argmax(elapsed < 0))
            before = int(available_at[at] - elapsed[at])
            raise ClockError(
                f"event of {entity!r} available at {iso(int(available_at[at]))} comes after one available at "
                f"{iso(before)}; send events in canonical order"
            )
        return decay_steps(elapsed / NANOSECONDS_PER_DAY, self.config.half_lives)

    def forecast(self, entity: str, token: Floats, at: int) -> float:
        """Read the forecast of an entity; nothing is changed.

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
        float
            The forecast in units of the scaled target.

        Raises
        ------
        ClockError
            If an event that is not visible at `at` was already written.
        ShapeError
            If the token has another width or is not float32.
        DenominatorError
            If the token, or an event of the entity, is not finite.
        ForecasterError
            If the head gives more than one number; :meth:`outputs` has them all.
        """
        if len(self._out) != 1:
            raise ForecasterError(
                f"the head {self.config.head.kind!r} gives {len(self._out)} numbers for each forecast; read "
                "them with outputs(entity, token, at)"
            )
        self._read(entity, token, at)
        return float(self._out[0])

    def outputs(self, entity: str, token: Floats, at: int) -> Floats:
        """Read the raw numbers of the head for an entity; nothing is changed.

        Parameters
        ----------
        entity, token, at
            As for :meth:`forecast`.

        Returns
        -------
        ndarray of float32, shape (outputs,)
            In units of the scaled targets; :func:`~quantattn.forecasters.heads.distribution` says what they
            mean.

        Raises
        ------
        ClockError, ShapeError, DenominatorError
            As for :meth:`forecast`.
        """
        self._read(entity, token, at)
        return self._out.copy()

    def _read(self, entity: str, token: Floats, at: int) -> None:
        self._expect(token, (self._packed.sizes[1],), "query token")
        memory = self._memory(entity)
        if memory.last_event is not None and at <= memory.last_event:
            raise ClockError(
                f"forecast of {entity!r} at {iso(at)} comes after an event available at "
                f"{iso(memory.last_event)} was written; an event is visible only strictly after its "
                "available_at, so forecast before writing it"
            )
        self._check(memory.state.read(token, self._out), entity, at)

    def warm_up(self) -> None:
        """Compile (or load from the cache) the update and the forecast, on a throw-away entity."""
        state: EntityState
        state = (
            LinearState(self._packed) if self.config.attention == "linear" else SoftmaxState(self._packed, 2)
        )
        state.write(self._start, self._no_steps, is_start=True)
        state.write(self._start, self._no_steps, is_start=False)
        state.read(np.zeros(self._packed.sizes[1], np.float32), np.zeros_like(self._out))

    def state_bytes(self, entity: str) -> int:
        """Give the bytes that one entity's memory holds."""
        return self._memory(entity).state.nbytes
