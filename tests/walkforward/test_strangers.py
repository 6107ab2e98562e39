"""Models of users beside the package's own: what they change for the process reaches no other unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines import (
    BASELINES,
    register_baseline,
    register_estimator,
    unregister_baseline,
)
from quantattn.walkforward.engines import run_folds
from quantattn.walkforward.environment import PACKAGES, versions

from .market import Watched, market, settings_of


class Careless:
    """Changes what holds for the whole process; an estimator, and a baseline of its own class."""

    name = "careless"

    def fit(self, table: Any, rows: Any) -> Careless:
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        return self

    def predict(self, table: Any, rows: Any = None) -> Any:
        return np.zeros(len(table) if rows is None else len(rows))

    def get_params(self) -> dict[str, Any]:
        return {}


class Complex(Careless):
    def fit(self, table: Any, rows: Any) -> Complex:
        return self

    def predict(self, table: Any, rows: Any = None) -> Any:
        return super().predict(table, rows) * 1j


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)
    if "careless" in BASELINES:
        unregister_baseline("careless")


def linear_beside(folder: Path, *models: str) -> pl.DataFrame:
    world = market()
    settings = settings_of(models=(*models, "linear"), seeds=(0,))
    outcome = run_folds(
        world.history, world.table, world.folds[:2], settings, run=folder, source="s", watcher=Watched()
    )
    return outcome.forecasts.filter(pl.col("model") == "linear").drop("update_us", "read_us")


@pytest.mark.parametrize("kind", ["estimator", "baseline"])
def test_a_careless_model_changes_no_other(kind: str, tmp_path: Path) -> None:
    if kind == "estimator":
        register_estimator("careless", lambda seed: Careless())
    else:
        register_baseline("careless", lambda seed: Careless())
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index, union-attr]  # noqa: NPY002
    beside = linear_beside(tmp_path / "beside", "careless")
    assert before == (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index, union-attr]  # noqa: NPY002
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32
    assert beside.equals(linear_beside(tmp_path / "alone"))


def test_complex_forecasts_of_a_foreign_class_are_refused(tmp_path: Path) -> None:
    register_baseline("careless", lambda seed: Complex())
    with pytest.raises(ForecasterError, match="careless: the forecasts are not real numbers"):
        linear_beside(tmp_path / "run", "careless")


def test_every_package_that_computes_decides_reuse() -> None:
    assert "arch" in PACKAGES
    assert set(PACKAGES) < set(versions())
