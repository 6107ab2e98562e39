"""From checked inputs to the sums of a read: the feature map and the backend."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from quantattn.attention.backends import Problem, Visibility, load_mapped_read, resolve_backend
from quantattn.attention.denominator import Denominator, RaiseDenominator
from quantattn.attention.features import FeatureMap
from quantattn.attention.finite import reached
from quantattn.attention.prepare import prepare
from quantattn.attention.ratio import divide, refuse_unusable


class Request(NamedTuple):
    """A checked read, in queries, keys and values."""

    query: Tensor
    """``(B, H, Tq, d)``, float32 or float64 like all that follow."""
    key: Tensor
    value: Tensor
    feature_map: FeatureMap
    visibility: Visibility
    counts: Tensor | None
    mask: Tensor | None
    log_decay: Tensor | None
    state: Tensor | None
    """``(B, H, r, d_v + 1)``."""
    pending: Tensor | None
    want_state: bool
    chunk_size: int


class Reading(NamedTuple):
    """What a backend found."""

    sums: Tensor | None
    """``(B, H, Tq, d_v + 1)``; None where the backend has divided already."""
    output: Tensor | None
    """``(B, H, Tq, d_v)``: the plain ratio, where the backend has divided."""
    denominators: Tensor | None
    """``(B, H, Tq)``, where the backend has divided."""
    log_unit: Tensor | None
    """``(B, H, Tq)`` float64: logarithm of a factor that the sums lack."""
    lost: Tensor | None
    """``(B, H, Tq)`` bool: reads that met a non-finite input."""
    spoilt: Tensor | None
    """``(B, H)`` bool: heads that hold a non-finite key that counts."""
    since: Tensor | None
    state: Tensor | None
    pending: Tensor | None

    def divided(self, scale: Tensor | None, policy: Denominator) -> tuple[Tensor, Tensor]:
        """Return the output and the denominators under a policy; see :func:`.ratio.divide`."""
        if self.sums is not None:
            return divide(self.sums, scale, self.lost, policy, log_unit=self.log_unit)
        assert self.output is not None and self.denominators is not None
        refuse_unusable(self.denominators)
        return self.output, self.denominators


def read(backend: str, request: Request, policy: Denominator) -> tuple[str, Reading]:
    """Read with the backend of that name, and return its name too: ``"auto"`` picks one.

    Raises
    ------
    BackendError
        If no backend has that name, or it does not run on the device of the inputs.
    FeatureMapError
        For negative features.
    """
    query, key = request.query, request.key
    name, solve = resolve_backend(
        backend,
        reads=query.shape[2],
        keys=key.shape[2],
        device=query.device,
        dtype=query.dtype,
        stateful=request.want_state or request.state is not None,
    )
    mapped = load_mapped_read(name, request.feature_map, query.dtype)
    if mapped is not None:
        found = mapped(
            query,
            key,
            request.value,
            request.visibility,
            request.counts,
            request.mask,
            request.log_decay,
            request.state,
            request.pending,
            isinstance(policy, RaiseDenominator),
        )
        return name, Reading(*found)
    prepared = prepare(query, key, request.value, request.mask, request.feature_map)
    solution = solve(
        Problem(
            query=prepared.query,
            key=prepared.key,
            value=prepared.value,
            visibility=request.visibility,
            counts=request.counts,
            key_mask=request.mask,
            log_decay=request.log_decay,
            state=request.state,
            pending=request.pending,
            chunk_size=request.chunk_size,
            want_state=request.want_state,
        )
    )
    lost = spoilt = None
    if prepared.poisoned is not None:
        lost = reached(prepared.poisoned.keys, request.counts, request.visibility) | prepared.poisoned.queries
        spoilt = prepared.poisoned.keys.any(-1)
    return name, Reading(
        solution.read,
        None,
        None,
        prepared.log_scale,
        lost,
        spoilt,
        solution.since,
        solution.state,
        solution.pending,
    )


def spoil(state: Tensor, heads: Tensor | None) -> Tensor:
    """Return a state that is NaN in those heads ``(B, H)``."""
    return state if heads is None else torch.where(heads[..., None, None], torch.nan, state)
