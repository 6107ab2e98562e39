from __future__ import annotations

from typing import Any

import pytest

from quantattn.errors import UsageError
from quantattn.forecasters.baselines import (
    BASELINES,
    Baseline,
    GradientBoostingBaseline,
    MeanBaseline,
    make_baseline,
    register_baseline,
    registry,
)


def test_names() -> None:
    assert list(BASELINES) == ["mean", "ewma", "har", "ridge", "gradient_boosting"]
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
        UsageError, match="'xyz' is unknown; Known are ewma, gradient_boosting, har, mean, ridge"
    ):
        make_baseline("xyz", 0)


def test_register(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(BASELINES):
        monkeypatch.setitem(registry._FACTORIES, name, BASELINES[name])
    monkeypatch.setitem(registry._FACTORIES, "zero", lambda seed: MeanBaseline())
    monkeypatch.delitem(registry._FACTORIES, "zero")
    register_baseline("zero", lambda seed: MeanBaseline())
    assert isinstance(make_baseline("zero", 0), MeanBaseline)
    with pytest.raises(UsageError, match="'zero' is registered already; choose another"):
        register_baseline("zero", lambda seed: MeanBaseline())
    del registry._FACTORIES["zero"]


@pytest.mark.parametrize(
    ("name", "factory"), [("", MeanBaseline), (" ", MeanBaseline), (3, MeanBaseline), ("new", 3)]
)
def test_impossible_registrations(name: Any, factory: Any) -> None:
    with pytest.raises(UsageError, match="give"):
        register_baseline(name, factory)
    assert list(BASELINES) == ["mean", "ewma", "har", "ridge", "gradient_boosting"]


def test_the_registry_is_read_only() -> None:
    with pytest.raises(TypeError):
        BASELINES["mean"] = lambda seed: MeanBaseline()  # type: ignore[index]
