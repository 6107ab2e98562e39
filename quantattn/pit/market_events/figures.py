"""The trailing figures on which market events rest, bar by bar."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import UsageError
from quantattn.pit.market_events.trailing import (
    Floats,
    lagged,
    trailing_max,
    trailing_mean,
    trailing_min,
    trailing_quantiles,
    trailing_std,
)
from quantattn.pit.prices.history import PriceHistory

VARIANCE_FLOOR = 1e-8
"""Floor of a mean squared daily log return before its logarithm: one basis point, squared."""

VOLATILITY_FLOOR = 1e-8
"""A trailing standard deviation below this is rounding; nothing is measured against it."""

CALM, NORMAL, TURBULENT = 0, 1, 2
NO_REGIME = -1


@dataclass(frozen=True)
class Rules:
    """Windows and thresholds of :func:`~quantattn.pit.market_events.market_events`, checked."""

    bar_windows: tuple[int, ...]
    k: float
    volatility_window: int
    extreme_window: int
    regime_window: int
    regime_quantiles: tuple[float, float]
    drawdown_levels: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse values that define no window, quantile or level."""
        windows = {
            "bar_windows": min(self.bar_windows, default=1),
            "extreme_window": self.extreme_window,
            "regime_window": self.regime_window,
        }
        for argument, window in windows.items():
            if window < 1:
                raise UsageError(f"{argument} holds {window}; a window is at least 1 session")
        if self.volatility_window < 2:
            raise UsageError(
                f"volatility_window={self.volatility_window} has no standard deviation; give 2 or more"
            )
        if not self.k > 0:
            raise UsageError(f"k={self.k} is not positive; give a number of standard deviations")
        low, high = self.regime_quantiles
        if not 0 <= low < high <= 1:
            raise UsageError(
                f"regime_quantiles={self.regime_quantiles} are not two rising shares; give e.g. (0.2, 0.8)"
            )
        levels = self.drawdown_levels
        if any(not 0 < level < 1 for level in levels) or sorted(set(levels)) != list(levels):
            raise UsageError(
                f"drawdown_levels={levels} are not rising shares in (0, 1); give e.g. (0.05, 0.1, 0.2)"
            )

    @property
    def variance_windows(self) -> tuple[int, ...]:
        """Windows of the ``log_rv_*`` features: the single bar and then `bar_windows`, rising."""
        return tuple(sorted({1, *self.bar_windows}))


@dataclass(frozen=True)
class BarFigures:
    """Figures of bars, each of shape (n,) and NaN where it is not defined."""

    log_return: Floats
    scale: Floats
    """Trailing standard deviation of daily log returns, this bar included."""
    scale_before: Floats
    """The same, ending one bar earlier; NaN where it is too small to measure against."""
    log_variance: dict[int, Floats]
    distance_high: Floats
    distance_low: Floats
    beyond_high: Floats
    """Log distance to the highest close of the full window before this bar: positive for a new high."""
    beyond_low: Floats
    median_scale: Floats
    regime: npt.NDArray[np.int64]
    regime_before: npt.NDArray[np.int64]
    relative_volume: Floats


def runs_of(prices: PriceHistory) -> list[slice]:
    """Give the unbroken runs of bars: they end with an entity, and where a session is missing."""
    n = prices.frame.height
    entity = prices.frame["entity"].rle_id().to_numpy()
    breaks = np.flatnonzero((np.diff(prices.session_numbers) != 1) | (np.diff(entity) != 0)) + 1
    return [slice(first, last) for first, last in pairwise([0, *breaks.tolist(), n])] if n else []


def figures_of(prices: PriceHistory, rules: Rules) -> BarFigures:
    """Compute the figures of all bars; no window spans a missing session or two entities."""
    close = prices.frame["close"].to_numpy()
    volume = prices.frame["volume"].fill_null(np.nan).to_numpy() if "volume" in prices.frame.columns else None
    parts = [
        _run_figures(close[run], None if volume is None else volume[run], rules) for run in runs_of(prices)
    ] or [_run_figures(close, volume, rules)]

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(part, name) for part in parts])

    return BarFigures(
        log_return=joined("log_return"),
        scale=joined("scale"),
        scale_before=joined("scale_before"),
        log_variance={
            window: np.concatenate([part.log_variance[window] for part in parts])
            for window in rules.variance_windows
        },
        distance_high=joined("distance_high"),
        distance_low=joined("distance_low"),
        beyond_high=joined("beyond_high"),
        beyond_low=joined("beyond_low"),
        median_scale=joined("median_scale"),
        regime=np.concatenate([part.regime for part in parts]),
        regime_before=np.concatenate([part.regime_before for part in parts]),
        relative_volume=joined("relative_volume"),
    )


def _run_figures(close: Floats, volume: Floats | None, rules: Rules) -> BarFigures:
    log_close = np.log(np.ascontiguousarray(close))
    log_return = log_close - lagged(log_close)
    squared = log_return * log_return
    scale = trailing_std(log_return, rules.volatility_window)
    before = lagged(scale)
    low, median, high = trailing_quantiles(
        scale, rules.regime_window, (rules.regime_quantiles[0], 0.5, rules.regime_quantiles[1])
    )
    low, median, high = lagged(low), lagged(median), lagged(high)
    regime = np.where(scale < low, CALM, np.where(scale > high, TURBULENT, NORMAL))
    # Against a median of nothing but rounding there is no calm and no turbulence.
    known = ~np.isnan(scale) & (median > VOLATILITY_FLOOR)
    regime = np.where(known, regime, NO_REGIME).astype(np.int64)
    regime_before = np.concatenate([np.full(min(1, regime.size), NO_REGIME), regime[:-1]]).astype(np.int64)
    full = np.arange(close.size) >= rules.extreme_window
    highest, lowest = (f(log_close, rules.extreme_window) for f in (trailing_max, trailing_min))
    return BarFigures(
        log_return=log_return,
        scale=scale,
        scale_before=np.where(before > VOLATILITY_FLOOR, before, np.nan),
        log_variance={
            window: np.log(np.maximum(trailing_mean(squared, window), VARIANCE_FLOOR))
            for window in rules.variance_windows
        },
        distance_high=log_close - highest,
        distance_low=log_close - lowest,
        beyond_high=np.where(full, log_close - lagged(highest), np.nan),
        beyond_low=np.where(full, log_close - lagged(lowest), np.nan),
        median_scale=median,
        regime=regime,
        regime_before=regime_before,
        relative_volume=_relative_volume(volume, close.size, rules.volatility_window),
    )


def _relative_volume(volume: Floats | None, n: int, window: int) -> Floats:
    if volume is None:
        return np.full(n, np.nan)
    usual = lagged(trailing_mean(np.ascontiguousarray(volume), window))
    relative: Floats = np.divide(volume, usual, out=np.full(n, np.nan), where=usual > 0)
    return relative


def drawdowns(close: Floats) -> Floats:
    """Give each close's share below the highest close so far (zero or negative)."""
    highest: Floats = np.maximum.accumulate(close)
    below: Floats = close / highest - 1.0
    return below


def drawdown_steps(drawdown: Floats, levels: tuple[float, ...]) -> npt.NDArray[np.int64]:
    """Count the levels that each drawdown has reached."""
    return np.searchsorted(np.asarray(levels), -drawdown, side="right").astype(np.int64)


def to_column(name: str, values: Floats) -> pl.Series:
    """Give figures as a polars column, NaN as null."""
    return pl.Series(name, values, dtype=pl.Float64).fill_nan(None)
