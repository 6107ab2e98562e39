"""Heads: what their numbers mean, against scipy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from quantattn.errors import UsageError
from quantattn.forecasters.heads import (
    LOG_VARIANCE_BOUND,
    POINT,
    HeadConfig,
    bounded,
    distribution,
    median_place,
    rising,
)

LEVELS = (0.1, 0.25, 0.5, 0.9)


def test_sizes() -> None:
    assert (POINT.width, POINT.outputs, POINT.is_plain) == (1, 1, True)
    assert HeadConfig("gaussian", ("a", "b")).outputs == 4
    assert HeadConfig("quantile", ("a", "b", "c"), LEVELS).outputs == 12
    assert HeadConfig("direction", ("a", "b")).outputs == 2
    assert not HeadConfig("point", ("other",)).is_plain


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mean",), "head='mean'.*'point', 'gaussian'"),
        (("point", ()), "at least one"),
        (("point", ("a", "a")), "twice"),
        (("point", ("a", "")), "tuple of names"),
        (("point", "ab"), "tuple of names"),
        (("point", ("a",), (0.5,)), "are for head='quantile'"),
        (("quantile",), "must rise"),
        (("quantile", ("a",), (0.5, 0.5)), "must rise"),
        (("quantile", ("a",), (0.9, 0.1)), "must rise"),
        (("quantile", ("a",), (0.0, 0.5)), "must rise"),
        (("quantile", ("a",), (0.5, 1.0)), "must rise"),
        (("quantile", ("a",), (0.5, math.nan)), "must rise"),
    ],
)
def test_impossible_heads(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        HeadConfig(*arguments)  # type: ignore[arg-type]


def test_raw_numbers_lie_target_by_target() -> None:
    head = HeadConfig("quantile", ("a", "b"), (0.2, 0.4, 0.8))
    laid = head.split(torch.arange(12.0).view(2, 6))
    assert laid.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_a_fresh_quantile_head_forecasts_a_standard_normal() -> None:
    head = HeadConfig("quantile", ("a", "b"), LEVELS)
    raw = head.initial_bias().numpy()[None]
    assert distribution(head, raw).quantiles == pytest.approx(
        np.tile(stats.norm.ppf(LEVELS), (1, 2, 1)), abs=1e-6
    )


@pytest.mark.parametrize("kind", ["point", "gaussian", "direction"])
def test_other_fresh_heads_forecast_nothing(kind: str) -> None:
    head = HeadConfig(kind, ("a", "b"))  # type: ignore[arg-type]
    said = distribution(head, head.initial_bias().numpy()[None])
    assert said.point.tolist() == ([[0.5, 0.5]] if kind == "direction" else [[0.0, 0.0]])
    if kind == "gaussian":
        assert said.variance is not None
        assert said.variance.tolist() == [[1.0, 1.0]]


def test_each_head_by_formula() -> None:
    raw = np.random.default_rng(0).normal(size=(50, 4)) * 3
    gaussian = distribution(HeadConfig("gaussian", ("a", "b")), raw)
    assert np.array_equal(gaussian.point, raw[:, ::2])
    assert gaussian.variance == pytest.approx(np.exp(12 * np.tanh(raw[:, 1::2] / 12)))
    direction = distribution(HeadConfig("direction", ("a", "b", "c", "d")), raw)
    assert direction.point == pytest.approx(special.expit(raw))
    quantile = distribution(HeadConfig("quantile", ("a",), LEVELS), raw)
    steps = np.concatenate([raw[:, :1], np.logaddexp(0, raw[:, 1:])], axis=1)
    assert quantile.quantiles is not None
    assert quantile.quantiles[:, 0] == pytest.approx(np.cumsum(steps, axis=1))
    assert np.array_equal(quantile.point[:, 0], quantile.quantiles[:, 0, 2])


def test_the_level_nearest_to_one_half() -> None:
    assert median_place((0.1, 0.5, 0.9)) == 1
    assert median_place((0.4, 0.6)) == 0
    assert median_place((0.1, 0.55, 0.9)) == 1
    assert median_place((0.9,)) == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=4, max_size=4))
def test_quantiles_never_cross(raw: list[float]) -> None:
    quantiles = distribution(HeadConfig("quantile", ("a",), LEVELS), np.array([raw])).quantiles
    assert quantiles is not None
    assert (np.diff(quantiles[0, 0]) >= 0).all()
    single = rising(torch.tensor([raw], dtype=torch.float32))
    assert (single.diff(dim=-1) >= 0).all()


def test_variances_stay_in_range() -> None:
    extreme = bounded(torch.tensor([-1e30, -1.0, 0.0, 1e-3, 1e30]))
    assert extreme[[0, 4]].tolist() == [-LOG_VARIANCE_BOUND, LOG_VARIANCE_BOUND]
    assert extreme[2] == 0.0
    assert extreme[3].item() == pytest.approx(1e-3)


def test_round_trip() -> None:
    for head in (POINT, HeadConfig("quantile", ("a", "b"), LEVELS), HeadConfig("direction", ("x",))):
        assert HeadConfig.from_dict(head.to_dict()) == head
    with pytest.raises(UsageError, match="head holds"):
        HeadConfig.from_dict({"kind": "point"})


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 16, 31, 64])
@pytest.mark.parametrize(
    "head",
    [
        HeadConfig("gaussian"),
        HeadConfig("gaussian", targets=("a", "b", "c")),
        HeadConfig("direction"),
        HeadConfig("direction", targets=("a", "b", "c")),
        HeadConfig("quantile", levels=(0.1, 0.5, 0.9)),
        HeadConfig("quantile", targets=("a", "b"), levels=(0.05, 0.25, 0.5, 0.75, 0.95)),
    ],
)
def test_a_forecast_has_the_same_bits_in_any_company(head: HeadConfig, count: int) -> None:
    raw = np.random.default_rng(count).normal(0, 4, (count, head.outputs)).astype(np.float32)
    many = distribution(head, raw)
    for row in range(count):
        alone = distribution(head, raw[row : row + 1])
        for name in ("point", "variance", "quantiles"):
            one, all_of_them = getattr(alone, name), getattr(many, name)
            assert (one is None) == (all_of_them is None)
            if one is not None:
                assert one[0].tobytes() == all_of_them[row].tobytes()


def test_probabilities_at_the_ends() -> None:
    said = distribution(HeadConfig("direction"), np.array([[-1e30], [-800.0], [0.0], [800.0], [1e30]]))
    assert said.point[:, 0].tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
