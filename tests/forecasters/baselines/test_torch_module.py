from __future__ import annotations

import math
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from quantattn.errors import DataError, ForecasterError, UsageError
from quantattn.forecasters.baselines import (
    MeanBaseline,
    TorchModuleBaseline,
    baseline_traits,
    make_baseline,
    register_torch_module,
    unregister_baseline,
)

from .news import DAY, news_of, sides, table_of_news
from .tables import random_market


class Recurrent(nn.Module):
    def __init__(self, event_width: int, query_width: int) -> None:
        super().__init__()
        self.cell = nn.GRU(event_width, 6, batch_first=True)
        self.head = nn.Linear(6 + query_width, 1)

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        states = torch.cat([events.new_zeros(len(events), 1, 6), self.cell(events)[0]], 1)
        read = states.gather(1, counts[..., None].expand(-1, -1, 6))
        forecasts: Tensor = self.head(torch.cat([read, queries], -1))
        return forecasts


class Recorder(nn.Module):
    """Keeps the shapes that it is called with, for all of its kind: a forecast is asked of a copy."""

    calls: ClassVar[list[tuple[bool, tuple[int, ...], list[list[int]]]]] = []

    def __init__(self, event_width: int, query_width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))
        Recorder.calls.clear()

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        self.calls.append((self.training, tuple(events.shape), counts.tolist()))
        return self.bias + 0 * queries[..., 0]


def module(factory: Any, **options: Any) -> TorchModuleBaseline:
    return TorchModuleBaseline(factory, "mine", **options)


def test_a_module_on_tokens_learns_what_was_last_said() -> None:
    table = table_of_news(news_of("return", days=260), cutoff=100 * DAY)
    train, held, test = sides(table, 120 * DAY, 20 * DAY)
    test = test[np.isfinite(table.outcomes[test])]
    model = module(Recurrent, epochs=40, batch=1, learning_rate=0.02).fit(table, train, validation=held)
    errors = [
        m.predict(table, test) - table.outcomes[test] for m in (MeanBaseline().fit(table, train), model)
    ]
    gains = errors[0] ** 2 - errors[1] ** 2
    assert gains.mean() / (gains.std(ddof=1) / math.sqrt(gains.size)) > 5


def test_a_forecast_is_one_call_with_what_is_visible() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    train, held, _ = sides(table, 60 * DAY, 10 * DAY)
    model = module(Recorder, epochs=1, batch=2).fit(table, train, validation=held)
    assert isinstance(model.module_, Recorder)
    # Both entities in one step of training, both in one of validation.
    assert [(training, shape[0]) for training, shape, _ in model.module_.calls] == [(True, 2), (False, 2)]
    model.module_.calls.clear()
    model.predict(table, np.array([100, 7]))
    assert table.sequences is not None
    for (training, shape, counts), row in zip(model.module_.calls, (7, 100), strict=True):
        n_visible = table.samples["n_visible"][row]
        assert not training
        assert shape[:2] == (1, n_visible)
        assert counts == [[n_visible]]
    windowed = module(Recorder, epochs=1, batch=8, window=4).fit(table, train)
    assert isinstance(windowed.module_, Recorder)
    windowed.module_.calls.clear()
    windowed.predict(table, np.array([100]))
    assert windowed.module_.calls[0][1][:2] == (1, 4)
    assert windowed.information_window == 4
    assert windowed.notes()["information set"] == "the last 4 visible events only"


def test_a_module_on_features_equals_least_squares() -> None:
    table = random_market("return")
    rows = np.arange(200)
    names = ["log_rv_1", "distance_high"]
    model = module(
        lambda width: nn.Linear(width, 1),
        reads="features",
        features=names,
        epochs=600,
        patience=600,
        batch=200,
        learning_rate=0.02,
        weight_decay=0.0,
    ).fit(table, rows)
    values = table.features([f"asof_{name}" for name in names], np.arange(300))
    filled = np.where(np.isnan(values), np.nanmean(values[:200], axis=0), values)
    design = np.column_stack([np.ones(300), filled])
    weights, *_ = np.linalg.lstsq(design[:200], table.outcomes[:200], rcond=None)
    np.testing.assert_allclose(model.predict(table, np.arange(300)), design @ weights, atol=2e-5)
    assert model.inputs == "table"


def test_registered_with_its_options() -> None:
    register_torch_module("mine", Recurrent, window=7, epochs=3)
    try:
        traits = baseline_traits("mine")
        assert (traits.inputs, traits.window, traits.stochastic) == ("tokens", 7, True)
        model = make_baseline("mine", 4)
        assert isinstance(model, TorchModuleBaseline)
        assert (model.name, model.seed, model.epochs, model.window) == ("mine", 4, 3, 7)
        register_torch_module("mine", lambda width: nn.Linear(width, 1), reads="features", replace=True)
        assert baseline_traits("mine").inputs == "table"
    finally:
        unregister_baseline("mine")
    with pytest.raises(UsageError, match=r"has no options \['depth'\]; it has \['batch', 'epochs'"):
        register_torch_module("other", Recurrent, depth=3)
    with pytest.raises(UsageError, match=r"has no options \['seed'\]"):
        register_torch_module("other", Recurrent, seed=3)


class Wrong(Recorder):
    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        return self.bias + events[..., 0]


class Weightless(nn.Module):
    def __init__(self, event_width: int, query_width: int) -> None:
        super().__init__()

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        return queries[..., 0]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (Wrong, r"mine: the module gave \(2, \d+\), not a tensor of shape \(2, \d+\)"),
        (Weightless, "the module has no weights to train"),
        (lambda: nn.Linear(1, 1), r"the factory failed on the widths \[\d+, 5\] \(TypeError"),
        (
            lambda *widths: nn.Linear(*widths),
            r"the module failed on inputs of shapes \[\(2, \d+, \d+\), .*forward",
        ),
        (lambda *widths: 3, r"the factory gave int, not a new torch module.*from the widths \[\d+, 5\]"),
    ],
)
def test_modules_that_are_none(factory: Any, message: str) -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    with pytest.raises(ForecasterError, match=message):
        module(factory).fit(table, np.arange(90))


def test_a_module_made_once_is_refused() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    tokens = table.sequences.tokens_of("A") if table.sequences else None
    assert tokens is not None
    only = Recorder(tokens.events.shape[1], tokens.queries.shape[1])
    with pytest.raises(ForecasterError, match="the same module or the same weights twice"):
        module(lambda *widths: only, epochs=1).fit(table, np.arange(90))
    shared = nn.Linear(5, 1)

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = shared

    with pytest.raises(ForecasterError, match="the same weights twice"):
        module(lambda *widths: Around(), epochs=1).fit(table, np.arange(90))


class Keeps(nn.Module):
    """Adds what it gave last to what it gives."""

    def __init__(self, event_width: int, query_width: int) -> None:
        super().__init__()
        self.line = nn.Linear(query_width, 1)
        self.last = 0.0
        self.scale = 0.5

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        forecasts: Tensor = self.line(queries)[..., 0] + self.scale * self.last
        self.last = float(forecasts.detach().mean())
        return forecasts


def test_what_a_module_keeps_from_a_call_reaches_no_other_forecast() -> None:
    news = news_of("return")
    table = table_of_news(news, cutoff=40 * DAY)
    model = module(Keeps, epochs=2).fit(table, np.arange(60))
    rows = np.arange(60, 120)
    together = model.predict(table, rows)
    alone = np.array([model.predict(table, rows[place : place + 1])[0] for place in range(rows.size)])
    assert np.array_equal(together, alone)
    assert np.array_equal(together[::-1], model.predict(table, rows[::-1]))


def test_the_validation_side_is_asked_of_a_copy() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    train, held, _ = sides(table, 60 * DAY, 10 * DAY)
    one = module(Keeps, epochs=1).fit(table, train, validation=held)
    other = module(Keeps, epochs=1).fit(table, train)
    assert one.module_.last == other.module_.last


class Complex(Keeps):
    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        return super().forward(events, queries, counts) * 1j


def test_complex_numbers_and_modules_that_cannot_be_copied() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    with pytest.raises(ForecasterError, match="complex numbers; give real ones"):
        module(Complex).fit(table, np.arange(90))

    def locked(*widths: int) -> nn.Module:
        made = Keeps(*widths)
        made.lock = threading.Lock()  # type: ignore[assignment]
        return made

    with pytest.raises(ForecasterError, match="mine: the Keeps cannot be copied"):
        module(locked).fit(table, np.arange(90))


def test_a_constant_target_is_forecast_without_training() -> None:
    table = random_market("direction")
    up = np.flatnonzero(table.outcomes == 1.0)[:20]
    model = module(lambda width: nn.Linear(width, 1), reads="features").fit(table, up)
    assert model.predict(table, np.arange(5)).tolist() == [1.0] * 5
    assert model.notes() == {"best epoch": None, "constant training target": 1.0}


@pytest.mark.parametrize(
    "options",
    [
        {"reads": "prices"},
        {"window": 0},
        {"batch": 0},
        {"reads": "features", "window": 4},
        {"reads": "features", "impute": "none"},
        {"seed": -3},
        {"learning_rate": 0.0},
    ],
)
def test_impossible_options(options: dict[str, Any]) -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    with pytest.raises(ForecasterError, match=f"mine: .*{list(options)[-1]}="):
        module(Recurrent, **options).fit(table, np.arange(30))


def test_a_table_without_tokens() -> None:
    with pytest.raises(DataError, match="mine reads the events behind the samples"):
        module(Recurrent).fit(random_market("return"), np.arange(9))
