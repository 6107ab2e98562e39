"""The exponentials and sums of the compiled path."""

from __future__ import annotations

import numpy as np
import pytest

from quantattn.forecasters.streaming import kernels


def exponentials(x: np.ndarray) -> np.ndarray:
    out = np.array(x, np.float32)
    power = np.zeros(len(out), np.float32)
    kernels._exponentials(out, power, power.view(np.int32), len(out))
    return out


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
    assert found[3:].tolist() == [0.0] * 7


def test_only_the_first_are_touched() -> None:
    x = np.full(5, -1.0, np.float32)
    power = np.full(5, 7.0, np.float32)
    kernels._exponentials(x, power, power.view(np.int32), 3)
    assert x[3:].tolist() == [-1.0, -1.0]
    assert power[3:].tolist() == [7.0, 7.0]


def test_rising_inputs_give_rising_outputs() -> None:
    x = np.sort(np.random.default_rng(1).uniform(-87, 0, 50_000).astype(np.float32))
    found = exponentials(x)
    # Two neighbours may be 2 ulp off in opposite ways, no more.
    assert (np.diff(found) >= -4 * np.spacing(found[1:])).all()
    assert (found > 0).all()
    assert found.max() <= 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 100, 1000])
def test_sums(n: int) -> None:
    generator = np.random.default_rng(n)
    x = generator.uniform(0, 1, n + 5).astype(np.float32)
    y = generator.standard_normal(n + 5).astype(np.float32)
    wide_x, wide_y = x[:n].astype(np.float64), y[:n].astype(np.float64)
    assert float(kernels._total(x, n)) == pytest.approx(wide_x.sum(), rel=1e-6)
    assert float(kernels._dot(x, y, n)) == pytest.approx(
        (wide_x * wide_y).sum(), abs=1e-6 * np.abs(wide_x * wide_y).sum()
    )


def test_sums_do_not_depend_on_where_the_numbers_lie() -> None:
    """A cache that grew lies elsewhere in memory; its sums must keep their bits."""
    values = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    room = np.zeros(1100, np.float32)
    totals, dots = set(), set()
    for offset in range(17):
        room[offset : offset + 1000] = values
        part = room[offset : offset + 1000]
        totals.add(float(kernels._total(part, 997)))
        dots.add(float(kernels._dot(part, values, 997)))
    assert len(totals) == len(dots) == 1


def test_features() -> None:
    x = np.array([-2.0, -1e-3, 0.0, 1e-3, 5.0, -200.0, 9.0], np.float32)
    kernels._elu1(x, 6)
    wide = np.array([-2.0, -1e-3, 0.0, 1e-3, 5.0, -200.0])
    expected = np.where(wide > 0, wide + 1, np.exp(wide))
    assert x[:6] == pytest.approx(expected, rel=3e-7)
    assert x[6] == 9.0
