"""Price history told as dated events, with thresholds that look back only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import LeakageError, PriceDataError
from quantattn.pit.events.log import EventLog
from quantattn.pit.market_events import texts
from quantattn.pit.market_events.figures import (
    NO_REGIME,
    VOLATILITY_FLOOR,
    BarFigures,
    Rules,
    drawdown_steps,
    drawdowns,
    figures_of,
    to_column,
)
from quantattn.pit.market_events.trailing import Floats
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.prices.intake import latency_nanoseconds
from quantattn.pit.timestamps import TIME, instants, nanoseconds_of, shifted

_MARKET = "market"


def market_events(
    prices: PriceHistory,
    *,
    index: PriceHistory | None = None,
    latency: str | timedelta | pd.Timedelta | None = None,
    bar_windows: Sequence[int] = (5, 22, 66),
    k: float = 3.0,
    volatility_window: int = 22,
    extreme_window: int = 252,
    regime_window: int = 252,
    regime_quantiles: tuple[float, float] = (0.2, 0.8),
    drawdown_levels: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4),
) -> EventLog:
    """Turn prices into events: bars, large moves, extremes, volatility regimes, index drawdowns.

    Every threshold trails: building on data that is cut anywhere gives exactly the same earlier events,
    bit for bit. No window spans a session whose bar is missing; it starts again after it.

    Kinds of one entity
        ``bar``: every bar, with the features below. ``move``: a log return larger in size than `k`
        standard deviations of the `volatility_window` returns before it. ``high_52w``, ``low_52w``: a
        close beyond all of the `extreme_window` closes before it. ``volatility_regime``: the trailing
        standard deviation (window `volatility_window`) passes one of its own `regime_quantiles` over the
        `regime_window` values before it, between calm, normal and turbulent.
    Kinds of the whole market (entity null), when `index` is given
        ``index_move``, ``index_volatility_regime``, likewise from the index; ``index_drawdown``: the
        close, against the highest index close so far, reaches a deeper level or recovers above one.

    Parameters
    ----------
    prices : PriceHistory
        Bars of the entities.
    index : PriceHistory, optional
        Bars of one market index.
    latency : duration, optional
        From the end of a bar until its events are available, 3650 days at most; by default each price
        history's own.
    bar_windows : sequence of int
        Windows, in sessions, of the ``log_rv_*`` features; the window of 1 is always there.
    k : float
        Standard deviations that make a move.
    volatility_window, extreme_window, regime_window : int
        Sessions.
    regime_quantiles : tuple of float
        Below the first is calm, above the second turbulent.
    drawdown_levels : sequence of float
        Rising shares lost from the highest close.

    Returns
    -------
    EventLog
        ``event_time`` is the end of the bar, ``available_at`` that + latency, ``event_id`` is
        ``kind:entity:session`` (``market`` where the entity is null), ``revision`` 0.

        Features of a bar: ``log_return``; ``log_rv_w``, the log of the mean squared daily log return over
        the last w bars, this one included, floored at 1e-8; ``distance_high`` and ``distance_low``, log
        close less the log of the highest and lowest close of the last `extreme_window` bars; with
        `index`, ``market_log_return``, ``market_log_rv_w`` (w > 1) and ``market_drawdown`` of the index
        bar of the same session, null if there is none or it becomes available later than the bar.

        Feature of every other kind: ``magnitude``. Moves: the return in standard deviations; extremes: log
        distance beyond the former extreme; regimes: log ratio of the volatility to its median over the
        window before; drawdowns: the drawdown, negative.

    Raises
    ------
    PriceDataError
        If `index` does not hold exactly one entity, or the bars are intraday ones; put those together
        with ``prices.to_sessions()``.
    LeakageError
        If prices are adjusted as of a time: what was known by then would be told of earlier sessions.
    UsageError
        If a window, level, quantile or latency makes no sense.
    """
    rules = Rules(
        tuple(bar_windows),
        k,
        volatility_window,
        extreme_window,
        regime_window,
        regime_quantiles,
        tuple(drawdown_levels),
    )
    for argument, bars in (("prices", prices), ("index", index)):
        if not isinstance(bars, PriceHistory) and (bars is not None or argument == "prices"):
            raise PriceDataError(
                f"{argument} is a {type(bars).__name__}; build it with PriceHistory.from_frame"
            )
        if bars is not None and bars.adjustment == "as_of":
            raise LeakageError(
                f"{argument} are adjusted as of one time, and events of earlier sessions would tell of "
                "splits and dividends that were known only then; pass the prices as they were before "
                "adjusted()"
            )
        if bars is not None and bars.frequency != "session":
            raise PriceDataError(
                f"{argument} holds intraday bars, and market events tell of sessions; pass "
                f"{argument}.to_sessions()"
            )
    if index is not None and len(index.entities) > 1:
        raise PriceDataError(
            f"index holds {len(index.entities)} entities, first {list(index.entities[:3])}; "
            "give the bars of one index"
        )
    delay = None if latency is None else latency_nanoseconds(latency)
    features = [
        "log_return",
        *(f"log_rv_{w}" for w in rules.variance_windows),
        "distance_high",
        "distance_low",
    ]
    parts = []
    market = None
    if index is not None:
        features += ["market_log_return", *_market_variance_names(rules), "market_drawdown"]
        market, told = _of_index(index, rules, delay)
        parts += told
    parts += _of_entities(prices, rules, delay, market)
    features.append("magnitude")
    empty = pl.DataFrame(schema={**_KEYS, **dict.fromkeys(features, pl.Float64())})
    return EventLog.from_valid(pl.concat([empty, *parts], how="diagonal"), tuple(features))


_KEYS = {
    "event_id": pl.String(),
    "revision": pl.Int32(),
    "entity": pl.String(),
    "event_time": TIME,
    "available_at": TIME,
    "kind": pl.String(),
    "text": pl.String(),
}


def _market_variance_names(rules: Rules) -> list[str]:
    return [f"market_log_rv_{window}" for window in rules.variance_windows if window > 1]


def _known(prices: PriceHistory, delay: int | None) -> pl.DataFrame:
    """Give entity, session, bar end and availability of each bar."""
    keys = prices.frame.select("entity", "session", "event_time", "available_at")
    if delay is None:
        return keys
    # From what a bar waited for, which may be more than its own end; see PriceHistory.to_sessions.
    later = shifted(nanoseconds_of(keys["available_at"]), delay - prices.latency, "latency")
    return keys.with_columns(instants(later, "available_at"))


def _of_entities(
    prices: PriceHistory, rules: Rules, delay: int | None, market: pl.DataFrame | None
) -> Iterator[pl.DataFrame]:
    bars = _known(prices, delay)
    figures = figures_of(prices, rules)
    told = bars.with_columns(
        to_column("log_return", figures.log_return),
        *(to_column(f"log_rv_{window}", values) for window, values in figures.log_variance.items()),
        to_column("distance_high", figures.distance_high),
        to_column("distance_low", figures.distance_low),
        texts.bars(bars["entity"], figures, rules).alias("text"),
    )
    if market is not None:
        told = _with_market(told, market)
    yield _labelled(told, "bar", market=False)
    yield _moves(bars, figures, rules, "move", market=False)
    yield from _extremes(bars, figures, rules)
    yield _regimes(bars, figures, "volatility_regime", market=False)


def _with_market(bars: pl.DataFrame, market: pl.DataFrame) -> pl.DataFrame:
    """Attach the index figures of the same session, unless they become available later."""
    joined = bars.join(market, on="session", how="left", maintain_order="left")
    names = [name for name in market.columns if name.startswith("market_")]
    in_time = pl.col("index_available_at") <= pl.col("available_at")
    return joined.with_columns(pl.when(in_time).then(pl.col(name)).alias(name) for name in names).drop(
        "index_available_at"
    )


def _of_index(
    index: PriceHistory, rules: Rules, delay: int | None
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Give the index figures of each session, and the market-wide events."""
    names = ["market_log_return", *_market_variance_names(rules), "market_drawdown"]
    if not index.entities:
        schema = {"session": pl.Date(), "index_available_at": TIME, **dict.fromkeys(names, pl.Float64())}
        return pl.DataFrame(schema=schema), []
    bars = _known(index, delay)
    figures = figures_of(index, rules)
    drawdown = drawdowns(index.frame["close"].to_numpy())
    market = bars.select(
        "session",
        pl.col("available_at").alias("index_available_at"),
        to_column("market_log_return", figures.log_return),
        *(
            to_column(f"market_log_rv_{window}", values)
            for window, values in figures.log_variance.items()
            if window > 1
        ),
        to_column("market_drawdown", drawdown),
    )
    told = [
        _moves(bars, figures, rules, "index_move", market=True),
        _regimes(bars, figures, "index_volatility_regime", market=True),
        _drawdown_steps(bars, drawdown, rules),
    ]
    return market, told


def _labelled(bars: pl.DataFrame, kind: str, *, market: bool) -> pl.DataFrame:
    entity = pl.lit(None, dtype=pl.String) if market else pl.col("entity")
    named = pl.lit(_MARKET) if market else pl.col("entity")
    return bars.with_columns(
        event_id=pl.format(f"{kind}:{{}}:{{}}", named, pl.col("session").cast(pl.String)),
        revision=pl.lit(0, dtype=pl.Int32),
        entity=entity,
        kind=pl.lit(kind),
    ).drop("session")


def _told(
    bars: pl.DataFrame, rows: np.ndarray, magnitude: Floats, words: list[str], kind: str, *, market: bool
) -> pl.DataFrame:
    chosen = bars[rows].with_columns(
        pl.Series("magnitude", magnitude[rows], dtype=pl.Float64), pl.Series("text", words, dtype=pl.String)
    )
    return _labelled(chosen, kind, market=market)


def _moves(bars: pl.DataFrame, figures: BarFigures, rules: Rules, kind: str, *, market: bool) -> pl.DataFrame:
    deviations = figures.log_return / figures.scale_before
    rows = np.flatnonzero(np.abs(figures.log_return) > rules.k * figures.scale_before)
    words = texts.moves(bars["entity"][rows].to_list(), figures.log_return[rows], deviations[rows])
    return _told(bars, rows, deviations, words, kind, market=market)


def _extremes(bars: pl.DataFrame, figures: BarFigures, rules: Rules) -> Iterator[pl.DataFrame]:
    for kind, beyond, sign in (("high_52w", figures.beyond_high, 1), ("low_52w", figures.beyond_low, -1)):
        rows = np.flatnonzero(sign * beyond > 0)
        words = texts.extremes(bars["entity"][rows].to_list(), kind, beyond[rows], rules)
        yield _told(bars, rows, beyond, words, kind, market=False)


def _regimes(bars: pl.DataFrame, figures: BarFigures, kind: str, *, market: bool) -> pl.DataFrame:
    now, before = figures.regime, figures.regime_before
    rows = np.flatnonzero((now != before) & (now != NO_REGIME) & (before != NO_REGIME))
    ratio = np.full(now.shape, np.nan)
    ratio[rows] = np.log(np.maximum(figures.scale[rows], VOLATILITY_FLOOR) / figures.median_scale[rows])
    names = bars["entity"][rows].to_list()
    words = texts.regimes(names, now[rows], before[rows], figures.scale[rows], ratio[rows])
    return _told(bars, rows, ratio, words, kind, market=market)


def _drawdown_steps(bars: pl.DataFrame, drawdown: Floats, rules: Rules) -> pl.DataFrame:
    steps = drawdown_steps(drawdown, rules.drawdown_levels)
    rows = np.flatnonzero(np.diff(steps) != 0) + 1
    name = bars["entity"][0]
    words = texts.drawdowns(name, drawdown[rows], steps[rows - 1], steps[rows], rules.drawdown_levels)
    return _told(bars, rows, drawdown, words, "index_drawdown", market=True)
