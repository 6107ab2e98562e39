"""The road from packaged prices to samples, against figures worked out by hand from the closes."""

from __future__ import annotations

import math
from itertools import pairwise

import polars as pl
import pytest

from quantattn.pit import (
    EventLog,
    ForecastClock,
    PointInTimeDataset,
    PriceHistory,
    information_hash,
    load_sp500_index,
    load_sp500_ohlcv,
    load_us_equities,
    market_events,
    realised_variance,
    simple_return,
)

from .build import instant

# Closes of AAPL from 2019-11-20 to 2019-12-06, Thanksgiving left out.
AAPL = [64.273, 63.985, 63.929, 65.050, 64.542, 65.409, 65.265, 64.510, 63.360, 63.919, 64.857, 66.110]


@pytest.fixture(scope="module")
def prices() -> PriceHistory:
    return PriceHistory.from_frame(load_us_equities())


@pytest.fixture(scope="module")
def events(prices: PriceHistory) -> EventLog:
    index = PriceHistory.from_frame(load_sp500_index(), entity=None, name="S&P 500")
    return market_events(prices, index=index)


@pytest.fixture(scope="module")
def clock() -> ForecastClock:
    return ForecastClock.sessions("XNYS", start="2000-01-03", end="2022-12-28", every="week")


@pytest.fixture(scope="module")
def dataset(prices: PriceHistory, events: EventLog, clock: ForecastClock) -> PointInTimeDataset:
    return PointInTimeDataset(events, clock, realised_variance(prices, clock))


def test_counts(events: EventLog, clock: ForecastClock, dataset: PointInTimeDataset) -> None:
    assert events.frame.filter(kind="bar").height == 20 * 8313
    # Fridays from 2000-01-07 to 2022-12-23; after the last of them the data hold fewer than five sessions.
    # The weeks whose Friday fell out, 2001-09-14 and 2004-06-11, give no forecast.
    assert len(clock) == 1197
    assert dataset.samples.height == 1196 * 20
    assert dataset.dropped_counts == {"incomplete": 20}
    assert (
        dataset.events.frame["entity"].null_count()
        == events.frame.filter(pl.col("kind").str.starts_with("index_")).height
    )


def test_the_week_of_2001_09_11_gives_no_forecast(clock: ForecastClock) -> None:
    around = clock.times.to_physical().to_list()
    place = around.index(instant("2001-09-07T19:45"))
    assert around[place + 1] == instant("2001-09-21T19:45")


def test_a_half_day_by_hand(dataset: PointInTimeDataset, prices: PriceHistory, clock: ForecastClock) -> None:
    place = dataset.samples.select(
        (
            (pl.col("entity") == "AAPL")
            & (pl.col("forecast_time").to_physical() == instant("2019-11-29T17:45"))
        ).arg_true()
    ).item()
    row = dataset.samples.select(pl.exclude("entity", "info_hash").to_physical()).row(place, named=True)
    returns = [math.log(after / before) for before, after in pairwise(AAPL)]
    assert row["y_true"] == pytest.approx(math.log(sum(r * r for r in returns[6:])), rel=1e-12)
    assert row["label_start_time"] == instant("2019-11-29T18:00")
    assert row["label_end_time"] == instant("2019-12-06T21:00")
    assert row["label_available_at"] == instant("2019-12-06T21:01")
    # The last visible bar is Wednesday's.
    assert row["max_available_at"] == instant("2019-11-27T21:01")
    features = dataset.as_of_features().row(place, named=True)
    assert features["asof_log_return"] == pytest.approx(returns[4], rel=1e-12)
    assert features["asof_log_rv_1"] == pytest.approx(math.log(returns[4] ** 2), rel=1e-12)
    assert features["asof_log_rv_5"] == pytest.approx(
        math.log(sum(r * r for r in returns[:5]) / 5), rel=1e-12
    )
    # No close of the year before is higher than that Wednesday's.
    assert features["asof_distance_high"] == 0.0
    target = simple_return(prices, clock).frame.filter(
        (pl.col("entity") == "AAPL") & (pl.col("forecast_time").to_physical() == instant("2019-11-29T17:45"))
    )
    assert target["y_true"].item() == pytest.approx(66.110 / 65.265 - 1, rel=1e-12)


def test_index_drawdowns_of_2020_by_hand(events: EventLog) -> None:
    # The highest close is 3386.15 on 2020-02-19: its levels lie at 3216.84, 3047.54, 2708.92 and 2370.31.
    steps = events.frame.filter(
        (pl.col("kind") == "index_drawdown") & pl.col("event_id").str.contains("2020-0[23]-")
    )
    told = [(row["event_id"][-5:], " ".join(row["text"].split()[2:7])) for row in steps.to_dicts()]
    assert [step for step in told if step[0] <= "03-24"] == [
        ("02-25", "fell through its 5 %"),
        ("02-27", "fell through its 10 %"),
        ("03-02", "recovered above its 10 %"),
        ("03-03", "fell through its 10 %"),
        ("03-04", "recovered above its 10 %"),
        ("03-05", "fell through its 10 %"),
        ("03-12", "fell through its 20 %"),
        ("03-13", "recovered above its 20 %"),
        ("03-16", "fell through its 20 %"),
        ("03-20", "fell through its 30 %"),
        ("03-24", "recovered above its 30 %"),
    ]
    assert steps["magnitude"][0] == pytest.approx(3128.21 / 3386.15 - 1, rel=1e-12)


def test_every_sample_keeps_the_rules_of_time(dataset: PointInTimeDataset) -> None:
    samples = dataset.samples
    assert samples.filter(pl.col("max_available_at") >= pl.col("forecast_time")).is_empty()
    assert samples.filter(pl.col("label_start_time") <= pl.col("forecast_time")).is_empty()
    assert samples.filter(pl.col("label_available_at") <= pl.col("label_end_time")).is_empty()
    # The day's own bar is never visible: it would be the entry price.
    assert samples.filter(
        pl.col("max_available_at").dt.date() >= pl.col("forecast_time").dt.date()
    ).is_empty()
    assert samples["info_hash"].n_unique() == samples.height


@pytest.mark.parametrize("place", [0, 1, 7777, 23919])
def test_samples_equal_a_filter_over_all_events(dataset: PointInTimeDataset, place: int) -> None:
    row = dataset.samples.row(place, named=True)
    seen = [
        event
        for event in dataset.events.frame.select("entity", "available_at", "event_id", "log_rv_22").iter_rows(
            named=True
        )
        if event["entity"] in (row["entity"], None) and event["available_at"] < row["forecast_time"]
    ]
    assert row["n_visible"] == len(seen)
    assert row["max_available_at"] == seen[-1]["available_at"]
    known = [event["log_rv_22"] for event in seen if event["log_rv_22"] is not None]
    assert dataset.as_of_features()["asof_log_rv_22"][place] == known[-1]
    chosen = dataset.events.frame.filter(pl.col("event_id").is_in([event["event_id"] for event in seen]))
    assert row["info_hash"] == information_hash(chosen, dataset.events.features)


def test_the_ohlcv_file_becomes_a_price_history() -> None:
    history = PriceHistory.from_frame(
        load_sp500_ohlcv(), entity=None, name="S&P 500", open="open", high="high", low="low", volume="volume"
    )
    log = market_events(history)
    assert log.frame.filter(kind="bar").height == history.frame.height
    assert log.frame["text"][-1].count("volume") == 1
