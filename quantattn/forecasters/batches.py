"""Padded batches: events and queries of several entities merged into one sequence each.

A query stands behind the events that it reads, with its key masked. The merged sequence lets one
causal pass score every forecast of a history, in either attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quantattn.forecasters.tokens import EntityTokens, decay_steps, elapsed_days


@dataclass(frozen=True)
class TokenBatch:
    """Merged and padded token sequences; position 0 of each is the start token.

    Parameters
    ----------
    events : Tensor, shape (B, T, event_width)
        Event tokens; zero elsewhere.
    queries : Tensor, shape (B, M, query_width)
        Query tokens, padded.
    query_positions : Tensor of int64, shape (B, M)
        Where each query stands in the merged sequence; padding repeats a valid position.
    query_mask : Tensor of bool, shape (B, M)
        True for real queries.
    query_rows : Tensor of int64, shape (B, M)
        Row of each query in the samples frame; -1 for padding.
    writes : Tensor of bool, shape (B, T)
        True where the token writes: the start token and the events.
    log_decay : Tensor, shape (B, H, T)
        Natural logarithm of the decay over the time since the token before; <= 0.
    n_tokens : int
        Real tokens in the batch, start tokens left out.
    """

    events: Tensor
    queries: Tensor
    query_positions: Tensor
    query_mask: Tensor
    query_rows: Tensor
    writes: Tensor
    log_decay: Tensor
    n_tokens: int

    def to(self, dtype: torch.dtype) -> TokenBatch:
        """Give the batch with its floating tensors in another dtype."""
        return replace(
            self,
            events=self.events.to(dtype),
            queries=self.queries.to(dtype),
            log_decay=self.log_decay.to(dtype),
        )

    def on(self, device: torch.device) -> TokenBatch:
        """Give the batch on a device; itself where it is there already."""
        if self.events.device == device:
            return self
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def segments(self, tokens: int) -> Iterator[TokenBatch]:
        """Cut the sequences into segments that follow each other.

        Parameters
        ----------
        tokens : int
            Positions of a segment; the last may be shorter. The start token counts as one.

        Yields
        ------
        TokenBatch
            The positions of one segment and the queries among them, whose positions are counted within it.
        """
        length = self.events.shape[1]
        for first in range(0, length, tokens):
            stop = min(first + tokens, length)
            inside = self.query_mask & (self.query_positions >= first) & (self.query_positions < stop)
            # The queries of a segment lie side by side in each row, so a stable sort moves them to its front.
            width = max(1, int(inside.sum(1).max()))
            place = (~inside).to(torch.int8).argsort(dim=1, stable=True)[:, :width]
            mask = inside.gather(1, place)
            positions = (self.query_positions.gather(1, place) - first).masked_fill(~mask, 0)
            wide = place[..., None].expand(-1, -1, self.queries.shape[2])
            yield TokenBatch(
                events=self.events[:, first:stop],
                queries=self.queries.gather(1, wide).masked_fill(~mask[..., None], 0.0),
                query_positions=positions,
                query_mask=mask,
                query_rows=self.query_rows.gather(1, place).masked_fill(~mask, -1),
                writes=self.writes[:, first:stop],
                log_decay=self.log_decay[:, :, first:stop],
                n_tokens=self.n_tokens,
            )


def _merged_clock(
    tokens: EntityTokens, half_lives: tuple[float | None, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Give each event's and each query's position on the decay clock, in half-lives, per head."""
    n, heads = len(tokens.events), len(half_lives)
    times = tokens.event_times
    steps = np.zeros((n, heads))
    if n > 1:
        steps[1:] = decay_steps(elapsed_days(times[1:], times[:-1]), half_lives)
    clock = np.cumsum(steps, axis=0)
    reads = np.zeros((len(tokens.counts), heads))
    seen = tokens.counts > 0
    if seen.any():
        last = tokens.counts[seen] - 1
        gap = elapsed_days(tokens.query_times[seen], times[last])
        reads[seen] = clock[last] + decay_steps(gap, half_lives)
    return clock, reads


def _aligned(values: np.ndarray) -> Tensor:
    """Copy an array into torch's own memory.

    Matrix products may round differently with the place of their operands in a cache line, and numpy
    starts arrays anywhere in one: over its memory, equal runs would not always give equal bits.
    """
    return torch.from_numpy(values).clone(memory_format=torch.contiguous_format)


def merge(sequences: Sequence[EntityTokens], half_lives: tuple[float | None, ...]) -> TokenBatch:
    """Merge and pad the tokens of several entities.

    Parameters
    ----------
    sequences : sequence of EntityTokens
        At least one.
    half_lives : tuple of float or None, length H
        Days, per head.

    Returns
    -------
    TokenBatch
        In float32, on the CPU.
    """
    heads = len(half_lives)
    length = 1 + max(len(s.events) + len(s.queries) for s in sequences)
    width = max(1, max(len(s.queries) for s in sequences))
    size = len(sequences)
    events = np.zeros((size, length, sequences[0].events.shape[1]), np.float32)
    queries = np.zeros((size, width, sequences[0].queries.shape[1]), np.float32)
    positions = np.zeros((size, width), np.int64)
    mask = np.zeros((size, width), bool)
    rows = np.full((size, width), -1, np.int64)
    writes = np.zeros((size, length), bool)
    clock = np.zeros((size, length, heads))
    n_tokens = 0
    for b, tokens in enumerate(sequences):
        n, m = len(tokens.events), len(tokens.queries)
        # A query comes behind the events that it reads and behind the queries before it.
        at_query = 1 + tokens.counts + np.arange(m)
        at_event = 1 + np.arange(n) + np.searchsorted(tokens.counts, np.arange(n), side="right")
        events[b, at_event] = tokens.events
        queries[b, :m] = tokens.queries
        positions[b, :m] = at_query
        mask[b, :m] = True
        rows[b, :m] = tokens.rows
        writes[b, 0] = True
        writes[b, at_event] = True
        event_clock, query_clock = _merged_clock(tokens, half_lives)
        clock[b, at_event] = event_clock
        clock[b, at_query] = query_clock
        clock[b, 1 + n + m :] = clock[b, n + m]
        n_tokens += n + m
    # Two queries between the same events may both sit at the cap; the clock never runs back.
    steps = np.diff(clock, axis=1, prepend=0.0)
    log_decay = -math.log(2.0) * np.maximum(steps, 0.0)
    return TokenBatch(
        events=_aligned(events),
        queries=_aligned(queries),
        query_positions=_aligned(positions),
        query_mask=_aligned(mask),
        query_rows=_aligned(rows),
        writes=_aligned(writes),
        log_decay=_aligned(np.ascontiguousarray(log_decay.transpose(0, 2, 1), np.float32)),
        n_tokens=n_tokens,
    )
