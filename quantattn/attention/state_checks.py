"""Whether a state fits the call that continues it."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.state import AttentionState
from quantattn.attention.state_fields import few
from quantattn.errors import StateError


def check_entities(state: AttentionState, names: tuple[str, ...] | None) -> None:
    """Refuse a state that is the history of somebody else, or of somebody where the call does not say whose.

    A row that is nobody's yet may become anybody's.

    Raises
    ------
    StateError
        Naming the first row that differs.
    """
    if state.entities is None:
        return
    if names is None:
        raise StateError(
            f"entities: the initial state is that of {few(state.entities)}, and the call does not say whose "
            "history it continues; pass entities=..."
        )
    for row, (owner, name) in enumerate(zip(state.entities, names, strict=True)):
        if owner is not None and owner != name:
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
        if tuple(tensor.shape) != shape:
            raise StateError(
                f"initial_state: {name} has shape {tuple(tensor.shape)}, this call needs {shape}; "
                "continue a state with the batch, heads and widths that it was made with."
            )
    _check_place(state, dtype, device)
    for name in shapes:
        tensor = getattr(state, name).detach()
        if not bool(torch.isfinite(tensor).all()):
            raise StateError(f"initial_state: {name} is not finite; rebuild the state from its events.")
    if bool((state.count < 0).any()):
        raise StateError("initial_state: count is negative; rebuild the state from its events.")
    if state.pending is not None and bool((state.pending.detach() > 0).any()):
        raise StateError(
            "initial_state: pending is a log decay above zero; rebuild the state from its events."
        )


def _check_place(state: AttentionState, dtype: torch.dtype | None, device: torch.device | None) -> None:
    if dtype is not None and state.S.dtype != dtype:
        raise StateError(
            f"initial_state: S is {state.S.dtype}, this call computes in {dtype}; "
            f"convert the inputs, or the state with .to(dtype={dtype})."
        )
    if device is not None and state.S.device != device:
        raise StateError(
            f"initial_state: S is on {state.S.device}, the inputs are on {device}; "
            f"move the state with .to({str(device)!r})."
        )
