"""What a linear read has to remember of a history: a matrix, a vector, a count and a clock."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator
from quantattn.attention.features import FeatureMap
from quantattn.attention.instants import clock_tensor, whole_instants
from quantattn.attention.options import map_options
from quantattn.attention.state_store import restored_fields, stored_metadata, stored_tensors
from quantattn.errors import ClockError, StateError


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
    as_of : int, tuple of int or None
        Clock of the state, in the caller's unit (nanoseconds since 1970 in this package), for all rows of the
        batch or one for each; see :meth:`at`.
    entities : tuple of str or None
        Whose history each row of the batch is; see :meth:`of`.

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
    as_of: int | tuple[int, ...] | None = None
    entities: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Return shape, counts, clock and entities; never the numbers of the state."""
        kind = str(self.S.dtype).removeprefix("torch.")
        names = "rows", "heads", "features", "values"
        sizes = ", ".join(f"{name}={size}" for name, size in zip(names, self.S.shape, strict=False))
        clock = _few(self.as_of) if isinstance(self.as_of, tuple) else self.as_of
        owners = None if self.entities is None else _few(self.entities)
        return (
            f"AttentionState({sizes}, {kind} on {self.S.device}, count={_few(self.count.tolist())}, "
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
        new = self._for_rows(clock, "as_of")
        if self.as_of is not None:
            for row, (now, before) in enumerate(zip(new, self._for_rows(self.as_of, "as_of"), strict=True)):
                if now < before:
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
            If the state has none.
        """
        if self.as_of is None:
            raise ClockError(
                "as_of: the state has no clock; pass key_times to the call that makes it, or use .at()."
            )
        self._for_rows(self.as_of, "as_of")
        return clock_tensor(self.as_of, self.count.shape[0], self.count.device)[:, None]

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
        """Return the rows of several states as one batch.

        Raises
        ------
        StateError
            If there is none, or their maps, policies, shapes, dtypes or devices differ.
        """
        if not states:
            raise StateError("states: expected at least one, got none.")
        prints = sorted({state.fingerprint for state in states})
        if len(prints) > 1:
            raise StateError(f"states: made under {prints}; stack states of one feature map and policy.")
        first = states[0]
        kinds = {(tuple(state.S.shape[1:]), state.S.dtype, state.S.device) for state in states}
        if len(kinds) > 1:
            said = "; ".join(sorted(f"{shape} {dtype} on {device}" for shape, dtype, device in kinds))
            raise StateError(f"states: S of a row is {said}; make them one with .to(device, dtype).")
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

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> AttentionState:
        """Return the state on another device, or in another dtype: float32, or float64 for such inputs.

        Raises
        ------
        StateError
            For another dtype.
        """
        if dtype not in (None, torch.float32, torch.float64):
            raise StateError(f"dtype: a state is kept in torch.float32 or torch.float64, got {dtype!r}.")
        pending = None if self.pending is None else self.pending.to(device)
        S, z = self.S.to(device, dtype), self.z.to(device, dtype)
        return replace(self, S=S, z=z, count=self.count.to(device), pending=pending)

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
        return AttentionState(**restored_fields(tensors, metadata))

    def _held(self) -> dict[str, Tensor]:
        held = {"S": self.S, "z": self.z, "count": self.count}
        return held if self.pending is None else {**held, "pending": self.pending}

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors of the state."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._held().values())


def _few(several: Sequence[object]) -> str:
    """Return the first three of several, and how many there are."""
    more = f", ... {len(several)} in all" if len(several) > 3 else ""
    return f"({', '.join(repr(one) for one in several[:3])}{more})"


def state_fingerprint(feature_map: FeatureMap, denominator: Denominator) -> str:
    """Return the name that a state under this map, with its options, and this policy carries."""
    map_ = f"{feature_map.fingerprint} {json.dumps(map_options(feature_map), sort_keys=True)}"
    return f"{feature_map.name}/{denominator.kind}/{_digest(map_, denominator)}"


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
    state: AttentionState,
    *,
    batch: int,
    heads: int,
    features: int,
    values: int,
    fingerprint: str,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> None:
    """Refuse a state that another read left behind.

    Raises
    ------
    StateError
        If the map or policy differs, a shape, dtype or device does not fit, or the numbers are not finite.
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
            "continue a state under its own feature map and denominator policy, with the same options."
        )
    shapes = {"S": (batch, heads, features, values), "z": (batch, heads, features), "count": (batch,)}
    if state.pending is not None:
        shapes["pending"] = (batch, heads)
    for name, shape in shapes.items():
        tensor: Tensor = getattr(state, name)
        if not isinstance(tensor, Tensor) or tuple(tensor.shape) != shape:
            kind = f"shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise StateError(
                f"initial_state: {name} has {kind}, this call needs {shape}; "
                "continue a state with the batch, heads and widths that it was made with."
            )
        _check_kind(name, tensor, dtype, device)
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.detach()).all()):
            raise StateError(f"initial_state: {name} is not finite; rebuild the state from its events.")
    if bool((state.count < 0).any()):
        raise StateError("initial_state: count is negative; rebuild the state from its events.")
    if state.pending is not None and bool((state.pending.detach() > 0).any()):
        raise StateError(
            "initial_state: pending is a log decay above zero; rebuild the state from its events."
        )


def _check_kind(name: str, tensor: Tensor, dtype: torch.dtype | None, device: torch.device | None) -> None:
    wanted = {"count": torch.int64, "pending": torch.float64}.get(name, dtype)
    if wanted is not None and tensor.dtype != wanted:
        if name in ("count", "pending"):
            raise StateError(
                f"initial_state: {name} is {tensor.dtype}, a state keeps it in {wanted}; take it as it came."
            )
        raise StateError(
            f"initial_state: {name} is {tensor.dtype}, this call computes in {wanted}; "
            f"convert the inputs, or the state with .to(dtype={wanted})."
        )
    if not (tensor.is_floating_point() or name == "count"):
        raise StateError(f"initial_state: {name} is {tensor.dtype}, which is not a floating dtype.")
    if device is not None and tensor.device != device:
        raise StateError(
            f"initial_state: {name} is on {tensor.device}, the inputs are on {device}; "
            f"move the state with .to({str(device)!r})."
        )
