"""How well conditioned the denominators of a read were."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator, FloorDenominator
from quantattn.errors import ShapeError


@dataclass(frozen=True, eq=False, repr=False)
class AttentionHealth:
    """Condition of one read. Figures are computed when they are asked for, and never enter the gradient.

    Two of them are equal where they are one and the same; compare :meth:`to_dict` for the figures.

    Attributes
    ----------
    backend : str
        The backend that computed the read, so also what ``"auto"`` picked.
    feature_map : str
        Name of the feature map.
    policy : Denominator
        The denominator policy in force.
    denominators : Tensor
        ``(B, H, Tq)``, detached: sums of similarities before the policy touched them. Under ``raise_()``
        they are as of the last key, since the time up to the read cancels in the ratio.
    drift : float or None
        Largest difference to the same read in float64, over the largest output; None where not measured.
    """

    backend: str
    feature_map: str
    policy: Denominator
    denominators: Tensor = field(repr=False)
    drift: float | None = None

    @cached_property
    def _finite(self) -> Tensor:
        return self.denominators[torch.isfinite(self.denominators)].double()

    @property
    def reads(self) -> int:
        """Number of reads: batch times heads times queries."""
        return self.denominators.numel()

    @property
    def nonfinite(self) -> int:
        """Reads whose denominator is NaN or infinite: they met a non-finite input."""
        return self.reads - self._finite.numel()

    @cached_property
    def least(self) -> float:
        """Least finite denominator; NaN where there is none."""
        return float(self._finite.min()) if self._finite.numel() else float("nan")

    @cached_property
    def floor_hits(self) -> int:
        """Reads that ``floor(eps)`` changed; zero under another policy."""
        if not isinstance(self.policy, FloorDenominator):
            return 0
        return int((self.denominators < self.policy.eps).sum())

    @cached_property
    def empty(self) -> int:
        """Reads whose denominator is exactly zero: nothing visible, or nothing similar."""
        return int((self.denominators == 0).sum())

    def percentiles(self, at: float | Sequence[float] = (1.0, 50.0, 99.0)) -> dict[float, float]:
        """Return percentiles of the finite denominators; NaN where there is none.

        Parameters
        ----------
        at : float or sequence of floats, default (1, 50, 99)
            Percentages, from 0 to 100.

        Raises
        ------
        ShapeError
            For anything else.
        """
        wanted = _percentages(at)
        if not self._finite.numel():
            return dict.fromkeys(wanted, math.nan)
        ordered = self._finite.sort().values
        # The nearest rank: a value that occurred, at any size.
        last = ordered.numel() - 1
        return {p: float(ordered[round(p / 100 * last)]) for p in wanted}

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Return the figures, flat and fit for JSON: None stands for a figure that there is not.

        The keys are ``backend``, ``feature_map``, ``denominator`` (the policy as text), ``reads``, ``least``,
        ``percentile_1``, ``percentile_50``, ``percentile_99``, ``floor_hits``, ``nonfinite``, ``empty`` and
        ``drift``.
        """
        percentiles = {f"percentile_{p:g}": _or_none(value) for p, value in self.percentiles().items()}
        return {
            "backend": self.backend,
            "feature_map": self.feature_map,
            "denominator": str(self.policy),
            "reads": self.reads,
            "least": _or_none(self.least),
            **percentiles,
            "floor_hits": self.floor_hits,
            "nonfinite": self.nonfinite,
            "empty": self.empty,
            "drift": _or_none(self.drift),
        }

    def __repr__(self) -> str:
        """Return the counts and the least denominator, on one line."""
        drift = "" if self.drift is None else f", drift={self.drift:.3g}"
        return (
            f"AttentionHealth({self.backend}, {self.feature_map}, {self.policy}: reads={self.reads}, "
            f"least={self.least:.3g}, floor_hits={self.floor_hits}, nonfinite={self.nonfinite}, "
            f"empty={self.empty}{drift})"
        )

    @staticmethod
    def merge(parts: Sequence[AttentionHealth]) -> AttentionHealth:
        """Return the health of several reads of one call, one after another along the queries."""
        drifts = [part.drift for part in parts if part.drift is not None]
        denominators = [part.denominators for part in parts]
        if len({x.dtype for x in denominators}) > 1:
            denominators = [x.double() for x in denominators]
        return AttentionHealth(
            backend=", ".join(sorted({part.backend for part in parts})),
            feature_map=parts[0].feature_map,
            policy=parts[0].policy,
            denominators=torch.cat(denominators, 2),
            drift=max(drifts) if len(drifts) == len(parts) else None,
        )


def _or_none(figure: float | None) -> float | None:
    return figure if figure is not None and math.isfinite(figure) else None


def _percentages(at: float | Sequence[float]) -> tuple[float, ...]:
    try:
        given = (at,) if isinstance(at, int | float) else tuple(at)
        wanted = tuple(float(p) for p in given)
    except (TypeError, ValueError):
        wanted = (math.nan,)
    if isinstance(at, str | bool) or not all(0 <= p <= 100 for p in wanted):
        raise ShapeError(f"at: expected percentages from 0 to 100, such as (1, 50, 99), got {at!r}.")
    return wanted
