"""Causal softmax attention over the same visible keys as its linear twin: the public face."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from quantattn.attention.backends.base import Visibility
from quantattn.attention.finite import emptied, looks_finite, nonfinite_rows, reached, seen_number
from quantattn.attention.ragged import each_sequence, segments
from quantattn.attention.softmax_blocks import MASKED, kernel_width, plan_causal, plan_counts, read_blocks
from quantattn.attention.validation import (
    check_counts,
    check_decay,
    check_inputs,
    check_mask,
    check_visibility,
)
from quantattn.errors import DenominatorError, ShapeError


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    visibility: Visibility = "inclusive",
    visible_counts: Tensor | None = None,
    key_mask: Tensor | None = None,
    log_decay: Tensor | None = None,
    read_log_decay: Tensor | None = None,
    scale: float | None = None,
    nonfinite: Literal["raise", "propagate"] = "raise",
    cu_seqlens: Tensor | None = None,
    query_cu_seqlens: Tensor | None = None,
) -> Tensor:
    r"""Read a history with softmax attention, under the visibility rules of :func:`linear_attention`.

    .. math:: y_i = \sum_j p_{ij} v_j, \qquad
              p_{ij} \propto \exp(\text{scale} \; q_i \cdot k_j + \text{log decay from } j \text{ to } i)

    over the keys j that query i sees. The fastest path that torch has for each case is taken: one fused
    causal call where no time decays, with key masks as one more column of queries and keys; blocks of
    rows merged by their log-sum-exp where it does, or where queries read at their own clock.

    Parameters
    ----------
    query : Tensor
        ``(B, H, Tq, d)``; ``Tq`` may differ from ``T`` only where `visible_counts` is given.
    key : Tensor
        ``(B, H, T, d)``.
    value : Tensor
        ``(B, H, T, d_v)``.
    visibility : {"inclusive", "strict"}, default "inclusive"
        Whether query i sees key i. Under ``"strict"`` the first query sees nothing, which is an error:
        pass `visible_counts` for the queries that see something. Ignored where `visible_counts` is given.
    visible_counts : Tensor, optional
        ``(B, Tq)`` integers from 1 to ``T``, in any order: query i reads the first ``visible_counts[i]``
        keys.
    key_mask : Tensor, optional
        ``(B, T)`` bool, True where the key counts. A masked key may hold anything, NaN included; the time
        that its `log_decay` spans still passes.
    log_decay : Tensor, optional
        ``(B, H, T)``, at most zero, axes of size one are expanded: log of the factor by which the weight of
        every earlier key shrinks when time moves on to key j.
    read_log_decay : Tensor, optional
        ``(B, H, Tq)``, at most zero: log decay from the last visible key to the read. It is the same for
        every key of a row and cancels; it is checked and otherwise without effect.
    scale : float, optional
        Factor of the logits; ``1 / sqrt(d)`` where not given.
    nonfinite : {"raise", "propagate"}, default "raise"
        Whether a read that meets a NaN or infinite input is an error, or NaN.
    cu_seqlens, query_cu_seqlens : Tensor, optional
        ``(N + 1,)`` integers: N sequences lie end to end in a batch of one, as for :func:`linear_attention`.

    Returns
    -------
    Tensor
        ``(B, H, Tq, d_v)``, in the dtype of the inputs, computed in float32 at least.

    Raises
    ------
    ShapeError
        For a wrong rank, width, length or dtype, counts beyond the keys, or a positive decay.
    DenominatorError
        Where a query sees no key: softmax over nothing has no value. Also where a read meets a non-finite
        input and `nonfinite` is ``"raise"``.
    """
    check_visibility(visibility)
    if nonfinite not in ("raise", "propagate"):
        raise ShapeError(f"nonfinite: expected 'raise' or 'propagate', got {nonfinite!r}.")
    if cu_seqlens is not None or query_cu_seqlens is not None:
        check_inputs(query, key, value, same_length=False)
        if cu_seqlens is None:
            raise ShapeError("cu_seqlens: is needed beside query_cu_seqlens, for the sequences of keys.")
        parts = segments(cu_seqlens, query_cu_seqlens, query, key, counted=visible_counts is not None)
        tensors = {
            "query": query,
            "key": key,
            "value": value,
            "visible_counts": visible_counts,
            "key_mask": key_mask,
            "log_decay": log_decay,
            "read_log_decay": read_log_decay,
        }
        options = {"visibility": visibility, "scale": scale, "nonfinite": nonfinite}
        whole = query.shape[2], key.shape[2]
        return torch.cat(each_sequence(softmax_attention, parts, tensors, whole, lambda _: options), 2)
    check_inputs(query, key, value, same_length=visible_counts is None)
    counts = check_counts(visible_counts, query, key.shape[2])
    mask = check_mask(key_mask, key)
    decay = check_decay(log_decay, "log_decay", key)
    check_decay(read_log_decay, "read_log_decay", query)
    scale = _checked_scale(scale, query.shape[-1])
    if 0 in query.shape[:3]:
        # Reads of nothing: inputs without numbers have a gradient without numbers.
        nothing = value.new_zeros(*query.shape[:3], value.shape[-1])
        return nothing + (query.sum() + key.sum() + value.sum()) * 0
    _refuse_empty(counts, mask, visibility, query)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    with torch.autocast(query.device.type, enabled=False):
        inputs = query.to(dtype), key.to(dtype), value.to(dtype)
        lost = None
        if mask is not None:
            # What a masked key or value holds must reach no logit, nor a gradient.
            gone = ~mask[:, None]
            inputs = inputs[0], emptied(inputs[1], gone), emptied(inputs[2], gone)
        if not looks_finite(*inputs):
            bad_query, bad_key = nonfinite_rows(inputs[0]), nonfinite_rows(*inputs[1:])
            inputs = emptied(inputs[0], bad_query), emptied(inputs[1], bad_key), emptied(inputs[2], bad_key)
            read_key = bad_key if mask is None else bad_key & mask[:, None]
            lost = bad_query | reached(read_key, counts, visibility)
            if nonfinite == "raise":
                _refuse_nonfinite(lost)
        output = _read(*inputs, counts, mask, decay, scale)
        if lost is not None:
            output = torch.where(lost[..., None], torch.nan, output)
    return output.to(query.dtype)


def _checked_scale(scale: float | None, width: int) -> float:
    if scale is None:
        return 1 / math.sqrt(width)
    known = isinstance(scale, int | float) and not isinstance(scale, bool) and 1e-12 <= scale <= 1e12
    if not known:
        raise ShapeError(f"scale: expected a number from 1e-12 to 1e12, got {scale!r}.")
    return float(scale)


def _read(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    mask: Tensor | None,
    decay: Tensor | None,
    scale: float,
) -> Tensor:
    coordinate = None if decay is None else _coordinate(decay, mask)
    if counts is not None:
        return _read_counted(query, key, value, counts, coordinate, mask, scale)
    if coordinate is not None:
        blocks = plan_causal(query.shape[2])
        return read_blocks(query, key, value, coordinate, mask, blocks, scale)
    if mask is not None:
        return _read_masked(query, key, value, mask, scale)
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)


def _read_counted(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor,
    coordinate: Tensor | None,
    mask: Tensor | None,
    scale: float,
) -> Tensor:
    """Read by visible counts, in their order, so that a block of rows sees about the same keys."""
    order = counts.argsort(dim=-1, stable=True)
    placed = query.gather(2, order[:, None, :, None].expand_as(query))
    blocks = plan_counts(counts.gather(-1, order))
    output = read_blocks(placed, key, value, coordinate, mask, blocks, scale)
    back = order.argsort(dim=-1)[:, None, :, None]
    return output.gather(2, back.expand_as(output))


def _read_masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Read causally with one more column that carries the mask, so that the causal kernel still applies.

    Whatever the mask says: a shorter way for padding would make earlier reads depend on where it begins.
    """
    column = torch.where(mask, 0.0, max(MASKED / scale, -1e38)).to(key.dtype)[:, None, :, None]
    key = torch.cat([key, column.expand(*key.shape[:3], 1)], -1)
    query = pad(query, (0, 1), value=1.0)
    width = kernel_width(query, query.shape[-1], value.shape[-1])
    query, key = (pad(x, (0, width - x.shape[-1])) for x in (query, key))
    padded = pad(value, (0, width - value.shape[-1]))
    output = scaled_dot_product_attention(query, key, padded, is_causal=True, scale=scale)
    return output[..., : value.shape[-1]]


def _coordinate(decay: Tensor, mask: Tensor | None) -> Tensor:
    """Return the log decay from the start up to each key; masked keys repeat the one before.

    A masked key has weight zero wherever it lies, but its coordinate must not fix the origin of a block.
    """
    elapsed = decay.cumsum(-1)
    if mask is None:
        return elapsed
    place = torch.arange(1, elapsed.shape[-1] + 1, device=elapsed.device)
    last = torch.where(mask, place, 0).cummax(-1).values[:, None].expand_as(elapsed)
    return torch.where(last > 0, elapsed.gather(-1, (last - 1).clamp(min=0)), 0.0)


def _refuse_empty(counts: Tensor | None, mask: Tensor | None, visibility: str, query: Tensor) -> None:
    if mask is None and counts is None:
        empty = [[0, 0]] if visibility == "strict" and query.shape[0] * query.shape[1] else []
        total = query.shape[0]
    else:
        if mask is None:
            assert counts is not None
            none = counts == 0
        else:
            none = seen_number(mask[:, None], counts, visibility)[:, 0] == 0
        if not bool(none.any()):
            return
        empty, total = none.nonzero().tolist(), int(none.sum())
    if empty:
        batch, row = empty[0]
        raise DenominatorError(
            f"query: nothing is visible at batch {batch}, head 0, position {row} ({total} such reads in each "
            "head); softmax over no keys has no value. Leave those queries out, or mask fewer keys."
        )


def _refuse_nonfinite(lost: Tensor) -> None:
    if bool(lost.any()):
        batch, head, row = lost.nonzero()[0].tolist()
        raise DenominatorError(
            f"query: the read at batch {batch}, head {head}, position {row} ({int(lost.sum())} such in all) "
            "meets a NaN or infinite query, key or value. Mask such keys, or pass nonfinite='propagate'."
        )
