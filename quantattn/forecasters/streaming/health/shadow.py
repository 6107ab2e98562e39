"""The float64 shadow of a stream: the same networks from their formulas, to see how far float32 drifts.

Nothing here calls the compiled steps or shares their layout: weights go by their names, heads are axes of
numpy arrays, and sums are numpy's. A shadow costs some hundred microseconds an event, so it is kept for the
few entities that one wants to watch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import ClockError, StateError
from quantattn.forecasters.config import DECAY_CAP
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming.health._shadow_memories import (
    Arrays,
    Floats64,
    LinearMemory,
    SoftmaxMemory,
)
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY
from quantattn.pit.timestamps import iso

Numbers = npt.NDArray[np.floating[Any]]

_EPSILON = 1e-5  # of torch's LayerNorm


class _Twin:
    """One entity: its memory, the clock of its last event and how many events it holds."""

    def __init__(self, memory: LinearMemory | SoftmaxMemory) -> None:
        self.memory = memory
        self.last_event: int | None = None
        self.events = 0


class Shadow:
    """Float64 twins of the memories of some entities, written straight from the formulas.

    Parameters
    ----------
    network : AttentionNetwork
        The trained network, of either attention; its weights are copied as float64.

    Notes
    -----
    A twin is given the same tokens as the stream that it shadows. Those are float32, and so are the weights,
    so whatever differs is rounding inside the stream.
    """

    def __init__(self, network: AttentionNetwork) -> None:
        self.config = network.config
        self.n_outputs = int(network.outputs)
        self._widths = {"event": network.event_width, "query": network.query_width}
        self._weights: dict[str, Floats64] = {
            name: value.detach().double().numpy().copy() for name, value in network.state_dict().items()
        }
        # Days that a half-life takes; without one no time passes.
        self._half_lives = np.array([np.inf if life is None else life for life in self.config.half_lives])
        self._twins: dict[str, _Twin] = {}

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that have a twin, in the order in which they were added."""
        return tuple(self._twins)

    def events(self, entity: str) -> int:
        """Give how many events an entity's twin holds; the start token is none.

        Raises
        ------
        StateError
            If the entity has no twin.
        """
        return self._twin(entity).events

    def emptied(self) -> Shadow:
        """Give a shadow of the same network without twins."""
        empty = copy.copy(self)
        empty._twins = {}
        return empty

    def __contains__(self, entity: object) -> bool:
        """Whether the entity has a twin."""
        return entity in self._twins

    def add(self, entity: str, like: str | None = None) -> None:
        """Begin a twin: the start token alone, or a copy of another entity's twin.

        Parameters
        ----------
        entity : str
            The entity.
        like : str, optional
            Whose twin to copy.

        Raises
        ------
        StateError
            If the entity has a twin already, or `like` has none.
        """
        if entity in self._twins:
            raise StateError(f"entity {entity!r} has a shadow already; each entity is added once")
        if like is None:
            twin = _Twin(self._empty())
            self._write(twin, self._weights["start"], np.zeros(self.config.heads))
        else:
            twin = copy.deepcopy(self._twin(like))
        self._twins[entity] = twin

    def write(self, entity: str, token: Numbers, available_at: int) -> None:
        """Write one event.

        Parameters
        ----------
        entity : str
            An entity with a twin.
        token : ndarray of float, shape (event_width,)
            The event token, as the stream gets it.
        available_at : int
            Nanoseconds since the epoch, UTC; not before the entity's last event.

        Raises
        ------
        ClockError
            If the event is older than the twin.
        StateError
            If the entity has no twin, or the token another width.
        """
        twin = self._twin(entity)
        hidden = self._linear("event_embedding", self._token(token, "event"))
        last = available_at if twin.last_event is None else twin.last_event
        if available_at < last:
            raise ClockError(
                f"event of {entity!r} available at {iso(available_at)} comes after one available at "
                f"{iso(last)}; send the shadow its events in the order in which the stream got them"
            )
        days = (available_at - last) / NANOSECONDS_PER_DAY
        self._write(twin, hidden, np.minimum(days / self._half_lives, DECAY_CAP))
        twin.last_event = available_at
        twin.events += 1

    def read(self, entity: str, token: Numbers) -> Floats64:
        """Read the raw numbers of the head; nothing is changed.

        The time from the last event to the read cancels in both attentions, so it is not asked for.

        Parameters
        ----------
        entity : str
            An entity with a twin.
        token : ndarray of float, shape (query_width,)
            The query token, as the stream gets it.

        Returns
        -------
        ndarray of float64, shape (outputs,)
            In units of the scaled targets.

        Raises
        ------
        StateError
            If the entity has no twin, or the token another width.
        """
        twin, query = self._twin(entity), self._token(token, "query")
        hidden = self._linear("query_embedding", query)
        with np.errstate(all="ignore"):
            for layer in range(self.config.layers):
                own = self._projected(layer, hidden)[0]
                hidden = self._finished(layer, hidden, twin.memory.read(layer, own))
            answer: Floats64 = self._linear("head", self._norm("final_norm", hidden))
            answer += self._weights["direct.weight"] @ query
        return answer

    def memory(self, entity: str) -> Arrays:
        """Give copies of all that one twin is.

        Parameters
        ----------
        entity : str
            An entity with a twin.

        Returns
        -------
        dict of str to ndarray
            ``last_event``, int64, of length 0 before the first event and 1 after; ``events``, int64, of
            length 1; and in float64 ``state`` (layers, heads, rank, rank + 1) of the linear attention, or
            ``keys`` and ``values`` (layers, heads, events + 1, rank) and ``clock`` (heads, events + 1) of
            softmax.

        Raises
        ------
        StateError
            If the entity has no twin.
        """
        twin = self._twin(entity)
        last = [] if twin.last_event is None else [twin.last_event]
        return {
            **twin.memory.arrays(),
            "last_event": np.array(last, np.int64),
            "events": np.array([twin.events], np.int64),
        }

    def restore(self, entity: str, memory: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put back what :meth:`memory` gave, in place of the entity's twin if it has one.

        Parameters
        ----------
        entity : str
            The entity.
        memory : mapping of str to ndarray
            Of a twin of the same network; copied.

        Raises
        ------
        StateError
            If an array is missing or left over, or has another type or shape, or is not finite; nothing is
            changed then.
        """
        twin = _Twin(self._empty())
        wanted = {*twin.memory.arrays(), "last_event", "events"}
        if set(memory) != wanted:
            raise StateError(
                f"the shadow of {entity!r} holds {sorted(memory)}, expected {sorted(wanted)}; restore what "
                "memory() of the same network gave"
            )
        last, events = memory["last_event"], memory["events"]
        whole = last.dtype == events.dtype == np.int64 and events.shape == (1,) and last.ndim == 1
        if not whole or int(events[0]) < 0 or len(last) != min(int(events[0]), 1):
            raise StateError(
                f"the shadow of {entity!r} says events={events.tolist()} and last_event={last.tolist()}, "
                "which do not go together; restore what memory() gave"
            )
        twin.events = int(events[0])
        twin.last_event = int(last[0]) if len(last) else None
        twin.memory.restore(memory, twin.events)
        self._twins[entity] = twin

    def adopt(self, entity: str, memory: Mapping[str, npt.NDArray[Any]]) -> None:
        """Begin a twin as a copy of a float32 memory, in place of the entity's twin if it has one.

        Parameters
        ----------
        entity : str
            The entity.
        memory : mapping of str to ndarray
            What :meth:`~quantattn.forecasters.streaming.network.stream.NetworkStream.memory` of the same
            network gave.

        Raises
        ------
        StateError
            If it is that of another network; nothing is changed then.
        """
        names = {"S", "z"} if self.config.attention == "linear" else {"keys", "values", "clock"}
        if not {*names, "count", "last_event"} <= set(memory):
            raise StateError(
                f"the memory of {entity!r} holds {sorted(memory)}, not {sorted(names)}; it is of another "
                "network"
            )
        exact = {name: memory[name].astype(np.float64) for name in names}
        if self.config.attention == "linear":
            exact = {"state": np.concatenate([exact["S"], exact["z"][..., None]], -1)}
        count = memory["count"].astype(np.int64).reshape(1)
        last = memory["last_event"].astype(np.int64).reshape(1)[: min(int(count[0]), 1)]
        self.restore(entity, {**exact, "events": count, "last_event": last})

    def _twin(self, entity: str) -> _Twin:
        twin = self._twins.get(entity)
        if twin is None:
            raise StateError(f"entity {entity!r} has no shadow; those with one are {sorted(self._twins)}")
        return twin

    def _empty(self) -> LinearMemory | SoftmaxMemory:
        kind = LinearMemory if self.config.attention == "linear" else SoftmaxMemory
        return kind(self.config.layers, self.config.heads, self.config.head_width)

    def _token(self, token: Numbers, what: str) -> Floats64:
        if token.shape != (self._widths[what],):
            raise StateError(
                f"{what} token of shape {token.shape}, expected ({self._widths[what]},); give the shadow the "
                "tokens that the stream gets"
            )
        return token.astype(np.float64)

    def _write(self, twin: _Twin, hidden: Floats64, steps: Floats64) -> None:
        last = self.config.layers - 1
        with np.errstate(all="ignore"):
            twin.memory.age(steps)
            for layer in range(self.config.layers):
                query, key, value = self._projected(layer, hidden)
                twin.memory.add(layer, key, value)
                if layer < last:
                    hidden = self._finished(layer, hidden, twin.memory.read(layer, query))

    def _projected(self, layer: int, hidden: Floats64) -> Floats64:
        """Give query, key and value by head, shape (3, heads, rank)."""
        block = f"blocks.{layer}"
        projected = self._linear(f"{block}.projection", self._norm(f"{block}.attention_norm", hidden))
        return projected.reshape(3, self.config.heads, self.config.head_width)

    def _finished(self, layer: int, hidden: Floats64, read: Floats64) -> Floats64:
        block = f"blocks.{layer}"
        hidden = hidden + self._linear(f"{block}.mix", read.reshape(-1))
        inner = self._linear(f"{block}.expand", self._norm(f"{block}.feed_forward_norm", hidden))
        return hidden + self._linear(f"{block}.contract", np.maximum(inner, 0.0))

    def _linear(self, name: str, x: Floats64) -> Floats64:
        y: Floats64 = self._weights[f"{name}.weight"] @ x + self._weights[f"{name}.bias"]
        return y

    def _norm(self, name: str, x: Floats64) -> Floats64:
        centred = x - x.mean()
        scaled = centred / math.sqrt(float((centred**2).mean()) + _EPSILON)
        normed: Floats64 = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed
