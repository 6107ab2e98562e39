"""The two result files as a whole: schema, JSON, the panel trap and odd tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from quantattn.errors import EvaluationError
from quantattn.evaluation import NO_DIFFERENCE, comparisons_table, findings, metric_names, metrics_table
from tests.evaluation.frames import constant, table


def market(
    n: int = 60, entities: int = 3, *, seed: int = 0, bias: float = 0.0
) -> tuple[list[list[float]], dict[str, dict[int, list[list[float]]]]]:
    """Outcomes with a signal, and models that see it more or less well."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, entities))
    y = signal + 0.5 * rng.normal(size=signal.shape)
    models = {
        "linear": {s: (signal + bias + 0.3 * rng.normal(size=y.shape)).tolist() for s in (0, 1)},
        "softmax": {s: (signal + 0.3 * rng.normal(size=y.shape)).tolist() for s in (0, 1)},
        "mean": {0: constant(0.0, y.tolist())},
        "har": {0: (0.7 * signal).tolist()},
    }
    return y.tolist(), models


def pair(comparisons: dict[str, Any], model: str, against: str) -> dict[str, Any]:
    return next(row for row in comparisons["pairwise"] if (row["model"], row["against"]) == (model, against))


def test_schema_of_metrics() -> None:
    y, models = market()
    frame = table(y, models, folds=[t // 20 for t in range(60)], half_width=1.0)
    result = metrics_table(frame, target="log_rv", kind="variance", description="what it is", confidence=0.9)
    keys = "study target confidence n_rows n_forecast_times n_entities first_forecast last_forecast models"
    assert " ".join(result) == keys
    assert result["study"] == "test"
    assert result["target"] == {
        "name": "log_rv",
        "description": "what it is",
        "horizon": 5,
        "kind": "variance",
    }
    assert (result["n_rows"], result["n_forecast_times"], result["n_entities"]) == (180, 60, 3)
    assert (result["first_forecast"], result["last_forecast"]) == (
        "2020-01-03T20:45:00Z",
        "2021-02-19T20:45:00Z",
    )
    assert result["confidence"] == 0.9
    assert [one["model"] for one in result["models"]] == ["linear", "softmax", "mean", "har"]
    for one in result["models"]:
        assert set(one) == {"model", "seeds", "metrics", "by_fold", "by_seed"}
        assert tuple(one["metrics"]) == metric_names("variance")
        assert len(one["by_fold"]) == 3
        for name, found in one["metrics"].items():
            assert set(found) == {"value", "low", "high"}
            if one["model"] == "mean" and name in ("ic", "rank_ic"):
                assert found["value"] is None
            else:
                assert found["low"] <= found["value"] <= found["high"]
    json.dumps(result, allow_nan=False)


def test_schema_of_comparisons() -> None:
    y, models = market()
    result = comparisons_table(table(y, models), margin=0.05)
    assert {"reference", "loss", "alpha", "pairwise", "non_inferiority", "model_confidence_set"} <= set(
        result
    )
    assert (result["reference"], result["loss"], result["alpha"]) == ("linear", "squared error", 0.05)
    assert [(row["model"], row["against"]) for row in result["pairwise"]] == [
        ("linear", "softmax"),
        ("linear", "mean"),
        ("linear", "har"),
        ("softmax", "mean"),
        ("softmax", "har"),
        ("mean", "har"),
    ]
    against_mean = pair(result, "linear", "mean")
    assert against_mean["verdict"] == "linear better"
    assert against_mean["mean_difference"] < 0.0 and against_mean["high"] < 0.0
    assert against_mean["n"] == 60
    assert pair(result, "mean", "har")["verdict"] == "har better"
    assert pair(result, "linear", "softmax")["verdict"] == NO_DIFFERENCE
    margin = result["non_inferiority"]
    assert (margin["model"], margin["against"]) == ("linear", "softmax")
    assert margin["margin_rule"].startswith("5 % of the mean squared error of softmax")
    assert "mean" not in result["model_confidence_set"]["included"]
    json.dumps(result, allow_nan=False)


def test_differences_and_cumulative_lines_by_hand() -> None:
    y = constant(0.0, [[0.0, 0.0]] * 3)
    models = {
        "softmax": {0: [[1.0, 1.0], [2.0, 0.0], [1.0, 1.0]]},
        "linear": {0: [[0.0, 0.0], [1.0, 1.0], [1.0, 3.0]], 1: [[2.0, 0.0], [1.0, 1.0], [1.0, 1.0]]},
    }
    result = comparisons_table(table(y, models))
    # softmax by time: 1, 2, 1. linear, averaged over its seeds: (0 + 2)/2 = 1, 1, (5 + 1)/2 = 3.
    row = pair(result, "linear", "softmax")
    assert row["mean_difference"] == pytest.approx((0 - 1 + 2) / 3)
    # Seed 0: 0, 1, 5 against 1, 2, 1. Seed 1, which softmax lacks, against its average: 2, 1, 1.
    assert row["by_seed"] == [
        {"seed": 0, "mean_difference": pytest.approx((-1 - 1 + 4) / 3)},
        {"seed": 1, "mean_difference": pytest.approx((1 - 1 + 0) / 3)},
    ]
    assert result["cumulative_loss_difference"] == [
        {"forecast_time": "2020-01-03T20:45:00Z", "against": "softmax", "value": pytest.approx(0.0)},
        {"forecast_time": "2020-01-10T20:45:00Z", "against": "softmax", "value": pytest.approx(1.0)},
        {"forecast_time": "2020-01-17T20:45:00Z", "against": "softmax", "value": pytest.approx(-1.0)},
    ]


def test_twenty_copies_of_one_entity_give_the_p_value_of_one() -> None:
    """The panel trap: the rows of a panel are not independent."""
    y, models = market(80, 1, bias=0.2)
    one = table(y, models, half_width=1.0)
    many = table(
        [row * 20 for row in y],
        {
            name: {seed: [row * 20 for row in f] for seed, f in by_seed.items()}
            for name, by_seed in models.items()
        },
        half_width=1.0,
    )
    small, large = comparisons_table(one), comparisons_table(many)
    for a, b in zip(small["pairwise"], large["pairwise"], strict=True):
        assert b["p_value"] == pytest.approx(a["p_value"], rel=1e-9)
        assert b["low"] == pytest.approx(a["low"], rel=1e-9)
        assert b["n"] == a["n"] == 80
    assert large["non_inferiority"]["p_value"] == pytest.approx(small["non_inferiority"]["p_value"], rel=1e-9)
    assert large["model_confidence_set"]["p_values"] == small["model_confidence_set"]["p_values"]
    for kind in ("variance", "return"):
        here = metrics_table(one, target="y", kind=kind)["models"]
        there = metrics_table(many, target="y", kind=kind)["models"]
        for a, b in zip(here, there, strict=True):
            for name, found in a["metrics"].items():
                if name not in ("ic", "rank_ic"):
                    for bound, figure in found.items():
                        there_too = b["metrics"][name][bound]
                        assert (there_too is None) is (figure is None)
                        assert figure is None or there_too == pytest.approx(figure, rel=1e-8, abs=1e-12)
    # The control: a paired t-test over the rows would take the copies for evidence.
    losses = {name: (np.array(models[name][0]) - np.array(y)).ravel() ** 2 for name in ("linear", "softmax")}
    alone = stats.ttest_rel(losses["linear"], losses["softmax"]).pvalue
    pooled = stats.ttest_rel(np.tile(losses["linear"], 20), np.tile(losses["softmax"], 20)).pvalue
    assert pooled < 0.05 * alone


def test_a_planted_difference_is_found_and_named() -> None:
    y, models = market(200, 3, bias=0.4)
    result = comparisons_table(table(y, models))
    assert pair(result, "linear", "softmax")["verdict"] == "softmax better"
    assert result["non_inferiority"]["non_inferior"] is False
    assert "linear" not in result["model_confidence_set"]["included"]


def test_overlapping_labels_widen_the_lags() -> None:
    y, models = market(100)
    week = 7 * 86_400 * 10**9
    assert pair(comparisons_table(table(y, models)), "linear", "mean")["hac_lags"] == 4
    overlapping = comparisons_table(table(y, models, label_length=4 * week))
    assert pair(overlapping, "linear", "mean")["hac_lags"] == 9


def test_identical_twins() -> None:
    y, models = market()
    models["softmax"] = models["linear"]
    result = comparisons_table(table(y, models))
    row = pair(result, "linear", "softmax")
    assert (row["mean_difference"], row["dm_statistic"], row["p_value"]) == (0.0, None, 1.0)
    assert row["verdict"] == NO_DIFFERENCE
    assert result["non_inferiority"]["equivalent"] is True
    p_values = result["model_confidence_set"]["p_values"]
    assert p_values["linear"] == p_values["softmax"]


def test_results_depend_on_the_seed_alone() -> None:
    y, models = market()
    frame = table(y, models, half_width=1.0)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=5).sort("model", maintain_order=True)
    ordered = frame.sort("model", maintain_order=True)
    for make in (
        lambda f, s: metrics_table(f, target="y", kind="variance", seed=s),
        lambda f, s: comparisons_table(f, seed=s),
    ):
        assert json.dumps(make(ordered, 1)) == json.dumps(make(shuffled, 1)) != json.dumps(make(ordered, 2))


def test_without_a_softmax_twin_or_with_one_model_only() -> None:
    y, models = market()
    del models["softmax"]
    assert comparisons_table(table(y, models))["non_inferiority"] is None
    alone = comparisons_table(table(y, {"linear": models["linear"]}))
    assert alone["pairwise"] == [] and alone["cumulative_loss_difference"] == []
    assert alone["model_confidence_set"]["included"] == ["linear"]


def test_another_reference() -> None:
    y, models = market()
    result = comparisons_table(table(y, models), reference="har")
    assert [row["against"] for row in result["pairwise"][:3]] == ["linear", "softmax", "mean"]
    assert result["non_inferiority"]["model"] == "har"
    with pytest.raises(EvaluationError, match=r"reference='lineal'.*linear"):
        comparisons_table(table(y, models), reference="lineal")


def test_bad_arguments() -> None:
    y, models = market(12)
    frame = table(y, models)
    with pytest.raises(EvaluationError, match="kind='volatility'"):
        metrics_table(frame, target="y", kind="volatility")
    with pytest.raises(EvaluationError, match="confidence=95"):
        metrics_table(frame, target="y", kind="variance", confidence=95)
    with pytest.raises(EvaluationError, match="margin=0"):
        comparisons_table(frame, margin=0)
    with pytest.raises(EvaluationError, match="alpha=5"):
        comparisons_table(frame, alpha=5)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 14),
    entities=st.integers(1, 3),
    kind=st.sampled_from(["variance", "return", "direction"]),
    data=st.data(),
)
def test_any_valid_table_gives_valid_json_and_sentences(
    n: int, entities: int, kind: str, data: st.DataObject
) -> None:
    """Constant, identical, huge and zero forecasts, few times, any models: never NaN, never an error."""
    numbers = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-12, 1e6, -1e6])
    grid = st.lists(st.lists(numbers, min_size=entities, max_size=entities), min_size=n, max_size=n)
    y = data.draw(grid)
    names = data.draw(st.sets(st.sampled_from(["softmax", "mean", "har", "mine"])))
    models = {name: {0: data.draw(grid)} for name in ["linear", *sorted(names)]}
    if data.draw(st.booleans()):
        models["linear"] = {0: y, 1: data.draw(grid)}
    frame = table(y, models, half_width=data.draw(st.sampled_from([None, 0.0, 1.0])))
    metrics = metrics_table(frame, target="y", kind=kind)
    comparisons = comparisons_table(frame)
    json.dumps([metrics, comparisons], allow_nan=False)
    for row in comparisons["pairwise"]:
        assert row["verdict"] in (NO_DIFFERENCE, f"{row['model']} better", f"{row['against']} better")
        assert (row["dm_statistic"] is None) is (row["reason"] is not None)
    sentences = findings(metrics, comparisons, None)
    assert len(sentences) == 3
    assert all(sentence and "nan" not in sentence and "None" not in sentence for sentence in sentences)
