"""What a linear read has to remember of a history: a matrix, a vector, a count and a clock."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.instants import AsOf, clock_tensor, whole_instants
from quantattn.attention.state_fields import (
    FLOATS,
    check_tensors,
    checked_clock,
    checked_owners,
    clocks_of_rows,
    entity_names,
    few,
    refuse_no_clock,
)
from quantattn.attention.state_store import REMEDY, restored_fields, stored_metadata, stored_tensors
from quantattn.errors import CheckpointError, ClockError, StateError


@dataclass(frozen=True, eq=False, repr=False)
class AttentionState:
    """State of a linear read after some history.

    Two states are equal where they are one and the same object. :meth:`tensors` and :meth:`metadata` are all
    of a state as plain data, for a file, and :meth:`restore` takes it back.

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
        Names the feature map with its options, and the denominator policy; a state is only continued under
        its own.
    as_of : int, tuple or None
        Clock of the state, in the caller's unit (nanoseconds since 1970 in this package), for all rows of the
        batch or one for each, where a row that has none holds None; see :meth:`at`.
    entities : tuple or None
        Whose history each row of the batch is, None for a row that is nobody's; see :meth:`of`.

    Raises
    ------
    StateError
        If the tensors do not belong together, or there are not as many clocks or names as rows.
    ClockError
        If a clock is not a whole number.

    Notes
    -----
    Whoever edits the tensors of a state is on his own: a call that continues one refuses shapes, dtypes and
    numbers that no state has, but not numbers that another history could have left. What :meth:`restore`
    reads has a digest, which tells.

    Examples
    --------
    Into a file of safetensors and back, with clock, entities and all else that the state carries:

    >>> from safetensors import safe_open
    >>> from safetensors.torch import save_file
    >>> save_file(state.tensors(), "state.safetensors", metadata=state.metadata())  # doctest: +SKIP
    >>> with safe_open("state.safetensors", framework="pt") as file:  # doctest: +SKIP
    ...     tensors = {name: file.get_tensor(name) for name in file.keys()}
    ...     state = AttentionState.restore(tensors, file.metadata())
    """

    S: Tensor
    z: Tensor
    count: Tensor
    pending: Tensor | None
    fingerprint: str
    as_of: AsOf = None
    entities: tuple[str | None, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse fields that no state has."""
        check_tensors(self.S, self.z, self.count, self.pending)
        if not isinstance(self.fingerprint, str):
            raise StateError(
                f"fingerprint: expected a text, got {self.fingerprint!r}; take that of an earlier state."
            )
        rows = self.S.shape[0]
        object.__setattr__(self, "as_of", checked_clock(self.as_of, rows))
        object.__setattr__(self, "entities", checked_owners(self.entities, rows))

    def __repr__(self) -> str:
        """Return shape, counts, clock and entities; never the numbers of the state."""
        kind = str(self.S.dtype).removeprefix("torch.")
        names = "rows", "heads", "features", "values"
        sizes = ", ".join(f"{name}={size}" for name, size in zip(names, self.S.shape, strict=False))
        clock = few(self.as_of) if isinstance(self.as_of, tuple) else self.as_of
        owners = None if self.entities is None else few(self.entities)
        return (
            f"AttentionState({sizes}, {kind} on {self.S.device}, count={few(self.count.tolist())}, "
            f"as_of={clock}, entities={owners}, made under {self.fingerprint})"
        )

    def at(self, as_of: int | Sequence[int] | Tensor) -> AttentionState:
        """Return the state with its clock set, for all rows of the batch or for each.

        The clock alone: nothing decays by it. The time that passes up to later keys is told by their
        ``log_decay``.

        Raises
        ------
        ClockError
            If `as_of` lies before the state's clock, or is not a whole number, or several.
        StateError
            If there are not as many clocks as rows.
        """
        clock = whole_instants(as_of, "as_of")
        rows = self.count.shape[0]
        both = zip(clocks_of_rows(clock, rows), clocks_of_rows(self.as_of, rows), strict=True)
        for row, (now, before) in enumerate(both):
            if now is not None and before is not None and now < before:
                raise ClockError(
                    f"as_of: {now} lies before the state's clock, {before}, in row {row}; a state cannot "
                    "go back. Rebuild it from the events before that time."
                )
        return replace(self, as_of=clock)

    def without_clock(self) -> AttentionState:
        """Return the state without its clock, to go on with keys whose times are not told."""
        return replace(self, as_of=None)

    @property
    def clocks(self) -> Tensor:
        """The clock of each row as int64 ``(B, 1)``, such as ``since`` of reads in ``elapsed_decay``.

        Raises
        ------
        ClockError
            If the state has none, or a row of it.
        """
        clocks = clocks_of_rows(self.as_of, self.count.shape[0])
        if None in clocks or self.as_of is None:
            refuse_no_clock(clocks.index(None) if None in clocks else 0, self.as_of)
        return clock_tensor(self.as_of, len(clocks), self.count.device)[:, None]

    def of(self, entities: str | Sequence[str]) -> AttentionState:
        """Return the state with the names of those whose history it is, one for each row of the batch.

        Raises
        ------
        StateError
            If there are not as many names as rows, or the state has other names already.
        """
        names = entity_names(entities, self.count.shape[0])
        owners = self.entities or names
        if any(owner not in (None, name) for owner, name in zip(owners, names, strict=True)):
            raise StateError(
                f"entities: the state is that of {few(owners)}, not of {few(names)}; "
                "build one from the events of each entity."
            )
        return replace(self, entities=names)

    def row(self, index: int) -> AttentionState:
        """Return the state of one row of the batch, as a batch of one.

        Raises
        ------
        StateError
            If there is no such row; rows count from zero.
        """
        try:
            place = operator.index(index)
        except TypeError:
            place = -1
        if isinstance(index, bool) or not 0 <= place < self.count.shape[0]:
            raise StateError(
                f"index: expected a row from 0 to {self.count.shape[0] - 1} of the batch, got {index!r}."
            )
        part = slice(place, place + 1)
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
        """Return the rows of several states as one batch, each with its own clock and owner, or none.

        Raises
        ------
        StateError
            If there is none, or their maps, policies, shapes, dtypes or devices differ.
        """
        states = tuple(states) if isinstance(states, Iterable) else (states,)
        strange = [type(state).__name__ for state in states if not isinstance(state, AttentionState)]
        if not states or strange:
            got = f"got {strange[0]}" if strange else "got none"
            raise StateError(f"states: expected a list of at least one AttentionState, {got}.")
        prints = sorted({state.fingerprint for state in states})
        if len(prints) > 1:
            raise StateError(f"states: made under {prints}; stack states of one feature map and policy.")
        first = states[0]
        kinds = {(tuple(state.S.shape[1:]), state.S.dtype, state.S.device) for state in states}
        if len(kinds) > 1:
            said = "; ".join(sorted(f"{shape} {dtype} on {device}" for shape, dtype, device in kinds))
            alike = len({shape for shape, _, _ in kinds}) == 1
            remedy = "make them one with .to(device, dtype)" if alike else "stack states of the same widths"
            raise StateError(f"states: S of a row is {said}; {remedy}.")
        pending = None
        if any(state.pending is not None for state in states):
            still = first.S.new_zeros(first.S.shape[:2], dtype=torch.float64)
            pending = torch.cat([still if s.pending is None else s.pending for s in states])
        rows = [state.count.shape[0] for state in states]
        clocks = [clocks_of_rows(state.as_of, n) for state, n in zip(states, rows, strict=True)]
        owners = [state.entities or (None,) * n for state, n in zip(states, rows, strict=True)]
        return AttentionState(
            S=torch.cat([state.S for state in states]),
            z=torch.cat([state.z for state in states]),
            count=torch.cat([state.count for state in states]),
            pending=pending,
            fingerprint=first.fingerprint,
            as_of=sum(clocks, ()),
            entities=sum(owners, ()),
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> AttentionState:
        """Return a copy with tensors of its own.

        Raises
        ------
        StateError
            For a state that is part of a gradient's graph.
        """
        held = self._held()
        for name, tensor in held.items():
            if tensor.requires_grad and not tensor.is_leaf:
                raise StateError(
                    f"{name}: is part of a gradient's graph, which cannot be copied; copy state.detach()."
                )
        copied: dict[str, Any] = {name: copy.deepcopy(tensor, memo) for name, tensor in held.items()}
        return replace(self, **copied)

    def detach(self) -> AttentionState:
        """Return the state cut off from the gradient's graph."""
        pending = None if self.pending is None else self.pending.detach()
        return replace(self, S=self.S.detach(), z=self.z.detach(), pending=pending)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> AttentionState:
        """Return the state on another device, or in another dtype: float32, or float64 for such inputs.

        Raises
        ------
        StateError
            For another dtype, or numbers beyond it.
        """
        if dtype is not None and dtype not in FLOATS:
            raise StateError(f"dtype: a state is kept in torch.float32 or torch.float64, got {dtype!r}.")
        pending = None if self.pending is None else self.pending.to(device)
        moved = replace(
            self,
            S=self.S.to(device, dtype),
            z=self.z.to(device, dtype),
            count=self.count.to(device),
            pending=pending,
        )
        if self.S.dtype == torch.float64 and dtype == torch.float32:
            self._refuse_overflow(moved)
        return moved

    def _refuse_overflow(self, moved: AttentionState) -> None:
        for name in ("S", "z"):
            wide, narrow = getattr(self, name).detach(), getattr(moved, name).detach()
            if wide.device.type == "meta" or narrow.device.type == "meta":
                continue
            lost = torch.isfinite(wide) & ~torch.isfinite(narrow).to(wide.device)
            if bool(lost.any()):
                raise StateError(
                    f"dtype: {name} holds {float(wide[lost][0]):g}, which torch.float32 cannot; "
                    "go on in torch.float64."
                )

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the tensors, detached and contiguous; `pending` only where time passed."""
        return stored_tensors(self._held())

    def metadata(self) -> dict[str, str]:
        """Return all else as texts, with a digest that ties them to these tensors."""
        return stored_metadata(self._held(), self.fingerprint, self.as_of, self.entities)

    @staticmethod
    def restore(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> AttentionState:
        """Return the state that :meth:`tensors` and :meth:`metadata` were taken from.

        Parameters
        ----------
        tensors : mapping of str to Tensor
            What :meth:`tensors` gave, on any device.
        metadata : mapping of str to str
            What :meth:`metadata` gave; further keys are left alone.

        Raises
        ------
        CheckpointError
            If anything is missing, foreign, altered, or belongs to another state.
        """
        fields = restored_fields(tensors, metadata)
        try:
            return AttentionState(**fields)
        except (StateError, ClockError) as error:
            raise CheckpointError(f"state: {error} {REMEDY}") from error

    def _held(self) -> dict[str, Tensor]:
        held = {"S": self.S, "z": self.z, "count": self.count}
        return held if self.pending is None else {**held, "pending": self.pending}

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors of the state."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._held().values())
