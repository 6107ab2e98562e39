"""Losses against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quantattn.evaluation import absolute_error, qlike, squared_error
from quantattn.evaluation.losses import qlike_of_variances


def test_squared_and_absolute_error() -> None:
    assert squared_error([1.0, -2.0, 0.5], [0.0, 1.0, 0.5]).tolist() == [1.0, 9.0, 0.0]
    assert absolute_error([1.0, -2.0, 0.5], [0.0, 1.0, 0.5]).tolist() == [1.0, 3.0, 0.0]
    assert squared_error([1.0, 2.0], [[0.0, 0.0], [1.0, 1.0]]).tolist() == [[1.0, 4.0], [0.0, 1.0]]


def test_qlike_is_the_loss_of_the_variances() -> None:
    outcome, forecast = 0.04, 0.01
    expected = outcome / forecast - math.log(outcome / forecast) - 1.0
    assert qlike(math.log(outcome), math.log(forecast)) == pytest.approx(4.0 - math.log(4.0) - 1.0, rel=1e-12)
    assert qlike(math.log(outcome), math.log(forecast)) == pytest.approx(expected, rel=1e-12)


def test_qlike_of_a_perfect_forecast_is_zero_and_too_low_costs_more_than_too_high() -> None:
    assert qlike(-3.0, -3.0) == 0.0
    assert qlike(0.0, -1.0) > qlike(0.0, 1.0) > 0.0
    assert qlike(0.0, 1e-9) >= 0.0


def test_qlike_overflows_to_infinity_without_a_warning() -> None:
    assert np.isinf(qlike(2000.0, 0.0))


def test_qlike_of_variances_takes_their_ratio() -> None:
    found = qlike_of_variances([4e-4, 1e-4, 2e-4], [1e-4, 4e-4, 2e-4])
    expected = [4.0 - math.log(4.0) - 1.0, 0.25 + math.log(4.0) - 1.0, 0.0]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_qlike_of_variances_that_are_not_positive() -> None:
    found = qlike_of_variances(
        [0.0, -1.0, math.nan, 1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, -1.0, 0.0, math.nan]
    )
    assert np.isnan(found).tolist() == [True, True, True, False, False, True, True]
    assert np.isposinf(found).tolist() == [False, False, False, True, True, False, False]
