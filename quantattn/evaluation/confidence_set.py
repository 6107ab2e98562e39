"""The model confidence set: the models that the data do not show to be worse than the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quantattn.evaluation.hac import LEAST_TIMES, is_constant
from quantattn.evaluation.intervals import block_length

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ModelConfidenceSet:
    """Which models are in the set, and the p-value of each.

    Attributes
    ----------
    size : float
        The set holds the best model with probability 1 - `size`.
    included : tuple of str
        Models in the set, in the order given.
    p_values : dict of str to float or None
        The least size at which a model would leave the set; None where the set could not be computed.
    reason : str or None
        Why it could not be computed; then no model is left out.
    """

    size: float
    included: tuple[str, ...]
    p_values: dict[str, float | None]
    reason: str | None


def model_confidence_set(
    losses: Mapping[str, Floats], *, size: float = 0.1, overlap: int = 0, reps: int = 1000, seed: int = 0
) -> ModelConfidenceSet:
    """Compute the model confidence set with the range statistic and a stationary bootstrap.

    Parameters
    ----------
    losses : mapping of str to ndarray of float, shape (T,)
        Losses of each model at each forecast time, averaged over entities (and seeds) first.
    size : float
        Size of the test, between 0 and 1.
    overlap : int
        Label overlap in forecast times.
    reps : int
        Number of bootstrap resamples.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    ModelConfidenceSet
        Models with identical losses share one p-value, for the test cannot tell them apart.

    References
    ----------
    Hansen, P. R., Lunde, A. & Nason, J. M. (2011). The model confidence set. Econometrica, 79(2), 453-497,
    sections 3.1.2 and 3.2.
    """
    groups = _groups(losses)
    leaders = [group[0] for group in groups]
    n = losses[leaders[0]].size
    if len(leaders) == 1:
        return ModelConfidenceSet(size, tuple(losses), dict.fromkeys(losses, 1.0), None)
    if n < LEAST_TIMES:
        return _undefined(losses, size, f"{n} forecast times are too few; at least {LEAST_TIMES} are needed")
    table = np.column_stack([losses[name] for name in leaders])
    scale = float(np.max(np.abs(table)))
    pairs = [(i, j) for i in range(len(leaders)) for j in range(i)]
    differences = [table[:, i] - table[:, j] for i, j in pairs]
    for (i, j), difference in zip(pairs, differences, strict=True):
        if is_constant(difference, scale):
            return _undefined(
                losses,
                size,
                f"the losses of {leaders[j]} and {leaders[i]} differ by the same at every forecast time",
            )
    from arch.bootstrap import MCS

    block = block_length(np.stack(differences), overlap=overlap)
    test = MCS(table, size=size, reps=reps, block_size=block, method="R", bootstrap="stationary", seed=seed)
    test.compute()
    found = test.pvalues["Pvalue"]
    p_of = {name: float(found.loc[leaders.index(group[0])]) for group in groups for name in group}
    p_values: dict[str, float | None] = {name: p_of[name] for name in losses}
    return ModelConfidenceSet(size, tuple(name for name in losses if p_of[name] > size), p_values, None)


def _groups(losses: Mapping[str, Floats]) -> list[list[str]]:
    """Put models with identical losses together."""
    groups: list[list[str]] = []
    for name, loss in losses.items():
        for group in groups:
            other = losses[group[0]]
            if float(np.max(np.abs(loss - other))) <= 1e-12 * float(
                max(np.max(np.abs(loss)), np.max(np.abs(other)))
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _undefined(losses: Mapping[str, Floats], size: float, reason: str) -> ModelConfidenceSet:
    return ModelConfidenceSet(size, tuple(losses), dict.fromkeys(losses, None), reason)
