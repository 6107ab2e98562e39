from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import HarBaseline, SampleTable

from .tables import Bar, Sample, table_of

TRUTH = (0.10, 0.35, 0.45)


def known_market(noise: float, log: bool = True, n: int = 3000) -> SampleTable:
    """Log variances of a market whose HAR coefficients are TRUTH and whose intercept is -1."""
    generator = np.random.default_rng(5)
    month = -9 + generator.standard_normal(n)
    week = month + 0.5 * generator.standard_normal(n)
    day = week + 1.2 * generator.standard_normal(n)
    regressors = np.stack([day, week, month], axis=1)
    if not log:
        regressors = np.exp(regressors)
    y = regressors @ np.array(TRUTH) + (-1.0 if log else 1e-4)
    y += noise * generator.standard_normal(n)
    samples: list[Sample] = [("AB"[row % 2], 10 * row, float(y[row]), 10 * row + 5) for row in range(n)]
    return table_of(samples, log=log, asof_log_rv_1=day, asof_log_rv_5=week, asof_log_rv_22=month)


def test_recovers_the_coefficients() -> None:
    table = known_market(noise=0.0)
    model = HarBaseline().fit(table, np.arange(3000))
    np.testing.assert_allclose(model.coefficients_, TRUTH, atol=2e-3)
    assert model.intercept_ == pytest.approx(-1.0, abs=5e-3)
    np.testing.assert_allclose(model.predict(table, np.arange(3000)), table.outcomes, atol=5e-3)


def test_equals_least_squares() -> None:
    table = known_market(noise=0.8)
    rows = np.arange(2500)
    names = [f"asof_log_rv_{width}" for width in (1, 5, 22)]
    design = np.column_stack([np.ones(3000), table.features(names, np.arange(3000))])
    weights, *_ = np.linalg.lstsq(design[rows], table.outcomes[rows], rcond=None)
    model = HarBaseline(penalty=1e-12).fit(table, rows)
    np.testing.assert_allclose(model.coefficients_, weights[1:], rtol=1e-8)
    assert model.intercept_ == pytest.approx(weights[0], rel=1e-8)
    later = np.arange(2500, 3000)
    np.testing.assert_allclose(model.predict(table, later), design[later] @ weights, rtol=1e-8)


def test_recovers_the_coefficients_under_noise() -> None:
    # Standard error of the week's coefficient: 0.8 / sqrt(3000 * 0.21), 0.21 its variance given the others.
    table = known_market(noise=0.8)
    model = HarBaseline().fit(table, np.arange(3000))
    np.testing.assert_allclose(model.coefficients_, TRUTH, atol=4 * 0.032)
    assert np.abs(model.coefficients_ - TRUTH).max() > 1e-3


def test_levels_when_the_target_is_a_variance() -> None:
    table = known_market(noise=0.0, log=False)
    model = HarBaseline().fit(table, np.arange(3000))
    np.testing.assert_allclose(model.coefficients_, TRUTH, atol=2e-3)
    assert model.intercept_ == pytest.approx(1e-4, rel=1e-2)


def test_a_variance_stays_positive() -> None:
    calm, wild = math.log(1e-4), math.log(1e-2)
    table = table_of(
        [("A", 10, 1e-3, 20), ("A", 20, 5e-2, 30), ("A", 30, None, None)],
        log=False,
        asof_log_rv_1=[calm, wild, -50.0],
        asof_log_rv_5=[calm, wild, -50.0],
        asof_log_rv_22=[wild, calm, wild * 0 + 5.0],
    )
    model = HarBaseline().fit(table, np.array([0, 1]))
    assert model.fit_.predict(np.exp([[-50.0, -50.0, 5.0]]))[0] < 0
    assert model.predict(table, np.array([2])).tolist() == [1e-3]


def loop(bars: list[Bar], entity: str, now: int, width: int) -> float | None:
    seen = [r for name, at, r in bars if name == entity and at < now]
    if len(seen) < width or None in seen[-width:]:
        return None
    return sum(seen[-width:])  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("AB"),
            st.integers(0, 40),
            st.one_of(st.none(), st.floats(-0.1, 0.1)),
            st.integers(),
        ),
        min_size=1,
        max_size=80,
    ),
    st.sampled_from(["return", "direction"]),
)
def test_trailing_returns_equal_the_loop(drawn: list, kind: str) -> None:
    bars: list[Bar] = sorted(((entity, at, r) for entity, at, r, _ in drawn), key=lambda bar: bar[1])
    samples: list[Sample] = [
        (entity, now, float(now % 7), 99) for now in range(0, 42, 3) for entity in ("A", "B", "C")
    ]
    table = table_of(samples, bars, kind=kind)  # type: ignore[arg-type]
    expected = [[loop(bars, entity, now, width) for width in (1, 5, 22)] for entity, now, _, _ in samples]
    rows = np.arange(len(samples))
    if all(value is None for values in expected for value in values):
        with pytest.raises(ForecasterError, match="no training row has any"):
            HarBaseline().fit(table, rows)
        return
    model = HarBaseline().fit(table, rows)
    columns = []
    for column in range(3):
        known = [values[column] for values in expected if values[column] is not None]
        mean = sum(known) / len(known) if known else 0.0
        columns.append([mean if values[column] is None else values[column] for values in expected])
        assert model.fit_.means[column] == pytest.approx(mean, abs=1e-12)
    by_hand = model.intercept_ + sum(
        b * np.array(x) for b, x in zip(model.coefficients_, columns, strict=True)
    )
    np.testing.assert_allclose(model.predict(table, rows), by_hand, rtol=1e-9, atol=1e-9)


def test_a_window_that_holds_a_missing_return_is_missing() -> None:
    bars: list[Bar] = [("A", at, None if at in (0, 30) else 0.01) for at in range(60)]
    samples: list[Sample] = [("A", now, float(now), 99) for now in (22, 23, 31, 35, 36, 52, 53, 60)]
    table = table_of(samples, bars, kind="return")
    from quantattn.forecasters.baselines.har import _regressors

    found = _regressors(table, np.arange(8))
    expected = [
        [0.01, 0.05, None],  # 21 returns so far
        [0.01, 0.05, 0.22],
        [None, None, None],  # the bar at 30 came after a gap
        [0.01, None, None],
        [0.01, 0.05, None],
        [0.01, 0.05, None],
        [0.01, 0.05, 0.22],
        [0.01, 0.05, 0.22],
    ]
    np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=1e-12)


def test_missing_features_name_the_remedy() -> None:
    table = table_of([("A", 10, 1.0, 20)], asof_log_rv_1=[0.0], asof_log_rv_5=[0.0])
    with pytest.raises(DataError, match=r"lacks the features \['asof_log_rv_22'\].*market_events"):
        HarBaseline().fit(table, np.array([0]))


def test_nothing_known_in_training() -> None:
    gone = [None, None]
    table = table_of(
        [("A", 10, 1.0, 20), ("A", 20, 1.0, 30)], asof_log_rv_1=gone, asof_log_rv_5=gone, asof_log_rv_22=gone
    )
    with pytest.raises(ForecasterError, match=r"har: no training row has any.*start the history earlier"):
        HarBaseline().fit(table, np.array([0]))


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_penalty(penalty: float) -> None:
    with pytest.raises(ForecasterError, match="penalty="):
        HarBaseline(penalty).fit(known_market(0.1, n=10), np.arange(10))
