"""Projections of queries and keys, for the maps that have a matrix."""

from __future__ import annotations

import torch
from torch import Tensor


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return ``x @ weight.mT``.

    On a CPU the bits of a row depend on that row alone, so that a history in pieces has the features that it
    has in one piece. Elsewhere, and in a graph under compilation, it is torch's product, whose rounding may
    depend on how many rows there are.

    Parameters
    ----------
    x : Tensor
        ``(..., d)``, or ``(..., H, T, d)`` where each head has a matrix of its own.
    weight : Tensor
        ``(m, d)`` or ``(H, m, d)``.
    """
    weight = weight.to(x.dtype)
    if (
        x.device.type != "cpu"
        or x.dtype not in (torch.float32, torch.float64)
        or torch.compiler.is_compiling()
    ):
        return x @ weight.mT
    from quantattn.attention.backends import projection  # loads numba

    return projection.project(x, weight)
