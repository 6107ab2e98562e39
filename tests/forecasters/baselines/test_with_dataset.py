"""The baselines on the frames that a point-in-time dataset really gives."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from quantattn.forecasters.baselines import BASELINES, SampleTable, TargetKind, baseline_traits, make_baseline
from quantattn.pit import (
    ForecastClock,
    PointInTimeDataset,
    PriceHistory,
    TradingCalendar,
    direction,
    load_sp500_index,
    load_us_equities,
    log_return,
    market_events,
    realised_variance,
)

OVER_TABLES = [name for name in BASELINES if baseline_traits(name).inputs == "table"]
FIRST, LAST = dt.date(2015, 1, 2), dt.date(2018, 6, 29)


def simulated_closes() -> pl.DataFrame:
    """Two entities whose volatility moves slowly between calm and wild."""
    sessions = TradingCalendar().sessions(FIRST, LAST)["session"]
    generator = np.random.default_rng(8)
    parts = []
    for number, entity in enumerate(("AAA", "BBB")):
        volatility = 0.008 * np.exp(np.sin(np.arange(len(sessions)) / (60 + 20 * number)))
        steps = volatility * generator.standard_normal(len(sessions))
        parts.append(
            pl.DataFrame({"session": sessions, "entity": entity, "close": 50 * np.exp(np.cumsum(steps))})
        )
    return pl.concat(parts)


def table_from(closes: pl.DataFrame, kind: TargetKind, index: pl.DataFrame | None = None) -> SampleTable:
    prices = PriceHistory.from_frame(closes, session="session", gaps="drop")
    market = None
    if index is not None:
        market = PriceHistory.from_frame(index, entity=None, session="session", gaps="drop", name="index")
    events = market_events(prices, index=market)
    last = closes["session"].max()
    first = closes["session"].min()
    assert isinstance(first, dt.date)
    assert isinstance(last, dt.date)
    clock = ForecastClock.sessions(
        "XNYS", start=first + dt.timedelta(days=400), end=last, at="close", offset="-15min", every="week"
    )
    measure = {"variance": realised_variance, "return": log_return, "direction": direction}[kind]
    dataset = PointInTimeDataset(events, clock, measure(prices, clock, horizon=5))
    bars = events.frame.filter(pl.col("kind") == "bar").select("entity", "available_at", "log_return")
    return SampleTable(
        dataset.samples, dataset.as_of_features(), bars, kind, horizon=5, log=kind == "variance"
    )


def rows_before_and_after(table: SampleTable, moment: dt.datetime) -> tuple[np.ndarray, np.ndarray]:
    test = np.flatnonzero((table.samples["forecast_time"] >= moment).to_numpy())
    fit_time = table.forecast_times[test].min() - 1
    return np.flatnonzero(table.label_times <= fit_time), test


@pytest.mark.parametrize("kind", ["variance", "return", "direction"])
def test_every_baseline_runs(kind: TargetKind) -> None:
    table = table_from(simulated_closes(), kind)
    train, test = rows_before_and_after(table, dt.datetime(2017, 6, 1, tzinfo=dt.UTC))
    for name in OVER_TABLES:
        forecasts = make_baseline(name, 0).fit(table, train).predict(table, test)
        assert np.isfinite(forecasts).all()
        if kind == "variance":
            errors = np.abs(forecasts - table.outcomes[test]).mean()
            assert errors < 1.5


def test_ewma_from_raw_closes() -> None:
    closes = simulated_closes()
    table = table_from(closes, "return")
    train, test = rows_before_and_after(table, dt.datetime(2018, 6, 1, tzinfo=dt.UTC))
    forecasts = make_baseline("ewma", 0).fit(table, train).predict(table, test)
    for row, forecast in zip(test.tolist(), forecasts.tolist(), strict=True):
        entity, moment = table.samples.row(row)[:2]
        # 15 minutes before the close of its own day: the last close seen is yesterday's.
        seen = closes.filter((pl.col("entity") == entity) & (pl.col("session") < moment.date()))[
            "close"
        ].to_list()
        moves = [math.log(b / a) for a, b in pairwise(seen)]
        weights = [0.94**age for age in range(len(moves))]
        mean = sum(w * r for w, r in zip(weights, reversed(moves), strict=True)) / sum(weights)
        assert forecast == pytest.approx(5 * mean, rel=1e-9)


@pytest.mark.slow
def test_real_history() -> None:
    since = pl.col("session") >= dt.date(2000, 1, 1)
    table = table_from(load_us_equities().filter(since), "variance", load_sp500_index().filter(since))
    errors: dict[str, list[np.ndarray]] = {name: [] for name in OVER_TABLES}
    for year in (2008, 2012, 2016, 2020):
        train, later = rows_before_and_after(table, dt.datetime(year, 1, 1, tzinfo=dt.UTC))
        test = later[(table.samples["forecast_time"].dt.year() < year + 4).to_numpy()[later]]
        for name in OVER_TABLES:
            forecasts = make_baseline(name, 0).fit(table, train).predict(table, test)
            errors[name].append((forecasts - table.outcomes[test]) ** 2)
    loss = {name: float(np.concatenate(parts).mean()) for name, parts in errors.items()}
    r2 = {name: 1 - value / loss["mean"] for name, value in loss.items()}
    assert 0.2 < r2["har"] < 0.5
    assert r2["ridge"] > r2["har"] + 0.02
    assert r2["gradient_boosting"] > r2["har"]
    assert 0.2 < r2["ewma"] < 0.5
    assert 0.2 < r2["garch"] < 0.5
