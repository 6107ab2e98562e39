"""Known-answer markets: each head learns what is planted, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.forecasters.estimators import LinearAttentionForecaster, SoftmaxAttentionForecaster

from .markets import Known, fitted, follows_the_last_event, last, market

BOTH = [LinearAttentionForecaster, SoftmaxAttentionForecaster]

pytestmark = pytest.mark.slow


def r2(y_pred: np.ndarray, y_true: np.ndarray) -> float:
    return float(1 - np.mean((y_true - y_pred) ** 2) / np.var(y_true))


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize("noise", [0.25, 1.0])
def test_a_gaussian_head_learns_the_noise(twin: type[Any], noise: float) -> None:
    known = market(follows_the_last_event(noise), entities=8)
    frame = fitted(known, twin=twin, head="gaussian", epochs=20).predict(known.dataset, known.test)
    y_true = known.y_true[known.test]
    signal = known.dataset.as_of_features()["asof_x"].to_numpy()[known.test]
    error = np.mean((y_true - frame["y_pred"].to_numpy()) ** 2)
    assert error == pytest.approx(np.mean((y_true - signal) ** 2), rel=0.25)
    assert frame["y_std"].median() == pytest.approx(noise, rel=0.2)
    inside = (frame["y_lower"].to_numpy() <= y_true) & (y_true <= frame["y_upper"].to_numpy())
    assert inside.mean() == pytest.approx(0.9, abs=0.06)


def test_a_gaussian_head_learns_when_it_is_noisy() -> None:
    """The spread is 0.2 or 1.5, as the event before the forecast says."""

    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        loud = generator.integers(0, 2, len(x)).astype(float)
        spread = np.where(last(loud, counts) > 0, 1.5, 0.2)
        return spread * generator.standard_normal(len(counts)), loud

    known = market(rule)
    frame = fitted(known, head="gaussian", epochs=20).predict(known.dataset, known.test)
    loud = known.dataset.as_of_features()["asof_y"].to_numpy()[known.test] > 0
    spread = frame["y_std"].to_numpy()
    assert np.median(spread[loud]) == pytest.approx(1.5, rel=0.25)
    assert np.median(spread[~loud]) == pytest.approx(0.2, rel=0.35)


@pytest.mark.parametrize("twin", BOTH)
def test_a_quantile_head_covers_what_it_says(twin: type[Any]) -> None:
    """Skewed noise: the quantiles are not symmetric about the middle one."""

    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        return last(x, counts) + generator.exponential(1.0, len(counts)), np.zeros(len(x))

    known = market(rule, entities=6)
    levels = (0.1, 0.5, 0.9)
    frame = fitted(known, twin=twin, head="quantile", levels=levels, epochs=20).predict(
        known.dataset, known.test
    )
    y_true = known.y_true[known.test]
    quantiles = frame.select("q_0.1", "q_0.5", "q_0.9").to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    for place, level in enumerate(levels):
        assert (y_true <= quantiles[:, place]).mean() == pytest.approx(level, abs=0.07)
    below, above = np.median(np.diff(quantiles, axis=1), axis=0)
    # Of an exponential: log(0.9 / 0.5) below the median, log(0.5 / 0.1) above it.
    assert above / below == pytest.approx(np.log(5) / np.log(1.8), rel=0.35)


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize("weights", [None, "balanced"])
def test_a_direction_head_finds_a_planted_signal(twin: type[Any], weights: Any) -> None:
    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        return np.sign(last(x, counts) + 0.7 + 0.1 * generator.standard_normal(len(counts))), np.zeros(len(x))

    known = market(rule)
    frame = fitted(known, twin=twin, head="direction", weights=weights, epochs=20).predict(
        known.dataset, known.test
    )
    y_true = known.y_true[known.test]
    assert (np.sign(frame["y_pred"].to_numpy()) == y_true).mean() > 0.9
    assert frame["probability_up"].to_numpy()[y_true > 0].mean() > 0.8


def test_balanced_weights_move_the_odds_of_a_rare_class() -> None:
    """Nothing to learn but how often: plain odds are those of the market, balanced ones are even."""

    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        return np.where(generator.random(len(counts)) < 0.2, 1.0, -1.0), np.zeros(len(x))

    known = market(rule)
    chances = [
        fitted(known, head="direction", weights=weights, epochs=8, schedule="constant")
        .predict(known.dataset, known.test)["probability_up"]
        .mean()
        for weights in (None, "balanced")
    ]
    assert chances[0] == pytest.approx(0.2, abs=0.08)
    assert chances[1] == pytest.approx(0.5, abs=0.08)


def test_where_there_is_nothing_nothing_is_found() -> None:
    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        return generator.standard_normal(len(counts)), np.zeros(len(x))

    known = market(rule)
    frame = fitted(known, epochs=10).predict(known.dataset, known.test)
    assert r2(frame["y_pred"].to_numpy(), known.y_true[known.test]) < 0.03


def announced(known_market: bool) -> Known:
    """Every 80th event announces what the targets will be, 40 events later until the next announcement."""

    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        places = np.arange(0, len(x), 80)
        said = np.where(generator.random(len(places)) < 0.5, -1.0, 1.0)
        y = np.zeros(len(x))
        if known_market:
            y[places] = said
        owner = np.searchsorted(places, counts - 1, side="right") - 1
        return said[owner] + 0.3 * generator.standard_normal(len(counts)), y

    whole = market(rule, entities=16, events=480, every=5, first=45)
    # Forecasts sooner than 40 events after an announcement are left out.
    times = whole.dataset.samples["forecast_time"].to_physical().to_numpy()
    count = (times - times.min()) // (3600 * 10**9) + 45
    late = (count - 1) % 80 >= 40
    sides = {
        name: getattr(whole, name)[late[getattr(whole, name)]] for name in ("train", "validation", "test")
    }
    return Known(whole.dataset, **sides, y_true=whole.y_true)


@pytest.mark.parametrize("twin", BOTH)
def test_a_signal_that_only_long_histories_see(twin: type[Any]) -> None:
    """The answer lies 40 to 80 events back. A history without it, such as a shorter one, scores nothing."""
    scores = []
    for visible in (True, False):
        known = announced(visible)
        forecaster = fitted(known, twin=twin, epochs=25, patience=25, half_lives=(1.0, 3.0))
        frame = forecaster.predict(known.dataset, known.test)
        scores.append(r2(frame["y_pred"].to_numpy(), known.y_true[known.test]))
        assert frame["row"].to_list() == known.test.tolist()
    assert scores[0] > 0.5
    assert scores[1] < 0.1


def test_truncated_gradients_still_learn() -> None:
    known = market(follows_the_last_event(0.25))
    whole, cut = (
        fitted(known, epochs=15, segment_tokens=tokens).predict(known.dataset, known.test)
        for tokens in (None, 64)
    )
    for frame in (whole, cut):
        assert isinstance(frame, pl.DataFrame)
        assert r2(frame["y_pred"].to_numpy(), known.y_true[known.test]) > 0.8
    assert not whole.equals(cut)
