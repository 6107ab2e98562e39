from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.baselines import (
    BASELINES,
    Baseline,
    BaselineForecaster,
    EwmaBaseline,
    GradientBoostingBaseline,
    HarBaseline,
    MeanBaseline,
    SampleTable,
    baseline_traits,
    fit_baseline,
    make_baseline,
    register_baseline,
    register_estimator,
    register_torch_module,
    unregister_baseline,
)

from .tables import random_market

NAMES = [
    "mean",
    "ewma",
    "har",
    "garch",
    "ridge",
    "gradient_boosting",
    "events_ridge",
    "events_logistic",
    "gru",
    "softmax_window",
]


def test_names() -> None:
    assert list(BASELINES) == NAMES
    for name in BASELINES:
        model = make_baseline(name, seed=1)
        assert model.name == name
        assert isinstance(model, Baseline)


def test_the_seed_arrives() -> None:
    model = make_baseline("gradient_boosting", seed=17)
    assert isinstance(model, GradientBoostingBaseline)
    assert model.seed == 17
    assert make_baseline("har", seed=17).get_params() == {"penalty": 1e-4}


def test_each_call_makes_a_new_one() -> None:
    assert make_baseline("mean", 0) is not make_baseline("mean", 0)


@pytest.mark.parametrize(
    ("name", "near"), [("harr", "'har'"), ("gradientboosting", "'gradient_boosting'"), ("Mean", "'mean'")]
)
def test_an_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"baseline '{name}' is unknown; did you mean {near}"):
        make_baseline(name, 0)


def test_a_name_like_no_other() -> None:
    with pytest.raises(
        UsageError, match="'xyz' is unknown; Known are events_logistic, events_ridge, ewma, garch, grad"
    ):
        make_baseline("xyz", 0)


@pytest.fixture
def zero() -> Iterator[None]:
    register_baseline("zero", lambda seed: MeanBaseline())
    yield
    unregister_baseline("zero")


@pytest.mark.usefixtures("zero")
def test_register() -> None:
    assert isinstance(make_baseline("zero", 0), MeanBaseline)
    for register in (register_baseline, register_estimator, register_torch_module):
        with pytest.raises(
            UsageError, match="'zero' is registered already; choose another name, or pass repl"
        ):
            register("zero", lambda *_: MeanBaseline())  # type: ignore[operator]
    register_baseline("zero", lambda seed: HarBaseline(), replace=True)
    assert isinstance(make_baseline("zero", 0), HarBaseline)


@pytest.mark.parametrize("name", [*NAMES, "linear", "softmax"])
def test_nothing_takes_a_name_of_the_package(name: str) -> None:
    for register in (register_baseline, register_estimator, register_torch_module):
        for replace in (False, True):
            with pytest.raises(UsageError, match=f"'{name}' is a model of the package"):
                register(name, lambda *_: MeanBaseline(), replace=replace)  # type: ignore[operator]
    with pytest.raises(UsageError, match="was not registered by you"):
        unregister_baseline(name)


def test_traits() -> None:
    found = {name: baseline_traits(name) for name in BASELINES}
    assert {name for name, traits in found.items() if traits.inputs == "events"} == {
        "events_ridge",
        "events_logistic",
    }
    assert {name for name, traits in found.items() if traits.inputs == "tokens"} == {"gru", "softmax_window"}
    assert {name for name, traits in found.items() if traits.needs_bars} == {"ewma", "har", "garch"}
    assert {name for name, traits in found.items() if traits.stochastic} == {"gru", "softmax_window"}
    assert {name: t.window for name, t in found.items() if t.window is not None} == {"softmax_window": 128}
    assert all(traits.built_in for traits in found.values())
    assert baseline_traits("softmax_window", window=9).window == 9


def test_a_foreign_class_needs_no_attributes() -> None:
    class Zero:
        name = "zeros"

        def fit(self, table: SampleTable, rows: Any) -> Zero:
            return self

        def predict(self, table: SampleTable, rows: Any) -> Any:
            return np.zeros(len(rows))

        def get_params(self) -> dict[str, Any]:
            return {}

    register_baseline("zeros", lambda seed: Zero())
    try:
        traits = baseline_traits("zeros")
        assert (traits.inputs, traits.stochastic, traits.window, traits.built_in) == (
            "table",
            False,
            None,
            False,
        )
        table = random_market()
        model = fit_baseline(make_baseline("zeros", 0), table, np.arange(5), np.arange(5, 8))
        assert model.predict(table, np.arange(3)).tolist() == [0, 0, 0]
        with pytest.raises(UsageError, match=r"takes no parameters \['depth'\]"):
            make_baseline("zeros", 0, depth=3)
    finally:
        unregister_baseline("zeros")


def ridge(seed: int) -> Ridge:
    return Ridge(random_state=seed)


def test_a_registration_can_be_sent_to_another_process() -> None:
    register_estimator("sent", ridge, features=("x",))
    register_torch_module("module", torch.nn.Linear, reads="features", epochs=3)
    try:
        for name in ("sent", "module"):
            ForkingPickler.dumps(BASELINES[name])
            again = copy.deepcopy(BASELINES[name])(7)
            assert again.identity() == make_baseline(name, 7).identity()  # type: ignore[attr-defined]
    finally:
        unregister_baseline("sent")
        unregister_baseline("module")


def test_parameters_are_set_by_name() -> None:
    model = make_baseline("gru", 5, hidden=7)
    assert (model.get_params()["hidden"], model.get_params()["seed"]) == (7, 5)
    with pytest.raises(UsageError, match=r"har has no parameters \['hidden'\]; it has \['penalty'\]"):
        make_baseline("har", 0, hidden=7)


def test_new_parameters_unfit() -> None:
    table = random_market()
    model = make_baseline("ewma", 0).fit(table, np.arange(20))
    assert isinstance(model, EwmaBaseline)
    with pytest.raises(ForecasterError, match="ewma is not fitted"):
        model.set_params(decay=0.5).predict(table, np.arange(3))


def test_identities() -> None:
    for name in BASELINES:
        one, same = (make_baseline(name, 0) for _ in range(2))
        assert isinstance(one, BaselineForecaster)
        assert isinstance(same, BaselineForecaster)
        assert one.identity() == same.identity() == json.loads(json.dumps(one.identity()))
    assert EwmaBaseline(0.9).identity() != EwmaBaseline(0.8).identity()


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("", MeanBaseline),
        (" ", MeanBaseline),
        (3, MeanBaseline),
        ("new", 3),
        ("../up", MeanBaseline),
        ("a/b", MeanBaseline),
        (".hidden", MeanBaseline),
        ("x" * 65, MeanBaseline),
        ("line\n", MeanBaseline),
    ],
)
def test_impossible_registrations(name: Any, factory: Any) -> None:
    with pytest.raises(UsageError, match="give"):
        register_baseline(name, factory)
    with pytest.raises(UsageError, match="give"):
        register_estimator(name, factory)
    assert list(BASELINES) == NAMES


def test_the_registry_is_read_only() -> None:
    with pytest.raises(TypeError):
        BASELINES["mean"] = lambda seed: MeanBaseline()  # type: ignore[index]
