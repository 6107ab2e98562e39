"""From a trained softmax model to a linear one that starts from its weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quantattn.attention.denominator import Denominator
from quantattn.attention.estimates import table
from quantattn.attention.features import FeatureMap
from quantattn.attention.module import CausalAttention
from quantattn.errors import AttentionError, DenominatorError, FeatureMapError, ShapeError

MapChoice = str | FeatureMap | Callable[[CausalAttention], FeatureMap]
"""A map by name, one to copy into every layer, or a function of the layer that it goes into."""


@dataclass(frozen=True)
class LayerDrift:
    """How far one converted layer is from the layer that it replaces.

    Attributes
    ----------
    layer : str
        Name of the layer in the model; empty where the model is the layer.
    own : float
        Size of the output's difference over the size of the softmax output, both layers fed with what the
        softmax model feeds them.
    compounded : float
        The same with both models run from their inputs, so with the drift of earlier layers.
    worst : float
        Largest difference of one token under `own`, over the root mean square size of a token.
    """

    layer: str
    own: float
    compounded: float
    worst: float


@dataclass(frozen=True)
class Conversion:
    """A converted model and its drift before any fine-tuning.

    Attributes
    ----------
    model : torch.nn.Module
        A copy of the softmax model with linear attention, ready to be trained; the original is untouched.
    layers : tuple of LayerDrift
        Drift of every converted layer, in the order in which the model holds them.
    output : float or None
        Size of the difference of the models' outputs over the size of the softmax model's; None where the
        output is not one tensor.
    feature_map : str
        Name of the map.
    denominator : Denominator
        The policy of every converted layer.
    """

    model: nn.Module
    layers: tuple[LayerDrift, ...]
    output: float | None
    feature_map: str
    denominator: Denominator

    def to_dict(self) -> dict[str, Any]:
        """Return the report, without the model, as plain numbers and text."""
        return {
            "layers": [dict(vars(layer)) for layer in self.layers],
            "output": self.output,
            "feature_map": self.feature_map,
            "denominator": self.denominator.to_dict(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each layer, such as for a data frame."""
        whole = {
            "model_output": self.output,
            "feature_map": self.feature_map,
            "denominator": str(self.denominator),
        }
        return [{**vars(layer), **whole} for layer in self.layers]

    def __str__(self) -> str:
        """Return the report as a table, with the names of the attributes of :class:`LayerDrift`."""
        head = ("layer", "own", "compounded", "worst")
        rows = [
            (drift.layer or "(model)", f"{drift.own:.3g}", f"{drift.compounded:.3g}", f"{drift.worst:.3g}")
            for drift in self.layers
        ]
        whole = "" if self.output is None else f"\n\nDrift of the model's output: {self.output:.3g}"
        return (
            f"Converted to linear attention, {self.feature_map}, {self.denominator}. It is another "
            "function than the softmax\nmodel; this is how far apart they are on the inputs given, before "
            "fine-tuning, relative to softmax.\nown: of the layer, fed as in the softmax model; compounded: "
            "with the drift of earlier layers; worst: of one\n"
            f"token, under own\n\n{table(head, rows)}{whole}"
        )


def convert(
    softmax_model: nn.Module,
    feature_map: MapChoice,
    inputs: Tensor | tuple[Any, ...] | Mapping[str, Any],
    *,
    denominator: Denominator | None = None,
) -> Conversion:
    """Replace trained softmax attention by linear attention, and say what that changes.

    The linear layers start with the projections of the softmax layers.

    Parameters
    ----------
    softmax_model : torch.nn.Module
        A model with :class:`CausalAttention` layers, or such a layer. It is copied.
    feature_map : str, FeatureMap or callable
        Map by name, one to copy into every layer, or ``layer -> FeatureMap``. A map that holds parameters or
        draws is built, or copied, for every layer.
    inputs : Tensor, tuple or mapping
        What the model is called with to measure the drift: one tensor, positional or keyword arguments.
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
        If the model has no softmax layer of :class:`CausalAttention`.
    FeatureMapError
        If `feature_map` does not give a map.
    DenominatorError
        If the reads of a layer do not go with the policy. This and the other errors of a layer name it.
    """
    policy = Denominator.raise_() if denominator is None else denominator
    model = copy.deepcopy(softmax_model)
    names = [name for name, m in model.named_modules(remove_duplicate=False) if _is_softmax(m)]
    if not names:
        _refuse(model)
    made: dict[nn.Module, CausalAttention] = {}
    for name in names:
        layer = model.get_submodule(name)
        assert isinstance(layer, CausalAttention)
        if layer not in made:
            with _naming(name):
                made[layer] = _linear(layer, _map_for(feature_map, layer), policy)
        parent, _, last = name.rpartition(".")
        if last:
            setattr(model.get_submodule(parent), last, made[layer])
        else:
            model = made[layer]
    before, output = _record(softmax_model, names, inputs)
    after, converted = _record(model, names, inputs)
    drifts = []
    for name in names:
        linear = model.get_submodule(name)
        arguments, options, softmax = before[name]
        with _naming(name), _evaluating(linear):
            own = linear(*arguments, **options)
        size = softmax.double().square().sum(-1).mean().sqrt()
        worst = (own - softmax).double().norm(dim=-1).max() / size
        drifts.append(LayerDrift(name, _drift(softmax, own), _drift(softmax, after[name][2]), float(worst)))
    both = isinstance(output, Tensor) and isinstance(converted, Tensor)
    first = model.get_submodule(names[0])
    assert isinstance(first, CausalAttention)
    return Conversion(
        model=model,
        layers=tuple(drifts),
        output=_drift(output, converted) if both else None,
        feature_map=first.feature_map.name,
        denominator=policy,
    )


def _is_softmax(module: nn.Module) -> bool:
    return isinstance(module, CausalAttention) and module.attention == "softmax"


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
        return copy.deepcopy(choice)
    if not callable(choice):
        raise FeatureMapError(f"feature_map: expected a name, a map or a function, got {choice!r}.")
    made = choice(layer)
    if not isinstance(made, FeatureMap):
        raise FeatureMapError(f"feature_map: the function returned {type(made).__name__}, not a FeatureMap.")
    return made


def _linear(layer: CausalAttention, feature_map: str | FeatureMap, policy: Denominator) -> CausalAttention:
    made = CausalAttention(
        layer.width,
        layer.heads,
        attention="linear",
        feature_map=feature_map,
        denominator=policy,
        bias=layer.projection.bias is not None,
    )
    weight = layer.projection.weight
    made = made.to(weight.device, weight.dtype).train(layer.training)
    made.projection, made.mix = layer.projection, layer.mix
    return made


Call = tuple[tuple[Any, ...], dict[str, Any], Tensor]


@torch.no_grad()
def _record(model: nn.Module, names: list[str], inputs: Any) -> tuple[dict[str, Call], Any]:
    """Run a model once; return each layer's arguments and output, and the model's output."""
    calls: dict[str, Call] = {}
    running: list[str] = []

    def enter(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda *_: running.append(name)

    def keep(name: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Tensor], None]:
        def hook(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], output: Tensor) -> None:
            calls[name] = (arguments, options, output)
            running.remove(name)

        return hook

    linear = not any(_is_softmax(module) for module in model.modules())
    hooks = []
    for name in names:
        module = model.get_submodule(name)
        hooks.append(module.register_forward_pre_hook(enter(name)))
        hooks.append(module.register_forward_hook(keep(name), with_kwargs=True))
    try:
        with _naming(running, linear=linear), _evaluating(model):
            if isinstance(inputs, Mapping):
                output = model(**inputs)
            else:
                output = model(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    finally:
        for hook in hooks:
            hook.remove()
    idle = [name for name in names if name not in calls]
    if idle:
        raise ShapeError(f"inputs: the model did not run its layers {idle[:3]} on them.")
    return calls, output


@contextmanager
def _naming(layer: str | list[str], *, linear: bool = True) -> Iterator[None]:
    """Say in which layer an error happened, and where its policy is given."""
    try:
        yield
    except AttentionError as error:
        name = layer if isinstance(layer, str) else layer[-1] if layer else None
        if name is None:
            raise
        hint = ""
        if linear and isinstance(error, DenominatorError):
            hint = " The policy of the linear layers is an option: convert(..., denominator=...)."
        raise type(error)(f"layer {name or '(model)'!r}: {error}{hint}") from error


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and the like off, without gradients, and leave every module as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def _drift(softmax: Tensor, linear: Tensor) -> float:
    size = softmax.double().norm().clamp(min=torch.finfo(torch.float64).tiny)
    return float((linear.double() - softmax.double()).norm() / size)
