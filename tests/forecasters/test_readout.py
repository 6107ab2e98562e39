"""From raw numbers to forecasts in units of the target."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import special, stats

from quantattn.forecasters.heads import HeadConfig
from quantattn.forecasters.readout import Readout, TargetScale, quantile_name

SCALES = (TargetScale(1.0, 2.0), TargetScale(-3.0, 0.5))
NOTHING = ((0.0, 0.0), (0.0, 0.0))
RAW = np.random.default_rng(0).normal(size=(20, 4))


def test_point() -> None:
    head = HeadConfig("point", ("a", "b"))
    found = Readout(head, SCALES, ((-1.0, 2.0), (0.0, 0.5))).forecasts(RAW[:, :2])
    assert list(found) == ["a", "b"]
    assert found["a"].y_pred == pytest.approx(1 + 2 * RAW[:, 0])
    assert found["a"].y_lower == pytest.approx(found["a"].y_pred - 1)
    assert found["b"].y_pred == pytest.approx(-3 + 0.5 * RAW[:, 1])
    assert found["b"].y_upper == pytest.approx(found["b"].y_pred + 0.5)
    assert found["a"].extra == {}


def test_logarithms_are_undone_with_their_interval() -> None:
    head = HeadConfig("point", ("a", "b"))
    found = Readout(head, SCALES, ((-1.0, 2.0), (0.0, 0.5)), logs=(True, False)).forecasts(RAW[:, :2])
    assert found["a"].y_pred == pytest.approx(np.exp(1 + 2 * RAW[:, 0]))
    assert found["a"].y_lower == pytest.approx(found["a"].y_pred / np.e)
    assert found["b"].y_pred == pytest.approx(-3 + 0.5 * RAW[:, 1])


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_gaussian(coverage: float) -> None:
    head = HeadConfig("gaussian", ("a", "b"))
    found = Readout(head, SCALES, NOTHING, coverage).forecasts(RAW)
    for place, name in enumerate("ab"):
        mean = SCALES[place].center + SCALES[place].scale * RAW[:, 2 * place]
        deviation = SCALES[place].scale * np.exp(6 * np.tanh(RAW[:, 2 * place + 1] / 12))
        low, high = stats.norm.interval(coverage, mean, deviation)
        assert found[name].y_pred == pytest.approx(mean)
        assert found[name].extra["y_std"] == pytest.approx(deviation)
        assert found[name].y_lower == pytest.approx(low)
        assert found[name].y_upper == pytest.approx(high)


def test_quantiles() -> None:
    head = HeadConfig("quantile", ("a", "b"), (0.25, 0.75))
    said = Readout(head, SCALES, NOTHING).forecasts(RAW)["b"]
    low = -3 + 0.5 * RAW[:, 2]
    high = low + 0.5 * np.logaddexp(0, RAW[:, 3])
    assert said.extra["q_0.25"] == pytest.approx(low)
    assert said.extra["q_0.75"] == pytest.approx(high)
    for values, expected in ((said.y_pred, low), (said.y_lower, low), (said.y_upper, high)):
        assert values == pytest.approx(expected)


def test_near_levels_keep_their_own_columns() -> None:
    levels = (0.5, 0.50000001, 0.5000001)
    head = HeadConfig("quantile", ("a",), levels)
    said = Readout(head, SCALES[:1], NOTHING[:1]).forecasts(RAW[:, :3])["a"]
    assert list(said.extra) == ["q_0.5", "q_0.50000001", "q_0.5000001"]
    assert (said.extra["q_0.5"] < said.extra["q_0.5000001"]).all()
    assert [quantile_name(level) for level in (0.05, 1e-5, 0.1 + 0.2, np.float64(1 / 3))] == [
        "q_0.05",
        "q_1e-05",
        "q_0.30000000000000004",
        "q_0.3333333333333333",
    ]


def test_direction() -> None:
    head = HeadConfig("direction", ("a",))
    unit = (TargetScale(0.0, 1.0),)
    chances = np.array([0.01, 0.0499, 0.0501, 0.5, 0.9499, 0.9501, 0.99])
    said = Readout(head, unit, ((0.0, 0.0),), 0.9).forecasts(special.logit(chances)[:, None])["a"]
    assert said.extra["probability_up"] == pytest.approx(chances)
    assert said.y_pred == pytest.approx(2 * chances - 1)
    # The bounds are the quantiles at 5 and 95 % of a coin that falls on -1 and 1.
    assert said.y_lower.tolist() == [-1, -1, -1, -1, -1, 1, 1]
    assert said.y_upper.tolist() == [-1, -1, 1, 1, 1, 1, 1]


def test_round_trip() -> None:
    head = HeadConfig("point", ("a", "b"))
    readout = Readout(head, SCALES, ((-1.0, 2.0), (0.0, 0.5)), 0.8, (True, False))
    assert Readout.from_dict(head, json.loads(json.dumps(readout.to_dict()))) == readout
    for name, value in (
        ("scales", [[0, 1]]),
        ("intervals", []),
        ("logs", [True]),
        ("logs", ["no", "no"]),
        ("coverage", "x"),
    ):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Readout.from_dict(head, {**readout.to_dict(), name: value})
