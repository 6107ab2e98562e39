"""What follows a stream for its health: the shadow in step, the figures against their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import DenominatorError, StateError
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming.health._shadow_memories import Arrays
from quantattn.forecasters.streaming.health.policy import (
    LIMITS,
    EntityHealth,
    HealthPolicy,
    HealthReport,
    beyond,
)
from quantattn.forecasters.streaming.health.shadow import Shadow
from quantattn.forecasters.streaming.network.stream import NetworkStream
from quantattn.pit.timestamps import iso

_REMEDY = (
    "nothing was changed: the memory can be looked at and saved; replay the entity from its events, take "
    "on_breach='flag' to go on, or set another limit"
)


class HealthMonitor:
    """Follows a stream: keeps the shadow in step and holds the figures against the limits.

    The owner of the stream says what it does to it, in the same words: :meth:`added`, :meth:`wrote`,
    :meth:`wrote_each` and :meth:`wrote_sequence` after the stream's ``add`` and writes, and :meth:`check`
    after a read. Where :attr:`checks` is false, none of them has anything to do.

    Parameters
    ----------
    network : AttentionNetwork
        The network of the stream.
    policy : HealthPolicy
        The limits.
    template : str, optional
        The name of a memory that others are copied from; it is shadowed too where anything is.

    Attributes
    ----------
    policy : HealthPolicy
        The limits.
    checks : bool
        Whether there is anything to follow or to check.
    watched : frozenset of str
        Names of the memories whose writes matter; of others nothing need be told.
    """

    def __init__(
        self, network: AttentionNetwork, policy: HealthPolicy, *, template: str | None = None
    ) -> None:
        self.policy = policy
        self.checks = bool(policy.shadow) or any(getattr(policy, name) is not None for name in LIMITS)
        watched = {*policy.shadow} | ({template} if template is not None and policy.shadow else set())
        self.watched = frozenset(watched)
        self._shadow = Shadow(network) if watched else None
        self._drift: dict[str, float] = {}
        self._least: dict[str, float] = {}

    @property
    def shadow(self) -> Shadow | None:
        """The float64 twins; None where the policy names no entity."""
        return self._shadow

    @property
    def drifts(self) -> dict[str, float]:
        """The largest drift of each shadowed entity that was forecast, in units of the scaled targets."""
        return dict(self._drift)

    def added(self, name: str, like: str | None = None) -> None:
        """Follow a memory that was added to the stream, or copied from `like`."""
        if self._shadow is not None and name in self.watched and name not in self._shadow:
            self._shadow.add(name, like if like is not None and like in self._shadow else None)

    def wrote(self, name: str, token: npt.NDArray[np.float32], available_at: int) -> None:
        """Follow one event that was written."""
        if self._shadow is not None and name in self.watched:
            self.added(name)
            self._shadow.write(name, token, available_at)

    def wrote_each(
        self, names: Sequence[str], tokens: npt.NDArray[np.float32], available_at: npt.NDArray[np.int64] | int
    ) -> None:
        """Follow one event of each of several memories."""
        if self._shadow is None or self.watched.isdisjoint(names):
            return
        times = np.broadcast_to(np.asarray(available_at, np.int64), (len(names),))
        for name, token, at in zip(names, tokens, times.tolist(), strict=True):
            self.wrote(name, token, at)

    def wrote_sequence(
        self, name: str, tokens: npt.NDArray[np.float32], available_at: npt.NDArray[np.int64]
    ) -> None:
        """Follow several events of one memory."""
        if self._shadow is None or name not in self.watched:
            return
        for token, at in zip(tokens, available_at.tolist(), strict=True):
            self.wrote(name, token, at)

    def check(
        self,
        stream: NetworkStream,
        name: str,
        token: npt.NDArray[np.float32],
        at: int,
        raw: npt.NDArray[np.float32],
        *,
        entity: str | None = None,
    ) -> str | None:
        """Hold a memory that was just read against the limits.

        Parameters
        ----------
        stream : NetworkStream
            The stream; nothing of it is changed.
        name : str
            Whose memory was read.
        token : ndarray of float32, shape (query_width,)
            The query token.
        at : int
            The forecast time, nanoseconds since the epoch, UTC.
        raw : ndarray of float32, shape (outputs,)
            What the read gave.
        entity : str, optional
            Whose forecast it is; that of `name` by default.

        Returns
        -------
        str or None
            What is beyond a limit; None if nothing is.

        Raises
        ------
        DenominatorError
            If the least denominator is beyond its limit and the policy is to raise.
        StateError
            If another figure is.
        """
        policy, whose = self.policy, name if entity is None else entity
        drift = self._drifted(stream, name, whose, token, raw)
        least = norm = None
        if policy.least_denominator is not None:
            least = self.least(stream, name)
        if policy.largest_state_norm is not None:
            norm = stream.state_norm(name)
        breaches = beyond(policy, least, norm, drift)
        if not breaches:
            return None
        said = "; ".join(breaches.values())
        if policy.on_breach == "flag":
            return said
        kind = DenominatorError if "least_denominator" in breaches else StateError
        raise kind(f"forecast of {whose!r} at {iso(at)}: {said}; {_REMEDY}")

    def report(self, stream: NetworkStream, memories: Mapping[str, str] | None = None) -> HealthReport:
        """Measure every entity.

        Parameters
        ----------
        stream : NetworkStream
            The stream; nothing of it is changed.
        memories : mapping of str to str, optional
            The entities to report and the names of the memories that they read; those of the stream by
            default.

        Returns
        -------
        HealthReport
        """
        wanted = {name: name for name in stream.entities} if memories is None else memories
        # Entities without events share a memory, which is measured once.
        names = dict.fromkeys(wanted.values())
        measured = {name: self._measured(stream, name) for name in names}
        rows = tuple(self._row(entity, measured[name]) for entity, name in wanted.items())
        lasts = [last for name in names if (last := stream.last_event(name)) is not None]
        return HealthReport(rows, self.policy, max(lasts, default=None))

    def _measured(self, stream: NetworkStream, name: str) -> EntityHealth:
        """Measure a memory, whoever reads it."""
        least, norm, lost = self.least(stream, name), stream.state_norm(name), stream.non_finite(name)
        return EntityHealth(name, stream.count(name), least, norm, lost, math.nan, ())

    def _row(self, entity: str, memory: EntityHealth) -> EntityHealth:
        drift = self._drift.get(entity)
        breaches = beyond(self.policy, memory.least_denominator, memory.state_norm, drift)
        said = tuple(breaches.values())
        if memory.non_finite:
            said += (f"{memory.non_finite} numbers of the memory are not finite",)
        return replace(memory, entity=entity, drift=math.nan if drift is None else drift, breaches=said)

    def least(self, stream: NetworkStream, name: str) -> float:
        """Give the least denominator of a memory so far, reads before a snapshot included."""
        return min(stream.least_denominator(name), self._least.get(name, math.inf))

    def memory(self) -> dict[str, Arrays]:
        """Give copies of the shadows, by the names of the memories that they go with.

        Returns
        -------
        dict of str to dict of str to ndarray
            What :meth:`~quantattn.forecasters.streaming.health.shadow.Shadow.memory` gives of each.
        """
        if self._shadow is None:
            return {}
        return {name: self._shadow.memory(name) for name in self._shadow.entities}

    def restore(
        self,
        stream: NetworkStream,
        memories: Mapping[str, Mapping[str, npt.NDArray[Any]]],
        leasts: Mapping[str, float],
        drifts: Mapping[str, float],
    ) -> None:
        """Put back what :meth:`memory`, :meth:`least` and :attr:`drifts` gave, to go on beside a stream.

        Twins that this policy does not ask for are dropped. Where it asks for one that was not kept, the twin
        begins as a copy of the float32 memory: its drift counts from here.

        Parameters
        ----------
        stream : NetworkStream
            As it was then.
        memories : mapping of str to mapping of str to ndarray
            What :meth:`memory` gave.
        leasts : mapping of str to float
            What :meth:`least` gave for each memory of the stream, which itself keeps what writes met and
            forgets what reads did.
        drifts : mapping of str to float
            What :attr:`drifts` gave.

        Raises
        ------
        StateError
            If a memory is not one of this network, or not of this stream; nothing is changed then.
        """
        shadow = None if self._shadow is None else self._shadow.emptied()
        for name in stream.entities:
            if shadow is None or name not in self.watched:
                continue
            if name in memories:
                shadow.restore(name, memories[name])
                self._in_step(shadow, name, stream)
            else:
                shadow.adopt(name, stream.memory(name))
        self._shadow, self._least = shadow, dict(leasts)
        self._drift = {name: drift for name, drift in drifts.items() if name in self.policy.shadow}

    @staticmethod
    def _in_step(shadow: Shadow, name: str, stream: NetworkStream) -> None:
        if shadow.events(name) != stream.count(name):
            raise StateError(
                f"the shadow of {name!r} holds {shadow.events(name)} events and its memory "
                f"{stream.count(name)}; the monitor must be told of every write"
            )

    def _drifted(
        self,
        stream: NetworkStream,
        name: str,
        entity: str,
        token: npt.NDArray[np.float32],
        raw: npt.NDArray[np.float32],
    ) -> float | None:
        """Give how far a read is off, None without a shadow, and remember the largest of the entity."""
        if self._shadow is None or entity not in self.policy.shadow:
            return None
        self.added(name)
        self._in_step(self._shadow, name, stream)
        drift = float(np.abs(raw - self._shadow.read(name, token)).max())
        if math.isnan(drift):
            drift = math.inf
        self._drift[entity] = max(drift, self._drift.get(entity, 0.0))
        return drift
