"""From sums to outputs: the division, and the denominator policy that governs it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator, FloorDenominator, PriorDenominator, RaiseDenominator
from quantattn.attention.derivatives import first_order
from quantattn.attention.finite import looks_finite
from quantattn.errors import DenominatorError, ShapeError


def divide(
    read: Tensor,
    log_scale: Tensor | None,
    lost: Tensor | None,
    policy: Denominator,
    *,
    log_unit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Divide the sums of a read by its sum of similarities.

    Parameters
    ----------
    read : Tensor
        ``(B, H, Tq, d_v + 1)``; the last column is the sum of similarities.
    log_scale : Tensor or None
        ``(B, H, Tq)`` float64, at most zero: log decay to apply to the sums first. It cancels in a plain
        ratio.
    lost : Tensor or None
        ``(B, H, Tq)`` bool: reads that met a non-finite input. They become NaN at the very end, without a
        gradient: zero times NaN on the way back would spoil other reads.
    policy : Denominator
        What to do about the sum.
    log_unit : Tensor or None
        ``(B, H, Tq)`` float64, of either sign: logarithm of a factor that the sums lack, see
        :class:`~quantattn.attention.features.QueryFeatures`. It cancels in a plain ratio.

    Returns
    -------
    output : Tensor
        ``(B, H, Tq, d_v)``.
    denominator : Tensor
        ``(B, H, Tq)``, detached: the sum of similarities before the policy touched it. In float64 where there
        is a `log_unit`.
    """
    up = None
    if log_unit is not None and not isinstance(policy, RaiseDenominator):
        # A factor above one shrinks the policy's constants instead: nothing can overflow.
        total = log_unit if log_scale is None else log_scale + log_unit
        up = total.clamp(min=0)
        log_scale = total - up
    if log_scale is not None:
        read = read * log_scale.exp().to(read.dtype)[..., None]
    denominator = read[..., -1].detach().clone()
    if lost is not None:
        denominator = torch.where(lost, torch.nan, denominator)
    output = _apply(policy, read, denominator, up)
    if isinstance(policy, RaiseDenominator) and not looks_finite(output):
        # Sums beyond the range of the dtype: a finite denominator beside them is of no use.
        refuse_unusable(torch.where(torch.isfinite(output.detach()).all(-1), denominator, torch.nan))
    if lost is not None:
        output = torch.where(lost[..., None], torch.nan, output)
    unit = log_unit if isinstance(policy, RaiseDenominator) else up
    if unit is not None:
        # Kept within range: a sum is not empty because its unit is small.
        denominator = denominator.double() * unit.detach().clamp(-600, 600).exp()
    return output, denominator


def _apply(policy: Denominator, read: Tensor, denominator: Tensor, up: Tensor | None) -> Tensor:
    if isinstance(policy, RaiseDenominator):
        refuse_unusable(denominator)
        output: Tensor = _Ratio.apply(read)  # type: ignore[no-untyped-call]
        return output
    if isinstance(policy, FloorDenominator):
        if up is None:
            return read[..., :-1] / read[..., -1:].clamp(min=policy.eps)
        return read[..., :-1] / read[..., -1:].maximum(_shrunk(read.new_tensor(policy.eps), up)[..., None])
    if isinstance(policy, PriorDenominator):
        return _with_prior(read, policy, up)
    raise DenominatorError(
        f"denominator: {type(policy).__name__} is not a policy; "
        "use Denominator.raise_(), .floor() or .prior()."
    )


def _shrunk(constant: Tensor, up: Tensor) -> Tensor:
    """Return a constant of the policy in the unit of the sums, never quite zero."""
    return (constant * (-up).exp().to(constant.dtype)).clamp(min=torch.finfo(constant.dtype).tiny)


def _with_prior(read: Tensor, policy: PriorDenominator, up: Tensor | None) -> Tensor:
    mass = torch.as_tensor(policy.mass, dtype=read.dtype, device=read.device)
    value = torch.as_tensor(policy.value, dtype=read.dtype, device=read.device)
    try:
        mass = mass.expand(read.shape[:-1])
    except RuntimeError:
        raise ShapeError(
            f"denominator: the prior's mass {tuple(mass.shape)} does not broadcast to (B, H, Tq) = "
            f"{tuple(read.shape[:-1])}; give one number, or one for each head as (H, 1)."
        ) from None
    target = (*read.shape[:-1], read.shape[-1] - 1)
    try:
        value = value.expand(target)
    except RuntimeError:
        raise ShapeError(
            f"denominator: the prior's value {tuple(value.shape)} does not broadcast to (B, H, Tq, d_v) = "
            f"{target}; give one number, one for each value channel, or (H, 1, d_v)."
        ) from None
    if up is not None:
        mass = _shrunk(mass, up)
    # The prior joins the sums as one more observation would: value in the numerator, one below.
    prior = torch.cat([value * mass[..., None], mass[..., None]], -1)
    output: Tensor = _Ratio.apply(read + prior)  # type: ignore[no-untyped-call]
    return output


def refuse_unusable(denominator: Tensor) -> None:
    """Raise for a denominator that is not a positive finite number."""
    if denominator.numel() == 0:
        return
    low, high = denominator.aminmax()
    least = torch.finfo(denominator.dtype).tiny
    if bool(low >= least) and bool(high < float("inf")):
        return
    usable = (denominator >= least) & (denominator < float("inf"))
    bad = (~usable).nonzero()
    named = "; ".join(
        f"batch {batch}, head {head}, position {row}: {float(denominator[batch, head, row]):g}"
        for batch, head, row in bad[:3].tolist()
    )
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    raise DenominatorError(
        f"denominator: the sum of similarities must be positive and finite, got {named}{more}. "
        + _cause(denominator[tuple(bad[0])].item())
    )


def _cause(found: float) -> str:
    """Say what such a sum of similarities comes from, and what to do about it."""
    if not math.isfinite(found):
        return (
            "The read met a NaN or infinite input, or sums beyond the range of the dtype: "
            "mask such keys, or scale queries and keys down."
        )
    if found > 0:
        return (
            "So small a number has lost its digits: scale queries and keys down, or up where their features "
            "vanish, or compute in float64."
        )
    if found < 0:
        return (
            "A map with signed features, such as 'taylor2', has lost the sign to rounding: "
            "scale queries and keys down, or compute in float64."
        )
    return (
        "The query saw no key, or none with a feature in common: 'relu', 'squared_relu' and 'dpfp' can be "
        "zero, and under 'favor' keys of great norm underflow (scale them down, by a layer norm). "
        "Denominator.prior(mass, value) gives an empty history a meaning."
    )


class _Ratio(torch.autograd.Function):
    """``sums[..., :-1] / sums[..., -1:]`` in few passes over memory."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> Tensor:
        output = sums[..., :-1] / sums[..., -1:]
        ctx.save_for_backward(output, sums[..., -1:].clone())
        return output

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        output, denominator = ctx.saved_tensors
        total = grad.new_empty(*grad.shape[:-1], grad.shape[-1] + 1)
        above = torch.div(grad, denominator, out=total[..., :-1])
        torch.sum(above * output, -1, keepdim=True, out=total[..., -1:]).neg_()
        return total
