"""Softmax reads in blocks of rows, each merged from a rectangle of history and windows of a few keys.

Decay and masks enter the logits as one number for each key: what a row has in common cancels in its
softmax. In the rectangle, the keys that all rows of a block see, that number is one more column of queries
(ones) and keys, so the fused kernels need no mask. It is counted from the last of those keys, because a logit
keeps fewer digits the larger it is. In the windows it differs by row, and what a row
does not see is selected away: a sum would let a great logit through.

Where blocks and windows begin is fixed by the places of the rows and the count of the earliest, never by what
comes later, so no later key, gap or count moves a bit of an earlier read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.derivatives import first_order

MASKED = -1e30
"""Logit of a masked key: finite, so that a stretch of them alone gives no NaN on its way to weight zero."""

_LEAST = -1e38
"""Least number that is put into a column of keys: within the range of float32 whatever the scale."""
_ROWS = 256
_KEYS = 256
"""Keys of a window."""


class Block(NamedTuple):
    """Rows ``[start, stop)`` that see all keys before `low` and some in ``[low, high)``."""

    batch: slice
    start: int
    stop: int
    low: int
    high: int
    counts: Tensor | None
    """``(b, rows)`` visible counts; None where row i sees keys 0 to i."""

    def windows(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield the spans of keys that some of the rows see, of one size but at the end of all keys."""
        for first in range(self.low, self.high, _KEYS):
            yield first, min(first + _KEYS, length)


def plan_causal(length: int) -> list[Block]:
    """Cut causal rows into blocks; row i sees keys 0 to i."""
    return [
        Block(slice(None), start, min(start + _ROWS, length), start, min(start + _ROWS, length), None)
        for start in range(0, length, _ROWS)
    ]


def plan_counts(counts: Tensor) -> list[Block]:
    """Cut rows sorted by visible counts ``(B, Tq)`` into blocks; the work is about the sum of the counts.

    Batch rows share a block where the first of its reads sees equally many keys in all of them; otherwise
    each has its own. Either way a read goes through the same operations.
    """
    blocks: list[Block] = []
    batch, reads = counts.shape
    for start in range(0, reads, _ROWS):
        part = counts[:, start : start + _ROWS]
        stop = start + part.shape[1]
        least, most = part[:, 0].tolist(), part[:, -1].tolist()
        if len(set(least)) == 1:
            blocks.append(Block(slice(None), start, stop, least[0], max(most), part))
        else:
            for b in range(batch):
                blocks.append(Block(slice(b, b + 1), start, stop, least[b], most[b], part[b : b + 1]))
    return blocks


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
            read = log_sum = None
            for piece in operands.pieces(block):
                part, part_log = _forward(piece, scale)
                if piece.later is not None:
                    part_log = part_log + piece.later
                if read is None or log_sum is None:
                    read, log_sum = part, part_log
                else:
                    read, log_sum = _merge(read, log_sum, part, part_log)
            assert read is not None and log_sum is not None
            output[block.batch, :, block.start : block.stop] = read
            total[block.batch, :, block.start : block.stop] = log_sum
        ctx.save_for_backward(query, key, value, coordinate, mask, output, total)
        ctx.blocks, ctx.scale = blocks, scale
        return output[..., : value.shape[-1]].contiguous()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, coordinate, mask, output, total = ctx.saved_tensors
        operands = _Operands(query, key, value, coordinate, mask, ctx.scale)
        grad = operands.widen(grad)
        grad_query, grad_key = torch.zeros_like(operands.query), torch.zeros_like(operands.key)
        grad_value = torch.zeros_like(operands.value)
        for block in ctx.blocks:
            rows = block.batch, slice(None), slice(block.start, block.stop)
            for piece in operands.pieces(block):
                log_sum = total[rows] if piece.later is None else total[rows] - piece.later
                dq, dk, dv = _backward(grad[rows], output[rows], log_sum, piece, ctx.scale)
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
    visible: Tensor | None
    """``(b, 1, rows, keys)`` bool; None where every row sees every key."""
    bias: Tensor | None
    """``(b, H, rows, keys)``: added to the logits of a window; None for nothing."""
    later: Tensor | None
    """``(b, H, rows)``: log decay from the last of these keys to the last that each row sees."""
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
        """Yield the history that all rows of a block see, then what some of them see."""
        batch = block.batch
        query = self.query[batch, :, block.start : block.stop]
        key, value = self.key[batch], self.value[batch]
        last = self._last_seen(block)
        if block.low:
            past = slice(0, block.low)
            if self._biased:
                key[:, :, past, self._column] = self._common_bias(block)
            later = None
            if self._coordinate is not None and last is not None:
                later = (last - self._coordinate[batch, :, block.low - 1, None]).to(key.dtype)
            yield _Piece(query, key[:, :, past], value[:, :, past], None, None, later, (0, block.low))
        for first, stop in block.windows(key.shape[2]):
            keys = slice(first, stop)
            if self._biased:
                key[:, :, keys, self._column] = 0.0
            visible = self._visible(block, keys)
            bias = None
            if self._coordinate is not None and last is not None:
                between = last[..., None] - self._coordinate[block.batch, :, None, keys]
                bias = between.to(key.dtype)
            yield _Piece(query, key[:, :, keys], value[:, :, keys], visible, bias, None, (first, stop))

    def _last_seen(self, block: Block) -> Tensor | None:
        """Return the log decay from the start up to the last key that each row sees, ``(b, H, rows)``."""
        if self._coordinate is None:
            return None
        coordinate = self._coordinate[block.batch]
        if block.counts is None:
            return coordinate[:, :, block.start : block.stop]
        place = (block.counts - 1)[:, None].expand(-1, coordinate.shape[1], -1)
        return coordinate.gather(2, place)

    def _common_bias(self, block: Block) -> Tensor:
        """Return the part of the logits ``(b, H, low)`` that the keys before the block bring to every row."""
        shape = self.key[block.batch].shape[:2]
        if self._coordinate is None:
            bias = self.key.new_zeros(*shape, block.low)
        else:
            coordinate = self._coordinate[block.batch, :, : block.low]
            bias = (coordinate[..., -1:] - coordinate) / self._scale
            bias = bias.clamp(min=_LEAST).to(self.key.dtype)
        if self._mask is not None:
            bias = bias.masked_fill(
                ~self._mask[block.batch, None, : block.low], max(MASKED / self._scale, _LEAST)
            )
        return bias

    def _visible(self, block: Block, keys: slice) -> Tensor:
        """Return which keys of a window each row sees."""
        place = torch.arange(keys.start, keys.stop, device=self.key.device)
        if block.counts is None:
            rows = torch.arange(block.start, block.stop, device=self.key.device)
            visible = (place <= rows[:, None])[None, None]
        else:
            visible = (place < block.counts[..., None])[:, None]
        return visible if self._mask is None else visible & self._mask[block.batch, None, None, keys]


def kernel_width(query: Tensor, key_width: int, value_width: int) -> int:
    """Choose the width that queries, keys and values are brought to: the fused kernels want one for all.

    Narrower than sixteen columns the CPU kernel works on parts of a vector and is slower than on a whole
    one: at 2,500 rows and 4 heads, width 8 took half as long again as width 16.
    """
    return max(key_width, value_width, 16 if _fused(query) else 0)


def _merge(first: Tensor, first_log: Tensor, second: Tensor, second_log: Tensor) -> tuple[Tensor, Tensor]:
    """Combine the softmax reads of two sets of keys into the read of both."""
    log_sum = torch.logaddexp(first_log, second_log)
    # Of two sets that hold nothing visible yet, the log is minus infinity.
    below = log_sum.clamp(min=MASKED)
    read = first * (first_log - below).exp()[..., None] + second * (second_log - below).exp()[..., None]
    return read, log_sum


def _fused(x: Tensor) -> bool:
    return x.device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


def _forward(piece: _Piece, scale: float) -> tuple[Tensor, Tensor]:
    """Return a piece's read and the log of its softmax denominator."""
    if piece.visible is None and _fused(piece.query):
        read, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            piece.query, piece.key, piece.value, 0.0, False, scale=scale
        )
        return read, log_sum
    logits = _logits(piece, scale)
    log_sum = logits.logsumexp(-1)
    return _weights(logits, log_sum) @ piece.value, log_sum


def _backward(
    grad: Tensor, output: Tensor, log_sum: Tensor, piece: _Piece, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a piece's gradients, given the merged read and denominator of its rows."""
    query, key, value = piece.query, piece.key, piece.value
    if piece.visible is None and _fused(query):
        dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad,
            query,
            key,
            value,
            output,
            log_sum,
            0.0,
            False,
            scale=scale,
        )
        return dq, dk, dv
    weight = _weights(_logits(piece, scale), log_sum)
    slope = weight * (grad @ value.mT - (grad * output).sum(-1, keepdim=True)) * scale
    if piece.visible is not None:
        # What is hidden may overflow against the gradient, and zero times infinity is not zero.
        slope.masked_fill_(~piece.visible, 0.0)
    return slope @ key, slope.mT @ query, weight.mT @ grad


def _logits(piece: _Piece, scale: float) -> Tensor:
    logits = (piece.query @ piece.key.mT).mul_(scale)
    if piece.bias is not None:
        logits.add_(piece.bias)
    return logits if piece.visible is None else logits.masked_fill_(~piece.visible, -math.inf)


def _weights(logits: Tensor, log_sum: Tensor) -> Tensor:
    """Return the softmax weights, in the place of the logits."""
    return logits.sub_(log_sum.clamp(min=MASKED)[..., None]).exp_()
