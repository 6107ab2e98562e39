"""Positive random features."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from quantattn.attention.features.base import (
    FeatureMap,
    QueryFeatures,
    check_heads,
    check_scale,
    check_size,
    digest,
    side_scale,
)
from quantattn.attention.features.projection import project
from quantattn.errors import FeatureMapError

Kind = Literal["orthogonal", "iid"]

_LARGEST_LOG = 60.0
"""Largest logarithm of a key's feature: sums of a great many still fit into float32."""


class Favor(nn.Module, FeatureMap):
    r"""Positive random features, FAVOR+ (Choromanski et al., 2021, "Rethinking Attention with Performers").

    .. math:: \phi(x)_j = \exp(w_j \cdot u - |u|^2 / 2) / \sqrt{m}, \qquad u = x \sqrt{\text{scale}}

    with ``w_j`` from a standard normal distribution, so that ``E[phi(q) . phi(k)] = exp(scale * q . k)``. The
    kernel's estimate is unbiased; the ratio of two such estimates is not, see
    :func:`~quantattn.attention.kernel_report`. Orthogonal draws keep the distribution of every ``w_j`` and
    have less variance than independent ones.

    There is one draw, shared by queries and keys, made in the constructor from `seed` and kept in a buffer
    that is saved with the model. It changes only through :meth:`redraw`.

    Nothing looks along the sequence. A query is divided by the largest of its own features, which cancels in
    the ratio and is given back to a prior or a floor as ``log_scale``. Keys are divided by a constant of the
    draw that keeps any key's features below ``exp(60)``. A key of so great a norm that all of its features
    underflow weighs nothing; the kernel's estimate is of no use long before that.

    Parameters
    ----------
    d : int
        Width of queries and keys.
    features : int, optional
        Number of features ``m``; ``d log d`` where not given, and at least `d`.
    heads : int, optional
        Number of heads, each with a draw of its own; one draw for all heads where not given.
    kind : {"orthogonal", "iid"}, default "orthogonal"
        Whether rows of a draw are orthogonal in blocks of `d`, or independent.
    seed : int, default 0
        Seed of the draw.
    scale : float, optional
        Factor of ``q . k``; ``1 / sqrt(d)`` where not given, as in
        :func:`~quantattn.attention.softmax_attention`.

    Attributes
    ----------
    projection : Tensor
        ``(features, d)``, or ``(heads, features, d)``: the draw.
    """

    name: ClassVar[str] = "favor"
    positive: ClassVar[bool] = True
    approximates_softmax: ClassVar[bool] = True
    projection: Tensor

    def __init__(
        self,
        d: int,
        features: int | None = None,
        *,
        heads: int | None = None,
        kind: Kind = "orthogonal",
        seed: int = 0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.d = check_size(d, "d")
        if features is None:
            features = max(self.d, round(self.d * math.log(self.d)))
        self.features = check_size(features, "features")
        self.heads = None if heads is None else check_size(heads, "heads")
        if kind not in ("orthogonal", "iid"):
            raise FeatureMapError(f"kind: expected 'orthogonal' or 'iid', got {kind!r}.")
        self.kind: Kind = kind
        self.scale = check_scale(scale)
        self.register_buffer("projection", self._draw(seed), persistent=True)

    def redraw(self, seed: int) -> None:
        """Draw anew; states made under the old draw are refused from then on.

        Parameters
        ----------
        seed : int
            Seed of the new draw.

        Raises
        ------
        FeatureMapError
            In evaluation mode, where a draw must not change, and for a seed that is not a whole number.
        """
        if not self.training:
            raise FeatureMapError(
                "redraw: the map is in evaluation mode, where its draw is part of the model; "
                "call train() first if you mean to change the model."
            )
        with torch.no_grad():
            self.projection.copy_(self._draw(seed))

    def _draw(self, seed: int) -> Tensor:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
            raise FeatureMapError(f"seed: expected a whole number from 0 up, got {seed!r}; below 2**64.")
        generator = torch.Generator().manual_seed(seed)
        drawn = [draw(self.features, self.d, self.kind, generator) for _ in range(self.heads or 1)]
        return (drawn[0] if self.heads is None else torch.stack(drawn)).float()

    def width(self, d: int) -> int:
        """Return the number of features."""
        return self.features

    def forward(self, x: Tensor) -> Tensor:
        """Return the features proper, with nothing divided out."""
        projected, half_norm = self._project(x)
        features: Tensor = (projected - half_norm).exp() * self.features**-0.5
        return features

    def map_query(self, x: Tensor) -> QueryFeatures:
        """Return features relative to the largest of each query."""
        projected, half_norm = self._project(x)
        largest = projected.detach().amax(-1, keepdim=True)
        features = (projected - largest).exp() * self.features**-0.5
        return QueryFeatures(features, (largest - half_norm + self._key_shift(x)).squeeze(-1))

    def map_key(self, x: Tensor) -> Tensor:
        """Return features below ``exp(60)``: a constant of the draw is divided out."""
        projected, half_norm = self._project(x)
        features: Tensor = (projected - half_norm - self._key_shift(x)).exp() * self.features**-0.5
        return features

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        check_heads(x, self.name, self.d, self.heads)
        x = x * side_scale(self.scale, self.d)
        return project(x, self.projection), x.square().sum(-1, keepdim=True) / 2

    def _key_shift(self, x: Tensor) -> Tensor:
        """Return what the logarithms of keys' features are lowered by, ``(H, 1, 1)`` or a number."""
        # w . u - |u|^2 / 2 is greatest at u = w, whatever the keys are.
        bound = self.projection.square().sum(-1).amax(-1) / 2
        shift = (bound - _LARGEST_LOG).clamp(min=0).to(x.dtype)
        return shift if self.heads is None else shift[:, None, None]

    @property
    def fingerprint(self) -> str:
        """Name, scale and the numbers drawn."""
        return f"{self.name}/{self.scale}/{digest(self.projection)}"

    def extra_repr(self) -> str:
        """Return the options as text."""
        return (
            f"d={self.d}, features={self.features}, heads={self.heads}, kind={self.kind!r}, "
            f"scale={self.scale}"
        )


def draw(features: int, d: int, kind: Kind, generator: torch.Generator) -> Tensor:
    """Return `features` rows of a standard normal distribution of width `d`, float64.

    Orthogonal rows are uniformly distributed directions, orthogonal to the others of their block of `d`, with
    independent lengths of the chi distribution: each row by itself is distributed as an independent one.
    """

    def normal(count: int) -> Tensor:
        return torch.randn(count, d, generator=generator, dtype=torch.float64)

    rows = normal(features)
    if kind == "iid":
        return rows
    blocks = []
    for _ in range(-(-features // d)):
        basis, triangle = torch.linalg.qr(normal(d))
        # Without the signs the basis is not uniform over the orthogonal group (Mezzadri, 2007).
        blocks.append(basis * triangle.diagonal().sign())
    directions = torch.cat([block.mT for block in blocks])[:features]
    lengths: Tensor = rows.norm(dim=-1, keepdim=True)
    return directions * lengths
