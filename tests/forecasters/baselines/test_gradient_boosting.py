from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines import GradientBoostingBaseline

from .tables import Sample, random_market, table_of


def labelled(targets: np.ndarray) -> list[Sample]:
    return [("A", 10 * row, float(y), 10 * row + 5) for row, y in enumerate(targets)]


def test_learns_a_step_and_a_missing_branch() -> None:
    x = np.linspace(-1, 1, 400)
    gone = np.arange(400) % 4 == 0
    y = np.where(gone, 7.0, np.where(x > 0, 3.0, -1.0))
    column = [None if missing else float(value) for missing, value in zip(gone, x, strict=True)]
    table = table_of(labelled(y), asof_x=column, asof_unknown=[None] * 400)
    model = GradientBoostingBaseline(min_samples_leaf=20).fit(table, np.arange(400))
    assert model.features_ == ("asof_x",)
    # Shrinkage leaves (1 - 0.05) ** 200 = 3.5e-5 of each step.
    np.testing.assert_allclose(model.predict(table, np.arange(400)), y, atol=1e-3)


def test_first_tree_by_hand() -> None:
    # Mean 1; one split at the step, leaves at -2 and 2 from the mean; a tenth of each is taken.
    y = np.repeat([-1.0, 3.0], 10)
    table = table_of(labelled(y), asof_x=list(range(20)))
    model = GradientBoostingBaseline(iterations=1, learning_rate=0.1, min_samples_leaf=10)
    forecasts = model.fit(table, np.arange(20)).predict(table, np.arange(20))
    np.testing.assert_allclose(forecasts, np.repeat([0.8, 1.2], 10), rtol=1e-6)


def test_few_rows_give_the_mean() -> None:
    table = table_of(labelled(np.array([1.0, 2.0, 6.0])), asof_x=[1.0, 2.0, 3.0])
    model = GradientBoostingBaseline().fit(table, np.arange(3))
    np.testing.assert_allclose(model.predict(table, np.arange(3)), [3.0, 3.0, 3.0], rtol=1e-9)


def test_the_same_bits_again_and_with_more_threads() -> None:
    table = random_market(days=600)
    rows = np.flatnonzero(np.isfinite(table.outcomes))
    outputs = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = GradientBoostingBaseline(iterations=10, seed=3).fit(table, rows)
            outputs.add(model.predict(table, rows).tobytes())
    assert len(outputs) == 1


def test_parameters_reach_the_trees() -> None:
    table = random_market()
    rows = np.flatnonzero(np.isfinite(table.outcomes))
    parameters = {
        "iterations": 7,
        "learning_rate": 0.2,
        "min_samples_leaf": 9,
        "max_leaf_nodes": 4,
        "seed": 11,
    }
    model = GradientBoostingBaseline(**parameters).fit(table, rows)  # type: ignore[arg-type]
    assert model.get_params() == parameters
    trees = model.model_.get_params()
    assert (trees["max_iter"], trees["learning_rate"], trees["min_samples_leaf"]) == (7, 0.2, 9)
    assert (trees["max_leaf_nodes"], trees["random_state"], trees["early_stopping"]) == (4, 11, False)
    assert model.model_.n_iter_ == 7


def test_nothing_to_learn_from() -> None:
    table = table_of(labelled(np.array([1.0, 2.0])), asof_x=[None, None])
    with pytest.raises(ForecasterError, match=r"gradient_boosting: no training row has any as-of feature"):
        GradientBoostingBaseline().fit(table, np.arange(2))


@pytest.mark.parametrize(
    "parameters",
    [
        {"iterations": 0},
        {"iterations": 2.5},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"min_samples_leaf": 0},
        {"max_leaf_nodes": 1},
        {"seed": -1},
    ],
)
def test_impossible_parameters(parameters: dict[str, float]) -> None:
    table = random_market()
    with pytest.raises(ForecasterError, match=next(iter(parameters))):
        GradientBoostingBaseline(**parameters).fit(table, np.arange(10))  # type: ignore[arg-type]
