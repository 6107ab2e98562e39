"""Feature maps: nonnegative features whose dot product is the similarity of a query and a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from quantattn.errors import FeatureMapError


class FeatureMap(ABC):
    """Maps the last axis of queries and keys, width ``d``, to ``width(d)`` nonnegative features.

    Attributes
    ----------
    name : str
        Name in the registry, part of a state's fingerprint.
    positive : bool
        Whether the features are nonnegative whatever comes in. Where False, every call is checked.
    approximates_softmax : bool
        Whether the similarity estimates ``exp(q . k)``.
    stays_finite : bool, default False
        Whether finite input always gives finite features. Where False, every call is checked.
    """

    name: ClassVar[str]
    positive: ClassVar[bool]
    approximates_softmax: ClassVar[bool] = False
    stays_finite: ClassVar[bool] = False

    @abstractmethod
    def width(self, d: int) -> int:
        """Return the number of features made from a query or key of width `d`."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """Return the features of `x`, shape ``(..., width(d))``."""

    @property
    def fingerprint(self) -> str:
        """Text that differs between maps whose states must not be mixed."""
        return self.name


class Identity(FeatureMap):
    """``phi(x) = x``; signed input is an error."""

    name = "identity"
    positive = False
    stays_finite = True

    def width(self, d: int) -> int:
        """Return `d`."""
        return d

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` itself."""
        return x


class Relu(FeatureMap):
    """``phi(x) = max(x, 0)``."""

    name = "relu"
    positive = True
    stays_finite = True

    def width(self, d: int) -> int:
        """Return `d`."""
        return d

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``max(x, 0)``."""
        return torch.relu(x)


class SquaredRelu(FeatureMap):
    """``phi(x) = max(x, 0) ** 2`` (So et al., 2021, "Primer")."""

    name = "squared_relu"
    positive = True

    def width(self, d: int) -> int:
        """Return `d`."""
        return d

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``max(x, 0) ** 2``."""
        return torch.relu(x).square()


class Elu1(FeatureMap):
    """``phi(x) = elu(x) + 1`` (Katharopoulos et al., 2020, "Transformers are RNNs").

    Computed as ``exp(min(x, 0)) + max(x, 0)``: the textbook form loses every digit below about -17 in
    float32 and gives exact zeros there.
    """

    name = "elu1"
    positive = True
    stays_finite = True

    def width(self, d: int) -> int:
        """Return `d`."""
        return d

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``exp(min(x, 0)) + max(x, 0)``."""
        features: Tensor = _Elu1Function.apply(x)  # type: ignore[no-untyped-call]
        return features


class _Elu1Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        features = x.clamp(max=0).exp_().add_(torch.relu(x))
        ctx.save_for_backward(features)
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (features,) = ctx.saved_tensors
        # The slope is exp(x) = phi(x) below zero, and one above, where phi(x) exceeds one.
        slope: Tensor = features.clamp(max=1)
        return slope.mul_(grad)


_REGISTRY: dict[str, Callable[[], FeatureMap]] = {}


def register_feature_map(
    name: str, factory: Callable[[], FeatureMap], *, replace: bool = False
) -> Callable[[], FeatureMap]:
    """Make `factory` available as ``feature_map=name``.

    Parameters
    ----------
    name : str
        Name to register under.
    factory : callable
        Called without arguments; returns a :class:`FeatureMap`. A class will do.
    replace : bool, default False
        Whether a name already taken may be given a new meaning.

    Returns
    -------
    callable
        `factory`, unchanged.

    Raises
    ------
    FeatureMapError
        If the name is empty or taken, or `factory` cannot be called.
    """
    if not isinstance(name, str) or not name:
        raise FeatureMapError(f"name: expected a non-empty text, got {name!r}.")
    if not callable(factory):
        raise FeatureMapError(f"factory: expected a callable that returns a FeatureMap, got {factory!r}.")
    if name in _REGISTRY and not replace:
        raise FeatureMapError(f"name: {name!r} is already registered; pass replace=True to redefine it.")
    _REGISTRY[name] = factory
    return factory


def feature_map_names() -> tuple[str, ...]:
    """Return the names of the registered feature maps, sorted."""
    return tuple(sorted(_REGISTRY))


def resolve_feature_map(feature_map: str | FeatureMap) -> FeatureMap:
    """Return the map of that name, or the map itself.

    Raises
    ------
    FeatureMapError
        If no map has that name; the message suggests the nearest.
    """
    if isinstance(feature_map, FeatureMap):
        return feature_map
    factory = _REGISTRY.get(feature_map) if isinstance(feature_map, str) else None
    if factory is None:
        near = get_close_matches(str(feature_map), _REGISTRY, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise FeatureMapError(
            f"feature_map: {feature_map!r} is not registered; known: {', '.join(feature_map_names())}.{hint} "
            "Add your own with register_feature_map()."
        )
    made = factory()
    if not isinstance(made, FeatureMap):
        raise FeatureMapError(
            f"feature_map: the factory of {feature_map!r} returned {type(made).__name__}, not a FeatureMap."
        )
    return made


for _kind in (Identity, Relu, SquaredRelu, Elu1):
    register_feature_map(_kind.name, _kind)
