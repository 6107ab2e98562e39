"""Softmax reads in blocks of rows, each merged from a rectangle of history and a small remainder.

Decay and masks enter the logits as one number for each key: what a row has in common cancels in its
softmax. That number is one more column of queries (ones) and keys, so the fused kernels need no mask. It is
counted from the block's own place, because a logit keeps fewer digits the larger it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

MASKED = -1e30
"""Logit of a masked key: finite, so that a stretch of them alone gives no NaN on its way to weight zero."""

_ROWS = 1024
_COUNTED_ROWS = 256
_SPAN = 128.0
"""Most nats of decay inside a block: float32 logits then keep about five digits after the point."""


class Block(NamedTuple):
    """Rows ``[start, stop)`` that see all keys before `low` and some in ``[low, high)``."""

    batch: slice
    start: int
    stop: int
    low: int
    high: int
    counts: Tensor | None
    """``(b, rows)`` visible counts; None where the rows are the causal diagonal of ``[low, high)``."""


def plan_causal(length: int, coordinate: Tensor | None) -> list[Block]:
    """Cut causal rows into blocks; row i sees keys 0 to i."""
    blocks, start = [], 0
    while start < length:
        stop = _reach(coordinate, start, min(start + _ROWS, length))
        blocks.append(Block(slice(None), start, stop, start, stop, None))
        start = stop
    return blocks


def plan_counts(counts: Tensor, coordinate: Tensor | None) -> list[Block]:
    """Cut rows sorted by visible counts ``(B, Tq)`` into blocks; the work is about the sum of the counts.

    All batch rows share a block where their clocks agree closely enough; otherwise each has its own.
    """
    batch = counts.shape[0]
    together = list(_cut(counts, coordinate, slice(None)))
    work = sum((block.stop - block.start) * block.high for block in together) * batch
    if batch == 1 or work <= 1.25 * float(counts.sum()):
        return together
    blocks: list[Block] = []
    for b in range(batch):
        own = None if coordinate is None else coordinate[b : b + 1]
        blocks.extend(_cut(counts[b : b + 1], own, slice(b, b + 1)))
    return blocks


def _cut(counts: Tensor, coordinate: Tensor | None, batch: slice) -> Iterator[Block]:
    least, most = counts.amin(0).tolist(), counts.amax(0).tolist()
    start, reads = 0, len(least)
    while start < reads:
        stop = min(start + _COUNTED_ROWS, reads)
        low = least[start]
        if coordinate is not None:
            furthest = _reach(coordinate, max(low - 1, 0), max(most[stop - 1], low))
            while stop > start + 1 and most[stop - 1] > furthest:
                stop -= 1
        yield Block(batch, start, stop, low, most[stop - 1], counts[:, start:stop])
        start = stop


def _reach(coordinate: Tensor | None, start: int, stop: int) -> int:
    """Return where in ``(start, stop]`` the decay since `start` first exceeds the span of a block."""
    if coordinate is None:
        return stop
    fallen = (coordinate[..., start, None] - coordinate[..., start:stop]).amax((0, 1))
    beyond = (fallen > _SPAN).nonzero()
    return start + int(beyond[0]) if len(beyond) else stop


def read_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    coordinate: Tensor | None,
    mask: Tensor | None,
    blocks: list[Block],
    scale: float,
) -> Tensor:
    """Read every block of rows.

    Parameters
    ----------
    query, key, value : Tensor
        ``(B, H, ., .)``, float32 or float64, finite.
    coordinate : Tensor or None
        ``(B, H, T)`` float64: log decay from the start up to each key.
    mask : Tensor or None
        ``(B, T)`` bool, True where the key counts.
    blocks : list of Block
        Covers every row once.
    scale : float
        Factor of the logits.

    Returns
    -------
    Tensor
        ``(B, H, Tq, d_v)``.
    """
    operands = (query, key, value, coordinate, mask, blocks, scale)
    output: Tensor = _BlockRead.apply(*operands)  # type: ignore[no-untyped-call]
    return output


class _BlockRead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        coordinate: Tensor | None,
        mask: Tensor | None,
        blocks: list[Block],
        scale: float,
    ) -> Tensor:
        operands = _Operands(query, key, value, coordinate, mask, scale)
        output = torch.empty_like(operands.query)
        total = query.new_empty(query.shape[:3])
        for block in blocks:
            parts = [_forward(*piece, scale) for piece in operands.pieces(block)]
            read, log_sum = parts[0] if len(parts) == 1 else _merge(*parts[0], *parts[1])
            output[block.batch, :, block.start : block.stop] = read
            total[block.batch, :, block.start : block.stop] = log_sum
        ctx.save_for_backward(query, key, value, coordinate, mask, output, total)
        ctx.blocks, ctx.scale = blocks, scale
        return output[..., : value.shape[-1]].contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, coordinate, mask, output, total = ctx.saved_tensors
        operands = _Operands(query, key, value, coordinate, mask, ctx.scale)
        grad = operands.widen(grad)
        grad_query, grad_key = torch.zeros_like(operands.query), torch.zeros_like(operands.key)
        grad_value = torch.zeros_like(operands.value)
        for block in ctx.blocks:
            rows = block.batch, slice(None), slice(block.start, block.stop)
            for piece in operands.pieces(block):
                dq, dk, dv = _backward(grad[rows], output[rows], total[rows], *piece, ctx.scale)
                keys = block.batch, slice(None), slice(*piece.span)
                grad_query[rows] += dq
                grad_key[keys] += dk
                grad_value[keys] += dv
        width = query.shape[-1]
        grad_coordinate = None
        if coordinate is not None:
            grad_coordinate = -grad_key[..., width].double() / ctx.scale
        return (
            grad_query[..., :width],
            grad_key[..., :width],
            grad_value[..., : value.shape[-1]],
            grad_coordinate,
            None,
            None,
            None,
        )


class _Piece(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    causal: bool
    visible: Tensor | None
    """``(b, 1, rows, keys)`` bool, or None where all keys are visible."""
    span: tuple[int, int]


class _Operands:
    """Queries, keys and values, brought to one width, with room for the column of logits."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        coordinate: Tensor | None,
        mask: Tensor | None,
        scale: float,
    ) -> None:
        self._biased = coordinate is not None or mask is not None
        self._column = query.shape[-1]
        self._width = kernel_width(query, self._column + self._biased, value.shape[-1])
        self.query, self.key, self.value = self.widen(query), self.widen(key), self.widen(value)
        self._coordinate, self._mask, self._scale = coordinate, mask, scale
        if self._biased:
            self.query[..., self._column] = 1.0

    def widen(self, x: Tensor) -> Tensor:
        """Append columns of zeros; always a new tensor."""
        return pad(x, (0, self._width - x.shape[-1])) if x.shape[-1] < self._width else x.clone()

    def pieces(self, block: Block) -> Iterator[_Piece]:
        """Yield the history that all rows of a block see, then the rest."""
        batch = block.batch
        query = self.query[batch, :, block.start : block.stop]
        key, value = self.key[batch, :, : block.high], self.value[batch, :, : block.high]
        if self._biased:
            key[..., self._column] = self._bias(block)
        if block.low:
            past = slice(0, block.low)
            yield _Piece(query, key[:, :, past], value[:, :, past], False, None, (0, block.low))
        if block.high > block.low:
            rest = slice(block.low, block.high)
            visible = None
            if block.counts is not None:
                place = torch.arange(block.low, block.high, device=query.device)
                visible = (place < block.counts[..., None])[:, None]
            causal = block.counts is None
            yield _Piece(query, key[:, :, rest], value[:, :, rest], causal, visible, (block.low, block.high))

    def _bias(self, block: Block) -> Tensor:
        """Return the keys' own part of the logits ``(b, H, high)``, counted from the block's place."""
        shape = self.key[block.batch].shape[:2]
        if self._coordinate is None:
            bias = self.key.new_zeros(*shape, block.high)
        else:
            coordinate = self._coordinate[block.batch, :, : block.high]
            origin = block.low if block.counts is None else max(block.low - 1, 0)
            bias = ((coordinate[..., origin, None] - coordinate) / self._scale).to(self.key.dtype)
        if self._mask is not None:
            bias = bias.masked_fill(~self._mask[block.batch, None, : block.high], MASKED / self._scale)
        return bias


def kernel_width(query: Tensor, key_width: int, value_width: int) -> int:
    """Choose the width that queries, keys and values are brought to: the fused kernels want one for all.

    Narrower than sixteen columns the CPU kernel works on parts of a vector and is slower than on a whole
    one: at 2,500 rows and 4 heads, width 8 took half as long again as width 16.
    """
    return max(key_width, value_width, 16 if _fused(query) else 0)


def _merge(first: Tensor, first_log: Tensor, second: Tensor, second_log: Tensor) -> tuple[Tensor, Tensor]:
    """Combine the softmax reads of two sets of keys into the read of both."""
    log_sum = torch.logaddexp(first_log, second_log)
    read = first * (first_log - log_sum).exp()[..., None] + second * (second_log - log_sum).exp()[..., None]
    return read, log_sum


def _fused(x: Tensor) -> bool:
    return x.device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


def _additive(visible: Tensor | None, like: Tensor) -> Tensor | None:
    if visible is None:
        return None
    return torch.zeros_like(visible, dtype=like.dtype).masked_fill_(~visible, MASKED)


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: bool,
    visible: Tensor | None,
    span: tuple[int, int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Return a piece's read and the log of its softmax denominator."""
    if _fused(query):
        read, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=_additive(visible, query), scale=scale
        )
        return read, log_sum
    logits = _logits(query, key, causal, visible, scale)
    log_sum = logits.logsumexp(-1)
    weight = (logits - log_sum[..., None]).exp()
    return weight @ value, log_sum


def _backward(
    grad: Tensor,
    output: Tensor,
    log_sum: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: bool,
    visible: Tensor | None,
    span: tuple[int, int],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a piece's gradients, given the merged read and denominator of its rows."""
    if _fused(query):
        dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad,
            query,
            key,
            value,
            output,
            log_sum,
            0.0,
            causal,
            attn_mask=_additive(visible, query),
            scale=scale,
        )
        return dq, dk, dv
    weight = (_logits(query, key, causal, visible, scale) - log_sum[..., None]).exp()
    slope = weight * (grad @ value.mT - (grad * output).sum(-1, keepdim=True)) * scale
    return slope @ key, slope.mT @ query, weight.mT @ grad


def _logits(query: Tensor, key: Tensor, causal: bool, visible: Tensor | None, scale: float) -> Tensor:
    logits = query @ key.mT * scale
    if causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool, device=query.device).tril()
    return logits if visible is None else logits.masked_fill(~visible, MASKED)
