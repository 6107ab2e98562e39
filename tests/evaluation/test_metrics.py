"""Metrics worked out by hand and against loops over forecast times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from quantattn.evaluation import ic_series, metric_names, metrics_table, rank_ic_series, read_panel
from tests.evaluation.frames import constant, table

Y = [[1.0, 2.0, 4.0], [0.0, -1.0, 3.0], [2.0, 2.0, -2.0]]
LINEAR = [[1.0, 3.0, 4.0], [1.0, -1.0, 2.0], [2.0, 0.0, -1.0]]
MEAN = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def of(result: dict[str, Any], model: str) -> Any:
    return next(one for one in result["models"] if one["model"] == model)


def values(result: dict[str, Any], model: str) -> dict[str, Any]:
    return {name: found["value"] for name, found in of(result, model)["metrics"].items()}


def test_metrics_by_hand() -> None:
    frame = table(Y, {"linear": {0: LINEAR}, "mean": {0: MEAN}}, half_width=1.0)
    linear = values(metrics_table(frame, target="y", kind="variance"), "linear")
    # Squared errors by time: (0, 1, 0), (1, 0, 1), (0, 4, 1): means 1/3, 2/3, 5/3.
    assert linear["mse"] == pytest.approx((1 / 3 + 2 / 3 + 5 / 3) / 3)
    # Absolute errors: (0, 1, 0), (1, 0, 1), (0, 2, 1).
    assert linear["mae"] == pytest.approx((1 / 3 + 2 / 3 + 1) / 3)
    # The mean's squared errors: (0, 1, 9), (1, 4, 4), (1, 1, 9): means 10/3, 3, 11/3.
    assert linear["r2_oos"] == pytest.approx(1 - (8 / 9) / (10 / 3))
    # Within 1 of the forecast, bounds included: all, all, and two of three.
    assert linear["coverage"] == pytest.approx((1 + 1 + 2 / 3) / 3)
    losses = [[0, -1, 0], [-1, 0, 1], [0, 2, -1]]
    expected = sum(sum(math.exp(d) - d - 1 for d in row) / 3 for row in losses) / 3
    assert linear["qlike"] == pytest.approx(expected)


def test_qlike_of_a_variance_that_is_no_logarithm() -> None:
    y, y_pred = [[4e-4, 1e-4], [2e-4, 0.0]], [[1e-4, 1e-4], [4e-4, 3e-4]]
    frame = table(y, {"linear": {0: y_pred}, "mean": {0: [[1e-4, 1e-4], [1e-4, -1e-4]]}})
    result = metrics_table(frame, target="y", kind="variance", log=False)
    # Times: the mean of a ratio of 4 and of 1; a ratio of 1/2 alone, for a variance of 0 has no loss.
    expected = ((4.0 - math.log(4.0) - 1.0) / 2 + (0.5 + math.log(2.0) - 1.0)) / 2
    assert values(result, "linear")["qlike"] == pytest.approx(expected)
    assert of(result, "linear")["by_fold"][0]["metrics"]["qlike"] == pytest.approx(expected)
    assert (
        values(result, "linear")["mse"]
        == values(metrics_table(frame, target="y", kind="variance"), "linear")["mse"]
    )


def test_qlike_is_null_where_a_forecast_variance_is_not_positive() -> None:
    y = [[4e-4, 1e-4], [2e-4, 1e-4]]
    frame = table(y, {"linear": {0: [[1e-4, 1e-4], [4e-4, 0.0]]}, "mean": {0: y}}, folds=[0, 1])
    result = metrics_table(frame, target="y", kind="variance", log=False)
    assert of(result, "linear")["metrics"]["qlike"] == {"value": None, "low": None, "high": None}
    assert of(result, "linear")["by_seed"][0]["metrics"]["qlike"] is None
    by_fold = [one["metrics"]["qlike"] for one in of(result, "linear")["by_fold"]]
    assert by_fold == [pytest.approx((4.0 - math.log(4.0) - 1.0) / 2), None]
    assert values(result, "mean")["qlike"] == 0.0


def test_times_count_alike_however_many_entities_they_have() -> None:
    # Time 0 has three entities with squared error 1, time 1 one entity with squared error 9.
    frame = table([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], {"linear": {0: [[1.0, 1.0, 1.0], [3.0, 1.0, 1.0]]}})
    frame = frame.remove(
        (frame["entity"] != "E00") & (frame["forecast_time"] == frame["forecast_time"].max())
    )
    result = metrics_table(frame, target="y", kind="variance")
    assert result["n_rows"] == 4
    assert values(result, "linear")["mse"] == pytest.approx((1 + 9) / 2)


def test_directional_metrics_by_hand() -> None:
    # Outcomes of exactly zero have no direction and are left out.
    frame = table(Y, {"linear": {0: LINEAR}, "mean": {0: MEAN}})
    result = metrics_table(frame, target="y", kind="return")
    # Hits: 3 of 3; of (-1, 3) both; 2 forecast as 2 and -2 as -1 hit, 2 forecast as 0 is a miss.
    assert values(result, "linear")["hit_rate"] == pytest.approx((1 + 1 + 2 / 3) / 3)
    assert values(result, "mean")["hit_rate"] == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
    assert values(result, "linear")["pt_p_value"] is None


def test_names_follow_the_kind_of_target() -> None:
    common = ("mse", "mae", "r2_oos", "ic", "rank_ic", "coverage")
    assert metric_names("variance") == (*common, "qlike")
    assert metric_names("return") == metric_names("direction") == (*common, "hit_rate", "pt_p_value")


def test_information_coefficients_against_a_loop_with_gaps_and_ties() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 6)).round(1)
    seeds = {seed: (0.5 * y + rng.normal(size=y.shape)).round(1) for seed in (0, 1)}
    frame = table(y.tolist(), {"linear": {seed: one.tolist() for seed, one in seeds.items()}})
    frame = frame.remove((frame["entity"] == "E03") & (frame["forecast_time"].dt.day() > 20))
    panel = read_panel(frame)
    y_pred = panel.models["linear"].y_pred
    pearson, spearman = ic_series(panel, y_pred), rank_ic_series(panel, y_pred)
    assert set(panel.counts.tolist()) == {5, 6}
    ties = 0
    for t, (start, count) in enumerate(zip(panel.starts, panel.counts, strict=True)):
        rows = slice(start, start + count)
        ties += len(set(panel.y_true[rows])) < count
        for seed in (0, 1):
            assert pearson[seed, t] == pytest.approx(
                stats.pearsonr(y_pred[seed, rows], panel.y_true[rows])[0]
            )
            assert spearman[seed, t] == pytest.approx(
                stats.spearmanr(y_pred[seed, rows], panel.y_true[rows])[0]
            )
    assert ties > 3
    result = values(metrics_table(frame, target="y", kind="variance"), "linear")
    assert result["ic"] == pytest.approx(pearson.mean())
    assert result["rank_ic"] == pytest.approx(spearman.mean())


def test_one_entity_has_no_cross_section() -> None:
    y = [[float(t)] for t in range(30)]
    result = metrics_table(table(y, {"linear": {0: y}}), target="y", kind="variance")
    assert of(result, "linear")["metrics"]["ic"] == {"value": None, "low": None, "high": None}
    assert of(result, "linear")["metrics"]["rank_ic"]["value"] is None


def test_equal_forecasts_rank_nothing_even_up_to_rounding() -> None:
    y = [[1.0, 2.0, 3.0]] * 12
    rounded = [[0.3, 0.1 + 0.2, 0.3]] * 12
    mixed = [[0.3, 0.1 + 0.2, 0.3]] * 11 + [[1.0, 3.0, 2.0]]
    result = metrics_table(
        table(y, {"linear": {0: rounded}, "softmax": {0: mixed}}), target="y", kind="variance"
    )
    assert values(result, "linear")["ic"] is None
    assert values(result, "linear")["rank_ic"] is None
    # Only the one time with a ranking counts.
    assert values(result, "softmax")["rank_ic"] == pytest.approx(0.5)


def test_r2_is_against_the_mean_and_null_without_it() -> None:
    frame = table(Y, {"linear": {0: LINEAR}, "mean": {0: MEAN}})
    result = metrics_table(frame, target="y", kind="variance")
    assert values(result, "mean")["r2_oos"] == 0.0
    alone = metrics_table(table(Y, {"linear": {0: LINEAR}}), target="y", kind="variance")
    assert values(alone, "linear")["r2_oos"] is None
    perfect = metrics_table(table(Y, {"linear": {0: LINEAR}, "mean": {0: Y}}), target="y", kind="variance")
    assert values(perfect, "linear")["r2_oos"] is None


def test_coverage_is_null_without_intervals() -> None:
    result = metrics_table(table(Y, {"linear": {0: LINEAR}}), target="y", kind="variance")
    assert values(result, "linear")["coverage"] is None


def test_seeds_are_averaged_after_the_loss_and_listed_apart() -> None:
    # Errors +1 and -1: the average forecast would be perfect, the average loss is 1.
    high, low = constant(1.0, Y), constant(-1.0, Y)
    zero = constant(0.0, Y)
    result = metrics_table(table(zero, {"linear": {3: high, 1: low}}), target="y", kind="variance")
    assert values(result, "linear")["mse"] == 1.0
    assert of(result, "linear")["seeds"] == [1, 3]
    different = table(
        zero, {"linear": {1: constant(2.0, Y), 3: constant(1.0, Y)}, "mean": {0: constant(4.0, Y)}}
    )
    result = metrics_table(different, target="y", kind="variance")
    assert values(result, "linear")["mse"] == pytest.approx(2.5)
    by_seed = of(result, "linear")["by_seed"]
    assert [(one["seed"], one["metrics"]["mse"]) for one in by_seed] == [(1, 4.0), (3, 1.0)]
    assert [one["metrics"]["r2_oos"] for one in by_seed] == [
        pytest.approx(1 - 4 / 16),
        pytest.approx(1 - 1 / 16),
    ]
    assert values(result, "linear")["r2_oos"] == pytest.approx(1 - 2.5 / 16)


def test_folds_are_listed_apart() -> None:
    frame = table(Y, {"linear": {0: LINEAR}, "mean": {0: MEAN}}, folds=[0, 0, 1], half_width=1.0)
    first, second = of(metrics_table(frame, target="y", kind="variance"), "linear")["by_fold"]
    assert (first["fold"], first["test_start"], first["test_end"], first["n_rows"]) == (
        0,
        "2020-01-03T20:45:00Z",
        "2020-01-10T20:45:00Z",
        6,
    )
    assert (second["fold"], second["test_start"], second["n_rows"]) == (1, "2020-01-17T20:45:00Z", 3)
    assert first["metrics"]["mse"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert first["metrics"]["r2_oos"] == pytest.approx(1 - (1 / 2) / ((10 / 3 + 3) / 2))
    assert second["metrics"]["mse"] == pytest.approx(5 / 3)
    assert second["metrics"]["coverage"] == pytest.approx(2 / 3)
