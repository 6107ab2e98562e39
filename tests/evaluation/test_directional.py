"""Tests of direction: the published formula by hand, and the panel version against it and in simulation."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from quantattn.errors import EvaluationError
from quantattn.evaluation import ModelForecasts, Panel, hits, panel_direction_test, pesaran_timmermann


def panel_of(y: np.ndarray, pred: np.ndarray, *, overlap: int = 0) -> tuple[Panel, np.ndarray]:
    """Lay outcomes (T, E) out as a panel."""
    t, e = y.shape
    flat = pred.reshape(1, -1)
    nothing = np.full_like(flat, np.nan)
    panel = Panel(
        study="test",
        horizon=1,
        times=np.arange(t, dtype=np.int64),
        starts=np.arange(t, dtype=np.int64) * e,
        entities=tuple(str(i) for i in range(e)),
        y_true=y.reshape(-1),
        folds=np.zeros(t, dtype=np.int64),
        overlap=overlap,
        models={"linear": ModelForecasts((0,), flat, nothing, nothing)},
    )
    return panel, flat


def test_hits() -> None:
    found = hits([0.1, -0.1, 0.1, -0.1, 0.0, 0.2], [1.0, -1.0, -1.0, 1.0, 1.0, 0.0])
    assert found[:4].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert np.isnan(found[4])
    assert found[5] == 0.0


def signs(
    both_up: int, only_outcome_up: int, only_forecast_up: int, both_down: int
) -> tuple[list[float], list[float]]:
    y = [1.0] * both_up + [1.0] * only_outcome_up + [-1.0] * only_forecast_up + [-1.0] * both_down
    x = [1.0] * both_up + [-1.0] * only_outcome_up + [1.0] * only_forecast_up + [-1.0] * both_down
    return y, x


def test_pesaran_timmermann_by_hand() -> None:
    # 20 forecasts: 12 rises, 10 rises forecast, 14 hits. P = 0.7, P* = 0.6 * 0.5 + 0.4 * 0.5 = 0.5.
    # V(P) = 0.25/20 = 0.0125.
    # V(P*) = (0.2^2 * 0.25 + 0)/20 + 4 * 0.6 * 0.5 * 0.4 * 0.5/400 = 0.0005 + 0.0006.
    # S = 0.2/sqrt(0.0125 - 0.0011) = 0.2/0.10677 = 1.8732.
    y, x = signs(8, 4, 2, 6)
    test = pesaran_timmermann(y, x)
    assert test is not None
    assert test.statistic == pytest.approx(1.8732, abs=1e-4)
    assert test.p_value == pytest.approx(stats.norm.sf(0.2 / math.sqrt(0.0114)), rel=1e-9)


def test_pesaran_timmermann_is_one_sided_and_ignores_scale_and_zero_outcomes() -> None:
    y, x = signs(8, 4, 2, 6)
    test = pesaran_timmermann(y, x)
    reverse = pesaran_timmermann(y, [-value for value in x])
    assert test is not None and reverse is not None
    assert test.p_value < 0.05 < 0.9 < reverse.p_value
    assert pesaran_timmermann([1e-9 * value for value in y], [1e6 * value for value in x]) == test
    assert pesaran_timmermann([*y, 0.0, 0.0], [*x, 1.0, -1.0]) == test


def test_pesaran_timmermann_has_no_meaning_where_signs_never_change() -> None:
    assert pesaran_timmermann([1.0, -1.0, 1.0], [1.0, 1.0, 1.0]) is None
    assert pesaran_timmermann([1.0, 1.0, 1.0], [1.0, -1.0, 1.0]) is None
    assert pesaran_timmermann([0.0, 0.0], [1.0, -1.0]) is None
    with pytest.raises(EvaluationError, match="same length"):
        pesaran_timmermann([1.0, -1.0], [1.0])


def test_the_panel_test_is_near_the_published_one_for_one_entity() -> None:
    rng = np.random.default_rng(0)
    for strength in (0.0, 0.1, 0.3):
        signal = rng.normal(size=3000)
        y = strength * signal + rng.normal(size=3000) + 0.1
        published = pesaran_timmermann(y, signal)
        ours = panel_direction_test(*panel_of(y[:, None], signal[:, None]))
        assert published is not None and ours is not None
        assert ours.statistic == pytest.approx(published.statistic, rel=0.06, abs=0.1)


def test_twenty_copies_of_one_entity_are_one_entity() -> None:
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(200, 1))
    y = 0.15 * signal + rng.normal(size=(200, 1))
    one = panel_direction_test(*panel_of(y, signal))
    twenty = panel_direction_test(*panel_of(np.tile(y, 20), np.tile(signal, 20)))
    assert one is not None and twenty is not None
    assert twenty.p_value == pytest.approx(one.p_value, rel=1e-9)
    # The control: pooling the rows as if they were independent makes the statistic sqrt(20) times as large.
    pooled = pesaran_timmermann(np.tile(y, 20).ravel(), np.tile(signal, 20).ravel())
    assert pooled is not None
    assert pooled.statistic > 3.5 * one.statistic > 0.0


def test_the_panel_test_has_no_meaning_for_constant_signs_or_few_times() -> None:
    rng = np.random.default_rng(2)
    y, ones = rng.normal(size=(60, 3)), np.ones((60, 3))
    assert panel_direction_test(*panel_of(y, ones)) is None
    assert panel_direction_test(*panel_of(np.abs(y), y)) is None
    assert panel_direction_test(*panel_of(np.zeros((60, 3)), y)) is None
    assert panel_direction_test(*panel_of(y[:6], y[:6])) is None


def test_perfect_forecasts_have_a_finite_statistic() -> None:
    # 50 rises and 50 falls in turn, all foreseen: every product is 2 * 0.5 * 0.5 = 0.5 and does not vary.
    # About the null's mean of zero its variance is 0.25, so the statistic is 0.5/sqrt(0.25/100) = 10.
    # By the published formula: (1 - 0.5)/sqrt(0.25/100 - 0.25/100^2) = 10.05.
    y = np.tile([1.0, -1.0], 50)
    ours = panel_direction_test(*panel_of(y[:, None], y[:, None]))
    published = pesaran_timmermann(y, y)
    assert ours is not None and published is not None
    assert ours.statistic == pytest.approx(10.0)
    assert published.statistic == pytest.approx(0.5 / math.sqrt(0.002475))


@pytest.mark.slow
def test_size_and_power_on_a_panel_with_a_common_shock_and_overlapping_labels() -> None:
    rng = np.random.default_rng(3)
    simulations, t, e = 600, 260, 10
    rejected = naive = found = 0
    for _ in range(simulations):
        shock = rng.normal(size=t + 4)
        common = np.convolve(shock, np.ones(5), mode="valid")[:, None]
        y = common + 0.5 * rng.normal(size=(t, e))
        habit = np.convolve(rng.normal(size=t + 4), np.ones(5), mode="valid")[:, None] + 0.5 * rng.normal(
            size=(t, e)
        )
        test = panel_direction_test(*panel_of(y, habit, overlap=4))
        pooled = pesaran_timmermann(y.ravel(), habit.ravel())
        knows = panel_direction_test(*panel_of(y, 0.7 * y + habit, overlap=4))
        assert test is not None and pooled is not None and knows is not None
        rejected += test.p_value < 0.05
        naive += pooled.p_value < 0.05
        found += knows.p_value < 0.05
    assert 0.02 < rejected / simulations < 0.09
    assert naive / simulations > 0.25
    assert found / simulations > 0.97


def test_polars_series_are_read_like_lists() -> None:
    y, x = signs(8, 4, 2, 6)
    assert pesaran_timmermann(pl.Series(y), pl.Series(x)) == pesaran_timmermann(y, x)
