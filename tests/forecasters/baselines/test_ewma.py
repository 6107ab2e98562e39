from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import ForecasterError, TimestampError
from quantattn.forecasters.baselines import EwmaBaseline

from .tables import Bar, table_of


def test_log_variance_by_hand() -> None:
    # Decay 0.5; squared returns 1e-4 and 4e-4: (0.5 * 1e-4 + 4e-4) / 1.5 = 3e-4 once both are visible.
    table = table_of(
        [("A", 11, -7.0, 50), ("A", 20, -6.0, 60), ("A", 21, -5.0, 70)],
        [("A", 10, 0.01), ("A", 20, -0.02)],
        horizon=4,
    )
    model = EwmaBaseline(decay=0.5).fit(table, np.array([0, 2]))
    one, two = math.log(4 * 1e-4), math.log(4 * 3e-4)
    intercept = ((-7.0 - one) + (-5.0 - two)) / 2
    assert model.intercept_ == pytest.approx(intercept, rel=1e-12)
    assert model.slope_ == 1.0
    np.testing.assert_allclose(
        model.predict(table, np.arange(3)), [one + intercept, one + intercept, two + intercept], rtol=1e-12
    )


def test_variance_by_hand() -> None:
    table = table_of(
        [("A", 11, 8e-4, 50), ("A", 21, 2.4e-3, 60)],
        [("A", 10, 0.01), ("A", 20, -0.02)],
        horizon=4,
        log=False,
    )
    model = EwmaBaseline(decay=0.5).fit(table, np.array([0, 1]))
    # Signals 4e-4 and 12e-4 (mean 8e-4) against targets of mean 16e-4: twice as much.
    assert (model.intercept_, model.slope_) == (0.0, pytest.approx(2.0, rel=1e-12))
    np.testing.assert_allclose(model.predict(table, np.arange(2)), [8e-4, 2.4e-3], rtol=1e-12)


def test_returns_by_hand() -> None:
    table = table_of(
        [("A", 5, 0.3, 50), ("A", 11, 0.5, 50), ("A", 21, -0.5, 60)],
        [("A", 10, 0.01), ("A", 20, -0.02)],
        kind="return",
        horizon=4,
    )
    model = EwmaBaseline(decay=0.5).fit(table, np.arange(3))
    assert (model.intercept_, model.slope_, model.fallback_) == (0.0, 1.0, 0.0)
    # (0.5 * 0.01 - 0.02) / 1.5 = -0.01; no bar is visible at 5.
    np.testing.assert_allclose(model.predict(table, np.arange(3)), [0.0, 0.04, -0.04], rtol=1e-12)


def test_directions_by_hand() -> None:
    table = table_of(
        [("A", 5, 1.0, 50), ("A", 11, 1.0, 50), ("A", 21, -1.0, 60)],
        [("A", 10, 0.01), ("A", 20, -0.02)],
        kind="direction",
    )
    # Signals 1 and -0.01 / sqrt(3e-4): two points, so the line goes through both.
    model = EwmaBaseline(decay=0.5).fit(table, np.arange(3))
    np.testing.assert_allclose(model.predict(table, np.arange(3)), [1 / 3, 1.0, -1.0], rtol=1e-12)
    slope = 2.0 / (1.0 + 0.01 / math.sqrt(3e-4))
    assert model.slope_ == pytest.approx(slope, rel=1e-12)


def loop(bars: list[Bar], entity: str, now: int, decay: float) -> float | None:
    seen = [r for name, at, r in bars if name == entity and at < now]
    weighted = [(decay**age, r) for age, r in enumerate(reversed(seen)) if r is not None]
    if not weighted:
        return None
    return sum(w * r * r for w, r in weighted) / sum(w for w, _ in weighted)


returns = st.one_of(st.none(), st.floats(-0.2, 0.2, allow_nan=False).filter(lambda r: abs(r) > 1e-3))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 8), returns), max_size=12),
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 9)), min_size=1, max_size=6),
    st.floats(0.01, 0.99),
)
def test_equals_the_loop(bars: list[Bar], forecasts: list[tuple[str, int]], decay: float) -> None:
    bars = [("A", -1, 0.01), *sorted(bars, key=lambda bar: bar[1])]
    samples = [("A", 0, math.log(5 * 1e-4), 99), *((entity, now, None, None) for entity, now in forecasts)]
    table = table_of(samples, bars)
    model = EwmaBaseline(decay).fit(table, np.array([0]))
    found = model.predict(table, np.arange(1, len(samples)))
    for (entity, now), forecast in zip(forecasts, found, strict=True):
        variance = loop(bars, entity, now, decay)
        expected = math.log(5 * 1e-4) if variance is None else math.log(5 * variance)
        assert forecast == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("tick", "visible"), [(-1, True), (0, False), (1, False)])
def test_a_bar_available_at_the_forecast_is_too_late(tick: int, visible: bool) -> None:
    table = table_of(
        [("A", 20, 0.0, 50), ("A", 1000, 0.0, 2000)],
        [("A", 10, 0.01), ("A", 1000 + tick, 0.05)],
        kind="return",
    )
    forecast = EwmaBaseline(0.5).fit(table, np.array([0])).predict(table, np.array([1]))
    expected = 5 * (0.5 * 0.01 + 0.05) / 1.5 if visible else 0.05
    np.testing.assert_allclose(forecast, [expected], rtol=1e-12)


def test_no_variance_is_floored() -> None:
    table = table_of([("A", 20, -9.0, 50)], [("A", 10, 0.0), ("A", 11, 0.0)])
    model = EwmaBaseline().fit(table, np.array([0]))
    assert model.intercept_ == pytest.approx(-9.0 - math.log(5e-8), rel=1e-12)
    level = table_of([("A", 20, 1e-4, 50)], [("A", 10, 0.0)], log=False)
    assert EwmaBaseline().fit(level, np.array([0])).predict(level, np.array([0])).tolist() == [1e-4]
    calm = table_of([("A", 20, 1.0, 50)], [("A", 10, 0.0)], kind="direction")
    assert EwmaBaseline().fit(calm, np.array([0])).predict(calm, np.array([0])).tolist() == [1.0]


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.1, float("nan"), 2])
def test_impossible_decay(decay: float) -> None:
    table = table_of([("A", 20, 1.0, 50)], [("A", 10, 0.1)])
    with pytest.raises(ForecasterError, match=r"decay=.* is not between 0 and 1; use for example 0\.94"):
        EwmaBaseline(decay).fit(table, np.array([0]))


@pytest.mark.parametrize(
    "bars", [[], [("B", 10, 0.1)], [("A", 20, 0.1)], [("A", 10, None)], [(None, 10, 0.1)]]
)
def test_no_visible_bar_in_training(bars: list[Bar]) -> None:
    table = table_of([("A", 20, 1.0, 50)], bars)
    with pytest.raises(ForecasterError, match=r"no bar with a log_return is visible.*leave this model out"):
        EwmaBaseline().fit(table, np.array([0]))


def test_bars_out_of_order() -> None:
    table = table_of([("A", 20, 1.0, 50)], [("A", 10, 0.1), ("A", 5, 0.1)])
    with pytest.raises(TimestampError, match="sort the events in canonical order"):
        EwmaBaseline().fit(table, np.array([0]))
