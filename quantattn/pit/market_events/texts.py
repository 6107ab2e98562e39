"""Sentences about bars, in words that follow from the figures alone.

Price levels are left out on purpose: adjusted levels depend on later splits and dividends, returns do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.market_events.figures import CALM, NORMAL, TURBULENT, BarFigures, Rules
from quantattn.pit.market_events.trailing import Floats

_REGIMES = {CALM: "calm", NORMAL: "normal", TURBULENT: "turbulent"}
_SIZES = ((0.5, "a small"), (1.5, "an ordinary"), (3.0, "a large"), (math.inf, "an extreme"))
_VOLUMES = ((0.7, "light"), (1.5, "usual"), (math.inf, "heavy"))
# Where a number times a power of ten is this near to a half, or is this large, its last digits matter.
_DOUBT = 1e-5
_LARGEST = 1e9


def percent(log_return: float) -> float:
    """Give a log return as a simple return in per cent."""
    return math.expm1(log_return) * 100.0


def _direction(log_return: float) -> str:
    return "up" if log_return > 0 else "down"


def fixed(values: Floats, places: int, exact: Callable[[int], float]) -> pl.Series:
    """Write numbers with a fixed number of decimals, as ``f"{value:.2f}"`` does, many at a time.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Not negative, and right but for the last digits; NaN gives null.
    places : int
        Decimals, 1 or more.
    exact : callable
        Gives the number of a row itself: it is asked where the last digits decide how to round.

    Returns
    -------
    polars.Series of String
    """
    scaled = values * 10.0**places
    rounded = np.floor(scaled + 0.5)
    doubtful = ~(np.abs(scaled - np.floor(scaled) - 0.5) > _DOUBT) | (scaled > _LARGEST)
    there = ~np.isnan(values)
    digits = pl.Series(np.where(doubtful, 0.0, rounded)).cast(pl.Int64)
    base = 10**places
    whole = pl.DataFrame({"d": digits}).select(
        (pl.col("d") // base).cast(pl.String) + "." + (pl.col("d") % base).cast(pl.String).str.zfill(places)
    )
    rows = np.flatnonzero(doubtful & there)
    words = whole.to_series().scatter(rows, [f"{exact(int(row)):.{places}f}" for row in rows])
    return pl.select(pl.when(pl.Series(there)).then(words)).to_series()


def percents(log_returns: Floats) -> pl.Series:
    """Write log returns as simple returns in per cent, without a sign."""
    sizes = np.abs(np.expm1(log_returns) * 100.0)
    return fixed(sizes, 2, lambda row: abs(percent(float(log_returns[row]))))


def bars(names: pl.Series, figures: BarFigures, rules: Rules) -> pl.Series:
    """Tell every bar: its return, its size against the usual, its volume.

    Parameters
    ----------
    names : polars.Series of String, length n
        Entity of each bar.
    figures : BarFigures
        Of shape (n,).
    rules : Rules
        The window of the usual volume.

    Returns
    -------
    polars.Series of String
    """
    volume = figures.relative_volume
    table = pl.DataFrame(
        {
            "name": names,
            "change": pl.Series(figures.log_return),
            "scale": pl.Series(figures.scale_before).fill_nan(None),
            "percent": percents(figures.log_return),
            "volume": pl.Series(volume).fill_nan(None),
            "times": fixed(volume, 1, lambda row: float(volume[row])),
        }
    )
    change, scale, relative = pl.col("change"), pl.col("scale"), pl.col("volume")
    size = pl.lit("")
    for bound, word in reversed(_SIZES):
        size = pl.when(change.abs() < bound * scale).then(pl.lit(f", {word} move for it")).otherwise(size)
    size = pl.when(scale.is_not_null()).then(size).otherwise(pl.lit(""))
    traded = pl.lit("")
    for bound, word in reversed(_VOLUMES):
        told = pl.format(
            f", on {word} volume, {{}} times its {rules.volatility_window}-session mean", pl.col("times")
        )
        traded = pl.when(relative < bound).then(told).otherwise(traded)
    traded = pl.when(relative.is_not_null()).then(traded).otherwise(pl.lit(""))
    way = pl.when(change > 0).then(pl.lit("up")).otherwise(pl.lit("down"))
    text = (
        pl.when(change.is_nan())
        .then(pl.format("{} closed, with no bar before to compare", "name"))
        .when(change == 0.0)
        .then(pl.format("{} closed unchanged", "name"))
        .otherwise(pl.format("{} closed {} {} %{}", "name", way, "percent", size))
    )
    return table.select(text=pl.concat_str(text, traded)).to_series()


def moves(names: Sequence[str], log_return: Floats, deviations: Floats) -> list[str]:
    """Tell moves beyond the trailing standard deviations."""
    return [
        f"{name} moved {_direction(change)} {abs(percent(change)):.2f} %, "
        f"{abs(size):.1f} times its usual daily standard deviation"
        for name, change, size in zip(names, log_return.tolist(), deviations.tolist(), strict=True)
    ]


def extremes(names: Sequence[str], kind: str, beyond: Floats, rules: Rules) -> list[str]:
    """Tell new highs or lows."""
    what, where = ("high", "above") if kind.startswith("high") else ("low", "below")
    return [
        f"{name} closed at a new {rules.extreme_window}-session {what}, "
        f"{abs(percent(distance)):.2f} % {where} the last"
        for name, distance in zip(names, beyond.tolist(), strict=True)
    ]


def regimes(
    names: Sequence[str],
    now: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    scale: Floats,
    log_ratio: Floats,
) -> list[str]:
    """Tell crossings between calm, normal and turbulent."""
    return [
        f"{name} volatility turned {_REGIMES[new]} from {_REGIMES[old]}, at {deviation * 100.0:.2f} % a day, "
        f"{math.exp(ratio):.2f} times its trailing median"
        for name, new, old, deviation, ratio in zip(
            names, now.tolist(), before.tolist(), scale.tolist(), log_ratio.tolist(), strict=True
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
