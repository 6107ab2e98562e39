"""Compiled recurrence for a CPU: whole heads in parallel, each key written and each query read in turn.

Step by step the state has one history, so any cut of a sequence gives the same bits. Speed comes from taking a
few steps at a time through strips of the state that stay in registers (:mod:`._panels`): no operation is
added for it, whereas chunks multiply every row with its whole chunk as well. The gradient is written by hand,
recomputes the states going forwards and backwards, and keeps nothing but inputs and outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from quantattn.attention.backends._panels import READ_WRITE, WRITE_READ
from quantattn.attention.backends._forward import COUNTED
from quantattn.attention.backends._programs import (
    run_backward,
    run_elapse,
    run_forward,
    run_pull_elapsed,
)
from quantattn.attention.backends._rows import ELU1, FEATURES
from quantattn.attention.backends._threads import share_out, thread_count
from quantattn.attention.backends.base import Problem, Solution
from quantattn.errors import BackendError

_MAPS = {"elu1": ELU1}
"""Feature maps that are computed on the way, in float32."""


class FusedRead(NamedTuple):
    """A read whose feature map was computed on the way."""

    read: Tensor
    """``(B, H, Tq, d_v + 1)`` sums, or ``(B, H, Tq, d_v)`` ratios where they were asked for."""
    denominators: Tensor
    """``(B, H, Tq)``, detached; NaN where the read met a non-finite input."""
    lost: Tensor | None
    """``(B, H, Tq)`` bool: reads that met one; None for ratios, whose denominators say it."""
    spoilt: Tensor
    """``(B, H)`` bool: whether a key that counts held one."""
    since: Tensor | None
    state: Tensor | None
    pending: Tensor | None


class _Plan(NamedTuple):
    """What a sweep needs beside tensors."""

    heads: int
    shape: tuple[int, int, int, int]
    """Reads, keys, features, value columns."""
    code: int
    order: int
    decays: bool
    ratio: bool
    mask: np.ndarray[Any, Any]
    seen: np.ndarray[Any, Any]
    place: np.ndarray[Any, Any]


def read_fused(problem: Problem) -> Solution:
    """Read features step by step."""
    _refuse_other_devices(problem.query)
    batch, heads, reads, rank = problem.query.shape
    gaps, since, pending = _elapsed(problem.log_decay, problem.pending, problem.key_mask, problem.key)
    order, seen, place = _placement(problem.counts, problem.visibility)
    shape = (reads, problem.key.shape[2], rank, problem.value.shape[-1] - 1)
    plan = _Plan(heads, shape, FEATURES, order, gaps is not None, False, _NO_MASK, seen, place)
    read, _, final, _, _ = _Sweep.apply(  # type: ignore[no-untyped-call]
        problem.query, problem.key, problem.value[..., :-1], gaps, problem.state, plan
    )
    behind = None if since is None else _behind(since, problem.counts, problem.visibility)
    return Solution(read, behind, final if problem.want_state else None, pending)


def _refuse_other_devices(query: Tensor) -> None:
    if query.device.type != "cpu":
        raise BackendError(
            f"backend: 'fused' runs on the CPU, the inputs are on {query.device}; use 'chunked' there."
        )


_NO_MASK = np.zeros(0, np.bool_)
_NO_PLACES = np.zeros(0, np.int64)


def _placement(counts: Tensor | None, visibility: str) -> tuple[int, Any, Any]:
    """Return the order of a sweep, and the queries of each batch row sorted by their counts."""
    if counts is None:
        return (WRITE_READ if visibility == "inclusive" else READ_WRITE), _NO_PLACES, _NO_PLACES
    seen, place = counts.sort(dim=-1, stable=True)
    return COUNTED, seen.flatten().numpy(), place.flatten().numpy()


def _behind(since: Tensor, counts: Tensor | None, visibility: str) -> Tensor:
    """Pick what has passed since the last key that counts, for every read."""
    if counts is not None:
        return since.gather(-1, counts[:, None].expand(*since.shape[:2], -1))
    return since[..., 1:] if visibility == "inclusive" else since[..., :-1]


def _elapsed(
    log_decay: Tensor | None, pending: Tensor | None, mask: Tensor | None, like: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return log decay before each key ``(B, H, T)``, since the last ``(B, H, T + 1)`` and after all."""
    if log_decay is None and pending is None:
        return None, None, None
    batch, heads, length = like.shape[:3]
    if log_decay is None:
        log_decay = like.new_zeros(batch, heads, length, dtype=torch.float64)
    if pending is None:
        pending = like.new_zeros(batch, heads, dtype=torch.float64)
    gaps, since = _Elapse.apply(log_decay, pending, mask)  # type: ignore[no-untyped-call]
    return gaps, since, since[..., -1]


class _Elapse(torch.autograd.Function):
    """See :func:`._elapsed.elapse`."""

    @staticmethod
    def forward(ctx: Any, log_decay: Tensor, pending: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        batch, heads, length = log_decay.shape
        gaps = log_decay.new_empty(batch, heads, length)
        since = log_decay.new_empty(batch, heads, length + 1)
        ctx.mask = np.zeros((0, length), np.bool_) if mask is None else mask.contiguous().numpy()
        pairs = batch * heads
        run_elapse(
            heads,
            log_decay.contiguous().view(pairs, length).numpy(),
            ctx.mask,
            pending.contiguous().view(pairs).numpy(),
            gaps.view(pairs, length).numpy(),
            since.view(pairs, length + 1).numpy(),
        )
        return gaps, since

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_gaps: Tensor, grad_since: Tensor) -> tuple[Tensor, Tensor, None]:
        batch, heads, length = grad_gaps.shape
        pairs = batch * heads
        grad_steps, grad_pending = torch.empty_like(grad_gaps), grad_gaps.new_empty(batch, heads)
        run_pull_elapsed(
            heads,
            ctx.mask,
            grad_gaps.contiguous().view(pairs, length).numpy(),
            grad_since.contiguous().view(pairs, length + 1).numpy(),
            grad_steps.view(pairs, length).numpy(),
            grad_pending.view(pairs).numpy(),
        )
        return grad_steps, grad_pending, None


def _rows(x: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Return a tensor whose rows are contiguous, flat, and its strides over batch, head and length."""
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        x = x.contiguous()
    if x.numel() == 0:
        return x.reshape(-1), (0, 0, 0)
    batch, heads, length, _ = (
        0 if size == 1 else stride for size, stride in zip(x.shape, x.stride(), strict=True)
    )
    strides = (batch, heads, length)
    extent = x.shape[-1] + sum((n - 1) * stride for n, stride in zip(x.shape[:3], strides, strict=True))
    return torch.as_strided(x, (extent,), (1,)), strides


def _flat(x: Tensor | None, like: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor as a flat array; an empty one for None."""
    array: np.ndarray[Any, Any] = (like.new_empty(0) if x is None else x.contiguous().view(-1)).numpy()
    return array


def _strips(pairs: int, columns: int, itemsize: int) -> tuple[int, int]:
    """Return into how many strips of columns a head is divided, and the number of threads.

    Strips are independent: they divide the work where heads are too few, and change no bit.
    """
    threads = thread_count()
    if pairs == 0 or pairs >= threads:
        return 1, threads
    return max(1, min(-(-threads // pairs), -(-columns * itemsize // 64))), threads


class _Sweep(torch.autograd.Function):
    """Reads, denominators, final state, lost reads and spoilt heads."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        gaps: Tensor | None,
        state: Tensor | None,
        plan: _Plan,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor]:
        batch, heads = query.shape[:2]
        reads, _, rank, width = plan.shape
        out = query.new_empty(batch, heads, reads, width + (not plan.ratio))
        below = query.new_empty(batch, heads, reads) if plan.ratio else None
        lost = None if plan.ratio else query.new_empty(batch, heads, reads, dtype=torch.bool)
        spoilt = query.new_empty(batch, heads, dtype=torch.bool)
        final = query.new_empty(batch, heads, rank, width + 1)
        factors = None if gaps is None else gaps.exp().to(query.dtype)
        arguments = _arguments(plan, query, key, value, factors, state)
        results = (_flat(x, query) for x in (out, below, final))
        flags = (_flat(x, query) for x in (lost, spoilt))
        strips, threads = _strips(batch * heads, width, query.element_size())
        everything = (plan.heads, strips, *arguments, *results, *flags)
        share_out(
            lambda first, last: run_forward(first, last, *everything), batch * heads * strips, threads
        )
        ctx.plan, ctx.with_state = plan, state is not None
        ctx.save_for_backward(
            query,
            key,
            value,
            factors,
            state,
            out if plan.ratio else None,
            below,
            None if gaps is None else final,
        )
        ctx.mark_non_differentiable(*(x for x in (below, lost, spoilt) if x is not None))
        return out, below, final, lost, spoilt

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _below: Any, grad_final: Tensor, *_flags: Any) -> tuple[Any, ...]:
        query, key, value, factors, state, out, below, final = ctx.saved_tensors
        plan = ctx.plan
        batch, heads = query.shape[:2]
        reads, keys, rank, width = plan.shape
        grad_query = query.new_empty(batch, heads, reads, rank)
        grad_key = query.new_empty(batch, heads, keys, rank)
        grad_value = query.new_empty(batch, heads, keys, width)
        grad_gaps = None if factors is None else query.new_empty(batch, heads, keys, dtype=torch.float64)
        grad_start = query.new_empty(batch, heads, rank, width + 1)
        flat, strides = _rows(grad)
        arguments = _arguments(plan, query, key, value, factors, state)
        kept = (_flat(x, query) for x in (out, below, final))
        asked = (flat.numpy(), strides, _flat(grad_final, query))
        results = [_flat(x, query) for x in (grad_query, grad_key, grad_value)]
        ends = (
            np.zeros(0) if grad_gaps is None else grad_gaps.view(-1).numpy(),
            _flat(grad_start, query),
        )
        strips, threads = _strips(batch * heads, min(rank, width), query.element_size())
        if plan.decays:
            # The gradient of a decay sums over all columns.
            strips = 1
        everything = (plan.heads, strips, *arguments, *kept, *asked, *results, *ends)
        share_out(
            lambda first, last: run_backward(first, last, *everything), batch * heads * strips, threads
        )
        return (
            grad_query,
            grad_key,
            grad_value,
            grad_gaps,
            grad_start if ctx.with_state else None,
            None,
        )


def _arguments(
    plan: _Plan, query: Tensor, key: Tensor, value: Tensor, factors: Tensor | None, state: Tensor | None
) -> tuple[Any, ...]:
    """Return what both programs begin with."""
    inputs: list[Any] = []
    for x in (query, key, value):
        flat, strides = _rows(x.detach())
        inputs += [flat.numpy(), strides]
    return (
        plan.shape,
        plan.code,
        plan.order,
        plan.decays,
        plan.ratio,
        *inputs,
        plan.mask,
        _flat(factors, query),
        plan.seen,
        plan.place,
        _flat(None if state is None else state.detach(), query),
    )
