"""Feature maps in float64, to measure what rounding does."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from quantattn.attention.features.base import FeatureMap


def in_float64(feature_map: FeatureMap) -> FeatureMap:
    """Return the map with the modules and tensors that it holds in float64, as a copy; the map is untouched.

    A map that holds none, or that cannot be copied, is returned as it is.
    """
    if not isinstance(feature_map, nn.Module) and not any(map(_holds_numbers, _vars(feature_map).values())):
        return feature_map
    try:
        made = copy.deepcopy(feature_map)
    except (RuntimeError, TypeError):  # part of a gradient's graph, or something that is not to be copied
        return feature_map
    if isinstance(made, nn.Module):
        made.double()
    for name, held in _vars(made).items():
        if _holds_numbers(held):
            vars(made)[name] = in_float64(held) if isinstance(held, FeatureMap) else held.double()
    return made


def _vars(feature_map: FeatureMap) -> dict[str, Any]:
    """Return the attributes of a map; those in slots are left out."""
    return dict(getattr(feature_map, "__dict__", {}))


def _holds_numbers(held: object) -> bool:
    return isinstance(held, nn.Module | FeatureMap) or (isinstance(held, Tensor) and held.is_floating_point())
