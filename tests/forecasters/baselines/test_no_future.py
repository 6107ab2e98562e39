"""No baseline may be moved by anything that came later, not by one bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor

from quantattn.forecasters.baselines import (
    SampleTable,
    TargetKind,
    register_estimator,
    register_torch_module,
    unregister_baseline,
)

from .small import made
from .tables import random_market

NAMES = ["mean", "ewma", "har", "garch", "ridge", "gradient_boosting", "forest", "network"]
TARGETS: list[tuple[TargetKind, bool]] = [
    ("variance", True),
    ("variance", False),
    ("return", False),
    ("direction", False),
]
FIT = 900  # forecasts from 0 to 1590, labels 150 later


@pytest.fixture(autouse=True)
def foreign_models() -> Iterator[None]:
    register_estimator("forest", lambda seed: ExtraTreesRegressor(10, random_state=seed), together=True)
    layers = torch.nn.Linear, torch.nn.Sequential
    register_torch_module(
        "network",
        lambda width: layers[1](layers[0](width, 3), layers[0](3, 1)),
        reads="features",
        batch=64,
        epochs=2,
    )
    yield
    unregister_baseline("forest")
    unregister_baseline("network")


def training_rows(table: SampleTable) -> np.ndarray:
    return np.flatnonzero(table.label_times <= FIT)


def where(mask: np.ndarray, values: np.ndarray, column: pl.Series) -> pl.Series:
    """Replace the masked values of a column."""
    frame = pl.DataFrame({"mask": mask, "new": values, column.name: column})
    return frame.select(pl.when("mask").then("new").otherwise(column.name).alias(column.name)).to_series()


def poisoned(table: SampleTable, now: int) -> SampleTable:
    """Change everything that becomes known at `now` or later, `now` itself included."""
    generator = np.random.default_rng(99)
    noise = generator.uniform(1.0, 2.0, len(table))
    known = table.samples["label_available_at"].is_not_null().to_numpy()
    samples = table.samples.with_columns(
        where(known & (table.label_times >= now), 50 * noise, table.samples["y_true"])
    )
    returns = generator.uniform(0.5, 0.9, table.bars.height)
    bars = table.bars.with_columns(where(bar_times(table) >= now, returns, table.bars["log_return"]))
    later = table.forecast_times > now
    as_of = pl.DataFrame([where(later, 9 * noise, column) for column in table.as_of.iter_columns()])
    assert not samples.equals(table.samples)
    assert not bars.equals(table.bars)
    assert as_of.equals(table.as_of) != later.any()
    return replace(table, samples=samples, bars=bars, as_of=as_of)


def bar_times(table: SampleTable) -> np.ndarray:
    return table.bars["available_at"].to_physical().to_numpy()


def cut(table: SampleTable, now: int) -> SampleTable:
    """Keep the samples up to `now`, the bars before it, and no label known at `now` or later."""
    keep = table.forecast_times <= now
    known = pl.Series(table.label_times < now)
    samples = table.samples.with_columns(
        pl.when(known).then("y_true"), pl.when(known).then("label_available_at")
    )
    bars = table.bars.filter(bar_times(table) < now)
    return replace(table, samples=samples.filter(keep), as_of=table.as_of.filter(keep), bars=bars)


@pytest.mark.parametrize(("kind", "log"), TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_later_values_change_no_bit(name: str, kind: TargetKind, log: bool) -> None:
    table = random_market(kind, log=log)
    for now in (930, 1200, 1590):
        rows = np.flatnonzero((table.forecast_times > FIT) & (table.forecast_times <= now))
        assert (table.forecast_times[rows] == now).any()
        clean = made(name).fit(table, training_rows(table)).predict(table, rows)
        other = poisoned(table, now)
        dirty = made(name).fit(other, training_rows(other)).predict(other, rows)
        assert dirty.tobytes() == clean.tobytes()


@pytest.mark.parametrize(("kind", "log"), TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_data_cut_at_the_forecast_change_no_bit(name: str, kind: TargetKind, log: bool) -> None:
    table = random_market(kind, log=log)
    everything = made(name).fit(table, training_rows(table)).predict(table, np.arange(len(table)))
    for now in (930, 1200, 1590):
        short = cut(table, now)
        rows = training_rows(short)
        assert rows.tolist() == training_rows(table).tolist()
        found = made(name).fit(short, rows).predict(short, np.arange(len(short)))
        assert found.tobytes() == everything[: len(short)].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_forecast_independently(name: str) -> None:
    table = random_market()
    model = made(name).fit(table, training_rows(table))
    rows = np.arange(60, len(table))
    whole = model.predict(table, rows)
    assert model.predict(table, rows[::-1]).tobytes() == whole[::-1].tobytes()
    for place in (0, 7, rows.size - 1):
        assert model.predict(table, rows[place : place + 1]).tobytes() == whole[place : place + 1].tobytes()


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("mean", "variance", "label"),
        ("ewma", "variance", "bar"),
        ("ewma", "return", "bar"),
        ("garch", "variance", "bar"),
        ("forest", "variance", "feature"),
        ("network", "variance", "feature"),
        ("har", "return", "bar"),
        ("har", "variance", "feature"),
        ("ridge", "variance", "feature"),
        ("gradient_boosting", "variance", "feature"),
    ],
)
def test_earlier_values_do_change_it(name: str, kind: TargetKind, what: str) -> None:
    # The control: the same changes one tick earlier are seen, so the tests above have power.
    table = random_market(kind)
    now = 1200
    rows = np.flatnonzero(table.forecast_times == now)
    model = made(name).fit(table, training_rows(table))
    clean = model.predict(table, rows)
    if what == "label":
        values = table.outcomes + 1
        samples = table.samples.with_columns(
            where(table.label_times == now - 10, values, table.samples["y_true"])
        )
        other = replace(table, samples=samples)
    elif what == "bar":
        jumps = np.full(table.bars.height, 0.5)
        bars = table.bars.with_columns(where(bar_times(table) == now - 10, jumps, table.bars["log_return"]))
        other = replace(table, bars=bars)
    else:
        values = np.full(len(table), 5.0)
        present = table.forecast_times == now
        as_of = pl.DataFrame([where(present, values, column) for column in table.as_of.iter_columns()])
        other = replace(table, as_of=as_of)
    changed = model.predict(other, rows) != clean
    # One of the three GARCH models is estimated without a memory.
    assert changed.any() if name == "garch" else changed.all()
