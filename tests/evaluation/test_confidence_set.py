"""The model confidence set: arch's own answer, its coverage, and odd losses."""

from __future__ import annotations

import numpy as np
import pytest
from arch.bootstrap import MCS

from quantattn.evaluation import model_confidence_set
from quantattn.evaluation.intervals import block_length


def losses(n: int = 300, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.chisquare(2, size=n)
    return {
        "linear": shared + 0.2 * rng.normal(size=n),
        "softmax": shared + 0.2 * rng.normal(size=n),
        "bad": shared + 0.3 + 0.2 * rng.normal(size=n),
        "worst": shared + 1.0 + 0.2 * rng.normal(size=n),
    }


def test_it_equals_arch_called_by_hand() -> None:
    series = losses()
    found = model_confidence_set(series, size=0.1, overlap=2, reps=500, seed=3)
    table = np.column_stack(list(series.values()))
    pairs = np.stack([table[:, i] - table[:, j] for i in range(4) for j in range(i)])
    peer = MCS(table, 0.1, reps=500, block_size=block_length(pairs, overlap=2), seed=3)
    peer.compute()
    assert list(found.p_values.values()) == [peer.pvalues.loc[i, "Pvalue"] for i in range(4)]
    assert found.included == tuple(list(series)[i] for i in peer.included)
    assert found.reason is None


def test_a_planted_loser_leaves_and_equals_stay() -> None:
    found = model_confidence_set(losses())
    assert "bad" not in found.included and "worst" not in found.included
    assert {"linear", "softmax"} >= set(found.included) != set()
    assert found.p_values["worst"] == 0.0
    assert found.size == 0.1


def test_it_is_seeded() -> None:
    series = losses(120)
    assert model_confidence_set(series, seed=1) == model_confidence_set(series, seed=1)
    assert model_confidence_set(series, seed=1).p_values != model_confidence_set(series, seed=2).p_values


def test_identical_models_share_a_p_value() -> None:
    series = losses()
    alone = model_confidence_set(series)
    twins = model_confidence_set(
        {"copy": series["linear"].copy(), **series, "rounded": series["bad"] * (1 + 1e-15)}
    )
    assert twins.p_values["copy"] == twins.p_values["linear"]
    assert twins.p_values["rounded"] == twins.p_values["bad"]
    assert {name: twins.p_values[name] for name in series} == pytest.approx(alone.p_values)
    same = model_confidence_set({"a": series["bad"], "b": series["bad"]})
    assert (same.included, same.p_values) == (("a", "b"), {"a": 1.0, "b": 1.0})


def test_one_model_few_times_and_constant_differences() -> None:
    series = losses()
    assert model_confidence_set({"only": series["bad"]}).p_values == {"only": 1.0}
    few = model_confidence_set({name: loss[:9] for name, loss in series.items()})
    assert few.included == tuple(series)
    assert set(few.p_values.values()) == {None}
    assert few.reason is not None and "too few" in few.reason
    shifted = model_confidence_set({"a": series["bad"], "b": series["bad"] + 1.0})
    assert shifted.included == ("a", "b")
    assert shifted.reason is not None and "differ by the same" in shifted.reason


@pytest.mark.slow
def test_the_best_model_is_in_the_set_with_the_stated_probability() -> None:
    held = 0
    simulations = 150
    for seed in range(simulations):
        rng = np.random.default_rng(100 + seed)
        series = {
            "best": rng.normal(size=200),
            "equal": rng.normal(size=200),
            "near": 0.05 + rng.normal(size=200),
        }
        held += "best" in model_confidence_set(series, size=0.1, reps=300, seed=seed).included
    assert held / simulations > 0.85
