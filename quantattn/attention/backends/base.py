"""What every backend is given and gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Visibility = Literal["inclusive", "strict"]


@dataclass(frozen=True)
class Problem:
    """One checked linear read, in features.

    Attributes
    ----------
    query, key : Tensor
        Nonnegative features, ``(B, H, Tq, r)`` and ``(B, H, T, r)``; masked keys are zero.
    value : Tensor
        ``(B, H, T, w)``: the values and, in the last column, ones.
    visibility : str
        ``"inclusive"`` or ``"strict"``; without meaning where `counts` is given.
    counts : Tensor or None
        ``(B, Tq)`` int64: query i reads the first ``counts[i]`` keys.
    key_mask : Tensor or None
        ``(B, T)`` bool, True where the key counts.
    log_decay : Tensor or None
        ``(B, H, T)`` float64, at most zero and finite.
    state : Tensor or None
        ``(B, H, r, w)`` state before the first key.
    pending : Tensor or None
        ``(B, H)`` float64: log decay that `state` has undergone and that is not in its numbers yet.
    chunk_size : int
        Rows in a chunk, for the backends that have chunks.
    want_state : bool
        Whether the state after the last key is asked for.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    visibility: Visibility
    counts: Tensor | None
    key_mask: Tensor | None
    log_decay: Tensor | None
    state: Tensor | None
    pending: Tensor | None
    chunk_size: int
    want_state: bool

    @property
    def decays(self) -> bool:
        """Whether time passes in this read."""
        return self.log_decay is not None or self.pending is not None


class Solution(NamedTuple):
    """What a backend returns.

    All sums are as of the last key that counts (unmasked) before the read: the time that has passed
    since is in `since` and `pending`. It cancels in the ratio, so a policy that needs no absolute scale
    never loses digits to it.
    """

    read: Tensor
    """``(B, H, Tq, w)``: sums of value columns weighted by similarity; the last column sums the weights."""
    since: Tensor | None
    """``(B, H, Tq)`` float64: log decay between the last key that counts and the last visible key."""
    state: Tensor | None
    """``(B, H, r, w)`` state after the last key."""
    pending: Tensor | None
    """``(B, H)`` float64: log decay since the last key that counts."""


Backend = Callable[[Problem], Solution]


class Clock(NamedTuple):
    """Log-decay coordinates of keys and reads, float64, zero at the initial state."""

    keys: Tensor
    """``(B, H, T)``: coordinate of the last key that counts, up to and including each key."""
    rows: Tensor
    """``(B, H, Tq)``: the same as seen by each read."""
    since: Tensor
    """``(B, H, Tq)``: log decay between that key and the last visible key."""
    pending: Tensor
    """``(B, H)``: log decay after the last key that counts."""


def read_clock(problem: Problem) -> Clock | None:
    """Return the coordinates of a problem, or None where no time passes.

    The weight of key j in read i is ``exp(rows[i] - keys[j])``, never above one. A masked key takes the
    coordinate of the last key that counts, so that the exponent stays in range.
    """
    if not problem.decays:
        return None
    batch, heads, length = problem.key.shape[:3]
    zero = problem.key.new_zeros(batch, heads, 1, dtype=torch.float64)
    start = zero if problem.pending is None else problem.pending[..., None]
    if problem.log_decay is None:
        elapsed = start.expand(batch, heads, length)
    else:
        elapsed = problem.log_decay.cumsum(-1) + start
    elapsed = torch.cat([start, elapsed], -1)
    if problem.key_mask is None:
        counted = torch.cat([zero, elapsed[..., 1:]], -1)
    else:
        place = torch.arange(1, length + 1, device=problem.key.device)
        last = torch.where(problem.key_mask, place, 0)
        last = torch.cat([last.new_zeros(batch, 1), last], -1).cummax(-1).values
        last = last[:, None].expand(batch, heads, length + 1)
        counted = torch.where(last > 0, elapsed.gather(-1, last), 0.0)
    since = elapsed - counted
    if problem.counts is not None:
        index = problem.counts[:, None].expand(batch, heads, problem.counts.shape[-1])
        rows, behind = counted.gather(-1, index), since.gather(-1, index)
    elif problem.visibility == "inclusive":
        rows, behind = counted[..., 1:], since[..., 1:]
    else:
        rows, behind = counted[..., :-1], since[..., :-1]
    return Clock(counted[..., 1:], rows, behind, since[..., -1])


def visible_pairs(problem: Problem) -> Tensor:
    """Return a bool tensor that broadcasts to ``(B, H, Tq, T)``: which keys each read sees."""
    length = problem.key.shape[2]
    place = torch.arange(length, device=problem.key.device)
    if problem.counts is not None:
        return place < problem.counts[:, None, :, None]
    row = place[:, None] if problem.visibility == "inclusive" else place[:, None] - 1
    return (place <= row)[None, None]
