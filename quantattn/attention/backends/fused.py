"""Compiled recurrence for a CPU: whole heads in parallel, each key written and each query read in turn.

Step by step the state has one history, so any cut of a sequence gives the same bits. Speed comes from taking
a few steps at a time through strips of the state (:mod:`._panels`): no operation is added for it, whereas
chunks multiply every row with its whole chunk as well. The gradient is written by hand, recomputes the states
going forwards and backwards, and keeps nothing but inputs and outputs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quantattn.attention.backends._forward import COUNTED
from quantattn.attention.backends._pages import in_large_pages
from quantattn.attention.backends._panels import READ_WRITE, WRITE_READ
from quantattn.attention.backends._programs import (
    run_backward,
    run_elapse,
    run_forward,
    run_pull_elapsed,
)
from quantattn.attention.backends._rows import ELU1, FEATURES
from quantattn.attention.backends._threads import share_out, thread_count
from quantattn.attention.backends._vectors import VECTOR_BYTES
from quantattn.attention.backends.base import Problem, Solution
from quantattn.attention.derivatives import first_order
from quantattn.attention.features import Elu1, FeatureMap
from quantattn.errors import BackendError


class Sizes(NamedTuple):
    """What a sweep is told beside where its numbers lie; whole numbers, for the compiled code."""

    heads: int
    strips: int
    """Into how many strips of columns the work on a head is divided."""
    reads: int
    keys: int
    rank: int
    """Width of the features."""
    width: int
    """Width of the values."""
    code: int
    """Feature map: one of the constants of :mod:`._rows`."""
    order: int
    """When a query reads: ``WRITE_READ``, ``READ_WRITE`` or ``COUNTED``."""
    decays: int
    ratio: int
    """Whether to divide by the sum of similarities at once."""
    masked: int
    starts: int
    """Whether there is an initial state."""


class Inputs(NamedTuple):
    """Addresses of what a sweep reads; zero where there is nothing."""

    query: int
    key: int
    value: int
    mask: int
    """``(B, T)`` bytes."""
    factors: int
    """``(B, H, T)``: decay of the state just before each key."""
    seen: int
    """``(B, Tq)`` int64: counts of the reads, rising."""
    place: int
    """``(B, Tq)`` int64: which read has that count."""
    start: int
    """``(B, H, r, w + 1)``; the last column sums features."""


class Outputs(NamedTuple):
    """Addresses of what the forward sweep writes."""

    out: int
    """``(B, H, Tq, w)`` ratios, or ``(B, H, Tq, w + 1)`` sums."""
    below: int
    """``(B, H, Tq)`` sums of similarities, beside ratios."""
    final: int
    """``(B, H, r, w + 1)``."""
    lost: int
    """``(B, H, Tq)`` bytes, beside sums."""
    spoilt: int
    """``(B, H)`` bytes."""
    burst: int
    """``(B, H)`` bytes, zero at first, beside ratios: whether one of them is not finite."""


def read_fused(problem: Problem) -> Solution:
    """Read features step by step."""
    found = _read(
        FEATURES,
        problem.query,
        problem.key,
        problem.value[..., :-1],
        problem.visibility,
        problem.counts,
        problem.key_mask,
        problem.log_decay,
        problem.state,
        problem.pending,
        False,
    )
    assert found.sums is not None
    return Solution(found.sums, found.since, found.state if problem.want_state else None, found.pending)


class MappedRead(NamedTuple):
    """A read whose feature map was computed on the way; see :class:`quantattn.attention.reading.Reading`."""

    sums: Tensor | None
    output: Tensor | None
    denominators: Tensor | None
    log_unit: None
    lost: Tensor | None
    spoilt: Tensor | None
    since: Tensor | None
    state: Tensor
    pending: Tensor | None


def mapped_read(feature_map: FeatureMap, dtype: torch.dtype) -> Any:
    """Return how to read queries and keys of a feature map that is computed on the way, or None."""
    if type(feature_map) is Elu1 and dtype == torch.float32:
        return partial(_read, ELU1)
    return None


def _read(
    code: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visibility: str,
    counts: Tensor | None,
    mask: Tensor | None,
    log_decay: Tensor | None,
    state: Tensor | None,
    pending: Tensor | None,
    ratio: bool,
) -> MappedRead:
    if query.device.type != "cpu":
        raise BackendError(
            f"backend: 'fused' runs on the CPU, the inputs are on {query.device}; use 'chunked' there."
        )
    gaps = since = behind = None
    if log_decay is not None or pending is not None:
        gaps, since = _elapsed(log_decay, pending, mask, key)
        behind, pending = _behind(since, counts, visibility), since[..., -1]
    order, seen, place = _placement(counts, visibility)
    shape = (query.shape[2], key.shape[2], query.shape[-1], value.shape[-1])
    if code == FEATURES:
        mask = None  # Features of masked keys are zero already.
    elif mask is not None:
        mask = mask.contiguous()
    sizes = Sizes(
        query.shape[1],
        1,
        *shape,
        code,
        order,
        int(gaps is not None),
        int(ratio),
        int(mask is not None),
        int(state is not None),
    )
    out, below, final, lost, spoilt, burst = _Sweep.apply(  # type: ignore[no-untyped-call]
        query, key, value, gaps, state, mask, seen, place, sizes
    )
    if ratio and bool(burst.any()):
        # Sums beyond the range of the dtype: a finite denominator beside them is of no use.
        below = torch.where(torch.isfinite(out.detach()).all(-1), below, torch.nan)
    sums, output = (None, out) if ratio else (out, None)
    return MappedRead(sums, output, below, None, lost, spoilt, behind, final, pending)


def _placement(counts: Tensor | None, visibility: str) -> tuple[int, Tensor | None, Tensor | None]:
    """Return the order of a sweep, and the queries of each batch row sorted by their counts."""
    if counts is None:
        return (WRITE_READ if visibility == "inclusive" else READ_WRITE), None, None
    seen, place = counts.sort(dim=-1, stable=True)
    return COUNTED, seen.contiguous(), place.contiguous()


def _behind(since: Tensor, counts: Tensor | None, visibility: str) -> Tensor:
    """Pick what has passed since the last key that counts, for every read."""
    if counts is not None:
        return since.gather(-1, counts[:, None].expand(*since.shape[:2], -1))
    return since[..., 1:] if visibility == "inclusive" else since[..., :-1]


def _elapsed(
    log_decay: Tensor | None, pending: Tensor | None, mask: Tensor | None, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the log decay before each key ``(B, H, T)`` and since the last one ``(B, H, T + 1)``."""
    batch, heads, length = like.shape[:3]
    if log_decay is None:
        log_decay = like.new_zeros(batch, heads, length, dtype=torch.float64)
    if pending is None:
        pending = like.new_zeros(batch, heads, dtype=torch.float64)
    found: tuple[Tensor, Tensor] = _Elapse.apply(log_decay, pending, mask)  # type: ignore[no-untyped-call]
    return found


class _Elapse(torch.autograd.Function):
    """See :func:`._elapsed.elapse`."""

    @staticmethod
    def forward(ctx: Any, log_decay: Tensor, pending: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        batch, heads, length = log_decay.shape
        gaps = log_decay.new_empty(batch, heads, length)
        since = log_decay.new_empty(batch, heads, length + 1)
        ctx.save_for_backward(mask)
        pairs = batch * heads
        run_elapse(
            heads,
            log_decay.resolve_neg().contiguous().view(pairs, length).numpy(),
            _marks(mask, length),
            pending.resolve_neg().contiguous().view(pairs).numpy(),
            gaps.view(pairs, length).numpy(),
            since.view(pairs, length + 1).numpy(),
        )
        return gaps, since

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_gaps: Tensor, grad_since: Tensor) -> tuple[Tensor, Tensor, None]:
        batch, heads, length = grad_gaps.shape
        pairs = batch * heads
        grad_steps, grad_pending = torch.empty_like(grad_gaps), grad_gaps.new_empty(batch, heads)
        (mask,) = ctx.saved_tensors
        run_pull_elapsed(
            heads,
            _marks(mask, length),
            grad_gaps.contiguous().view(pairs, length).numpy(),
            grad_since.contiguous().view(pairs, length + 1).numpy(),
            grad_steps.view(pairs, length).numpy(),
            grad_pending.view(pairs).numpy(),
        )
        return grad_steps, grad_pending, None


def _marks(mask: Tensor | None, length: int) -> Any:
    return np.zeros((0, length), np.bool_) if mask is None else mask.contiguous().numpy()


def _with_rows(x: Tensor) -> Tensor:
    """Return a tensor whose rows are contiguous and whose numbers lie in memory as they are."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _divided(sizes: Sizes, pairs: int, columns: int, itemsize: int) -> tuple[Sizes, int]:
    """Divide the work on heads into strips of columns where heads are too few; return the threads as well.

    Strips are independent of each other, so that they change no bit.
    """
    threads = thread_count()
    if pairs == 0 or pairs >= threads:
        return sizes, threads
    strips = max(1, min(-(-threads // pairs), -(-columns * itemsize // VECTOR_BYTES)))
    return sizes._replace(strips=strips), threads


_LIKE = {torch.float32: np.float32(0), torch.float64: np.float64(0)}


class _Sweep(torch.autograd.Function):
    """Reads, denominators, final state, lost reads, spoilt heads and those whose sums burst."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        gaps: Tensor | None,
        state: Tensor | None,
        mask: Tensor | None,
        seen: Tensor | None,
        place: Tensor | None,
        sizes: Sizes,
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor, Tensor]:
        batch, heads, reads, rank = query.shape
        ratio, width = bool(sizes.ratio), sizes.width
        query, key, value = _with_rows(query), _with_rows(key), _with_rows(value)
        out = in_large_pages(query.new_empty(batch, heads, reads, width + (not ratio)))
        below = query.new_empty(batch, heads, reads) if ratio else None
        lost = None if ratio else query.new_empty(batch, heads, reads, dtype=torch.bool)
        spoilt = query.new_empty(batch, heads, dtype=torch.bool)
        burst = torch.zeros_like(spoilt)
        final = query.new_empty(batch, heads, rank, width + 1)
        factors = None if gaps is None else gaps.exp().to(query.dtype)
        state = None if state is None else state.resolve_neg().contiguous()
        sizes, threads = _divided(sizes, batch * heads, width, query.element_size())
        strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3])
        inputs = Inputs(*map(_address, (query, key, value, mask, factors, seen, place, state)))
        made = (out, below, final, lost, spoilt, burst)
        outputs = Outputs(*map(_address, made))
        held = (query, key, value, mask, factors, seen, place, state)
        share_out(
            lambda first, last: run_forward(
                first, last, _LIKE[query.dtype], tuple(sizes), strides, tuple(inputs), tuple(outputs)
            ),
            batch * heads * sizes.strips,
            threads,
            (held, made),
        )
        ctx.sizes = sizes
        kept = (out, below) if ratio else (None, None)
        last = None if gaps is None else final
        ctx.save_for_backward(query, key, value, mask, factors, seen, place, state, *kept, last)
        ctx.mark_non_differentiable(*(x for x in (below, lost, spoilt, burst) if x is not None))
        return out, below, final, lost, spoilt, burst

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, _below: Any, grad_final: Tensor, *_flags: Any) -> tuple[Any, ...]:
        query, key, value, mask, factors, seen, place, state, out, below, final = ctx.saved_tensors
        batch, heads, reads, rank = query.shape
        keys, width = value.shape[2:]
        grad_query = in_large_pages(query.new_empty(batch, heads, reads, rank))
        grad_key = in_large_pages(key.new_empty(batch, heads, keys, rank))
        grad_value = in_large_pages(value.new_empty(batch, heads, keys, width))
        grad_gaps = None if factors is None else query.new_empty(batch, heads, keys, dtype=torch.float64)
        grad_start = query.new_empty(batch, heads, rank, width + 1)
        grad, grad_final = _with_rows(grad), grad_final.resolve_neg().contiguous()
        sizes, threads = _divided(ctx.sizes, batch * heads, min(rank, width), query.element_size())
        if sizes.decays:
            # The gradient of a decay is a sum over all columns.
            sizes = sizes._replace(strips=1)
        strides = (
            *query.stride()[:3],
            *key.stride()[:3],
            *value.stride()[:3],
            *grad.stride()[:3],
        )
        inputs = tuple(map(_address, (query, key, value, mask, factors, seen, place, state)))
        outputs = tuple(map(_address, (out, below, final, None, None, None)))
        asked = tuple(map(_address, (grad, grad_final)))
        results = tuple(map(_address, (grad_query, grad_key, grad_value, grad_gaps, grad_start)))
        held = (query, key, value, mask, factors, seen, place, state, out, below, final, grad, grad_final)
        made = (grad_query, grad_key, grad_value, grad_gaps, grad_start)
        share_out(
            lambda first, last: run_backward(
                first, last, _LIKE[query.dtype], tuple(sizes), strides, inputs, outputs, asked, results
            ),
            batch * heads * sizes.strips,
            threads,
            (held, made),
        )
        start = None if state is None else grad_start
        return grad_query, grad_key, grad_value, grad_gaps, start, None, None, None, None
