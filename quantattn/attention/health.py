"""How well conditioned the denominators of a read were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator, FloorDenominator


@dataclass(frozen=True)
class AttentionHealth:
    """Condition of one read. Figures are computed when they are asked for, and never enter the gradient.

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

    def percentiles(self, at: Sequence[float] = (1.0, 50.0, 99.0)) -> dict[float, float]:
        """Return percentiles of the finite denominators; NaN where there is none.

        Parameters
        ----------
        at : sequence of floats, default (1, 50, 99)
            Percentages.
        """
        if not self._finite.numel():
            return {float(percentage): float("nan") for percentage in at}
        ordered = self._finite.sort().values
        # The nearest rank: a value that occurred, at any size.
        last = ordered.numel() - 1
        return {float(p): float(ordered[round(p / 100 * last)]) for p in at}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers and text."""
        return {
            "backend": self.backend,
            "feature_map": self.feature_map,
            "denominator": self.policy.to_dict(),
            "reads": self.reads,
            "least": self.least,
            "percentiles": {f"{p:g}": value for p, value in self.percentiles().items()},
            "floor_hits": self.floor_hits,
            "empty": self.empty,
            "nonfinite": self.nonfinite,
            "drift": self.drift,
        }

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
