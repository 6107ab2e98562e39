"""Sequences of different lengths, laid end to end in one row of the batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quantattn.errors import AttentionError, ShapeError

BY_KEY = {"key": 2, "value": 2, "key_mask": 1, "log_decay": 2, "key_times": 1}
BY_READ = {"query": 2, "visible_counts": 1, "read_log_decay": 2, "read_times": 1}
"""Axis of the length in every argument that goes with the keys or with the reads."""


class Segment(NamedTuple):
    """One sequence of a pack."""

    place: int
    reads: slice
    keys: slice

    def cut(self, tensors: dict[str, Tensor | None], whole: tuple[int, int]) -> dict[str, Tensor | None]:
        """Return the part of every tensor that belongs to this sequence; `whole` has all reads and keys."""
        return {name: self._cut(name, tensor, whole) for name, tensor in tensors.items()}

    def _cut(self, name: str, tensor: Tensor | None, whole: tuple[int, int]) -> Tensor | None:
        if not isinstance(tensor, Tensor):
            return tensor
        by_key = name in BY_KEY
        axis, length = (BY_KEY[name], whole[1]) if by_key else (BY_READ[name], whole[0])
        had = tensor.shape[axis] if tensor.dim() > axis else None
        if had == 1 and name in ("log_decay", "read_log_decay"):
            return tensor
        if had != length:
            raise ShapeError(
                f"{name}: expected a length of {length} on axis {axis}, got shape {tuple(tensor.shape)}; "
                "lay the sequences end to end as cu_seqlens says."
            )
        part = self.keys if by_key else self.reads
        return tensor.narrow(axis, part.start, part.stop - part.start)


def segments(
    cu_seqlens: Tensor, query_cu_seqlens: Tensor | None, query: Tensor, key: Tensor, *, counted: bool
) -> list[Segment]:
    """Return the sequences of a pack.

    Parameters
    ----------
    cu_seqlens : Tensor
        ``(N + 1,)`` integers from 0 to ``T``, never falling: where sequences of keys begin and end.
    query_cu_seqlens : Tensor or None
        The same for reads, from 0 to ``Tq``; None where they are placed as the keys are.
    query, key : Tensor
        ``(1, H, Tq, d)`` and ``(1, H, T, d)``.
    counted : bool
        Whether reads are placed by visible counts, so that they need bounds of their own.

    Raises
    ------
    ShapeError
        If the bounds do not fit.
    """
    if key.shape[0] != 1:
        raise ShapeError(f"cu_seqlens: goes with a batch of one, got {key.shape[0]}; lay rows end to end.")
    keys = sequence_bounds(cu_seqlens, "cu_seqlens", key.shape[2])
    if counted and query_cu_seqlens is None:
        raise ShapeError(
            "query_cu_seqlens: is needed beside visible_counts, to tell which sequence a query reads."
        )
    reads = (
        keys
        if query_cu_seqlens is None
        else sequence_bounds(query_cu_seqlens, "query_cu_seqlens", query.shape[2])
    )
    if len(reads) != len(keys):
        raise ShapeError(
            f"query_cu_seqlens: has {len(reads) - 1} sequences, cu_seqlens has {len(keys) - 1}; "
            "repeat a bound for a sequence without reads."
        )
    if query_cu_seqlens is None and query.shape[2] != key.shape[2]:
        raise ShapeError(
            f"query: length is {query.shape[2]}, key has {key.shape[2]}; pass visible_counts and "
            "query_cu_seqlens to let queries read keys at their own clock."
        )
    return [
        Segment(n, slice(reads[n], reads[n + 1]), slice(keys[n], keys[n + 1])) for n in range(len(keys) - 1)
    ]


def sequence_bounds(bounds: Tensor, name: str, length: int) -> list[int]:
    """Return where sequences of a pack begin and end, checked to rise from 0 to the length.

    Raises
    ------
    ShapeError
        If they do not.
    """
    if not isinstance(bounds, Tensor) or bounds.dtype not in (torch.int32, torch.int64):
        kind = bounds.dtype if isinstance(bounds, Tensor) else type(bounds).__name__
        raise ShapeError(f"{name}: expected an int32 or int64 tensor, got {kind}.")
    if bounds.dim() != 1 or len(bounds) < 2:
        raise ShapeError(f"{name}: expected shape (N + 1,) with N at least 1, got {tuple(bounds.shape)}.")
    listed: list[int] = bounds.tolist()
    falls = any(low > high for low, high in itertools.pairwise(listed))
    if listed[0] != 0 or listed[-1] != length or falls:
        shown = str(listed) if len(listed) <= 8 else f"{listed[:4]} ... {listed[-3:]}"
        raise ShapeError(f"{name}: expected bounds that rise from 0 to the length {length}, got {shown}.")
    return listed


@contextmanager
def named(segment: Segment) -> Iterator[None]:
    """Say in which sequence an error happened; places in its message count from the sequence's start."""
    try:
        yield
    except AttentionError as error:
        raise type(error)(
            f"sequence {segment.place}, from key {segment.keys.start} of the pack: {error}"
        ) from error


def each_sequence(
    read: Callable[..., Any],
    parts: list[Segment],
    tensors: dict[str, Tensor | None],
    whole: tuple[int, int],
    options: Callable[[Segment], dict[str, Any]],
) -> list[Any]:
    """Return what `read` gives for every sequence by itself, so to the bit what it gives outside a pack."""
    results = []
    for part in parts:
        with named(part):
            cut = part.cut(tensors, whole)
            positional = [cut.pop(name) for name in ("query", "key", "value")]
            results.append(read(*positional, **cut, **options(part)))
    return results
