"""Order statistics worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quantattn.forecasters import residual_interval


def ranks(n: int, coverage: float) -> tuple[int, int]:
    """The ranks (from 1) that are taken from n shuffled residuals 1, ..., n."""
    residuals = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    lower, upper = residual_interval(residuals, coverage)
    return int(lower), int(upper)


@pytest.mark.parametrize(
    ("n", "coverage", "expected"),
    [
        # A tenth lies outside: 0.05 * (n + 1) whole ranks from each end.
        (1, 0.9, (1, 1)),
        (2, 0.9, (1, 2)),
        (18, 0.9, (1, 18)),
        (19, 0.9, (1, 19)),
        (38, 0.9, (1, 38)),
        (39, 0.9, (2, 38)),
        (40, 0.9, (2, 39)),
        (59, 0.9, (3, 57)),
        (79, 0.9, (4, 76)),
        (99, 0.9, (5, 95)),
        (119, 0.9, (6, 114)),
        (9, 0.8, (1, 9)),
        (19, 0.8, (2, 18)),
        (29, 0.8, (3, 27)),
        (3, 0.5, (1, 3)),
        (7, 0.5, (2, 6)),
        (39, 0.95, (1, 39)),
        (79, 0.95, (2, 78)),
        (199, 0.99, (1, 199)),
        (399, 0.99, (2, 398)),
    ],
)
def test_ranks(n: int, coverage: float, expected: tuple[int, int]) -> None:
    assert ranks(n, coverage) == expected


def test_values_and_not_ranks() -> None:
    residuals = np.array([0.5, -3.0, 0.25, 7.0, -0.125, 0.0, 1.0])
    assert residual_interval(residuals, 0.5) == (-0.125, 1.0)


def test_input_is_left_as_it_is() -> None:
    residuals = np.array([2.0, 1.0, 3.0])
    residual_interval(residuals, 0.9)
    assert residuals.tolist() == [2.0, 1.0, 3.0]


def test_nothing_known() -> None:
    assert residual_interval(np.array([]), 0.9) == (0.0, 0.0)


def test_coverage_in_float32() -> None:
    # 0.9 in float32 is a little less than 0.9 in float64, which must not turn into another kind of number.
    assert residual_interval(np.arange(1.0, 41.0), float(np.float32(0.9))) == (2.0, 39.0)
