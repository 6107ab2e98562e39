"""What a feature map was built with, as plain data: compared where weights or a state are taken up."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from quantattn.attention.features import FeatureMap
from quantattn.attention.features.base import digest
from quantattn.errors import FeatureMapError

_OF_TORCH = frozenset(vars(nn.Module())) | {"_compiled_call_impl"}
"""Attributes that torch keeps on every module; what they hold is weights or none of our business."""


def map_options(feature_map: FeatureMap) -> dict[str, Any]:
    """Return the options of a map as plain numbers, texts, lists and dicts.

    A map may say them itself, with a property or method ``options`` that returns a dict. Of any other they
    are its attributes, public and private: numbers, texts and the like as they are, tensors that are not
    saved with the weights by a digest, inner maps and modules by their own options, anything else by its
    type. Parameters and buffers that are saved with the weights are left to them. A map without attributes is
    known by its ``extra_repr()`` or fingerprint. A map with attributes that change as it is used, such as a
    cache, says its ``options`` itself.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.

    Returns
    -------
    dict of str
        Equal to what JSON makes of it.

    Raises
    ------
    FeatureMapError
        If there is no map, or its own ``options`` are not a dict.

    Examples
    --------
    >>> from quantattn.attention import Taylor2
    >>> from quantattn.attention import map_options
    >>> map_options(Taylor2(scale=0.5))
    {'packed': True, 'scale': 0.5}
    """
    if not isinstance(feature_map, FeatureMap):
        raise FeatureMapError(
            f"feature_map: expected a FeatureMap, got {feature_map!r}; build one with build_feature_map()."
        )
    said = _said(feature_map)
    if said is not None:
        return {str(name): _plain(value) for name, value in said.items()}
    found = {name: _plain(value) for name, value in _attributes(feature_map)}
    if found:
        return found
    if isinstance(feature_map, nn.Module):
        text = feature_map.extra_repr()
        return {"extra_repr": text} if text else {}
    name = feature_map.fingerprint
    return {} if name == feature_map.name else {"fingerprint": name}


def describe_map(feature_map: FeatureMap) -> str:
    """Return a map's name with its options, as in ``taylor2(packed=True, scale=None)``."""
    return f"{feature_map.name}({', '.join(f'{k}={v!r}' for k, v in map_options(feature_map).items())})"


def _said(feature_map: FeatureMap) -> Mapping[str, Any] | None:
    """Return what a map says of itself; an attribute of one object is an attribute like any other."""
    if _of_class(type(feature_map), "options") is None:
        return None
    said: Any = feature_map.options  # type: ignore[attr-defined]
    said = said() if callable(said) else said
    if not isinstance(said, Mapping):
        raise FeatureMapError(
            f"feature_map: options of {feature_map.name!r} are {type(said).__name__}; return a dict of them."
        )
    return said


def _attributes(feature_map: FeatureMap) -> Iterator[tuple[str, Any]]:
    kind = type(feature_map)
    held = dict(vars(feature_map))
    for parent in kind.__mro__:
        slots = parent.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(feature_map, name):
                held[name] = getattr(feature_map, name)
    module = isinstance(feature_map, nn.Module)
    for name in sorted(held):
        if name.startswith("__") or (module and name in _OF_TORCH):
            continue
        if not isinstance(_of_class(kind, name), cached_property):
            yield name, held[name]
    if isinstance(feature_map, nn.Module):
        for name in sorted(feature_map._non_persistent_buffers_set):
            yield name, feature_map.get_buffer(name)
        yield from sorted(feature_map.named_children())


def _of_class(kind: type, name: str) -> Any:
    """Return what a class or its parents define under a name, as it is written there."""
    return next((parent.__dict__[name] for parent in kind.__mro__ if name in parent.__dict__), None)


def _plain(value: Any) -> Any:
    """Return what JSON can hold and what two maps of the same options have in common."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, FeatureMap):
        return {"feature_map": value.name, **map_options(value)}
    if isinstance(value, Tensor):
        return f"tensor {tuple(value.shape)} {digest(value)}"
    if isinstance(value, nn.Module | torch.dtype | torch.device):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return _plain(value.tolist())
    kind = value if hasattr(value, "__name__") else type(value)
    return f"{kind.__module__}.{kind.__name__}"
