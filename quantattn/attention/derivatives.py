"""Gradients written by hand are first derivatives: a second one is refused, not silently wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from quantattn.errors import GradientError


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the ``backward`` of an autograd function that cannot be differentiated again.

    torch's own ``once_differentiable`` raises only where a second pass happens to reach its marker;
    ``torch.autograd.grad`` walks around it and leaves out what lies beyond.

    Raises
    ------
    GradientError
        Where a graph of the gradient is asked for, by ``create_graph=True``.
    """

    @wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        # Autograd runs a backward with gradients on exactly where it records one of the gradient itself.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise GradientError(
                "create_graph=True: attention has first derivatives alone; leave it out, or differentiate "
                "linear_attention(..., backend='quadratic', denominator=Denominator.floor(eps)) with a "
                "feature map of torch operations."
            )
        return backward(ctx, *grads)

    return wrapped
