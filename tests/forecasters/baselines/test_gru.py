from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import DataError, ForecasterError
from quantattn.forecasters.baselines import EventSequences, GruBaseline, MeanBaseline
from quantattn.forecasters.baselines._gru import GruNetwork, forecasts_of

from .news import DAY, News, news_of, sides, table_of_news
from .tables import random_market


def random_network(hidden: int = 5) -> GruNetwork:
    generator = torch.Generator().manual_seed(1)
    network = GruNetwork(3, 2, hidden)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return network.eval()


def test_one_step_by_hand() -> None:
    network = GruNetwork(1, 1, 1)
    values = {
        "gru.weight_ih_l0": [[1.0], [2.0], [3.0]],
        "gru.weight_hh_l0": [[0.5], [0.25], [2.0]],
        "gru.bias_ih_l0": [0.1, 0.2, 0.3],
        "gru.bias_hh_l0": [0.0, 0.0, 1.0],
        "mix.weight": [[2.0, -1.0]],
        "mix.bias": [0.5],
        "head.weight": [[3.0]],
        "head.bias": [0.25],
        "direct.weight": [[10.0]],
    }
    network.load_state_dict({name: torch.tensor(value) for name, value in values.items()})

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    state = 0.0
    expected = [3 * max(0.0, 0.5 + 2 * state - 0.1) + 0.25 + 10 * 0.1]
    for x in (0.4, -0.2):
        reset, update = sigmoid(x + 0.1 + 0.5 * state), sigmoid(2 * x + 0.2 + 0.25 * state)
        new = math.tanh(3 * x + 0.3 + reset * (2 * state + 1.0))
        state = (1 - update) * new + update * state
        expected.append(3 * max(0.0, 0.5 + 2 * state - 0.1) + 0.25 + 10 * 0.1)
    found = forecasts_of(
        network,
        np.array([[0.4], [-0.2]], np.float32),
        np.full((3, 1), 0.1, np.float32),
        np.array([2, 0, 1]),
    )
    np.testing.assert_allclose(found, [expected[2], expected[0], expected[1]], rtol=1e-6)


def test_forecasts_one_by_one_are_those_of_torch() -> None:
    network, draw = random_network(), np.random.default_rng(0)
    events = draw.standard_normal((40, 3)).astype(np.float32)
    queries, counts = draw.standard_normal((9, 2)).astype(np.float32), draw.integers(0, 41, 9)
    whole = network.double()(
        torch.from_numpy(events)[None].double(),
        torch.from_numpy(queries)[None].double(),
        torch.from_numpy(counts)[None],
    )[0]
    found = forecasts_of(network, events, queries, counts)
    np.testing.assert_allclose(found, whole.detach().numpy(), rtol=1e-12)
    for query, count in enumerate(counts.tolist()):
        alone = forecasts_of(network, events[:count], queries[query : query + 1], counts[query : query + 1])
        assert alone.tobytes() == found[query : query + 1].tobytes()


def fitted(news: News, **parameters: Any) -> tuple[GruBaseline, Any, np.ndarray]:
    table = table_of_news(news, cutoff=100 * DAY)
    train, held, test = sides(table, 120 * DAY, 20 * DAY)
    small = {"hidden": 8, "epochs": 40, "batch_entities": 1, "learning_rate": 0.02, "patience": 40}
    model = GruBaseline(**{**small, **parameters}).fit(table, train, validation=held)
    return model, table, test[np.isfinite(table.outcomes[test])]


def gains(drive: float) -> np.ndarray:
    model, table, test = fitted(news_of("return", days=260, drive=drive))
    train, _, _ = sides(table, 120 * DAY, 20 * DAY)
    errors = [
        m.predict(table, test) - table.outcomes[test] for m in (MeanBaseline().fit(table, train), model)
    ]
    return errors[0] ** 2 - errors[1] ** 2


def t_statistic(values: np.ndarray) -> float:
    return float(values.mean() / (values.std(ddof=1) / math.sqrt(values.size)))


def test_it_remembers_what_was_last_said() -> None:
    assert t_statistic(gains(drive=3.0)) > 5


def test_it_learns_nothing_where_there_is_nothing() -> None:
    assert t_statistic(gains(drive=0.0)) < 2


def test_the_best_validation_epoch_is_kept() -> None:
    news = news_of("return", days=160)
    table = table_of_news(news, cutoff=100 * DAY)
    train, held, _ = sides(table, 120 * DAY, 20 * DAY)
    found = []
    for epochs in range(1, 9):
        model = GruBaseline(hidden=4, epochs=epochs, learning_rate=0.3, batch_entities=1, patience=99)
        model.fit(table, train, validation=held)
        found.append(float(np.mean((model.predict(table, held) - table.outcomes[held]) ** 2)))
    # Longer training can only find a better epoch; the loss it is judged by does not rise.
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(found))
    assert model.best_epoch_ == int(np.argmax(np.array(found) <= found[-1] * (1 + 1e-6)))
    last = GruBaseline(hidden=4, epochs=8, learning_rate=0.3, batch_entities=1).fit(table, train)
    assert last.notes() == {"best epoch": 7}


def test_patience_stops() -> None:
    model, _, _ = fitted(news_of("return", days=160, drive=0.0), epochs=500, patience=2, learning_rate=0.1)
    assert model.best_epoch_ < 60


def test_a_constant_target_is_forecast_as_it_is() -> None:
    news = news_of("return")
    constant = News(news.events, news.labels.with_columns(y_true=news.labels["y_true"] * 0 + 0.3), news.kind)
    model, table, _ = fitted(constant)
    assert model.predict(table, np.arange(len(table))).tolist() == [0.3] * len(table)
    assert model.notes() == {"best epoch": None, "constant training target": 0.3}


def test_one_training_row() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    model = GruBaseline(hidden=3, epochs=2).fit(table, np.array([5]))
    assert model.predict(table, np.arange(9)).tolist() == [table.outcomes[5]] * 9
    assert np.isfinite(
        GruBaseline(hidden=3, epochs=2).fit(table, np.array([5, 6])).predict(table, np.arange(9))
    ).all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"hidden": 0},
        {"epochs": 0},
        {"batch_entities": 1.5},
        {"patience": 0},
        {"learning_rate": -1.0},
        {"learning_rate": "x"},
        {"weight_decay": -0.1},
        {"gradient_clip": math.nan},
        {"seed": -1},
    ],
)
def test_impossible_parameters(parameters: dict[str, Any]) -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    with pytest.raises(ForecasterError, match=f"gru: {next(iter(parameters))}="):
        GruBaseline(**parameters).fit(table, np.arange(9))


def test_a_learning_rate_that_diverges() -> None:
    with pytest.raises(ForecasterError, match=r"loss became (nan|inf) in epoch \d+; lower learning_rate"):
        fitted(news_of("return"), learning_rate=1e30)


def test_a_table_without_tokens() -> None:
    with pytest.raises(DataError, match="gru reads the events behind the samples"):
        GruBaseline().fit(random_market(), np.arange(9))
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    assert table.sequences is not None
    bare = replace(table, sequences=EventSequences(table.sequences.entities, table.sequences.features))
    with pytest.raises(DataError, match=r"gru reads the fold's tokens.*with_tokens\(encode"):
        GruBaseline().fit(bare, np.arange(9))


def test_validation_rows_may_not_train() -> None:
    table = table_of_news(news_of("return"), cutoff=50 * DAY)
    with pytest.raises(DataError, match=r"gru: validation holds \[7, 8\], which are training rows"):
        GruBaseline().fit(table, np.arange(9), validation=np.array([7, 8, 9]))
    unknown = np.flatnonzero(
        ~np.isfinite(table_of_news(news_of("return"), cutoff=50 * DAY, until=80 * DAY).outcomes)
    )
    short = table_of_news(news_of("return"), cutoff=50 * DAY, until=80 * DAY)
    with pytest.raises(DataError, match="known labels only"):
        GruBaseline(epochs=1).fit(short, np.arange(9), validation=unknown)
