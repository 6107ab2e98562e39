"""What a feature map promises."""

from __future__ import annotations

import hashlib
import math
import numbers
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from quantattn.errors import FeatureMapError


class QueryFeatures(NamedTuple):
    """Features of queries, and what has been divided out of them."""

    features: Tensor
    """``(..., width(d))``."""
    log_scale: Tensor | None
    """``(...)``, or None for zero: the features proper are ``features * exp(log_scale)``. A factor of a row
    cancels in the ratio, so it may hold what would overflow; a prior or a floor is measured with it."""


class FeatureMap(ABC):
    """Maps the last axis of queries and keys, width ``d``, to ``width(d)`` features.

    A map acts on each position alone: whatever looks along the sequence, such as a maximum or a norm over
    time, lets the future into the past. A map with parameters or buffers is a :class:`torch.nn.Module` as
    well and belongs to the model that uses it. It gives features in the dtype of its input, float32 also in a
    layer of half precision, so a matrix of its own is applied as ``x @ weight.to(x.dtype)``.

    Attributes
    ----------
    name : str
        Name in the registry, part of a state's fingerprint; not that of a map of this package.
    positive : bool
        Whether no input can make a similarity negative. Where False, every call is checked; where True, the
        features of maps from outside this package are checked all the same.
    signed_features : bool, default False
        Whether features may be negative though no similarity is, as in a Taylor expansion of even degree.
        Such a promise cannot be checked call by call; :func:`~quantattn.attention.kernel_report` shows the
        least similarity.
    approximates_softmax : bool
        Whether the similarity estimates ``exp(q . k / sqrt(d))`` by its formula, without training.
    stays_finite : bool, default False
        Whether finite input always gives finite features. Where False, every call is checked.

    Notes
    -----
    What decides a map's function goes into checkpoints and states, by
    :func:`~quantattn.attention.map_options`: the numbers, texts and flags among its attributes, unless it
    defines ``options`` itself.
    """

    name: ClassVar[str]
    positive: ClassVar[bool]
    signed_features: ClassVar[bool] = False
    approximates_softmax: ClassVar[bool] = False
    stays_finite: ClassVar[bool] = False

    @abstractmethod
    def width(self, d: int) -> int:
        """Return the number of features made from a query or key of width `d`."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """Return the features of `x`, shape ``(..., width(d))``."""

    def map_query(self, x: Tensor) -> QueryFeatures:
        """Return the features of queries; the same as of keys unless a map says otherwise."""
        return QueryFeatures(self(x), None)

    def map_key(self, x: Tensor) -> Tensor:
        """Return the features of keys."""
        return self(x)

    @property
    def fingerprint(self) -> str:
        """Text that differs between maps whose states must not be mixed.

        The name, and of a :class:`torch.nn.Module` all numbers that it holds. A map with options adds them.
        """
        if isinstance(self, nn.Module):
            return f"{self.name}/{digest(*self.state_dict().values())}"
        return self.name


def check_scale(scale: float | None) -> float | None:
    """Return the factor of ``q . k`` as a float, or None for ``1 / sqrt(d)``.

    Raises
    ------
    FeatureMapError
        If it is not a positive finite number.
    """
    if scale is None:
        return None
    number = isinstance(scale, numbers.Real) and not isinstance(scale, bool)
    if not (number and math.isfinite(scale) and scale > 0):
        raise FeatureMapError(f"scale: expected a positive finite number, got {scale!r}; leave it out.")
    return float(scale)


def check_size(value: int, name: str) -> int:
    """Return `value`, a positive integer.

    Raises
    ------
    FeatureMapError
        If it is anything else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise FeatureMapError(f"{name}: expected a positive integer, got {value!r}.")
    return value


def side_scale(scale: float | None, d: int) -> float:
    """Return what queries and keys are each multiplied by, so that their product carries `scale`."""
    return float(d**-0.25 if scale is None else scale**0.5)


def digest(*tensors: Tensor) -> str:
    """Return a name for the numbers in `tensors`, whatever their dtype or device."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(repr(tuple(tensor.shape)).encode())
        total.update(tensor.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def check_heads(x: Tensor, name: str, d: int, heads: int | None) -> None:
    """Refuse input that a map of width `d`, with numbers of its own for each head, was not made for.

    Raises
    ------
    FeatureMapError
        Quoting the shape that came.
    """
    if x.shape[-1] != d or (heads is not None and (x.dim() < 3 or x.shape[-3] != heads)):
        wanted = f"(..., {d})" if heads is None else f"(..., {heads}, length, {d})"
        raise FeatureMapError(
            f"feature_map: this {name!r} was built for shape {wanted}, got {tuple(x.shape)}; "
            f"build one for these widths with build_feature_map({name!r}, d, heads=...)."
        )
