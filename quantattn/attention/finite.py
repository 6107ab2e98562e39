"""Keeping NaN and infinity where they belong: in the reads that see them, and nowhere else.

Zero times NaN is NaN in a matrix product, so a poisoned row that nobody reads, or that only later queries
read, would spoil its neighbours, in the gradient too. Such rows are emptied first and the reads that
see one are marked.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad


def looks_finite(*tensors: Tensor) -> bool:
    """Return False if anything is NaN or infinite; one pass, no temporary.

    A sum that overflows also answers False, which costs time and changes nothing.
    """
    return all(math.isfinite(tensor.detach().sum().item()) for tensor in tensors)


def nonfinite_rows(*tensors: Tensor) -> Tensor:
    """Return which rows, ``tensor.shape[:-1]``, hold something non-finite in any of the tensors."""
    bad = ~torch.isfinite(tensors[0].detach()).all(-1)
    for tensor in tensors[1:]:
        bad |= ~torch.isfinite(tensor.detach()).all(-1)
    return bad


def emptied(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return `tensor` with those rows zero and without gradient."""
    return torch.where(rows[..., None], 0.0, tensor)


def reached(rows: Tensor, counts: Tensor | None, visibility: str) -> Tensor:
    """Return which reads see any of the key rows ``(B, H, T)``, as ``(B, H, Tq)``."""
    return seen_number(rows, counts, visibility) > 0


def seen_number(rows: Tensor, counts: Tensor | None, visibility: str) -> Tensor:
    """Return how many of the key rows ``(B, H, T)`` each read sees, as ``(B, H, Tq)``."""
    so_far = pad(rows.cumsum(-1), (1, 0))
    if counts is not None:
        return so_far.gather(-1, counts[:, None].expand(*so_far.shape[:2], -1))
    return so_far[..., 1:] if visibility == "inclusive" else so_far[..., :-1]
