from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import LeakageError, PriceDataError, UsageError
from quantattn.pit import CorporateActions, PriceHistory, event_digests, market_events
from tests.pit.build import price_history, price_table, random_closes, sessions

SMALL: dict[str, Any] = {
    "bar_windows": (3, 4),
    "k": 1.5,
    "volatility_window": 4,
    "extreme_window": 6,
    "regime_window": 5,
    "regime_quantiles": (0.25, 0.75),
    "drawdown_levels": (0.02, 0.05, 0.1),
}


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def oracle(closes: Sequence[float], rules: dict[str, Any]) -> dict[tuple[str, int], dict[str, float]]:
    """Every event of one unbroken run, keyed by kind and bar, from the definitions, one bar at a time."""
    told: dict[tuple[str, int], dict[str, float]] = {}
    returns: list[float | None] = [None]
    for before, now in pairwise(closes):
        returns.append(math.log(now / before))

    def window(t: int, w: int) -> list[float] | None:
        part = returns[max(t - w + 1, 0) : t + 1]
        return [r for r in part if r is not None] if len(part) == w and None not in part else None

    @cache
    def scale(t: int) -> float | None:
        part = window(t, rules["volatility_window"])
        return None if part is None else statistics.stdev(part)

    def regime(t: int) -> tuple[str, float] | None:
        now = scale(t)
        past = (
            [scale(s) for s in range(t - rules["regime_window"], t)]
            if t >= rules["regime_window"]
            else [None]
        )
        known = [s for s in past if s is not None]
        if now is None or len(known) < rules["regime_window"]:
            return None
        low, high = (quantile(known, share) for share in rules["regime_quantiles"])
        return "calm" if now < low else "turbulent" if now > high else "normal", math.log(
            now / quantile(known, 0.5)
        )

    for t, close in enumerate(closes):
        bar: dict[str, float] = {}
        change = returns[t]
        if change is not None:
            bar["log_return"] = change
        for w in (1, *rules["bar_windows"]):
            part = window(t, w)
            if part is not None:
                bar[f"log_rv_{w}"] = math.log(max(sum(r * r for r in part) / w, 1e-8))
        recent = closes[max(t - rules["extreme_window"] + 1, 0) : t + 1]
        bar["distance_high"] = math.log(close / max(recent))
        bar["distance_low"] = math.log(close / min(recent))
        told["bar", t] = bar
        before = scale(t - 1) if t else None
        if change is not None and before is not None and abs(change) > rules["k"] * before:
            told["move", t] = {"magnitude": change / before}
        if t >= rules["extreme_window"]:
            past = closes[t - rules["extreme_window"] : t]
            if close > max(past):
                told["high_52w", t] = {"magnitude": math.log(close / max(past))}
            if close < min(past):
                told["low_52w", t] = {"magnitude": math.log(close / min(past))}
        now, last = regime(t), regime(t - 1) if t else None
        if now is not None and last is not None and now[0] != last[0]:
            told["volatility_regime", t] = {"magnitude": now[1]}
    return told


def drawdown_oracle(closes: Sequence[float], levels: Sequence[float]) -> dict[int, float]:
    told = {}
    for t in range(1, len(closes)):
        fell = [closes[s] / max(closes[: s + 1]) - 1 for s in (t - 1, t)]
        reached = [sum(1 for level in levels if -share >= level) for share in fell]
        if reached[0] != reached[1]:
            told[t] = fell[1]
    return told


def as_told(
    frame: pl.DataFrame, days: list[date], features: Sequence[str]
) -> dict[tuple[str, int], dict[str, float]]:
    told = {}
    for row in frame.to_dicts():
        t = days.index(date.fromisoformat(row["event_id"].rsplit(":", 1)[1]))
        told[row["kind"], t] = {name: row[name] for name in features if row[name] is not None}
    return told


@pytest.mark.parametrize("seed", range(6))
def test_events_of_one_entity_equal_the_definitions(seed: int) -> None:
    closes = random_closes(seed, 120)
    log = market_events(price_history({"A": closes}), **SMALL)
    told = as_told(log.frame, sessions("2019-01-02", 120), log.features)
    expected = oracle(closes, SMALL)
    assert told.keys() == expected.keys()
    for key, figures in expected.items():
        assert told[key] == pytest.approx(figures, rel=1e-9, abs=1e-12), key
    # The walk is long enough to meet every kind.
    assert {kind for kind, _ in told} == {"bar", "move", "high_52w", "low_52w", "volatility_regime"}


def test_defaults_equal_the_definitions_on_a_longer_walk() -> None:
    closes = random_closes(11, 620, 0.01)
    rules = {
        "bar_windows": (5, 22, 66),
        "k": 3.0,
        "volatility_window": 22,
        "extreme_window": 252,
        "regime_window": 252,
        "regime_quantiles": (0.2, 0.8),
    }
    log = market_events(price_history({"A": closes}))
    told = as_told(log.frame, sessions("2019-01-02", 620), log.features)
    expected = oracle(closes, rules)
    assert told.keys() == expected.keys()
    assert all(told[key] == pytest.approx(expected[key], rel=1e-9, abs=1e-12) for key in expected)


@pytest.mark.parametrize("seed", range(3))
def test_market_wide_events_come_from_the_index(seed: int) -> None:
    closes, level = random_closes(seed, 80), random_closes(100 + seed, 80)
    index = price_history({"IDX": level})
    log = market_events(price_history({"A": closes}), index=index, **SMALL)
    days = sessions("2019-01-02", 80)
    market = log.frame.filter(pl.col("entity").is_null())
    assert set(market["kind"]) == {"index_move", "index_volatility_regime", "index_drawdown"}
    assert market["event_id"].str.contains("^index_[a-z_]+:market:20..-..-..$").all()
    told = as_told(market, days, ["magnitude"])
    of_index = oracle(level, SMALL)
    expected = {
        ("index_" + kind, t): figures
        for (kind, t), figures in of_index.items()
        if kind in ("move", "volatility_regime")
    }
    expected |= {
        ("index_drawdown", t): {"magnitude": share}
        for t, share in drawdown_oracle(level, SMALL["drawdown_levels"]).items()
    }
    assert told.keys() == expected.keys()
    assert all(told[key] == pytest.approx(expected[key], rel=1e-9) for key in expected)
    bars = log.frame.filter(pl.col("kind") == "bar").sort("event_time")
    assert bars["market_log_return"].to_list()[1:] == pytest.approx(
        [math.log(b / a) for a, b in pairwise(level)]
    )
    assert bars["market_log_rv_4"].to_list()[4:] == pytest.approx(
        [of_index["bar", t]["log_rv_4"] for t in range(4, 80)]
    )
    assert bars["market_log_rv_4"].to_list()[:4] == [None] * 4
    assert bars["market_drawdown"].to_list() == pytest.approx(
        [v / max(level[: t + 1]) - 1 for t, v in enumerate(level)]
    )
    assert "market_log_rv_1" not in log.features
    assert log.features[-1] == "magnitude"


def test_a_move_by_hand() -> None:
    # Returns of +1 % and -1 % alternate, then +5 %: their deviation is 0.01 * sqrt(4/3) over four.
    steps = [0.01, -0.01, 0.01, -0.01, 0.05, -0.01]
    closes = [100.0]
    for step in steps:
        closes.append(closes[-1] * math.exp(step))
    log = market_events(price_history({"A": closes}), **{**SMALL, "k": 3.0})
    moves = log.frame.filter(pl.col("kind") == "move")
    assert moves["event_id"].to_list() == ["move:A:2019-01-09"]
    assert moves["magnitude"].to_list() == pytest.approx([0.05 / (0.01 * math.sqrt(4 / 3))])
    assert moves["text"].to_list() == ["A moved up 5.13 %, 4.3 times its usual daily standard deviation"]


def test_drawdown_levels_by_hand() -> None:
    index = price_history({"IDX": [100.0, 98.0, 97.9, 89.0, 95.5, 94.0, 99.0, 101.0, 101.0]})
    log = market_events(price_history({"A": [1.0, 1.0]}), index=index, **SMALL)
    steps = log.frame.filter(pl.col("kind") == "index_drawdown").sort("event_time")
    assert steps["text"].to_list() == [
        "IDX fell through its 2 % drawdown level, 2.00 % below its highest close",
        "IDX fell through its 10 % drawdown level, 11.00 % below its highest close",
        "IDX recovered above its 5 % drawdown level, 4.50 % below its highest close",
        "IDX fell through its 5 % drawdown level, 6.00 % below its highest close",
        "IDX recovered above its 2 % drawdown level, 1.00 % below its highest close",
    ]
    assert steps["magnitude"].to_list() == pytest.approx([-0.02, -0.11, -0.045, -0.06, -0.01])


def test_words_of_bars() -> None:
    closes = [100.0, 101.0, 99.99, 101.0, 99.99, 99.99, 100.2]
    table = price_table({"A": closes}).with_columns(v=pl.Series([10.0, 10.0, 10.0, 10.0, 30.0, 5.0, 0.0]))
    log = market_events(PriceHistory.from_frame(table, volume="v"), **SMALL)
    bars = log.frame.filter(pl.col("kind") == "bar")
    assert bars["text"].to_list() == [
        "A closed, with no bar before to compare",
        "A closed up 1.00 %",
        "A closed down 1.00 %",
        "A closed up 1.01 %",
        "A closed down 1.00 %, on heavy volume, 3.0 times its 4-session mean",
        "A closed unchanged, on light volume, 0.3 times its 4-session mean",
        "A closed up 0.21 %, a small move for it, on light volume, 0.0 times its 4-session mean",
    ]


def test_stamps_and_keys() -> None:
    prices = price_history({"A": [1.0, 1.1, 1.2], "B": [2.0, 2.1, 2.2]}, start="2019-11-27", latency="90s")
    log = market_events(prices, **SMALL)
    bars = prices.frame.sort("available_at", "event_time", "entity")
    assert log.frame["event_id"].to_list() == [
        f"bar:{entity}:{day}" for day in ("2019-11-27", "2019-11-29", "2019-12-02") for entity in ("A", "B")
    ]
    assert log.frame["event_time"].equals(bars["event_time"])
    assert log.frame["available_at"].equals(bars["available_at"])
    assert log.frame["revision"].to_list() == [0] * 6
    slower = market_events(prices, latency="1h", **SMALL)
    assert (
        slower.frame["available_at"] - slower.frame["event_time"]
    ).unique().dt.total_minutes().to_list() == [60]


def test_constant_and_steady_prices_make_no_events_but_bars() -> None:
    steady = [100.0 * 1.01**t for t in range(40)]
    prices = price_history({"A": [5.0] * 40, "B": [*[5.0] * 30, *[6.0] * 10]})
    log = market_events(prices, **SMALL)
    assert set(log.frame.filter(entity="A")["kind"]) == {"bar"}
    assert log.frame.filter(entity="A", kind="bar")["log_rv_3"].drop_nulls().unique().to_list() == [
        math.log(1e-8)
    ]
    # A jump after silence has no scale to be measured by; it is a new high all the same.
    assert "move" not in set(log.frame.filter(entity="B")["kind"])
    assert "high_52w" in set(log.frame.filter(entity="B")["kind"])
    # Steady growth has a deviation of nothing but rounding.
    assert set(market_events(price_history({"A": steady}), **SMALL).frame["kind"]) == {"bar", "high_52w"}


def test_windows_start_again_after_a_gap() -> None:
    closes: list[float | None] = [*random_closes(3, 60)]
    closes[30] = None
    prices = price_history({"A": closes}, gaps="drop")
    told = as_told(
        market_events(prices, **SMALL).frame,
        sessions("2019-01-02", 60),
        ["log_return", "distance_high", "log_rv_4", "magnitude"],
    )
    first = oracle([c for c in closes[:30] if c is not None], SMALL)
    second = {
        (kind, t + 31): v for (kind, t), v in oracle([c for c in closes[31:] if c is not None], SMALL).items()
    }
    expected = {**first, **second}
    assert told.keys() == expected.keys()
    for key, figures in told.items():
        assert figures == pytest.approx({name: expected[key][name] for name in figures}, rel=1e-9, abs=1e-12)
    assert "log_return" not in told["bar", 31]
    assert "log_rv_4" not in told["bar", 34]
    assert "log_rv_4" in told["bar", 35]


def test_the_index_figures_are_null_when_the_index_is_missing_or_later() -> None:
    prices = price_history({"A": [1.0, 1.1, 1.2, 1.3]})
    index = price_history({"IDX": [10.0, 11.0, 12.0]})
    bars = market_events(prices, index=index, **SMALL).frame
    assert [v is None for v in bars.filter(kind="bar")["market_drawdown"]] == [False, False, False, True]
    same = PriceHistory.from_frame(price_table({"IDX": [10.0, 11.0, 12.0]}), latency="61s")
    late = market_events(prices, index=same, **SMALL).frame.filter(kind="bar")
    assert late.select(pl.col("^market_.*$").null_count()).row(0) == (4, 4, 4, 4)
    # A latency for all puts both at the same instant again.
    both = market_events(prices, index=same, latency="5s", **SMALL).frame.filter(kind="bar")
    assert both["market_drawdown"].null_count() == 1


quotes = st.sampled_from([99.0, 99.5, 100.0, 100.5, 101.0, 104.0, 90.0])


@settings(max_examples=60, deadline=None)
@given(
    walk=st.lists(st.tuples(quotes, quotes, quotes), min_size=2, max_size=45),
    data=st.data(),
)
def test_cutting_the_prices_gives_the_prefix_of_the_events_bit_for_bit(
    walk: list[tuple[float, float, float]], data: st.DataObject
) -> None:
    table = price_table({"A": [row[0] for row in walk], "B": [row[1] for row in walk]})
    prices = PriceHistory.from_frame(table)
    index = price_history({"IDX": [row[2] for row in walk]})
    log = market_events(prices, index=index, **SMALL)
    stamp = data.draw(st.sampled_from(prices.frame["available_at"].to_physical().to_list()))
    t = stamp + data.draw(st.sampled_from([-1, 0, 1]))
    cut = market_events(prices.cut(t), index=index.cut(t), **SMALL)
    prefix = log.between(0, t)
    assert_frame_equal(cut.frame, prefix.frame, check_exact=True)
    assert cut.features == log.features
    assert (event_digests(cut.frame, cut.features) == event_digests(prefix.frame, log.features)).all()


@pytest.mark.parametrize("kept", [1, 2, 23, 24, 66, 67, 253, 254, 275, 276, 505, 506, 507, 511, 600])
def test_cutting_with_the_default_windows_changes_no_bit(kept: int) -> None:
    closes = {"A": random_closes(1, 620, 0.01), "B": random_closes(2, 620, 0.03)}
    index = price_history({"IDX": random_closes(3, 620, 0.01)})
    prices = price_history(closes)
    log = market_events(prices, index=index)
    t = prices.frame["available_at"].to_physical()[kept - 1] + 1
    cut = market_events(prices.cut(t), index=index.cut(t))
    prefix = log.between(0, t)
    assert cut.frame.filter(kind="bar").height == 2 * kept
    assert (event_digests(cut.frame, cut.features) == event_digests(prefix.frame, log.features)).all()


def test_more_entities_change_no_event_of_another() -> None:
    alone = market_events(price_history({"A": random_closes(1, 60)}), **SMALL)
    both = market_events(price_history({"A": random_closes(1, 60), "B": random_closes(2, 60)}), **SMALL)
    assert_frame_equal(both.frame.filter(entity="A"), alone.frame, check_exact=True)


def test_no_prices_give_no_events() -> None:
    prices = price_history({"A": [1.0, 2.0]})
    log = market_events(prices.cut(0), index=prices.cut(0))
    assert len(log) == 0
    assert "log_rv_66" in log.features


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0.0}, "k=0.0"),
        ({"k": float("nan")}, "k=nan"),
        ({"volatility_window": 1}, "volatility_window=1"),
        ({"extreme_window": 0}, "extreme_window holds 0"),
        ({"regime_window": 0}, "regime_window holds 0"),
        ({"bar_windows": (5, 0)}, "bar_windows holds 0"),
        ({"regime_quantiles": (0.8, 0.2)}, "regime_quantiles"),
        ({"drawdown_levels": (0.1, 0.05)}, "drawdown_levels"),
        ({"drawdown_levels": (5.0,)}, "drawdown_levels"),
        ({"latency": "-1s"}, "latency='-1s'"),
        ({"latency": "90000D"}, "latency='90000D' is longer than 3650 days"),
    ],
)
def test_impossible_rules_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        market_events(price_history({"A": [1.0, 2.0]}), **options)


def test_an_index_is_one_entity() -> None:
    prices = price_history({"A": [1.0, 2.0], "B": [1.0, 2.0]})
    with pytest.raises(PriceDataError, match="index holds 2 entities"):
        market_events(prices, index=prices)


def test_prices_at_the_ends_of_their_range_have_words() -> None:
    closes = [1e-100, 1e100] * 40
    log = market_events(price_history({"A": closes}, start="2019-01-02"), **SMALL)
    assert log.frame.filter(kind="bar").height == len(closes)


def test_prices_adjusted_as_of_a_time_are_refused() -> None:
    prices = price_history({"A": [1.0, 2.0, 3.0]})
    split = {"entity": ["A"], "kind": ["split"], "ex_date": [prices.frame["session"][1]], "value": [2.0]}
    actions = CorporateActions.from_frame(pl.DataFrame(split))
    adjusted = prices.adjusted(actions, as_of=prices.frame["available_at"][2])
    with pytest.raises(LeakageError, match=r"prices are adjusted as of one time.*before adjusted\(\)"):
        market_events(adjusted)
    with pytest.raises(PriceDataError, match="prices is a NoneType"):
        market_events(None)  # type: ignore[arg-type]
    with pytest.raises(LeakageError, match="index are adjusted"):
        market_events(prices, index=adjusted)
