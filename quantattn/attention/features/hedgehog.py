"""Learned features that are as spiky as softmax."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from quantattn.attention.features.base import FeatureMap, QueryFeatures, check_heads, check_size, digest
from quantattn.attention.features.projection import project
from quantattn.errors import FeatureMapError


class Hedgehog(nn.Module, FeatureMap):
    """Exponentials of a trained projection (Zhang et al., 2024, "The Hedgehog & the Porcupine").

    The features are ``[f(W x), f(-W x)]``, with ``f`` the softmax over the features of one position or the
    plain exponential, and ``W`` starting as the identity. How far they are from softmax depends on training
    alone; :func:`~quantattn.attention.kernel_report` says how far.

    Parameters
    ----------
    d : int
        Width of queries and keys.
    heads : int, optional
        Number of heads, each with matrices of its own; one for all heads where not given.
    features : int, optional
        Rows of ``W``; `d` where not given. The width is twice that.
    activation : {"softmax", "exp"}, default "softmax"
        ``"softmax"`` is bounded and stays within one position. ``"exp"`` overflows in float32 once an entry
        of ``W x`` exceeds 88, and such a row is then refused or NaN.
    tied : bool, default False
        Whether queries and keys share one matrix.

    Attributes
    ----------
    query_weight, key_weight : Parameter
        ``(features, d)``, or ``(heads, features, d)``; one and the same where `tied`.
    """

    name: ClassVar[str] = "hedgehog"
    positive: ClassVar[bool] = True

    def __init__(
        self,
        d: int,
        *,
        heads: int | None = None,
        features: int | None = None,
        activation: Literal["softmax", "exp"] = "softmax",
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.d = check_size(d, "d")
        self.heads = None if heads is None else check_size(heads, "heads")
        self.features = self.d if features is None else check_size(features, "features")
        if activation not in ("softmax", "exp"):
            raise FeatureMapError(f"activation: expected 'softmax' or 'exp', got {activation!r}.")
        self.activation = activation
        self.tied = bool(tied)
        start = torch.eye(self.features, self.d)
        if self.heads is not None:
            start = start.repeat(self.heads, 1, 1)
        self.key_weight = nn.Parameter(start)
        self.query_weight = self.key_weight if self.tied else nn.Parameter(start.clone())

    def width(self, d: int) -> int:
        """Return twice the number of rows of ``W``."""
        return 2 * self.features

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of keys."""
        return self.map_key(x)

    def map_query(self, x: Tensor) -> QueryFeatures:
        """Return the features of queries."""
        return QueryFeatures(self._features(x, self.query_weight), None)

    def map_key(self, x: Tensor) -> Tensor:
        """Return the features of keys."""
        return self._features(x, self.key_weight)

    def _features(self, x: Tensor, weight: Tensor) -> Tensor:
        check_heads(x, self.name, self.d, self.heads)
        projected = project(x, weight)
        if self.activation == "exp":
            return torch.cat([projected, -projected], -1).exp()
        return torch.cat([projected.softmax(-1), (-projected).softmax(-1)], -1)

    @property
    def fingerprint(self) -> str:
        """Name, activation and the numbers learned: a state does not outlive a training step."""
        return f"{self.name}/{self.activation}/{digest(self.query_weight, self.key_weight)}"

    def extra_repr(self) -> str:
        """Return the options as text."""
        return (
            f"d={self.d}, heads={self.heads}, features={self.features}, activation={self.activation!r}, "
            f"tied={self.tied}"
        )
