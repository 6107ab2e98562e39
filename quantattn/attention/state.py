"""What a linear read has to remember of a history: a matrix, a vector, a count and a clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator
from quantattn.attention.features import FeatureMap
from quantattn.errors import ClockError, StateError


@dataclass(frozen=True)
class AttentionState:
    """State of a linear read after some history.

    Attributes
    ----------
    S : Tensor
        ``(B, H, r, d_v)``: weighted sum of the outer products of key features and values.
    z : Tensor
        ``(B, H, r)``: weighted sum of the key features.
    count : Tensor
        ``(B,)`` int64: keys written so far; masked keys are not counted.
    pending : Tensor or None
        ``(B, H)`` float64, at most zero: log decay since the last key that was written, not yet in `S` and
        `z`. None where no time has ever passed.
    fingerprint : str
        Names the feature map and the denominator policy; a state is only continued under its own.
    as_of : int, tuple of int or None
        Clock of the state, in the caller's unit (nanoseconds since 1970 in this package), for all rows of the
        batch or one for each; see :meth:`at`.
    entities : tuple of str or None
        Whose history each row of the batch is; see :meth:`of`.
    """

    S: Tensor
    z: Tensor
    count: Tensor
    pending: Tensor | None
    fingerprint: str
    as_of: int | tuple[int, ...] | None = None
    entities: tuple[str, ...] | None = None

    def at(self, as_of: int | Sequence[int]) -> AttentionState:
        """Return the state with its clock set, for all rows of the batch or for each.

        Raises
        ------
        ClockError
            If `as_of` lies before the state's clock.
        StateError
            If there are not as many clocks as rows.
        """
        clock = int(as_of) if isinstance(as_of, int) else tuple(int(time) for time in as_of)
        new = self._for_rows(clock, "as_of")
        if self.as_of is not None:
            for row, (now, before) in enumerate(zip(new, self._for_rows(self.as_of, "as_of"), strict=True)):
                if now < before:
                    raise ClockError(
                        f"as_of: {now} lies before the state's clock, {before}, in row {row}; a state cannot "
                        "go back. Rebuild it from the events before that time."
                    )
        return replace(self, as_of=clock)

    def of(self, entities: str | Sequence[str]) -> AttentionState:
        """Return the state with the names of those whose history it is, one for each row of the batch.

        Raises
        ------
        StateError
            If there are not as many names as rows, or the state has other names already.
        """
        names = entity_names(entities, self.count.shape[0])
        if self.entities is not None and self.entities != names:
            raise StateError(
                f"entities: the state is that of {self.entities}, not of {names}; "
                "build one from the events of each entity."
            )
        return replace(self, entities=names)

    def row(self, index: int) -> AttentionState:
        """Return the state of one row of the batch, as a batch of one."""
        part = slice(index, index + 1)
        return replace(
            self,
            S=self.S[part],
            z=self.z[part],
            count=self.count[part],
            pending=None if self.pending is None else self.pending[part],
            as_of=self.as_of[part] if isinstance(self.as_of, tuple) else self.as_of,
            entities=None if self.entities is None else self.entities[part],
        )

    @staticmethod
    def stack(states: Sequence[AttentionState]) -> AttentionState:
        """Return the rows of several states as one batch.

        Raises
        ------
        StateError
            If there is none, or their maps or policies differ.
        """
        if not states:
            raise StateError("states: expected at least one, got none.")
        prints = sorted({state.fingerprint for state in states})
        if len(prints) > 1:
            raise StateError(f"states: made under {prints}; stack states of one feature map and policy.")
        first = states[0]
        pending = None
        if any(state.pending is not None for state in states):
            still = first.S.new_zeros(first.S.shape[:2], dtype=torch.float64)
            pending = torch.cat([still if s.pending is None else s.pending for s in states])
        clocks = [state._for_rows(state.as_of, "as_of") for state in states if state.as_of is not None]
        names = [state.entities for state in states if state.entities is not None]
        return AttentionState(
            S=torch.cat([state.S for state in states]),
            z=torch.cat([state.z for state in states]),
            count=torch.cat([state.count for state in states]),
            pending=pending,
            fingerprint=first.fingerprint,
            as_of=sum(clocks, ()) if len(clocks) == len(states) else None,
            entities=sum(names, ()) if len(names) == len(states) else None,
        )

    def _for_rows(self, clock: int | tuple[int, ...], name: str) -> tuple[int, ...]:
        rows = self.count.shape[0]
        if isinstance(clock, int):
            return (clock,) * rows
        if len(clock) != rows:
            raise StateError(f"{name}: {len(clock)} given for {rows} rows of the batch; give one for each.")
        return clock

    def detach(self) -> AttentionState:
        """Return the state cut off from the gradient's graph."""
        pending = None if self.pending is None else self.pending.detach()
        return replace(self, S=self.S.detach(), z=self.z.detach(), pending=pending)

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors of the state."""
        tensors = [self.S, self.z, self.count]
        if self.pending is not None:
            tensors.append(self.pending)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def state_fingerprint(feature_map: FeatureMap, denominator: Denominator) -> str:
    """Return the name that a state under this map and policy carries."""
    return f"{feature_map.name}/{denominator.kind}/{_digest(feature_map.fingerprint, denominator)}"


@lru_cache(maxsize=256)
def _digest(feature_map: str, denominator: Denominator) -> str:
    content = json.dumps({"feature_map": feature_map, "denominator": denominator.to_dict()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def entity_names(entities: str | Sequence[str], rows: int) -> tuple[str, ...]:
    """Return one name for each row of the batch.

    Raises
    ------
    StateError
        If there are not as many names as rows, or one is not a text.
    """
    names = (entities,) if isinstance(entities, str) else tuple(entities)
    if len(names) != rows or not all(isinstance(name, str) for name in names):
        raise StateError(
            f"entities: expected {rows} names, one for each row of the batch, got {len(names)}: {names[:3]}."
        )
    return names


def check_entities(state: AttentionState, names: tuple[str, ...] | None) -> None:
    """Refuse a state that is the history of somebody else, or of somebody where the call does not say whose.

    Raises
    ------
    StateError
        Naming the first row that differs.
    """
    if state.entities is None:
        return
    if names is None:
        raise StateError(
            f"entities: the initial state is that of {state.entities[:3]}, and the call does not say whose "
            "history it continues; pass entities=..."
        )
    for row, (owner, name) in enumerate(zip(state.entities, names, strict=True)):
        if owner != name:
            raise StateError(
                f"entities: the initial state of row {row} is that of {owner!r}, but the call continues "
                f"{name!r}; look the state up by its entity."
            )


def check_rows(state: AttentionState, rows: int) -> None:
    """Refuse a state that does not have one row for each sequence.

    Raises
    ------
    StateError
        Quoting both numbers.
    """
    if not isinstance(state, AttentionState):
        raise StateError(f"initial_state: expected an AttentionState, got {type(state).__name__}.")
    if state.count.shape[0] != rows:
        raise StateError(
            f"initial_state: has {state.count.shape[0]} rows for {rows} sequences; "
            "put one together with AttentionState.stack()."
        )


def check_state(
    state: AttentionState, *, batch: int, heads: int, features: int, values: int, fingerprint: str
) -> None:
    """Refuse a state that another read left behind.

    Raises
    ------
    StateError
        If the map or policy differs, a shape does not fit, or the numbers are not finite.
    """
    if not isinstance(state, AttentionState):
        raise StateError(
            f"initial_state: expected an AttentionState, got {type(state).__name__}; "
            "pass what an earlier call returned with return_state=True."
        )
    if isinstance(state.as_of, tuple) and len(state.as_of) != batch:
        raise StateError(f"initial_state: has {len(state.as_of)} clocks for a batch of {batch}.")
    if state.fingerprint != fingerprint:
        raise StateError(
            f"initial_state: made under {state.fingerprint!r}, but this call is {fingerprint!r}; "
            "continue a state under its own feature map and denominator policy."
        )
    shapes = {"S": (batch, heads, features, values), "z": (batch, heads, features), "count": (batch,)}
    if state.pending is not None:
        shapes["pending"] = (batch, heads)
    for name, shape in shapes.items():
        tensor: Tensor = getattr(state, name)
        if tuple(tensor.shape) != shape:
            raise StateError(
                f"initial_state: {name} has shape {tuple(tensor.shape)}, this call needs {shape}; "
                "continue a state with the batch, heads and widths that it was made with."
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.detach()).all()):
            raise StateError(f"initial_state: {name} is not finite; rebuild the state from its events.")
