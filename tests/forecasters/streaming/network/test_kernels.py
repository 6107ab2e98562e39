"""The pieces of the compiled steps against numpy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from quantattn.forecasters.config import DECAY_CAP
from quantattn.forecasters.streaming.network.kernels import tiles
from quantattn.forecasters.streaming.network.kernels.tiles import panel_widths
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY, decay_steps

from . import pieces


def exponentials(x: np.ndarray) -> np.ndarray:
    out = np.zeros(-(-len(x) // 16) * 16, np.float32)
    out[: len(x)] = x
    pieces.exponential(out)
    return out[: len(x)]


def ulps(found: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Distance from the exponential in float64, in units of the last place of its float32."""
    exact = np.exp(x.astype(np.float64))
    return np.abs(found.astype(np.float64) - exact) / np.spacing(exact.astype(np.float32)).astype(np.float64)


def test_two_units_in_the_last_place() -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [
            np.linspace(-87, 0, 300_001),
            -(10 ** generator.uniform(-30, np.log10(87), 100_000)),
            # Around the points where the exponent changes and where it is split.
            *(np.arange(-125, 1) * np.log(2) + shift for shift in (-1e-5, -1e-6, 0.0, 1e-6)),
            *((np.arange(-125, 0) + 0.5) * np.log(2) + shift for shift in (-1e-6, 0.0, 1e-6)),
        ]
    ).astype(np.float32)
    x = x[(x >= -87) & (x <= 0)]
    assert ulps(exponentials(x), x).max() <= 2.0


def test_every_float_near_both_ends() -> None:
    top = -np.arange(1, 200_000, dtype=np.int32).view(np.float32).astype(np.float32)
    bits = np.float32(-87.0).view(np.int32) - np.arange(200_000, dtype=np.int32)
    bottom = bits.view(np.float32)
    for x in (top, bottom):
        assert ulps(exponentials(x), x).max() <= 2.0


def test_edges() -> None:
    below = np.nextafter(np.float32(-87), np.float32(-np.inf))
    x = np.array([0.0, -0.0, -87.0, below, -87.5, -88.0, -104.0, -1e30, -np.inf, np.nan], np.float32)
    found = exponentials(x)
    assert found[:2].tolist() == [1.0, 1.0]
    assert ulps(found[2:3], x[2:3])[0] <= 2.0
    assert found[3:9].tolist() == [0.0] * 6
    assert np.isnan(found[9])


def test_rising_inputs_give_rising_outputs() -> None:
    x = np.sort(np.random.default_rng(1).uniform(-87, 0, 50_000).astype(np.float32))
    found = exponentials(x)
    # Two neighbours may be 2 ulp off in opposite ways, no more.
    assert (np.diff(found) >= -4 * np.spacing(found[1:])).all()
    assert (found > 0).all()
    assert found.max() <= 1.0


def test_features() -> None:
    x = np.array([-2.0, -1e-3, 0.0, 1e-3, 5.0, -200.0, np.nan, np.inf, -np.inf, *[-0.5] * 7], np.float32)
    found = x.copy()
    pieces.elu1(found)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        expected = np.where(wide > 0, wide + 1, np.exp(wide))
    assert found == pytest.approx(expected, rel=3e-7, nan_ok=True)


def test_what_is_negative_becomes_zero() -> None:
    x = np.array([-2.0, -0.0, 0.0, 3.0, np.inf, -np.inf, np.nan, *[1.0] * 9], np.float32)
    pieces.relu(x)
    assert x[:6].tolist() == [0.0, 0.0, 0.0, 3.0, np.inf, 0.0]
    assert np.isnan(x[6])


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 32, 40, 64, 100])
def test_layer_norm(width: int) -> None:
    generator = np.random.default_rng(width)
    wide = -(-width // 16) * 16
    gain_and_bias = np.zeros(2 * wide, np.float32)
    gain_and_bias[:width], gain_and_bias[wide : wide + width] = generator.standard_normal((2, width))
    x = np.full(wide, 1e9, np.float32)  # what lies behind the width must not count
    x[:width] = 3 + 2 * generator.standard_normal(width)
    out = np.full(wide, np.nan, np.float32)
    pieces.layer_norm(gain_and_bias, x, width, out)
    own = x[:width].astype(np.float64)
    expected = (own - own.mean()) / np.sqrt(own.var() + 1e-5)
    expected = expected * gain_and_bias[:width] + gain_and_bias[wide : wide + width]
    assert out[:width] == pytest.approx(expected, abs=3e-6)
    assert (out[width:] == 0).all()


@pytest.mark.parametrize(
    ("vectors", "widths"), [(1, [1]), (2, [2]), (3, [2, 1]), (4, [4]), (7, [4, 2, 1]), (9, [4, 4, 1])]
)
def test_panels(vectors: int, widths: list[int]) -> None:
    assert panel_widths(vectors) == widths


def test_panels_of_different_widths_have_names_of_their_own() -> None:
    """Code from another process's cache is linked by name and would call a namesake."""
    names = {panel.py_func.__qualname__ for panel in (tiles._one, tiles._two, tiles._four)}
    assert len(names) == 3


def fused(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """``a * b + c`` rounded once, by exact fractions."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1))


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("n", [1, 2, 13])
def test_products_are_fused_sums_in_order_for_any_number_of_rows(vectors: int, n: int) -> None:
    """Each number is its bias and then one multiply-add an input, alone or beside eight others."""
    generator = np.random.default_rng(10 * vectors + n)
    columns = 16 * vectors
    lines = generator.standard_normal((1 + n, columns)).astype(np.float32)
    packed, first = [], 0
    for width in panel_widths(vectors):
        packed.append(lines[:, first : first + 16 * width].ravel())
        first += 16 * width
    weights = np.concatenate(packed)
    x = generator.standard_normal((9, n + 2)).astype(np.float32)
    expected = np.zeros((9, columns), np.float32)
    for row in range(9):
        for column in range(0, columns, 5):
            total = lines[0, column]
            for i in range(n):
                total = fused(x[row, i], lines[1 + i, column], total)
            expected[row, column] = total
    for rows in range(1, 10):
        for start in range(10 - rows):
            out = np.full((rows, columns + 3), 7.0, np.float32)
            assert pieces.affine(weights, x[start:], n + 2, n, vectors, out, columns + 3, rows) == len(
                weights
            )
            assert np.array_equal(out[:, :columns:5], expected[start : start + rows, ::5])
            assert (out[:, columns:] == 7).all()


def test_a_scalar_is_fused_as_well() -> None:
    for a, b, c in np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32):
        assert pieces.fused(a, b, c) == fused(a, b, c)


@pytest.mark.parametrize(
    "elapsed", [0, 1, 3600 * 10**9, NANOSECONDS_PER_DAY, 7 * NANOSECONDS_PER_DAY + 1, 2**63 - 1]
)
def test_decay(elapsed: int) -> None:
    lives = (0.5, None, 7.0, 30.0, 91.0, 1e-9, 1e9, 1.0, 2.0, None, 3.0)
    rates = np.zeros(16)
    rates[:11] = [0.0 if life is None else 1 / life for life in lives]
    steps = np.full(16, np.nan)
    pieces.half_lives(elapsed, rates, 11, steps)
    expected = decay_steps(np.array([elapsed / NANOSECONDS_PER_DAY]), lives)[0]
    assert steps[:11].tolist() == expected.tolist()
    assert steps[:11].max() <= DECAY_CAP
    out = np.zeros(11, np.float32)
    pieces.decays(steps, 11, out)
    assert np.abs(out / np.exp2(-expected) - 1).max() < 2**-24
    assert out[1] == out[9] == 1.0


def test_factors_are_the_nearest_floats() -> None:
    steps = np.concatenate([np.arange(33.0), np.random.default_rng(0).uniform(0, 32, 99_967)])
    exact = np.exp2(-steps)
    found = np.empty(len(steps), np.float32)
    pieces.decays(steps, len(steps), found)
    assert found[:33].tolist() == [2.0**-k for k in range(33)]
    # The last place of the float64 may decide where two floats are equally near.
    assert (found != exact.astype(np.float32)).mean() < 1e-4
    assert np.abs(found / exact - 1).max() < 2**-24 * (1 + 1e-6)


def test_lanes() -> None:
    a, b, out = np.zeros(16, np.float32), np.ones(16, np.float32), np.empty(16, np.float32)
    for lane in (-5, 0, 1, 7, 15, 16, 40):
        pieces.from_lane(a, b, lane, out)
        assert out.tolist() == [float(place >= lane) for place in range(16)]


def test_the_highest_lane_wherever_it_stands_and_beside_what_is_no_number() -> None:
    for place in range(16):
        x = np.full(16, -np.inf, np.float32)
        x[place] = -3.0
        assert pieces.highest(x) == -3.0
        x[(place + 5) % 16] = np.nan
        assert pieces.highest(x) == -3.0
    assert math.isnan(pieces.highest(np.full(16, np.nan, np.float32)))


def test_age_is_taken_in_float64() -> None:
    clock = 1e9 + np.arange(16.0) / 1024
    out = np.empty(16, np.float32)
    pieces.aged(clock, 1e9 + 1.0, 0.5, out)
    assert out.tolist() == ((np.arange(16.0) / 1024 - 1) / 2).tolist()
