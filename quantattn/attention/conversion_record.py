"""What the attention layers of a model are fed with, and what they give."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from quantattn.attention.module import CausalAttention
from quantattn.errors import AttentionError, DenominatorError, ShapeError


class Call(NamedTuple):
    """One call of a layer, hooks of the user included."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor


class Record:
    """The calls of every layer in one run of a model, and what the model gave."""

    def __init__(self, layers: Mapping[str, CausalAttention]) -> None:
        self.calls: dict[str, list[Call]] = {name: [] for name in layers}
        self.output: Any = None
        self.running: list[str] = []
        self._layers = dict(layers)
        self._given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    @torch.no_grad()
    def run(self, model: nn.Module, inputs: Any, *, linear: bool) -> Record:
        """Run a model once, in evaluation mode; `linear` says that it is the converted one.

        Raises
        ------
        ShapeError
            If a layer does not run, gives no tensor or no token, or one runs that the model does not hold.
        """
        hooks: list[Any] = [register_module_forward_pre_hook(self._refuse_stranger(threading.get_ident()))]
        for name, layer in self._layers.items():
            hooks.append(layer.register_forward_pre_hook(self._enter(name), with_kwargs=True, prepend=True))
            hooks.append(layer.register_forward_hook(self._leave(name)))
        try:
            with naming(self.running, linear=linear), evaluating(model):
                given = _kept(inputs)
                if isinstance(given, Mapping):
                    self.output = _kept(model(**given))
                else:
                    self.output = _kept(model(*(given if isinstance(given, tuple) else (given,))))
        finally:
            for hook in hooks:
                hook.remove()
        idle = [name for name, calls in self.calls.items() if not calls]
        if idle:
            raise ShapeError(
                f"inputs: the model did not run its layers {idle[:3]} on them; give inputs that reach every "
                "layer."
            )
        return self

    def _enter(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def hook(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            self.running.append(name)
            self._given.append((_kept(arguments), _kept(options)))

        return hook

    def _leave(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(_: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            if not isinstance(output, Tensor) or output.numel() == 0:
                said = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
                raise ShapeError(
                    f"inputs: the layer gave {said}; a drift is measured on tensors with at least one token."
                )
            self.calls[name].append(Call(*self._given.pop(), _kept(output)))
            self.running.pop()

        return hook

    def _refuse_stranger(self, thread: int) -> Callable[[nn.Module, Any], None]:
        own = set(self._layers.values())

        def hook(module: nn.Module, _: Any) -> None:
            softmax = isinstance(module, CausalAttention) and module.attention == "softmax"
            if softmax and module not in own and threading.get_ident() == thread:
                raise ShapeError(
                    "softmax_model: it runs a CausalAttention with attention='softmax' that is not among its "
                    "modules; hold it as an attribute, or in an nn.ModuleList."
                )

        return hook


def softmax_layers(model: nn.Module) -> dict[str, CausalAttention]:
    """Return what :func:`~quantattn.attention.convert` converts, each once, under its first name."""
    modules = model.named_modules()
    return {name: m for name, m in modules if isinstance(m, CausalAttention) and m.attention == "softmax"}


@contextmanager
def naming(layer: str | list[str], *, linear: bool = True) -> Iterator[None]:
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
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and the like off, without gradients, and leave every module as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def must_read(name: str, layer: CausalAttention) -> Iterator[None]:
    """Refuse a layer whose class computes something else than a linear read once it is switched.

    Raises
    ------
    ShapeError
        Naming the layer and its class.
    """
    reads: list[bool] = []
    read, before = layer.read, layer.__dict__.get("read")

    def noted(*arguments: Any, **options: Any) -> Any:
        reads.append(True)
        return read(*arguments, **options)

    layer.__dict__["read"] = noted
    try:
        yield
    finally:
        del layer.__dict__["read"]
        if before is not None:
            layer.__dict__["read"] = before
    if not reads:
        raise ShapeError(
            f"softmax_model: layer {name or '(model)'!r} is a {type(layer).__name__}, whose forward does not "
            "use the read of CausalAttention, so that nothing is converted; call super().forward() in it."
        )


def _kept(value: Any) -> Any:
    """Return a value with copies of its tensors, which the model may go on to edit."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(_kept(item) for item in value)
    if type(value) is dict:
        return {name: _kept(item) for name, item in value.items()}
    return value
