"""Which keys a read may see, by time."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.instants import check_instants, check_time_mask, running_clock, time_parts
from quantattn.errors import ShapeError


def visible_before(
    key_times: Tensor,
    read_times: Tensor,
    *,
    key_mask: Tensor | None = None,
    inclusive: bool = False,
    cu_seqlens: Tensor | None = None,
    query_cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Count the keys that each read sees by time: those strictly earlier.

    Keys of one instant are all seen or none is, so their order among themselves is without effect.

    Parameters
    ----------
    key_times : Tensor
        ``(B, T)`` int64, sorted, in any unit (nanoseconds since 1970 in this package).
    read_times : Tensor
        ``(B, Tq)`` int64 in the same unit, in any order.
    key_mask : Tensor, optional
        ``(B, T)`` bool, True where the key counts; the times of masked keys are not read.
    inclusive : bool, default False
        Whether a key of the same instant is seen.
    cu_seqlens, query_cu_seqlens : Tensor, optional
        ``(N + 1,)`` integers each: N sequences of keys, and of reads, lie end to end in a batch of one, as
        for :func:`~quantattn.attention.linear_attention`. A read counts keys of its own sequence alone.

    Returns
    -------
    Tensor
        ``(B, Tq)`` int64, for ``visible_counts``.

    Raises
    ------
    ShapeError
        For a wrong dtype or shape.
    ClockError
        If the times of keys are not sorted.

    Examples
    --------
    >>> import torch
    >>> from quantattn.attention import visible_before
    >>> visible_before(torch.tensor([[10, 20, 20, 30]]), torch.tensor([[20, 21, 5]]))
    tensor([[1, 3, 0]])
    """
    key_times = check_instants(key_times, "key_times")
    read_times = check_instants(read_times, "read_times")
    if read_times.shape[0] != key_times.shape[0]:
        raise ShapeError(
            f"read_times: batch is {read_times.shape[0]}, key_times has {key_times.shape[0]}; "
            "give one row of reads for each row of keys."
        )
    mask = check_time_mask(key_mask, key_times)
    if cu_seqlens is None and query_cu_seqlens is None:
        ordered = running_clock(key_times, mask)
        return torch.searchsorted(ordered, read_times.contiguous(), right=inclusive)
    if cu_seqlens is None or query_cu_seqlens is None:
        raise ShapeError("cu_seqlens: is needed for the keys and query_cu_seqlens for the reads; give both.")
    keys = time_parts(cu_seqlens, "cu_seqlens", key_times)
    reads = time_parts(query_cu_seqlens, "query_cu_seqlens", read_times)
    if len(keys) != len(reads):
        raise ShapeError(
            f"query_cu_seqlens: has {len(reads)} sequences, cu_seqlens has {len(keys)}; "
            "repeat a bound for a sequence without reads."
        )
    counts = [
        visible_before(
            key_times[:, part],
            read_times[:, read],
            key_mask=None if mask is None else mask[:, part],
            inclusive=inclusive,
        )
        for part, read in zip(keys, reads, strict=True)
    ]
    return torch.cat(counts, -1)
