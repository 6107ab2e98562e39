"""Linear attention as its definition says it, one pair at a time, with the gradient worked out by hand.

Nothing here is shared with the package: plain loops over numpy rows. Run in float32 it also shows how
much of an answer is rounding, which is where the float32 tolerances come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

MAPS = {
    "identity": (lambda x: x, lambda x: np.ones_like(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(x.dtype)),
    "squared_relu": (lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
    "elu1": (
        lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
        lambda x: np.where(x > 0, np.ones_like(x), np.exp(np.minimum(x, 0))),
    ),
}


@dataclass
class Case:
    """Inputs as numpy arrays, laid out as the package wants them; see ``linear_attention``."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    feature_map: str
    counts: np.ndarray
    mask: np.ndarray | None
    log_decay: np.ndarray | None
    read_log_decay: np.ndarray | None
    S: np.ndarray | None
    z: np.ndarray | None
    pending: np.ndarray | None
    policy: tuple[Any, ...]

    def cast(self, dtype: Any) -> Case:
        """Return the case with every float array in `dtype`."""

        def to(x: np.ndarray | None) -> np.ndarray | None:
            return None if x is None else x.astype(dtype)

        return Case(
            to(self.query),
            to(self.key),
            to(self.value),
            self.feature_map,
            self.counts,
            self.mask,
            to(self.log_decay),
            to(self.read_log_decay),
            to(self.S),
            to(self.z),
            to(self.pending),
            self.policy,
        )


def evaluate(case: Case, grad: np.ndarray, grad_S: np.ndarray, grad_z: np.ndarray) -> dict[str, np.ndarray]:
    """Return output, final state with all its decay, and the gradient of the given linear functional.

    The functional is ``sum(grad * output) + sum(grad_S * S) + sum(grad_z * z)``.
    """
    phi, slope = MAPS[case.feature_map]
    dtype = case.query.dtype
    batch, heads, reads, _ = case.query.shape
    keys, width = case.key.shape[2], case.value.shape[3]
    fq, fk = phi(case.query), phi(case.key)
    decay = np.zeros((batch, heads, keys), dtype) if case.log_decay is None else case.log_decay
    rest = np.zeros((batch, heads, reads), dtype) if case.read_log_decay is None else case.read_log_decay
    S = np.zeros((batch, heads, fk.shape[-1], width), dtype) if case.S is None else case.S
    z = np.zeros((batch, heads, fk.shape[-1]), dtype) if case.z is None else case.z
    pending = np.zeros((batch, heads), dtype) if case.pending is None else case.pending
    output = np.zeros((batch, heads, reads, width), dtype)
    final_S, final_z = np.zeros_like(S), np.zeros_like(z)
    d_fq, d_fk, d_value = np.zeros_like(fq), np.zeros_like(fk), np.zeros_like(case.value)
    d_decay, d_rest, d_S, d_z = (np.zeros_like(x) for x in (decay, rest, S, z))
    d_mass, d_prior = 0.0, np.zeros(width, dtype)
    for b in range(batch):
        for h in range(heads):
            for i in range(reads):
                seen = int(case.counts[b, i])
                above, below = np.zeros(width, dtype), dtype.type(0)
                weights: list[tuple[int, np.ndarray]] = []
                for j in range(seen):
                    if case.mask is not None and not case.mask[b, j]:
                        continue
                    age = dtype.type(math.exp(decay[b, h, j + 1 : seen].sum() + rest[b, h, i]))
                    weights.append((j, age))
                    similarity = age * (fq[b, h, i] @ fk[b, h, j])
                    above = above + similarity * case.value[b, h, j]
                    below = below + similarity
                old = dtype.type(math.exp(pending[b, h] + decay[b, h, :seen].sum() + rest[b, h, i]))
                above = above + old * (fq[b, h, i] @ S[b, h])
                below = below + old * (fq[b, h, i] @ z[b, h])
                kind, *numbers = case.policy
                mass, prior = (numbers[0], np.asarray(numbers[1], dtype)) if kind == "prior" else (0.0, 0.0)
                floored = kind == "floor" and below < numbers[0]
                total = dtype.type(numbers[0]) if floored else below + dtype.type(mass)
                y = (above + dtype.type(mass) * prior) / total
                output[b, h, i] = y
                d_above = grad[b, h, i] / total
                d_below = dtype.type(0) if floored else -(grad[b, h, i] @ y) / total
                if kind == "prior":
                    d_mass += d_above @ prior + d_below
                    d_prior += d_above * dtype.type(mass)
                for j, age in weights:
                    d_similarity = d_above @ case.value[b, h, j] + d_below
                    similarity = age * (fq[b, h, i] @ fk[b, h, j])
                    d_value[b, h, j] += similarity * d_above
                    d_fq[b, h, i] += d_similarity * age * fk[b, h, j]
                    d_fk[b, h, j] += d_similarity * age * fq[b, h, i]
                    d_decay[b, h, j + 1 : seen] += d_similarity * similarity
                    d_rest[b, h, i] += d_similarity * similarity
                pulled = S[b, h] @ d_above + z[b, h] * d_below
                d_fq[b, h, i] += old * pulled
                d_S[b, h] += old * np.outer(fq[b, h, i], d_above)
                d_z[b, h] += old * fq[b, h, i] * d_below
                d_decay[b, h, :seen] += old * (fq[b, h, i] @ pulled)
                d_rest[b, h, i] += old * (fq[b, h, i] @ pulled)
            for j in range(keys):
                if case.mask is not None and not case.mask[b, j]:
                    continue
                age = dtype.type(math.exp(decay[b, h, j + 1 :].sum()))
                final_S[b, h] += age * np.outer(fk[b, h, j], case.value[b, h, j])
                final_z[b, h] += age * fk[b, h, j]
                d_key = grad_S[b, h] @ case.value[b, h, j] + grad_z[b, h]
                d_fk[b, h, j] += age * d_key
                d_value[b, h, j] += age * (fk[b, h, j] @ grad_S[b, h])
                d_decay[b, h, j + 1 :] += age * (fk[b, h, j] @ d_key)
            old = dtype.type(math.exp(pending[b, h] + decay[b, h].sum()))
            final_S[b, h] += old * S[b, h]
            final_z[b, h] += old * z[b, h]
            d_S[b, h] += old * grad_S[b, h]
            d_z[b, h] += old * grad_z[b, h]
            d_decay[b, h] += old * ((S[b, h] * grad_S[b, h]).sum() + z[b, h] @ grad_z[b, h])
    return {
        "output": output,
        "S": final_S,
        "z": final_z,
        "d_query": d_fq * slope(case.query),
        "d_key": d_fk * slope(case.key),
        "d_value": d_value,
        "d_log_decay": d_decay,
        "d_read_log_decay": d_rest,
        "d_S": d_S,
        "d_z": d_z,
        "d_mass": np.asarray(d_mass, dtype),
        "d_prior": d_prior,
    }


def softmax_rows(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    counts: np.ndarray,
    mask: np.ndarray | None,
    log_decay: np.ndarray | None,
    scale: float,
) -> np.ndarray:
    """Return softmax reads row by row in float64."""
    batch, heads, reads, _ = query.shape
    output = np.zeros((batch, heads, reads, value.shape[-1]))
    for b in range(batch):
        for h in range(heads):
            for i in range(reads):
                seen = [j for j in range(int(counts[b, i])) if mask is None or mask[b, j]]
                logits = []
                for j in seen:
                    age = 0.0 if log_decay is None else log_decay[b, h, j + 1 : int(counts[b, i])].sum()
                    logits.append(scale * float(query[b, h, i] @ key[b, h, j]) + age)
                weights = np.exp(np.array(logits) - max(logits))
                output[b, h, i] = (weights[:, None] * value[b, h, seen]).sum(0) / weights.sum()
    return output
