"""Heads: what the numbers behind the last layer say about a target, from a point to a distribution.

A network gives `width` raw numbers for each target. :meth:`HeadConfig.split` lays them out by target and
:func:`distribution` turns them into what is forecast, in float64. Quantiles are cumulative sums of softplus
increments, so they cannot cross; a logarithm of a variance is bounded smoothly, so it can neither overflow
nor collapse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtri
from torch import Tensor

from quantattn.errors import UsageError

HeadKind = Literal["point", "gaussian", "quantile", "direction"]
HEADS: tuple[HeadKind, ...] = ("point", "gaussian", "quantile", "direction")

LOG_VARIANCE_BOUND = 12.0
"""Logarithms of variances stay within plus and minus this, in units of the scaled target."""

Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeadConfig:
    """What a network forecasts of each target.

    Parameters
    ----------
    kind : {"point", "gaussian", "quantile", "direction"}, default "point"
        One number; mean and variance; quantiles; or the logit of the probability that the target is positive.
    targets : tuple of str, default ``("y_true",)``
        Names of the targets, each with its own outputs.
    levels : tuple of float, default ``()``
        Levels of the quantiles, rising, between 0 and 1; for the kind ``"quantile"`` alone.

    Raises
    ------
    UsageError
        If the kind is unknown, a name is empty or repeated, or the levels are not rising or not wanted.
    """

    kind: HeadKind = "point"
    targets: tuple[str, ...] = ("y_true",)
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check kind, names and levels."""
        if self.kind not in HEADS:
            raise UsageError(f"head={self.kind!r} is not known; use one of {', '.join(map(repr, HEADS))}")
        names = self.targets
        if not isinstance(names, tuple) or not names or not all(isinstance(n, str) and n for n in names):
            raise UsageError(f"targets={names!r}; give a tuple of names, at least one")
        if len(set(names)) < len(names):
            raise UsageError(f"targets={names!r} holds a name twice; give each target its own name")
        if self.kind != "quantile":
            if self.levels:
                raise UsageError(f"levels={self.levels} are for head='quantile', not {self.kind!r}")
            return
        steps = (0.0, *self.levels, 1.0)
        rising = all(low < high for low, high in pairwise(steps))
        if not self.levels or not rising:
            raise UsageError(
                f"levels={self.levels} of the quantile head must rise and lie between 0 and 1, for example "
                "(0.05, 0.5, 0.95)"
            )

    @property
    def width(self) -> int:
        """Raw numbers for each target."""
        return {"gaussian": 2, "quantile": len(self.levels)}.get(self.kind, 1)

    @property
    def outputs(self) -> int:
        """Raw numbers in all."""
        return self.width * len(self.targets)

    @property
    def is_plain(self) -> bool:
        """Whether it is one number for one target under the usual name."""
        return self == POINT

    def split(self, raw: Tensor) -> Tensor:
        """Lay raw numbers out by target: ``(..., outputs)`` to ``(..., targets, width)``."""
        laid: Tensor = raw.unflatten(-1, (len(self.targets), self.width))
        return laid

    def initial_bias(self) -> Tensor:
        """Give the bias of a fresh head, shape (outputs,): a standard normal distribution, an even chance."""
        bias = torch.zeros(len(self.targets), self.width)
        if self.kind == "quantile":
            normal = ndtri(np.array(self.levels))
            # The inverse of softplus, of the distances between quantiles.
            bias[:] = torch.from_numpy(np.concatenate([normal[:1], np.log(np.expm1(np.diff(normal)))]))
        return bias.flatten()

    def to_dict(self) -> dict[str, Any]:
        """Give the head as plain JSON values."""
        return {"kind": self.kind, "targets": list(self.targets), "levels": list(self.levels)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> HeadConfig:
        """Read what :meth:`to_dict` gave.

        Raises
        ------
        UsageError
            If a key is missing or unknown, or a value impossible.
        """
        if set(values) != {"kind", "targets", "levels"}:
            raise UsageError(f"head holds {sorted(values)}, expected kind, levels and targets")
        return cls(values["kind"], tuple(values["targets"]), tuple(float(x) for x in values["levels"]))


POINT = HeadConfig()
"""One number for one target."""


def bounded(raw: Tensor) -> Tensor:
    """Give logarithms of variances within :data:`LOG_VARIANCE_BOUND`; the identity near zero."""
    return LOG_VARIANCE_BOUND * torch.tanh(raw / LOG_VARIANCE_BOUND)


def rising(raw: Tensor) -> Tensor:
    """Give quantiles that never fall along the last axis: the first number, then softplus increments."""
    increments = torch.nn.functional.softplus(raw[..., 1:])
    return torch.cat([raw[..., :1], increments], dim=-1).cumsum(-1)


@dataclass(frozen=True)
class Distribution:
    """What a head says of the scaled targets of some forecasts.

    Parameters
    ----------
    point : ndarray of float64, shape (n, targets)
        The number, the mean, the quantile whose level is nearest to one half, or the probability that the
        target is positive.
    variance : ndarray of float64, shape (n, targets), or None
        Of the gaussian head.
    quantiles : ndarray of float64, shape (n, targets, levels), or None
        Of the quantile head; never falling along the last axis.
    """

    point: Floats64
    variance: Floats64 | None = None
    quantiles: Floats64 | None = None


def median_place(levels: tuple[float, ...]) -> int:
    """Give the place of the level nearest to one half, the lower of two."""
    return min(range(len(levels)), key=lambda place: (abs(levels[place] - 0.5), levels[place]))


def distribution(head: HeadConfig, raw: npt.NDArray[np.floating[Any]]) -> Distribution:
    """Turn raw numbers into what is forecast.

    Parameters
    ----------
    head : HeadConfig
        The head that gave them.
    raw : ndarray of float, shape (n, outputs)
        Raw numbers.

    Returns
    -------
    Distribution
        In units of the scaled targets, computed in float64.
    """
    # In numpy, where a number's bits do not depend on how many stand beside it: torch takes the last few of a
    # tensor by other functions than the rest, so that one forecast read alone would differ from one of many.
    laid = np.array(raw, np.float64).reshape(*raw.shape[:-1], len(head.targets), head.width)
    if head.kind == "gaussian":
        bound = LOG_VARIANCE_BOUND
        return Distribution(laid[..., 0], np.exp(bound * np.tanh(laid[..., 1] / bound)))
    if head.kind == "quantile":
        steps = laid[..., 1:]
        rises = np.maximum(steps, 0.0) + np.log1p(np.exp(-np.abs(steps)))
        quantiles = np.cumsum(np.concatenate([laid[..., :1], rises], axis=-1), axis=-1)
        return Distribution(quantiles[..., median_place(head.levels)], quantiles=quantiles)
    if head.kind == "direction":
        odds = np.exp(-np.abs(laid[..., 0]))
        return Distribution(np.where(laid[..., 0] >= 0, 1.0, odds) / (1.0 + odds))
    return Distribution(laid[..., 0])


def normal_quantile(level: float) -> float:
    """Give the quantile of the standard normal distribution."""
    return math.nan if not 0 < level < 1 else float(ndtri(level))
