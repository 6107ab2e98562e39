"""The oracle: every pair of query and key, in any float dtype. Work and memory grow as Tq * T."""

from __future__ import annotations

import torch

from quantattn.attention.backends.base import Problem, Solution, read_clock, visible_pairs


def read_quadratic(problem: Problem) -> Solution:
    """Sum over explicit pairs."""
    clock = read_clock(problem)
    visible = visible_pairs(problem)
    weight = torch.where(visible, problem.query @ problem.key.mT, 0.0)
    if clock is not None:
        gap = torch.where(visible, clock.rows[..., :, None] - clock.keys[..., None, :], 0.0)
        weight = weight * gap.exp().to(weight.dtype)
    read = weight @ problem.value
    if problem.state is not None:
        query = problem.query
        if clock is not None:
            query = query * clock.rows.exp().to(query.dtype)[..., None]
        read = read + query @ problem.state
    if clock is None:
        return Solution(read, None, _final(problem, None) if problem.want_state else None, None)
    return Solution(
        read, clock.since, _final(problem, clock.keys) if problem.want_state else None, clock.pending
    )


def _final(problem: Problem, keys: torch.Tensor | None) -> torch.Tensor:
    key = problem.key
    empty = key.shape[2] == 0
    if keys is not None and not empty:
        key = key * (keys[..., -1:] - keys).exp().to(key.dtype)[..., None]
    final = key.mT @ problem.value
    if problem.state is None:
        return final
    if keys is None or empty:
        return final + problem.state
    return final + problem.state * keys[..., -1].exp().to(key.dtype)[..., None, None]
