"""Axes: positions, round ticks and their labels."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantattn.report.figures.scales import (
    Scale,
    decade_ticks,
    number_ticks,
    padded,
    padded_log,
    round_step,
    time_ticks,
)

S = "\u00a0"


def _ns(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 10**9  # type: ignore[arg-type, misc]


def test_scale_maps_ends_and_middle() -> None:
    scale = Scale(2.0, 6.0, 100.0, 20.0)
    assert [scale(2.0), scale(4.0), scale(6.0)] == [100.0, 60.0, 20.0]
    assert scale.clamped(-1.0) == 100.0
    assert scale.clamped(9.0) == 20.0
    assert [scale.holds(v) for v in (1.9, 2.0, 6.0, 6.1)] == [False, True, True, False]


def test_logarithmic_scale() -> None:
    scale = Scale(1.0, 10_000.0, 0.0, 100.0, logarithmic=True)
    assert [scale(1.0), scale(100.0), scale(10_000.0)] == pytest.approx([0.0, 50.0, 100.0])


def test_padded() -> None:
    assert padded([0.0, 10.0], 0.1) == (-1.0, 11.0)
    assert padded([5.0]) == (4.5, 5.5)
    assert padded([0.0]) == (-1.0, 1.0)
    assert padded([]) == (0.0, 1.0)
    assert padded([math.nan, 1.0, math.inf, 3.0], 0.0) == (1.0, 3.0)
    assert padded_log([0.0, -1.0, 10.0, 1000.0], 0.0) == pytest.approx((10.0, 1000.0))
    assert padded_log([100.0]) == pytest.approx((31.6227766, 316.227766))


@pytest.mark.parametrize(
    ("length", "most", "step"),
    [(10.0, 10, 1.0), (10.0, 9, 2.0), (10.0, 4, 2.5), (10.0, 3, 5.0), (0.09, 10, 0.01), (7e6, 3, 2.5e6)],
)
def test_round_step(length: float, most: int, step: float) -> None:
    assert round_step(length, most) == pytest.approx(step)


@pytest.mark.parametrize(
    ("low", "high", "labels", "unit"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"], ""),
        (-0.03, 0.021, ["−0.03", "−0.02", "−0.01", "0.00", "0.01", "0.02"], ""),
        (0.41, 0.52, ["0.42", "0.44", "0.46", "0.48", "0.50", "0.52"], ""),
        (0.4, 0.54, ["0.400", "0.425", "0.450", "0.475", "0.500", "0.525"], ""),
        (-4.2e-5, 1e-6, ["−40", "−30", "−20", "−10", "0"], f"×{S}10⁻⁶"),
        (0.0, 1.2e6, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2"], f"×{S}10⁶"),
        (0.0, 25_000.0, ["0", "5,000", "10,000", "15,000", "20,000", "25,000"], ""),
    ],
)
def test_number_ticks(low: float, high: float, labels: list[str], unit: str) -> None:
    ticks, column = number_ticks(low, high, 6)
    assert [tick.label for tick in ticks] == labels
    assert column.unit == unit


@given(
    st.floats(-1e9, 1e9, allow_nan=False),
    st.floats(1e-6, 1e9, allow_nan=False),
    st.integers(2, 10),
)
def test_number_ticks_lie_inside_and_read_apart(low: float, length: float, most: int) -> None:
    high = low + max(length, abs(low) * 1e-6)
    ticks, _ = number_ticks(low, high, most)
    slack = (high - low) * 1e-6
    assert 1 <= len(ticks) <= most + 1
    assert all(low - slack <= tick.value <= high + slack for tick in ticks)
    assert len({tick.label for tick in ticks}) == len(ticks)


def test_decade_ticks_label_fives_on_a_short_axis_only() -> None:
    assert [tick.label for tick in decade_ticks(9.0, 1_100.0)] == [
        f"10{S}µs",
        f"20{S}µs",
        f"50{S}µs",
        f"100{S}µs",
        f"200{S}µs",
        f"500{S}µs",
        f"1{S}ms",
    ]
    labels = [tick.label for tick in decade_ticks(1.0, 2e6)]
    assert [label for label in labels if label] == [
        f"1{S}µs",
        f"10{S}µs",
        f"100{S}µs",
        f"1{S}ms",
        f"10{S}ms",
        f"100{S}ms",
        f"1{S}s",
    ]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        ((2000, 1, 7), (2022, 12, 28), ["2005", "2010", "2015", "2020"]),
        ((2010, 1, 8), (2015, 12, 1), ["2011", "2012", "2013", "2014", "2015"]),
        ((2010, 1, 8), (2012, 2, 1), [f"Jul{S}2010", f"Jan{S}2011", f"Jul{S}2011", f"Jan{S}2012"]),
        (
            (2019, 11, 28),
            (2019, 12, 26),
            # Mondays
            [f"2{S}Dec{S}2019", f"9{S}Dec{S}2019", f"16{S}Dec{S}2019", f"23{S}Dec{S}2019"],
        ),
        (
            (1899, 1, 1),
            (1901, 1, 1),
            [f"Jan{S}1899", f"Jul{S}1899", f"Jan{S}1900", f"Jul{S}1900", f"Jan{S}1901"],
        ),
    ],
)
def test_time_ticks(low: tuple[int, ...], high: tuple[int, ...], labels: list[str]) -> None:
    assert [tick.label for tick in time_ticks(_ns(*low), _ns(*high), 6)] == labels
