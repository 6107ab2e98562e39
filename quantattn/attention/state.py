"""What a linear read has to remember of a history: a matrix, a vector, a count and a clock."""

from __future__ import annotations

import hashlib
import json
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
    as_of : int or None
        Clock of the state, in the caller's unit (nanoseconds since 1970 in this package); see :meth:`at`.
    """

    S: Tensor
    z: Tensor
    count: Tensor
    pending: Tensor | None
    fingerprint: str
    as_of: int | None = None

    def at(self, as_of: int) -> AttentionState:
        """Return the state with its clock set.

        Raises
        ------
        ClockError
            If `as_of` lies before the state's clock.
        """
        if self.as_of is not None and as_of < self.as_of:
            raise ClockError(
                f"as_of: {as_of} lies before the state's clock, {self.as_of}; a state cannot go back. "
                "Rebuild it from the events before that time."
            )
        return replace(self, as_of=int(as_of))

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


def check_state(
    state: AttentionState, *, batch: int, heads: int, features: int, values: int, fingerprint: str
) -> None:
    """Refuse a state that another read left behind.

    Raises
    ------
    StateError
        If the map or policy differ, a shape does not fit, or the numbers are not finite.
    """
    if not isinstance(state, AttentionState):
        raise StateError(
            f"initial_state: expected an AttentionState, got {type(state).__name__}; "
            "pass what an earlier call returned with return_state=True."
        )
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
