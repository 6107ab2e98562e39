"""How much the state decays just before each key that counts, and what has passed since the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantattn.attention.backends._vectors import compiled


@compiled
def elapse(heads: int, steps: Any, mask: Any, pending: Any, gaps: Any, since: Any) -> None:
    """Add log decays up from one key that counts to the next.

    One after another, so that a history cut anywhere adds up to the same bits.

    Parameters
    ----------
    heads : int
        Heads.
    steps : ndarray of float64, shape (pairs, T)
        Log decay just before each key.
    mask : ndarray of bool, shape (batch, T) or (0, T)
        Which keys count; empty where all do.
    pending : ndarray of float64, shape (pairs,)
        Log decay before the first key that the state has yet to undergo.
    gaps : ndarray of float64, shape (pairs, T)
        Becomes the log decay that the state undergoes before each key; zero where a key does not count.
    since : ndarray of float64, shape (pairs, T + 1)
        Becomes the log decay since the last key that counts, after no key, after the first, and so on.
    """
    pairs, length = steps.shape
    for pair in range(pairs):
        waiting = pending[pair]
        since[pair, 0] = waiting
        for t in range(length):
            waiting = waiting + steps[pair, t]
            if mask.size and not mask[pair // heads, t]:
                gaps[pair, t] = 0.0
            else:
                gaps[pair, t] = waiting
                waiting = 0.0
            since[pair, t + 1] = waiting


@compiled
def pull_elapsed(
    heads: int, mask: Any, grad_gaps: Any, grad_since: Any, grad_steps: Any, grad_pending: Any
) -> None:
    """Pull gradients back through :func:`elapse`."""
    pairs, length = grad_gaps.shape
    for pair in range(pairs):
        asked = 0.0
        for t in range(length - 1, -1, -1):
            if mask.size and not mask[pair // heads, t]:
                asked += grad_since[pair, t + 1]
            else:
                asked = grad_gaps[pair, t]
            grad_steps[pair, t] = asked
        grad_pending[pair] = asked + grad_since[pair, 0]


@compiled
def exponentials(gaps: Any, factors: Any) -> None:
    """Write ``exp(gaps)``, rounded to the dtype of `factors`."""
    for i in range(gaps.size):
        factors[i] = np.exp(gaps[i])
