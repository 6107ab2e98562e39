"""Ways to call attention that it cannot follow: function transforms, and gradients of inference tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.autograd import forward_ad

from quantattn.errors import GradientError


def check_transforms(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors inside a transform of torch.func, dual tensors, and those of inference mode in a graph.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        The arguments by name.

    Raises
    ------
    GradientError
        Naming the argument and the way around.
    """
    if torch.compiler.is_compiling():
        return
    for name, tensor in tensors.items():
        if _transformed(tensor):
            raise GradientError(
                f"{name}: is inside a transform of torch.func or of forward-mode derivatives, which "
                "attention does not follow; for gradients use torch.autograd, for vmap put its axis into the "
                "batch."
            )
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors.values()):
        return
    for name, tensor in tensors.items():
        if tensor.is_inference():
            raise GradientError(
                f"{name}: was made in torch.inference_mode, and a gradient needs it; pass {name}.clone(), or "
                "make it under torch.no_grad."
            )


def _transformed(tensor: Tensor) -> bool:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return forward_ad.unpack_dual(tensor).tangent is not None if _forward_mode() else False


def _forward_mode() -> bool:
    level: int = forward_ad._current_level
    return level >= 0
