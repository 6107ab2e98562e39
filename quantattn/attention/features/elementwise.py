"""Maps that act on each number alone; the width stays ``d``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quantattn.attention.derivatives import first_order
from quantattn.attention.features.base import FeatureMap


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
    @first_order
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (features,) = ctx.saved_tensors
        # The slope is exp(x) = phi(x) below zero, and one above, where phi(x) exceeds one.
        slope: Tensor = features.clamp(max=1)
        return slope.mul_(grad)
