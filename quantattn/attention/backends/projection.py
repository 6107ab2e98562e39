"""The compiled projection of a feature map, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from quantattn.attention.backends._programs import run_project
from quantattn.attention.backends._threads import share_out, thread_count
from quantattn.attention.backends._vectors import VECTOR_BYTES
from quantattn.attention.derivatives import first_order

_LIKE = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
_ROWS_TO_SHARE = 64
"""Fewer rows than this for each thread are not worth waking it."""


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return ``x @ weight.mT`` with bits that depend on each row alone.

    Parameters
    ----------
    x : Tensor
        ``(..., d)`` or ``(..., H, T, d)``, float32 or float64, on the CPU.
    weight : Tensor
        ``(m, d)``, or ``(H, m, d)`` with a matrix for each head; in the dtype of `x`.

    Returns
    -------
    Tensor
        ``(..., m)``.
    """
    product: Tensor = _Projection.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        *outer, width = x.shape
        size = weight.shape[-2]
        rows = x.shape[-2] if weight.dim() == 3 else max(1, x.numel() // max(width, 1))
        x = x.contiguous()
        block = 4 * VECTOR_BYTES // x.element_size()
        columns = -(-size // block) * block
        padded = weight.new_zeros(*weight.shape[:-2], width, columns)
        padded[..., :size] = weight.mT
        out = x.new_empty(*outer, columns)
        total = out.numel() // columns
        groups = weight.shape[0] if weight.dim() == 3 else 1
        share_out(
            lambda first, last: run_project(
                first,
                last,
                _LIKE[x.dtype],
                width,
                columns,
                groups,
                max(rows, 1),
                x.data_ptr(),
                padded.data_ptr(),
                out.data_ptr(),
            ),
            total,
            min(thread_count(), -(-total // _ROWS_TO_SHARE)),
            (x, padded, out),
        )
        return out[..., :size]

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            if weight.dim() == 2:
                grad_weight = grad.reshape(-1, grad.shape[-1]).mT @ x.reshape(-1, x.shape[-1])
            else:
                pull = grad.mT @ x
                grad_weight = pull.flatten(0, -4).sum(0) if pull.dim() > 3 else pull
        return grad_x, grad_weight
