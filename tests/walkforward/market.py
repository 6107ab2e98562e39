"""A small market from prices to folds, and the settings of a study on it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from quantattn.forecasters import History, NetworkConfig, TrainingConfig, read_history
from quantattn.forecasters.baselines import SampleTable
from quantattn.pit import ForecastClock, PointInTimeDataset, market_events, realised_variance
from quantattn.walkforward import Fold, WalkForward
from quantattn.walkforward.settings import FoldSettings

from ..pit.build import price_history, random_closes

ENTITIES = ("AAA", "BBB", "CCC")
TEXT_WIDTH = 4


@dataclass(frozen=True)
class Market:
    """What the engine gets."""

    dataset: PointInTimeDataset
    history: History
    table: SampleTable
    folds: list[Fold]


def table_of(dataset: PointInTimeDataset, history: History) -> SampleTable:
    bars = dataset.events.frame.filter(pl.col("kind") == "bar")
    return SampleTable(
        history.samples,
        history.as_of,
        bars.select("entity", "available_at", "log_return"),
        "variance",
        5,
        True,
    )


@lru_cache
def market(*, validation: bool = True) -> Market:
    """Three entities, 160 sessions, a forecast a week; three folds of four weeks."""
    closes = {name: random_closes(number, 160) for number, name in enumerate(ENTITIES)}
    prices = price_history(closes, start="2019-01-02")
    events = market_events(
        prices, bar_windows=(5, 22), volatility_window=10, extreme_window=40, regime_window=40
    )
    clock = ForecastClock.sessions(
        "XNYS",
        start=dt.date(2019, 3, 1),
        end=dt.date(2019, 8, 20),
        every="week",
        at="close",
        offset="-15min",
    )
    dataset = PointInTimeDataset(events, clock, realised_variance(prices, clock, horizon=5))
    history = read_history(dataset, TEXT_WIDTH)
    split = WalkForward(12, 4, expand_train=True, val_size=3 if validation else None, reduce_test=True)
    return Market(dataset, history, table_of(dataset, history), split.split(dataset.samples))


def settings_of(**options: Any) -> FoldSettings:
    sizes: dict[str, Any] = {
        "width": 8,
        "heads": 2,
        "layers": 2,
        "feed_forward": 8,
        "half_lives": (7.0, None),
    }
    given: dict[str, Any] = {
        "study": "small",
        "models": ("linear", "softmax", "mean", "har"),
        "seeds": (0, 1),
        "networks": {
            "linear": NetworkConfig(attention="linear", **sizes),
            "softmax": NetworkConfig(attention="softmax", **sizes),
        },
        "training": TrainingConfig(epochs=2, batch_entities=2, learning_rate=0.01),
        "text_width": TEXT_WIDTH,
        "threads": 1,
    }
    return FoldSettings(**{**given, **options})


class Watched:
    """Counts the steps that the engine reports."""

    def __init__(self) -> None:
        self.steps = 0
        self.notes: list[str] = []

    def advance(self, n: int = 1) -> None:
        assert n >= 0
        self.steps += n

    def note(self, text: str) -> None:
        self.notes.append(text)
