"""No baseline that reads events may be moved by anything that came later, not by one bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from quantattn.forecasters.baselines import (
    BASELINES,
    BaselineForecaster,
    SampleTable,
    TargetKind,
    baseline_traits,
    register_torch_module,
    unregister_baseline,
)
from quantattn.pit.timestamps import instants

from .news import DAY, KNOWN_AFTER, News, news_of, sides, table_of_news
from .small import made

FIRST_TEST, VALIDATION = 60 * DAY, 15 * DAY
NAMES = ["events_ridge", "events_logistic", "gru", "softmax_window", "looks_ahead", "looks_ahead_in_window"]


class LooksAhead(nn.Module):
    """Reads the mean of all events that it is given, whether or not the query may read them."""

    def __init__(self, event_width: int, query_width: int) -> None:
        super().__init__()
        self.line = nn.Linear(event_width + query_width, 1)

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        everything = events.mean(1, keepdim=True).expand(-1, queries.shape[1], -1)
        forecasts: Tensor = self.line(torch.cat([everything, queries], -1))
        return forecasts


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    register_torch_module("looks_ahead", LooksAhead, epochs=2)
    register_torch_module("looks_ahead_in_window", LooksAhead, epochs=2, window=5, batch=16)
    yield
    unregister_baseline("looks_ahead")
    unregister_baseline("looks_ahead_in_window")


def kind_for(name: str) -> TargetKind:
    return "direction" if name == "events_logistic" else "return"


def fitted(name: str, table: SampleTable) -> BaselineForecaster:
    train, held, _ = sides(table, FIRST_TEST, VALIDATION)
    return made(name).fit(table, train, validation=held)


def table(news: News, until: int | None = None) -> SampleTable:
    return table_of_news(news, cutoff=FIRST_TEST - VALIDATION, until=until)


def test_the_names_are_all_that_read_events() -> None:
    assert {name for name in BASELINES if baseline_traits(name).inputs != "table"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_later_values_change_no_bit(name: str) -> None:
    news = news_of(kind_for(name))
    whole = table(news)
    clean = fitted(name, whole)
    for now in (FIRST_TEST, 70 * DAY, 89 * DAY):
        rows = np.flatnonzero((whole.forecast_times <= now) & (whole.forecast_times >= FIRST_TEST))
        assert (whole.forecast_times[rows] == now).any()
        other = table(news.changed_from(now))
        assert fitted(name, other).predict(other, rows).tobytes() == clean.predict(whole, rows).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_data_cut_at_the_forecast_change_no_bit(name: str) -> None:
    news = news_of(kind_for(name))
    whole = table(news)
    clean = fitted(name, whole)
    for now in (63 * DAY, 80 * DAY):
        short = table(news, until=now)
        assert len(short) < len(whole)
        rows = np.arange(len(short))
        assert fitted(name, short).predict(short, rows).tobytes() == clean.predict(whole, rows).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_forecast_independently(name: str) -> None:
    whole = table(news_of(kind_for(name)))
    model = fitted(name, whole)
    rows = np.arange(90, len(whole))
    forecasts = model.predict(whole, rows)
    assert model.predict(whole, rows[::-1]).tobytes() == forecasts[::-1].tobytes()
    assert model.predict(whole, rows[7:8]).tobytes() == forecasts[7:8].tobytes()
    assert model.predict(whole, rows[[3, 3]]).tolist() == [forecasts[3]] * 2
    assert model.predict(whole, rows[:0]).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_an_event_before_the_forecast_does_change_it(name: str) -> None:
    # The control: one nanosecond earlier, the same change is seen.
    news = news_of(kind_for(name))
    whole, other = table(news), table(news.changed_from(70 * DAY))
    row = np.flatnonzero(whole.forecast_times > 70 * DAY)[:1]
    model = fitted(name, whole)
    assert model.predict(other, row) != model.predict(whole, row)


@pytest.mark.parametrize("name", NAMES)
def test_a_label_known_at_the_fit_does_change_it(name: str) -> None:
    news = news_of(kind_for(name))
    whole = table(news)
    train, _, test = sides(whole, FIRST_TEST, VALIDATION)
    assert (whole.label_times[train] == FIRST_TEST - VALIDATION - DAY).any()
    last = news.labels["label_available_at"] == instants([FIRST_TEST - VALIDATION - DAY]).item()
    labels = news.labels.with_columns(y_true=(news.labels["y_true"] * (1.0 - 2.0 * last.cast(float))))
    other = table(News(news.events, labels, news.kind))
    assert (fitted(name, other).predict(other, test) != fitted(name, whole).predict(whole, test)).any()
    assert KNOWN_AFTER * DAY < VALIDATION


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name: str) -> None:
    whole = table(news_of(kind_for(name)))
    train, held, test = sides(whole, FIRST_TEST, VALIDATION)
    state = torch.random.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    forecasts = [
        made(name, seed).fit(whole, train, validation=held).predict(whole, test) for seed in (3, 3, 4)
    ]
    assert forecasts[0].tobytes() == forecasts[1].tobytes()
    assert (forecasts[0].tobytes() != forecasts[2].tobytes()) == baseline_traits(name).stochastic
    assert torch.equal(torch.random.get_rng_state(), state[0])
    assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002


@pytest.mark.parametrize("name", ["softmax_window", "gru", "events_ridge"])
def test_the_order_of_the_rows_changes_no_bit(name: str) -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    train, held, test = sides(table, 60 * DAY, 10 * DAY)
    one = made(name).fit(table, train, validation=held)
    other = made(name).fit(table, train[::-1], validation=held[::-1])
    assert np.array_equal(one.predict(table, test), other.predict(table, test))
