"""Checks that do not depend on a backend: shapes, dtypes, masks, counts and decays."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.transforms import check_transforms
from quantattn.errors import ShapeError

MIN_LOG_DECAY = -8192.0
"""Log decay below which a step is as good as complete: ``exp`` of a tenth of it is zero in float64."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_inputs(query: Tensor, key: Tensor, value: Tensor, *, same_length: bool) -> None:
    """Refuse queries, keys and values that do not belong together.

    Raises
    ------
    ShapeError
        Naming the argument and quoting what came.
    GradientError
        For tensors inside a transform of torch.func, and tensors of inference mode that a gradient needs.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(
                f"{name}: expected a torch.Tensor, got {type(tensor).__name__}; convert it with "
                "torch.as_tensor()."
            )
        if tensor.dim() != 4:
            raise ShapeError(
                f"{name}: expected 4 axes (batch, heads, length, width), got shape {tuple(tensor.shape)}."
            )
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            what = f"layout {tensor.layout}" if tensor.layout != torch.strided else "no numbers (meta device)"
            raise ShapeError(f"{name}: expected a dense tensor with numbers in it, got one of {what}.")
        if tensor.dtype not in _FLOATS:
            raise ShapeError(
                f"{name}: expected a floating dtype, got {tensor.dtype}; convert it with .float()."
            )
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ShapeError(
                f"{name}: is {tensor.dtype} on {tensor.device}, query is {query.dtype} on {query.device}; "
                "convert them to one dtype and device."
            )
        if tensor.shape[:2] != query.shape[:2]:
            raise ShapeError(
                f"{name}: batch and heads are {tuple(tensor.shape[:2])}, query has {tuple(query.shape[:2])}."
            )
    if key.shape[-1] != query.shape[-1]:
        raise ShapeError(f"key: width is {key.shape[-1]}, query has {query.shape[-1]}; they must be equal.")
    if value.shape[2] != key.shape[2]:
        raise ShapeError(f"value: length is {value.shape[2]}, key has {key.shape[2]}; they must be equal.")
    if value.shape[-1] == 0 or query.shape[-1] == 0:
        raise ShapeError(
            f"value: widths must be at least one, got query {query.shape[-1]} and value {value.shape[-1]}."
        )
    if same_length and query.shape[2] != key.shape[2]:
        raise ShapeError(
            f"query: length is {query.shape[2]}, key has {key.shape[2]}; pass visible_counts to let "
            "queries read keys at their own clock."
        )
    check_transforms({"query": query, "key": key, "value": value})


def check_visibility(visibility: str) -> None:
    """Refuse an unknown visibility."""
    if not isinstance(visibility, str) or visibility not in ("inclusive", "strict"):
        raise ShapeError(f"visibility: expected 'inclusive' or 'strict', got {visibility!r}.")


def check_counts(counts: Tensor | None, query: Tensor, keys: int) -> Tensor | None:
    """Return visible counts as int64 ``(B, Tq)``, or None.

    Raises
    ------
    ShapeError
        If they are not whole numbers of that shape between zero and the number of keys.
    """
    if counts is None:
        return None
    shape = (query.shape[0], query.shape[2])
    if not isinstance(counts, Tensor) or counts.dtype not in _INTEGERS or counts.device.type == "meta":
        kind = counts.dtype if isinstance(counts, Tensor) else type(counts).__name__
        raise ShapeError(f"visible_counts: expected an integer tensor, got {kind}.")
    if tuple(counts.shape) != shape:
        raise ShapeError(f"visible_counts: expected shape (B, Tq) = {shape}, got {tuple(counts.shape)}.")
    counts = counts.to(query.device, torch.int64)
    bad = ((counts < 0) | (counts > keys)).nonzero()
    if len(bad):
        batch, row = bad[0].tolist()
        raise ShapeError(
            f"visible_counts: {int(counts[batch, row])} at batch {batch}, query {row} "
            f"({len(bad)} such in all); a query can see from 0 to all {keys} keys."
        )
    return counts


def check_mask(mask: Tensor | None, key: Tensor) -> Tensor | None:
    """Return a key mask as bool ``(B, T)``, True where the key counts, or None.

    Raises
    ------
    ShapeError
        If it is not a bool tensor of that shape.
    """
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ShapeError(f"key_mask: expected a bool tensor, True where the key counts, got {kind}.")
    shape = (key.shape[0], key.shape[2])
    if tuple(mask.shape) != shape:
        raise ShapeError(f"key_mask: expected shape (B, T) = {shape}, got {tuple(mask.shape)}.")
    return mask.to(key.device)


def check_decay(decay: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """Return log decays as finite float64 ``(B, H, length)``, or None.

    Axes of size one are expanded. A step below :data:`MIN_LOG_DECAY`, minus infinity included, is taken
    as :data:`MIN_LOG_DECAY`: either wipes the state.

    Raises
    ------
    ShapeError
        If the shape does not fit, or a decay is positive or NaN.
    """
    if decay is None:
        return None
    if not isinstance(decay, Tensor) or not decay.is_floating_point():
        kind = decay.dtype if isinstance(decay, Tensor) else type(decay).__name__
        raise ShapeError(f"{name}: expected a floating tensor, got {kind}.")
    shape = tuple(like.shape[:3])
    if decay.dim() != 3 or any(had not in (1, need) for had, need in zip(decay.shape, shape, strict=True)):
        raise ShapeError(f"{name}: expected shape (B, H, length) = {shape}, got {tuple(decay.shape)}.")
    decay = decay.to(like.device)
    if decay.numel() and not bool((decay.detach() <= 0).all()):
        batch, head, row = (~(decay.detach() <= 0)).nonzero()[0].tolist()
        raise ShapeError(
            f"{name}: {float(decay.detach()[batch, head, row]):g} at batch {batch}, head {head}, "
            f"position {row}; a log decay is at most zero: minus the elapsed time over the half-life, "
            "times log 2."
        )
    return decay.double().clamp(min=MIN_LOG_DECAY).expand(shape)
