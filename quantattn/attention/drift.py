"""How far a read is from the same read in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator
from quantattn.attention.features import FeatureMap
from quantattn.attention.features.precise import in_float64
from quantattn.attention.fingerprint import state_fingerprint
from quantattn.attention.state import AttentionState

_FEW_PAIRS = 512 * 512


@torch.no_grad()
def drift_of(
    read: Callable[..., Any],
    output: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    feature_map: FeatureMap,
    state: AttentionState | None,
    *,
    denominator: Denominator,
    **options: Any,
) -> float:
    """Return the largest difference to float64 over the largest output, of the reads that are finite.

    Parameters
    ----------
    read : callable
        :func:`~quantattn.attention.linear_attention`.
    output : Tensor
        What it gave.
    inputs : tuple of Tensor
        Queries, keys and values.
    feature_map : FeatureMap
        Its map; the modules that it holds are read in float64, as a copy.
    state : AttentionState or None
        The state that it continued.
    denominator : Denominator
        Its policy.
    **options
        Its other options, without clocks and entities.
    """
    query, key, value = (x.double() for x in inputs)
    precise = in_float64(feature_map)
    if state is not None:
        name = state_fingerprint(precise, denominator)
        state = replace(state.to(dtype=torch.float64), fingerprint=name, as_of=None, entities=None)
    exact: Tensor = read(
        query,
        key,
        value,
        feature_map=precise,
        initial_state=state,
        denominator=denominator,
        backend="quadratic" if query.shape[2] * key.shape[2] <= _FEW_PAIRS else "chunked",
        **options,
    ).output
    both = torch.isfinite(exact) & torch.isfinite(output)
    if not bool(both.any()):
        return 0.0
    largest = exact[both].abs().max().clamp(min=torch.finfo(torch.float64).tiny)
    return float((output.double() - exact)[both].abs().max() / largest)
