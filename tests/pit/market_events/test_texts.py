from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.pit.market_events.texts import fixed, percents
from quantattn.pit.market_events.trailing import trailing_max, trailing_min, trailing_quantiles

# Halves that are exact in binary round to even; most decimal halves are not exact.
TIES = [0.125, 0.375, 0.005, 0.015, 0.045, 2.675, 9.995, 99.995, 1e9, 1e15, 123456789.125, 0.0, 1e-12, 0.995]


@pytest.mark.parametrize("places", [1, 2])
def test_ties_round_as_python_rounds(places: int) -> None:
    values = np.array([*TIES, math.nan])
    told = fixed(values, places, lambda row: float(values[row])).to_list()
    assert told == [*(f"{value:.{places}f}" for value in TIES), None]


@settings(deadline=None)
@given(st.lists(st.one_of(st.floats(0, 1e12), st.integers(0, 10**6).map(lambda n: n / 200)), max_size=30))
def test_decimals_equal_pythons(drawn: list[float]) -> None:
    values = np.array(drawn, dtype=float)
    assert fixed(values, 2, lambda row: float(values[row])).to_list() == [f"{value:.2f}" for value in drawn]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.floats(-3, 5), st.integers(-9999, 10**5).map(lambda n: math.log1p(n / 20000))),
        max_size=30,
    )
)
def test_per_cents_equal_pythons(drawn: list[float]) -> None:
    expected = [f"{abs(math.expm1(value) * 100.0):.2f}" for value in drawn]
    assert percents(np.array(drawn, dtype=float)).to_list() == expected


walks = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.0]), max_size=25)


@settings(deadline=None)
@given(
    walk=walks,
    window=st.integers(1, 8),
    unknown=st.integers(0, 4),
    share=st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.8, 1.0]),
)
def test_trailing_ranks_equal_a_sorted_window(
    walk: list[float], window: int, unknown: int, share: float
) -> None:
    values = np.array([math.nan] * unknown + walk)
    (found,) = trailing_quantiles(values, window, [share])
    expected = []
    for t in range(values.size):
        part = sorted(values[max(t - window + 1, 0) : t + 1].tolist())
        if len(part) < window or any(math.isnan(value) for value in part):
            expected.append(math.nan)
            continue
        place = share * (window - 1)
        low = math.floor(place)
        expected.append(part[low] + (part[min(low + 1, window - 1)] - part[low]) * (place - low))
    np.testing.assert_array_equal(found, expected)
    numbers = np.array(walk, dtype=float)
    parts = [walk[max(t - window + 1, 0) : t + 1] for t in range(len(walk))]
    assert trailing_max(numbers, window).tolist() == [max(part) for part in parts]
    assert trailing_min(numbers, window).tolist() == [min(part) for part in parts]
