"""What a network is held against: targets, what they weigh, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quantattn.errors import ForecasterError
from quantattn.forecasters.batches import TokenBatch
from quantattn.forecasters.heads import HeadConfig
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.objectives import Objective
from quantattn.forecasters.tokens import EntityTokens, Integers

Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Supervision:
    """Targets and what they weigh, by row of the samples frame.

    Parameters
    ----------
    objective : Objective
        The loss.
    targets : Tensor, shape (n_samples, targets)
        Scaled; what has weight zero, or belongs to no query, is not read.
    weights : Tensor, shape (n_samples, targets), or None
        Zero where a target is missing; None where none is missing and all weigh the same.
    """

    objective: Objective
    targets: Tensor
    weights: Tensor | None = None

    def on(self, device: torch.device) -> Supervision:
        """Give it on a device."""
        weights = None if self.weights is None else self.weights.to(device)
        return Supervision(self.objective, self.targets.to(device), weights)

    def loss(self, network: AttentionNetwork, batch: TokenBatch, raw: Tensor) -> tuple[Tensor, float]:
        """Give the sum of the weighted losses over a batch's queries, and the sum of their weights.

        Parameters
        ----------
        network : AttentionNetwork
            Whose head gave the raw numbers.
        batch : TokenBatch
            The batch.
        raw : Tensor, shape (B, M, outputs)
            Raw numbers.
        """
        chosen = batch.query_mask
        rows = batch.query_rows.clamp(min=0)
        losses = self.objective.losses(
            network.config.head, raw.float()[chosen] if raw.dtype == torch.bfloat16 else raw[chosen],
            self.targets[rows][chosen],
        )  # fmt: skip
        if self.weights is None:
            return losses.sum(), losses.numel()
        weights = self.weights[rows][chosen]
        return (losses * weights).sum(), float(weights.sum())


def supervise(
    target: Floats64, weights: Floats64 | None, objective: Objective, head: HeadConfig, used: Integers
) -> Supervision:
    """Check targets and weights of the rows used, and put them together.

    Parameters
    ----------
    target : ndarray of float64, shape (n_samples,) or (n_samples, targets)
        Scaled targets; a matrix may lack some (NaN).
    weights : ndarray of float64, shape (n_samples, targets), optional
        Not negative; all the same by default.
    objective : Objective
        The loss.
    head : HeadConfig
        The head, with the names of the targets.
    used : ndarray of int64
        Rows that are read.

    Raises
    ------
    ForecasterError
        If shapes do not fit, or a target or weight that is read is impossible.
    UsageError
        If the loss does not fit the head.
    """
    objective.check(head)
    matrix = target[:, None] if target.ndim == 1 else target
    if matrix.ndim != 2 or matrix.shape[1] != len(head.targets):
        raise ForecasterError(
            f"target has shape {target.shape} for {len(head.targets)} targets {list(head.targets)}; give one "
            "column for each"
        )
    if weights is not None and weights.shape != matrix.shape:
        raise ForecasterError(f"weights have shape {weights.shape}, the targets {matrix.shape}; align them")
    present = np.isfinite(matrix)
    broken = ~present if target.ndim == 1 else ~present & ~np.isnan(matrix)
    if broken[used].any():
        bad = used[broken[used].any(axis=1)][:3].tolist()
        raise ForecasterError(f"the target is not finite in sample rows {bad}; drop those samples")
    if weights is None and present[used].all():
        return Supervision(objective, torch.from_numpy(np.asarray(matrix, np.float32)))
    given = np.ones(matrix.shape) if weights is None else weights
    if not (np.isfinite(given[used]).all() and (given[used] >= 0).all()):
        bad = used[~(np.isfinite(given[used]) & (given[used] >= 0)).all(axis=1)][:3].tolist()
        raise ForecasterError(
            f"weights are negative or not finite in sample rows {bad}; give numbers from 0 on"
        )
    filled = np.asarray(np.where(present, matrix, 0.0), np.float32)
    given = np.where(present, given, 0.0).astype(np.float32)
    return Supervision(objective, torch.from_numpy(filled), torch.from_numpy(given))


def with_targets(sequences: Sequence[EntityTokens], supervision: Supervision) -> list[EntityTokens]:
    """Leave out sequences that ask nothing, or nothing whose answer counts."""
    asking = [s for s in sequences if len(s.rows)]
    if supervision.weights is None:
        return asking
    counts = (supervision.weights > 0).any(dim=1).numpy()
    return [s for s in asking if counts[s.rows].any()]
