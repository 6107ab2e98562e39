"""One key at a time: the arithmetic of a live system. Any cut of a sequence gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.backends.base import Problem, Solution


def read_recurrent(problem: Problem) -> Solution:
    """Update the state with one key after another and read it on the way."""
    key, value = problem.key, problem.value
    batch, heads, length, width = key.shape
    state = problem.state
    if state is None:
        state = key.new_zeros(batch, heads, width, value.shape[-1])
    pending = None
    if problem.decays:
        pending = problem.pending
        if pending is None:
            pending = key.new_zeros(batch, heads, dtype=torch.float64)
    reader = _Reader(problem)
    reader.visit(0, state, pending)
    for t in range(length):
        if pending is not None and problem.log_decay is not None:
            pending = pending + problem.log_decay[..., t]
        added = key[:, :, t, :, None] * value[:, :, t, None, :]
        updated = state if pending is None else state * pending.exp().to(state.dtype)[..., None, None]
        updated = updated + added
        if problem.key_mask is None:
            state = updated
            pending = None if pending is None else torch.zeros_like(pending)
        else:
            counts = problem.key_mask[:, t]
            state = torch.where(counts[:, None, None, None], updated, state)
            if pending is not None:
                pending = torch.where(counts[:, None], 0.0, pending)
        reader.visit(t + 1, state, pending)
    read, since = reader.finish()
    if key.numel() == 0:
        # Sums of nothing: inputs without numbers have a gradient without numbers.
        read = read + 0 * (problem.query.sum() + key.sum() + value.sum())
    return Solution(read, since, state if problem.want_state else None, pending)


class _Reader:
    """Collects the reads that are due after each count of keys."""

    def __init__(self, problem: Problem) -> None:
        self._query = problem.query
        self._width = problem.value.shape[-1]
        self._decays = problem.decays
        self._counts = problem.counts
        self._first = 1 if problem.visibility == "inclusive" else 0
        self._last = problem.key.shape[2] + self._first
        self._reads: list[Tensor] = []
        self._since: list[Tensor] = []
        self._rows: list[Tensor] = []

    def visit(self, count: int, state: Tensor, pending: Tensor | None) -> None:
        """Read every query whose history is the first `count` keys."""
        if self._counts is not None:
            batch, row = (self._counts == count).nonzero(as_tuple=True)
            if len(batch) == 0:
                return
            self._rows.append(batch * self._counts.shape[1] + row)
            query = self._query[batch, :, row]
            self._reads.append((query[..., None, :] @ state[batch]).squeeze(-2))
            if pending is not None:
                self._since.append(pending[batch])
        elif self._first <= count < self._last:
            query = self._query[:, :, count - self._first, None, :]
            self._reads.append((query @ state).squeeze(-2))
            if pending is not None:
                self._since.append(pending)

    def finish(self) -> tuple[Tensor, Tensor | None]:
        """Return the reads ``(B, H, Tq, w)`` and the log decay behind each ``(B, H, Tq)``."""
        batch, heads, length = self._query.shape[:3]
        if not self._reads:
            read = self._query.new_zeros(batch, heads, length, self._width)
            since = self._query.new_zeros(batch, heads, length, dtype=torch.float64)
            return read, since if self._decays else None
        if self._counts is None:
            return torch.stack(self._reads, 2), torch.stack(self._since, 2) if self._since else None
        order = torch.cat(self._rows).argsort()
        read = torch.cat(self._reads)[order].unflatten(0, (batch, length)).transpose(1, 2)
        if not self._since:
            return read, None
        return read, torch.cat(self._since)[order].unflatten(0, (batch, length)).transpose(1, 2)
