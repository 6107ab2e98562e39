from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import (
    EstimatorBaseline,
    TargetKind,
    baseline_traits,
    make_baseline,
    register_estimator,
    unregister_baseline,
)
from quantattn.forecasters.baselines._process import kept_settings

from .tables import Sample, random_market, table_of

Made = Callable[[int], Any]


def baseline(factory: Made, **options: Any) -> EstimatorBaseline:
    return EstimatorBaseline(factory, "mine", **options)


def labelled(targets: Any, kind: TargetKind = "return", **features: Any) -> Any:
    rows: list[Sample] = [("A", 10 * row, float(y), 10 * row + 5) for row, y in enumerate(targets)]
    return table_of(rows, kind=kind, log=False, **features)


@pytest.fixture
def forest() -> Iterator[str]:
    register_estimator("forest", lambda seed: RandomForestRegressor(20, random_state=seed), together=True)
    yield "forest"
    unregister_baseline("forest")


def test_a_forest_is_scikit_learns(forest: str) -> None:
    table = random_market("return")
    rows, rest = np.arange(100), np.arange(100, 200)
    names = [name for name in table.feature_names if name != "asof_unknown"]
    values = table.features(names, np.arange(200))
    means = np.nanmean(values[:100], axis=0)
    filled = np.where(np.isnan(values), means, values)
    theirs = RandomForestRegressor(20, random_state=5).fit(filled[:100], table.outcomes[:100])
    model = make_baseline(forest, 5).fit(table, rows)
    np.testing.assert_allclose(model.predict(table, rest), theirs.predict(filled[100:]), rtol=1e-12)
    assert isinstance(model, EstimatorBaseline)
    assert model.notes() == {"features never known in training": ["asof_unknown"]}
    assert (model.name, model.seed) == ("forest", 5)
    traits = baseline_traits(forest)
    assert (traits.inputs, traits.stochastic, traits.built_in) == ("table", True, False)


def test_columns_are_filled_and_scaled_by_the_training_rows() -> None:
    seen: dict[str, Any] = {}

    class Spy:
        def fit(self, inputs: Any, targets: Any) -> None:
            seen["fit"] = inputs.copy(), targets.copy()
            inputs[:] = targets[:] = np.nan  # what it is given is its own

        def predict(self, inputs: Any) -> Any:
            seen.setdefault("predict", []).append(inputs.copy())
            return np.zeros(len(inputs))

    table = labelled(
        [1, 2, 3, 4], asof_x=[1.0, None, 4.0, 100.0], asof_y=[5.0, 5.0, 5.0, None], asof_z=[None] * 4
    )
    expected = {
        "mean": ([[1, 5], [2.5, 5], [4, 5]], [[100, 5]]),
        "median": ([[1, 5], [2.5, 5], [4, 5]], [[100, 5]]),
        "none": ([[1, 5], [np.nan, 5], [4, 5]], [[100, np.nan]]),
    }
    for impute, (fitted, predicted) in expected.items():
        seen.clear()
        model = baseline(lambda seed: Spy(), impute=impute).fit(table, np.arange(3))
        model.predict(table, np.array([3]))
        np.testing.assert_array_equal(seen["fit"][0], fitted)
        assert seen["fit"][1].tolist() == [1, 2, 3]
        # Once for the row, and once more to see that it stays.
        np.testing.assert_array_equal(seen["predict"], [predicted, predicted])
    seen.clear()
    baseline(lambda seed: Spy(), scale=True, features=["x", "asof_y"]).fit(table, np.arange(3)).predict(
        table, np.array([3, 0])
    )
    # Mean 2.5 and deviation 1.5 of the two known values; a constant column is centred.
    np.testing.assert_allclose(seen["fit"][0], [[-1, 0], [0, 0], [1, 0]])
    np.testing.assert_allclose(np.concatenate(seen["predict"]), [[65, 0], [-1, 0], [65, 0]])
    assert [part.shape for part in seen["predict"]] == [(1, 2)] * 3  # one row at a time
    assert table.outcomes.tolist() == [1, 2, 3, 4]


def test_a_classifier_forecasts_the_expected_direction() -> None:
    x = np.linspace(-2, 2, 60)
    y = np.where(x > 0.3, 1.0, np.where(x < -0.5, -1.0, 0.0))
    table = labelled(y, "direction", asof_x=x.tolist())
    model = baseline(lambda seed: LogisticRegression()).fit(table, np.arange(60))
    theirs = LogisticRegression().fit(x[:, None], y)
    expected = theirs.predict_proba(x[:, None]) @ np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(model.predict(table, np.arange(60)), expected, atol=1e-9)
    with pytest.raises(
        ForecasterError, match="LogisticRegression is a classifier, and the target is a return"
    ):
        baseline(lambda seed: LogisticRegression()).fit(labelled(y, asof_x=x.tolist()), np.arange(60))


class Gambler:
    """Draws from every global generator, and seeds them, as a bad citizen would."""

    def fit(self, inputs: Any, targets: Any) -> None:
        self.drawn = random.random() + np.random.random() + float(torch.rand(()))  # noqa: NPY002
        np.random.seed(99)  # noqa: NPY002
        random.seed(99)
        torch.manual_seed(99)

    def predict(self, inputs: Any) -> Any:
        return self.drawn + np.random.random(len(inputs))  # noqa: NPY002


def test_global_generators_are_decided_by_the_seed_and_put_back() -> None:
    table = random_market("return")
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    expected = random.random(), np.random.random(), float(torch.rand(()))  # noqa: NPY002
    found = []
    for caller, seed in ((1, 3), (2, 3), (1, 4)):
        random.seed(caller)
        np.random.seed(caller)  # noqa: NPY002
        torch.manual_seed(caller)
        model = baseline(lambda seed: Gambler(), seed=seed).fit(table, np.arange(20))
        found.append(model.predict(table, np.arange(20, 40)).tolist())
        after = random.random(), np.random.random(), float(torch.rand(()))  # noqa: NPY002
        assert (after == expected) == (caller == 1)
    assert found[0] == found[1] != found[2]
    # Each row begins the draws anew, so that a forecast does not depend on the ones before it.
    assert len(set(found[0])) == 1


class Ranker:
    """Forecasts each row by its place in the company that it comes in."""

    def fit(self, inputs: Any, targets: Any) -> None:
        pass

    def predict(self, inputs: Any) -> Any:
        return inputs[:, 0] - inputs[:, 0].mean()


def test_the_company_of_a_row_says_nothing() -> None:
    table = random_market("return")
    alone = baseline(lambda seed: Ranker()).fit(table, np.arange(20))
    assert set(alone.predict(table, np.arange(20, 60)).tolist()) == {0.0}
    together = baseline(lambda seed: Ranker(), together=True).fit(table, np.arange(20))
    with pytest.raises(
        ForecasterError, match=r"row 0 is forecast as .* alone and .* among 40 rows.*together=False"
    ):
        together.predict(table, np.arange(20, 60))


def test_an_estimator_that_fails_is_named() -> None:
    table = random_market("return")
    with pytest.raises(
        ForecasterError, match=r"mine: LinearRegression.fit failed on 30 rows.*NaN.*or impute"
    ):
        baseline(lambda seed: LinearRegression(), impute="none").fit(table, np.arange(30))

    class Silent:
        def fit(self, inputs: Any, targets: Any) -> None:
            pass

        def predict(self, inputs: Any) -> Any:
            raise KeyError("lost")

    model = baseline(lambda seed: Silent()).fit(table, np.arange(30))
    with pytest.raises(ForecasterError, match=r"mine: Silent cannot forecast 1 rows.*KeyError: 'lost'"):
        model.predict(table, np.arange(3))


def test_an_estimator_that_learns_while_it_forecasts_is_refused() -> None:
    class Learner(Ranker):
        n = 0

        def predict(self, inputs: Any) -> Any:
            self.n += 1
            return np.full(len(inputs), float(self.n))

    table = random_market("return")
    for together in (False, True):
        model = baseline(lambda seed: Learner(), together=together).fit(table, np.arange(30))
        with pytest.raises(ForecasterError, match=r"forecasts the same row anew|is forecast as .* alone"):
            model.predict(table, np.arange(3))


def test_factories_that_are_none() -> None:
    table = random_market("return")
    with pytest.raises(ForecasterError, match="gave a int, which has no fit"):
        baseline(lambda seed: 3).fit(table, np.arange(30))
    with pytest.raises(
        ForecasterError, match=r"mine: the factory failed \(ZeroDivisionError: division by zero\)"
    ):
        baseline(lambda seed: seed / 0).fit(table, np.arange(30))
    old = LinearRegression().fit([[0.0]], [0.0])
    with pytest.raises(ForecasterError, match="fitted already"):
        baseline(lambda seed: old).fit(table, np.arange(30))
    shared = Ranker()
    with pytest.raises(ForecasterError, match="gave the same Ranker twice"):
        baseline(lambda seed: shared).fit(table, np.arange(30))


def test_a_step_that_is_made_once_is_not_trained() -> None:
    table = random_market("return")
    step = LinearRegression()
    model = baseline(lambda seed: Pipeline([("only", step)])).fit(table, np.arange(30))
    assert not hasattr(step, "coef_")
    assert model.predict(table, np.arange(3)).shape == (3,)
    made: list[Any] = []

    def numbered(seed: int) -> Any:
        made.append(np.random.random())  # noqa: NPY002 - the second call must not move the draws
        return Ranker()

    baseline(numbered, seed=3).fit(table, np.arange(30))
    assert made[0] == made[1] == np.random.RandomState(3).random_sample()


class Careless:
    """Changes what holds for the whole process."""

    def fit(self, inputs: Any, targets: Any) -> None:
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        np.seterr(all="raise")
        sklearn.set_config(transform_output="pandas")

    def predict(self, inputs: Any) -> Any:
        self.fit(None, None)
        return np.zeros(len(inputs))


def process_settings() -> tuple[Any, ...]:
    numbers = (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype())
    rest = (torch.get_float32_matmul_precision(), np.geterr(), sklearn.get_config())
    return (*numbers, *rest, torch.are_deterministic_algorithms_enabled())


def test_settings_of_the_process_are_put_back() -> None:
    table = random_market("return")
    before = process_settings()
    model = baseline(lambda seed: Careless()).fit(table, np.arange(30))
    assert process_settings() == before
    model.predict(table, np.arange(3))
    assert process_settings() == before
    with pytest.raises(ZeroDivisionError), kept_settings():
        Careless().predict(np.zeros(1))
        1 / 0  # noqa: B018 - put back however it ends
    assert process_settings() == before


def test_outputs_that_are_none() -> None:
    table = random_market("return")

    class Two(Ranker):
        def predict(self, inputs: Any) -> Any:
            return np.zeros((len(inputs), 2))

    class Nothing(Ranker):
        def predict(self, inputs: Any) -> Any:
            return np.full((len(inputs), 1), np.nan)

    with pytest.raises(ForecasterError, match=r"Two gave forecasts of shape \(1, 2\) for 1 rows"):
        baseline(lambda seed: Two()).fit(table, np.arange(9)).predict(table, np.arange(3))

    class Complex(Ranker):
        def predict(self, inputs: Any) -> Any:
            return np.full(len(inputs), 1j)

    with pytest.raises(ForecasterError, match=r"cannot forecast 1 rows.*complex numbers; give real ones"):
        baseline(lambda seed: Complex()).fit(table, np.arange(9)).predict(table, np.arange(3))
    with pytest.raises(ForecasterError, match="mine: 3 forecasts are not finite"):
        baseline(lambda seed: Nothing()).fit(table, np.arange(9)).predict(table, np.arange(3))


def test_impossible_options() -> None:
    table = random_market("return")
    for options, error, message in (
        ({"impute": "zero"}, ForecasterError, "impute='zero' is unknown"),
        ({"features": ["nothing"]}, DataError, r"lacks the features \['asof_nothing'\]"),
        ({"features": ["unknown"]}, ForecasterError, r"has any of the features \['asof_unknown'\]"),
        ({"features": "log_rv_1"}, ForecasterError, r"features='log_rv_1' is one text; write \['log_rv_1'\]"),
        ({"features": []}, ForecasterError, r"has any of the features \[\]"),
        ({"seed": -1}, ForecasterError, "seed=-1"),
    ):
        with pytest.raises(error, match=message):
            baseline(lambda seed: LinearRegression(), **options).fit(table, np.arange(30))
    unknown = labelled([1.0, 2.0], asof_x=[None, None])
    with pytest.raises(ForecasterError, match="mine: no training row has any as-of feature"):
        baseline(lambda seed: LinearRegression()).fit(unknown, np.arange(2))


def test_identity_follows_the_code_and_the_parameters() -> None:
    def of(factory: Made, **options: Any) -> dict[str, Any]:
        return baseline(factory, **options).identity()

    def forest(seed: int) -> Any:
        return RandomForestRegressor(random_state=seed)

    depth = 3
    assert of(forest) == of(forest)
    assert of(forest) != of(forest, scale=True)
    assert of(forest) != of(lambda seed: RandomForestRegressor(max_depth=depth, random_state=seed))
    assert of(forest)["class"].endswith("RandomForestRegressor")
    assert "0x" not in str(of(lambda seed: Ranker()))
