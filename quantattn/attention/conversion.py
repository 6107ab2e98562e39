"""From a trained softmax model to a linear one that starts from its weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from quantattn.attention.conversion_record import Call, Record, evaluating, must_read, naming, softmax_layers
from quantattn.attention.conversion_report import Conversion, LayerDrift
from quantattn.attention.denominator import Denominator, check_policy
from quantattn.attention.features import FeatureMap
from quantattn.attention.features.registry import check_map
from quantattn.attention.module import CausalAttention
from quantattn.errors import FeatureMapError, ShapeError

__all__ = ["Conversion", "LayerDrift", "convert"]

MapChoice = str | FeatureMap | Callable[[CausalAttention], FeatureMap]
"""A map by name, one to copy into every layer, or a function of the layer that it goes into."""


def convert(
    softmax_model: nn.Module,
    feature_map: MapChoice,
    inputs: Tensor | tuple[Any, ...] | Mapping[str, Any],
    *,
    denominator: Denominator | None = None,
) -> Conversion:
    """Replace trained softmax attention by linear attention, and say what that changes.

    The layers of a copy of the model are switched in place: they keep their projections, their class, hooks
    and attributes, and whoever holds one of them holds the linear one.

    Parameters
    ----------
    softmax_model : torch.nn.Module
        A model with :class:`CausalAttention` layers, or such a layer; not compiled. It is copied. A subclass
        keeps what its ``forward`` adds, provided that it reads by that of :class:`CausalAttention`.
    feature_map : str, FeatureMap or callable
        Map by name, one to copy into every layer, or ``layer -> FeatureMap``. A map that holds parameters or
        draws is built, or copied, for every layer.
    inputs : Tensor, tuple or mapping
        What the model is called with to measure the drift: one tensor, positional or keyword arguments. A
        layer that is called several times is measured over all of its calls.
    denominator : Denominator, optional
        Policy of the linear layers; ``Denominator.raise_()`` where not given. Maps that may give zero
        (``relu``, ``squared_relu``, ``dpfp``) need a floor or a prior.

    Returns
    -------
    Conversion
        The converted model with its drift, layer by layer. No two models are called equal: a linear read is
        another function than softmax, and fine-tuning brings it closer at best.

    Raises
    ------
    ShapeError
        If the model is none, is compiled, holds no softmax layer of :class:`CausalAttention`, runs one that
        is not among its modules, or has one whose read is its own; if the inputs hold no token, or do not
        reach a layer.
    FeatureMapError
        If `feature_map` does not give a map.
    DenominatorError
        If the reads of a layer do not go with the policy. This and the other errors of a layer name it.
    """
    policy = Denominator.raise_() if denominator is None else check_policy(denominator)
    _check_model(softmax_model)
    model = copy.deepcopy(softmax_model)
    layers = softmax_layers(model)
    if not layers:
        _refuse(model)
    before = Record(layers).run(model, inputs, linear=False)
    for name, layer in layers.items():
        with naming(name):
            layer.become_linear(_map_for(feature_map, layer), policy)
    after = Record(layers).run(model, inputs, linear=True)
    drifts = [_drift_of(name, layer, before.calls[name], after.calls[name]) for name, layer in layers.items()]
    both = isinstance(before.output, Tensor) and isinstance(after.output, Tensor)
    return Conversion(
        model=model,
        layers=tuple(drifts),
        output=_over(_size([after.output - before.output]), _size([before.output])) if both else None,
        feature_map=next(iter(layers.values())).feature_map.name,
        denominator=policy,
    )


def _drift_of(name: str, layer: CausalAttention, before: list[Call], after: list[Call]) -> LayerDrift:
    """Return how far a layer is from what it was, over all of its calls."""
    if [call.output.shape for call in before] != [call.output.shape for call in after]:
        raise ShapeError(
            f"softmax_model: layer {name or '(model)'!r} ran {len(before)} times before and {len(after)} "
            "times after the conversion, or on other shapes; give inputs on which the model's course does "
            "not depend on its numbers."
        )
    softmax = [call.output for call in before]
    with naming(name), evaluating(layer), must_read(name, layer):
        own = [layer(*call.arguments, **call.options) for call in before]
    apart = [one - other for one, other in zip(own, softmax, strict=True)]
    compounded = [call.output - other for call, other in zip(after, softmax, strict=True)]
    size = _size(softmax)
    tokens = sum(x[..., 0].numel() for x in softmax)
    worst = max(float(x.double().norm(dim=-1).max()) for x in apart)
    return LayerDrift(
        layer=name,
        own=_over(_size(apart), size),
        compounded=_over(_size(compounded), size),
        worst=_over(worst, size / math.sqrt(tokens)),
        calls=len(before),
    )


def _size(tensors: list[Tensor]) -> float:
    """Return the size of several tensors together."""
    return math.sqrt(math.fsum(float(x.double().square().sum()) for x in tensors))


def _over(size: float, whole: float) -> float:
    return size / max(whole, torch.finfo(torch.float64).tiny)


def _check_model(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise ShapeError(
            f"softmax_model: expected a torch.nn.Module, got {type(model).__name__}; give the trained model."
        )
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise ShapeError(
                f"softmax_model: {name or '(model)'!r} is compiled, and would go on as it was traced; "
                "convert the model before it is compiled (torch.compile keeps it as _orig_mod)."
            )


def _refuse(model: nn.Module) -> None:
    others = [name or "(model)" for name, m in model.named_modules() if isinstance(m, nn.MultiheadAttention)]
    hint = ""
    if others:
        hint = (
            f" torch's MultiheadAttention at {others[:3]} does not say whether it is causal; replace it with "
            "CausalAttention.from_multihead() first."
        )
    raise ShapeError(f"softmax_model: holds no CausalAttention with attention='softmax'.{hint}")


def _map_for(choice: MapChoice, layer: CausalAttention) -> str | FeatureMap:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, FeatureMap):
        return copy.deepcopy(check_map(choice))
    if isinstance(choice, type) and issubclass(choice, FeatureMap):
        raise FeatureMapError(
            f"feature_map: expected a map, got the class {choice.__name__}; build one, such as "
            f"{choice.__name__}(), or give a function of the layer."
        )
    if not callable(choice):
        raise FeatureMapError(f"feature_map: expected a name, a map or a function, got {choice!r}.")
    function: Callable[..., Any] = choice
    try:
        made = function(layer)
    except FeatureMapError:
        raise
    except Exception as error:
        raise FeatureMapError(
            f"feature_map: the function failed with {type(error).__name__}: {error}; it is called with the "
            "layer and returns a map."
        ) from error
    if not isinstance(made, FeatureMap):
        raise FeatureMapError(f"feature_map: the function returned {type(made).__name__}, not a FeatureMap.")
    return made
