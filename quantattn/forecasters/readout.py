"""From the raw numbers of a head to forecasts in units of the target, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.forecasters.heads import Distribution, HeadConfig, distribution, normal_quantile

_ROUNDING = 1e-12

Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TargetScale:
    """Centre and scale of the target over the training rows.

    Parameters
    ----------
    center, scale : float
        Mean and standard deviation, in units of the target.
    """

    center: float
    scale: float

    @classmethod
    def fit(cls, target: Floats64) -> TargetScale:
        """Measure the training targets; a constant target has scale one."""
        center, spread = float(np.mean(target)), float(np.std(target))
        # The deviation of equal numbers is rounding, and not always zero.
        return cls(center, spread if spread > _ROUNDING * float(np.abs(target).max()) else 1.0)

    def apply(self, target: Floats64) -> Floats64:
        """Scale a target."""
        return (target - self.center) / self.scale

    def invert(self, scaled: Floats64) -> Floats64:
        """Give scaled forecasts in units of the target."""
        return scaled * self.scale + self.center


@dataclass(frozen=True)
class TargetForecasts:
    """Forecasts of one target.

    Parameters
    ----------
    y_pred, y_lower, y_upper : ndarray of float64, shape (m,)
        Forecast and bounds, in units of the target.
    extra : dict of str to ndarray of float64, shape (m,)
        ``y_std`` of the gaussian head; ``q_<level>`` of the quantile head; ``probability_up`` of the
        direction head. Empty for the point head.
    """

    y_pred: Floats64
    y_lower: Floats64
    y_upper: Floats64
    extra: dict[str, Floats64] = field(default_factory=dict)


def quantile_name(level: float) -> str:
    """Name the column of a quantile: ``q_0.05``. Two levels never share a name, however near they are."""
    short = f"{level:g}"
    return f"q_{short if float(short) == level else repr(float(level))}"


@dataclass(frozen=True)
class Readout:
    """What turns raw numbers into forecasts: the head, and what was learned of each target.

    Parameters
    ----------
    head : HeadConfig
        The head, with the names of the targets.
    scales : tuple of TargetScale
        By target.
    intervals : tuple of tuple of float
        By target: what to add to a forecast of the point head for its bounds.
    coverage : float, default 0.9
        What the bounds of the gaussian and direction heads aim at.
    logs : tuple of bool, default ``()``
        By target: whether the network forecasts the logarithm of it, which is undone in the end. None are by
        default.
    """

    head: HeadConfig
    scales: tuple[TargetScale, ...]
    intervals: tuple[tuple[float, float], ...]
    coverage: float = 0.9
    logs: tuple[bool, ...] = ()

    def forecasts(self, raw: npt.NDArray[np.floating[Any]]) -> dict[str, TargetForecasts]:
        """Give forecasts by target.

        Parameters
        ----------
        raw : ndarray of float, shape (m, outputs)
            Raw numbers of the network.

        Returns
        -------
        dict of str to TargetForecasts
            The bounds are: of the point head, the forecast and its residual interval; of the gaussian head,
            the central interval of the normal distribution; of the quantile head, its lowest and highest
            quantile; of the direction head, the central quantiles of -1 and 1, whose mean `y_pred` is.
        """
        said = distribution(self.head, raw)
        return {name: self._forecasts(said, place) for place, name in enumerate(self.head.targets)}

    def _forecasts(self, said: Distribution, place: int) -> TargetForecasts:
        scale, tail = self.scales[place], (1 - self.coverage) / 2
        point = said.point[:, place]
        if self.head.kind == "direction":
            lower = np.where(1 - point >= tail, -1.0, 1.0)
            upper = np.where(point >= tail, 1.0, -1.0)
            return TargetForecasts(2 * point - 1, lower, upper, {"probability_up": point})
        center = scale.invert(point)
        if said.variance is not None:
            deviation = np.sqrt(said.variance[:, place]) * scale.scale
            reach = -normal_quantile(tail) * deviation
            return TargetForecasts(center, center - reach, center + reach, {"y_std": deviation})
        if said.quantiles is not None:
            quantiles = scale.invert(said.quantiles[:, place])
            named = {quantile_name(level): quantiles[:, i] for i, level in enumerate(self.head.levels)}
            return TargetForecasts(center, quantiles[:, 0], quantiles[:, -1], named)
        low, high = self.intervals[place]
        if self.logs and self.logs[place]:
            return TargetForecasts(np.exp(center), np.exp(center + low), np.exp(center + high))
        return TargetForecasts(center, center + low, center + high)

    def to_dict(self) -> dict[str, Any]:
        """Give what is stored beside the head, as plain JSON values."""
        return {
            "scales": [[scale.center, scale.scale] for scale in self.scales],
            "intervals": [list(interval) for interval in self.intervals],
            "coverage": self.coverage,
            "logs": list(self.logs),
        }

    @classmethod
    def from_dict(cls, head: HeadConfig, values: Mapping[str, Any]) -> Readout:
        """Read what :meth:`to_dict` gave.

        Raises
        ------
        KeyError, TypeError, ValueError
            If something is missing, of another kind, or not given for each target.
        """
        scales = tuple(TargetScale(float(center), float(scale)) for center, scale in values["scales"])
        intervals = tuple((float(low), float(high)) for low, high in values["intervals"])
        logs = tuple(values["logs"])
        if not all(isinstance(log, bool) for log in logs):
            raise ValueError(f"logs={logs!r} are not all true or false")
        if not len(scales) == len(intervals) == len(head.targets) or len(logs) not in (0, len(scales)):
            raise ValueError(f"scales and intervals are not those of {len(head.targets)} targets")
        return cls(head, scales, intervals, float(values["coverage"]), logs)
