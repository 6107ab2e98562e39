"""Whether a model of a user is known again, and nothing that differs is taken for it."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

from quantattn.errors import UsageError
from quantattn.forecasters.baselines import (
    BASELINES,
    BaselineForecaster,
    EstimatorBaseline,
    TorchModuleBaseline,
    make_baseline,
    register_baseline,
    register_estimator,
    register_torch_module,
    unregister_baseline,
)
from quantattn.forecasters.baselines._identity import fingerprint
from quantattn.walkforward.planning import plan_tasks

from ...walkforward.market import market, settings_of


def run(text: str) -> dict[str, Any]:
    """Give the names of a module without a source file, as of a notebook's cell."""
    module = types.ModuleType("cell")
    exec(text, module.__dict__)
    return module.__dict__


class Made:
    """A factory, and an estimator, with a state of its own."""

    def __init__(self, depth: Any) -> None:
        self.depth = depth

    def __call__(self, seed: int) -> Any:
        return RandomForestRegressor(max_depth=self.depth, random_state=seed)

    def make(self, seed: int) -> Any:
        return self(seed)

    def fit(self, inputs: Any, targets: Any) -> None:
        """Learn nothing."""

    def predict(self, inputs: Any) -> Any:
        return np.zeros(len(inputs))


def keywords(value: int) -> Callable[[int], Any]:
    def factory(seed: int, *, depth: int = 0) -> Any:
        return depth

    factory.__kwdefaults__ = {"depth": value}
    return factory


LARGE = np.zeros(5000)
OTHER = np.where(np.arange(5000) == 2500, 1.0, 0.0)

PAIRS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "callable object": lambda _: (Made(1), Made(2)),
    "bound method": lambda _: (Made(1).make, Made(2).make),
    "constants without source": lambda _: (
        run("def f(seed): return 1")["f"],
        run("def f(seed): return 2")["f"],
    ),
    "constants of an inner function": lambda _: (
        run("def f(seed):\n def g(): return 1\n return g")["f"],
        run("def f(seed):\n def g(): return 2\n return g")["f"],
    ),
    "keyword defaults": lambda _: (keywords(1), keywords(2)),
    "large array in a partial": lambda _: (
        functools.partial(Made, depth=LARGE),
        functools.partial(Made, depth=OTHER),
    ),
    "large tensor": lambda _: (torch.from_numpy(LARGE), torch.from_numpy(OTHER)),
    "estimator without get_params": lambda _: (Made(1), Made(2)),
    "helper behind a function": lambda _: (
        run("def g(): return 1\ndef f(seed): return g()")["f"],
        run("def g(): return 2\ndef f(seed): return g()")["f"],
    ),
    "a number that a function reads": lambda _: (
        run("K = 1\ndef f(seed): return K")["f"],
        run("K = 2\ndef f(seed): return K")["f"],
    ),
    "method of a class": lambda _: (
        run("class A:\n def predict(self): return 1")["A"],
        run("class A:\n def predict(self): return 2")["A"],
    ),
    "method of a base": lambda _: (
        run("class B:\n def predict(self): return 1\nclass A(B): pass")["A"],
        run("class B:\n def predict(self): return 2\nclass A(B): pass")["A"],
    ),
    "class attribute": lambda _: (run("class A:\n k = 1")["A"], run("class A:\n k = 2")["A"]),
    "property": lambda _: (
        run("class A:\n @property\n def k(self): return 1")["A"],
        run("class A:\n @property\n def k(self): return 2")["A"],
    ),
    "seeded generator": lambda _: (np.random.default_rng(1), np.random.default_rng(2)),
    "cached function": lambda _: (
        functools.cache(run("def f(seed): return 1")["f"]),
        functools.cache(run("def f(seed): return 2")["f"]),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_another(name: str) -> None:
    (one, two), (same, _) = PAIRS[name](None), PAIRS[name](None)
    assert fingerprint(one) == fingerprint(one) == fingerprint(same)
    assert fingerprint(one) != fingerprint(two)


def test_what_cannot_be_read_is_never_the_same() -> None:
    held = Made(threading.Lock())
    assert fingerprint(held) != fingerprint(held)


def test_cycles_and_shared_parts() -> None:
    one: list[Any] = [1]
    two: list[Any] = [1]
    one.append(one)
    two.append(two)
    assert fingerprint(one) == fingerprint(two)
    part = (1, 2.5)
    assert fingerprint([part, part]) == fingerprint([part, tuple(iter((1, 2.5)))])


def test_another_process_gives_the_same(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import functools\n"
        "from quantattn.forecasters.baselines._identity import fingerprint\n"
        "class A:\n"
        "    kinds = frozenset({'a', 'b', 'c', 'd'})\n"
        "    def __init__(self, k): self.k = k\n"
        "    def has(self, x): return x in {'e', 'f', 'g', 'h'}\n"
        "def f(seed): return A({'x', 'y', 'z'})\n"
        "if __name__ == '__main__':\n"
        "    print(fingerprint((functools.partial(f, 3), f(1))))\n"
    )
    given = {subprocess.check_output([sys.executable, str(script)], text=True) for _ in range(3)}
    assert len(given) == 1


# --- the units of a study ---------------------------------------------------------------------------------


@pytest.fixture
def mine() -> Iterator[str]:
    yield "mine"
    if "mine" in BASELINES:
        unregister_baseline("mine")


def inputs_of(name: str) -> str:
    folds = market().folds
    return plan_tasks(folds[:1], settings_of(models=(name,), seeds=(0,)), "s")[0].inputs


class Steady:
    """A baseline of a foreign class."""

    name = "mine"

    def __init__(self, k: int) -> None:
        self.k = k

    def fit(self, table: Any, rows: Any) -> Steady:
        return self

    def predict(self, table: Any, rows: Any) -> Any:
        return np.full(len(rows), float(self.k))

    def get_params(self) -> dict[str, Any]:
        return {"k": self.k}


def test_a_foreign_baseline_with_other_parameters_is_another_unit(mine: str) -> None:
    given = []
    for k in (1, 2, 1):
        register_baseline(mine, functools.partial(lambda k, seed: Steady(k), k), replace=True)
        given.append(inputs_of(mine))
    assert given[0] == given[2] != given[1]


SUBCLASS = """
import numpy as np
from quantattn.forecasters.baselines import BaselineForecaster
class Mine(BaselineForecaster):
    name = "mine"
    def _fit(self, table, rows, targets): pass
    def _predict(self, table, rows): return np.full(len(rows), {value})
"""


def test_an_edited_class_behind_an_unchanged_factory_is_another_unit(
    mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, identities = [], []

    def factory(seed: int) -> BaselineForecaster:
        from mine_edited import Mine  # type: ignore[import-not-found]

        made: BaselineForecaster = Mine()
        return made

    register_baseline(mine, factory)
    for value in ("1.0", "2.0", "1.0"):
        module = types.ModuleType("mine_edited")
        exec(SUBCLASS.format(value=value), module.__dict__)
        monkeypatch.setitem(sys.modules, "mine_edited", module)
        given.append(inputs_of(mine))
        identities.append(make_baseline(mine, 0).identity())  # type: ignore[attr-defined]
    assert given[0] == given[2] != given[1]
    assert identities[0] == identities[2] != identities[1]


MODULE = """
import torch
class Net(torch.nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.line = torch.nn.Linear(widths[-1], 1)
    def forward(self, *inputs): return self.line(inputs[1])[..., 0] * {value}
    def fit(self, inputs, targets): pass
    def predict(self, inputs): return {value}
"""


@pytest.mark.parametrize("kind", ["estimator", "tokens", "features"])
def test_an_edited_class_of_an_estimator_or_module_is_another_unit(
    mine: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def factory(*widths: int) -> Any:
        from mine_edited import Net

        return Net(*([3] if kind == "estimator" else widths))

    if kind == "estimator":
        register_estimator(mine, factory)
    else:
        register_torch_module(mine, factory, reads=kind)  # type: ignore[arg-type]
    given = []
    for value in ("1.0", "2.0", "1.0"):
        module = types.ModuleType("mine_edited")
        exec(MODULE.format(value=value), module.__dict__)
        monkeypatch.setitem(sys.modules, "mine_edited", module)
        given.append(inputs_of(mine))
    assert given[0] == given[2] != given[1]


def test_identities_of_wrapped_models() -> None:
    assert EstimatorBaseline(Made(1), "a").identity() != EstimatorBaseline(Made(2), "a").identity()
    one, two = (TorchModuleBaseline(run(f"def f(*w): return {k}")["f"], "a") for k in (1, 2))
    assert one.identity() != two.identity() != TorchModuleBaseline(two.factory, "a", epochs=3).identity()


def test_a_baseline_made_once_is_refused(mine: str) -> None:
    only = Steady(1)
    register_baseline(mine, lambda seed: only)
    with pytest.raises(UsageError, match="baseline 'mine' gave the same Steady twice"):
        make_baseline(mine, 0)


def test_names_of_means_over_seeds_are_not_to_be_had() -> None:
    for register in (register_baseline, register_estimator, register_torch_module):
        with pytest.raises(UsageError, match="ends in '-ensemble'"):
            register("linear-ensemble", Made(1))
