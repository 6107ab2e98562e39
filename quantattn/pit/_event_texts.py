"""Sentences about bars, in words that follow from the figures alone.

Price levels are left out on purpose: adjusted levels depend on later splits and dividends, returns do not.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from quantattn.pit._bar_figures import CALM, NORMAL, TURBULENT, BarFigures, Rules
from quantattn.pit._trailing import Floats

_REGIMES = {CALM: "calm", NORMAL: "normal", TURBULENT: "turbulent"}
_SIZES = ((0.5, "a small"), (1.5, "an ordinary"), (3.0, "a large"), (math.inf, "an extreme"))
_VOLUMES = ((0.7, "light"), (1.5, "usual"), (math.inf, "heavy"))


def percent(log_return: float) -> float:
    """Give a log return as a simple return in per cent."""
    return math.expm1(log_return) * 100.0


def _direction(log_return: float) -> str:
    return "up" if log_return > 0 else "down"


def bars(entity: str, figures: BarFigures, rules: Rules) -> list[str]:
    """Tell every bar: its return, its size against the usual, its volume."""
    rows = zip(
        figures.log_return.tolist(),
        figures.scale_before.tolist(),
        figures.relative_volume.tolist(),
        strict=True,
    )
    return [_bar(entity, change, scale, volume, rules) for change, scale, volume in rows]


def _bar(entity: str, change: float, scale: float, volume: float, rules: Rules) -> str:
    if math.isnan(change):
        text = f"{entity} closed, with no bar before to compare"
    elif change == 0.0:
        text = f"{entity} closed unchanged"
    else:
        text = f"{entity} closed {_direction(change)} {abs(percent(change)):.2f} %"
        if not math.isnan(scale):
            size = next(word for bound, word in _SIZES if abs(change) < bound * scale)
            text += f", {size} move for it"
    if not math.isnan(volume):
        word = next(word for bound, word in _VOLUMES if volume < bound)
        text += f", on {word} volume, {volume:.1f} times its {rules.volatility_window}-session mean"
    return text


def moves(name: str, log_return: Floats, deviations: Floats) -> list[str]:
    """Tell moves beyond the trailing standard deviations."""
    return [
        f"{name} moved {_direction(change)} {abs(percent(change)):.2f} %, "
        f"{abs(size):.1f} times its usual daily standard deviation"
        for change, size in zip(log_return.tolist(), deviations.tolist(), strict=True)
    ]


def extremes(entity: str, kind: str, beyond: Floats, rules: Rules) -> list[str]:
    """Tell new highs or lows."""
    what, where = ("high", "above") if kind.startswith("high") else ("low", "below")
    return [
        f"{entity} closed at a new {rules.extreme_window}-session {what}, "
        f"{abs(percent(distance)):.2f} % {where} the last"
        for distance in beyond.tolist()
    ]


def regimes(
    name: str,
    now: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    scale: Floats,
    log_ratio: Floats,
) -> list[str]:
    """Tell crossings between calm, normal and turbulent."""
    return [
        f"{name} volatility turned {_REGIMES[new]} from {_REGIMES[old]}, at {deviation * 100.0:.2f} % a day, "
        f"{math.exp(ratio):.2f} times its trailing median"
        for new, old, deviation, ratio in zip(
            now.tolist(), before.tolist(), scale.tolist(), log_ratio.tolist(), strict=True
        )
    ]


def drawdowns(
    name: str,
    drawdown: Floats,
    before: npt.NDArray[np.int64],
    now: npt.NDArray[np.int64],
    levels: tuple[float, ...],
) -> list[str]:
    """Tell drawdown levels reached or recovered; of several at once, the farthest."""
    told = []
    for share, old, new in zip(drawdown.tolist(), before.tolist(), now.tolist(), strict=True):
        if new > old:
            what = f"fell through its {levels[new - 1] * 100:g} % drawdown level"
        else:
            what = f"recovered above its {levels[new] * 100:g} % drawdown level"
        told.append(f"{name} {what}, {abs(share) * 100.0:.2f} % below its highest close")
    return told
