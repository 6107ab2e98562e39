"""The exponential, to second order."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from quantattn.attention.features.base import FeatureMap, check_scale, side_scale


class Taylor2(FeatureMap):
    r"""Second-order Taylor expansion of softmax's kernel (Keles et al., 2023; Arora et al., 2024, "Based").

    .. math:: \phi(q) \cdot \phi(k) = 1 + s + s^2 / 2, \qquad s = \text{scale} \; q \cdot k

    which is ``((1 + s) ** 2 + 1) / 2`` and so at least one half, though the features themselves are signed.
    In floating point that holds while ``(|q| |k| scale) ** 2`` times the precision is small: up to some 1,000
    in float32. Beyond, a denominator may come out negative, which ``raise_()`` refuses.

    Parameters
    ----------
    packed : bool, default True
        Whether each product of two entries is kept once: width ``1 + d + d (d + 1) / 2``, else ``1 + d + d *
        d``. The similarity is the same.
    scale : float, optional
        Factor of ``q . k``; ``1 / sqrt(d)`` where not given, as in
        :func:`~quantattn.attention.softmax_attention`.
    """

    name: ClassVar[str] = "taylor2"
    positive: ClassVar[bool] = True
    signed_features: ClassVar[bool] = True
    approximates_softmax: ClassVar[bool] = True

    def __init__(self, *, packed: bool = True, scale: float | None = None) -> None:
        self.packed = bool(packed)
        self.scale = check_scale(scale)

    def width(self, d: int) -> int:
        """Return ``1 + d + d (d + 1) / 2``, or ``1 + d + d * d`` where not packed."""
        return 1 + d + (d * (d + 1) // 2 if self.packed else d * d)

    def __call__(self, x: Tensor) -> Tensor:
        """Return one, the scaled input, and its products of two entries."""
        d = x.shape[-1]
        x = x * side_scale(self.scale, d)
        if self.packed:
            row, column = torch.triu_indices(d, d, device=x.device)
            # The product of two different entries stands for both orders.
            weight = torch.ones_like(row, dtype=x.dtype).masked_fill_(row == column, 0.5**0.5)
            pairs = x[..., row] * x[..., column] * weight
        else:
            pairs = (x[..., :, None] * x[..., None, :]).flatten(-2) * 0.5**0.5
        return torch.cat([torch.ones_like(x[..., :1]), x, pairs], -1)

    @property
    def fingerprint(self) -> str:
        """Name, layout and scale."""
        return f"{self.name}/{'packed' if self.packed else 'full'}/{self.scale}"
