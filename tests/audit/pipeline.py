"""A small pipeline from prices to forecasts, each of whose parts a test can replace by a leaking one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from quantattn.audit import TruncationInputs
from quantattn.files import canonical_json
from quantattn.forecasters import (
    FittedForecaster,
    History,
    NetworkConfig,
    TrainingConfig,
    read_history,
)
from quantattn.forecasters.baselines import SampleTable
from quantattn.pit import (
    EventLog,
    ForecastClock,
    Labels,
    PointInTimeDataset,
    PriceHistory,
    TradingCalendar,
    market_events,
    realised_variance,
)
from quantattn.pit.timestamps import instants, is_visible, nanoseconds_of
from quantattn.walkforward import Fold, WalkForward
from quantattn.walkforward.engines import run_folds
from quantattn.walkforward.networks import fold_tokens
from quantattn.walkforward.planning import plan_units
from quantattn.walkforward.settings import NETWORKS, FoldSettings

ENTITIES = ("AAA", "BBB", "CCC")
START, END = date(2020, 1, 2), date(2020, 8, 31)
TEXT_WIDTH = 4
SPLIT = WalkForward(train_size=70, val_size=12, test_size=45, reduce_test=True)


def random_prices(entities: tuple[str, ...] = ENTITIES, *, seed: int = 5) -> PriceHistory:
    """Make daily bars whose volatility comes and goes."""
    sessions = TradingCalendar("XNYS").sessions(START, END)["session"]
    rng = np.random.default_rng(seed)
    frames = []
    for place, entity in enumerate(entities):
        volatility = 0.01 * np.exp(0.8 * np.sin(np.arange(len(sessions)) / (9 + place)))
        close = 50 * np.exp(np.cumsum(rng.normal(size=len(sessions)) * volatility))
        frames.append(pl.DataFrame({"entity": entity, "session": sessions, "close": close}))
    return PriceHistory.from_frame(pl.concat(frames))


def small_market_events(prices: PriceHistory) -> EventLog:
    """Market events with windows that a few months can fill."""
    return market_events(
        prices, bar_windows=(5, 22), k=2.0, volatility_window=5, extreme_window=10, regime_window=10
    )


def events_with_index(prices: PriceHistory) -> EventLog:
    """The same with market-wide events, from an index whose bars are known when those of the prices are."""
    index = random_prices(("INDEX",), seed=9)
    known = int(nanoseconds_of(prices.frame["available_at"]).max()) if prices.frame.height else 0
    return market_events(
        prices,
        index=index.cut(known + 1),
        bar_windows=(5, 22),
        k=2.0,
        volatility_window=5,
        extreme_window=10,
        regime_window=10,
    )


def log_variance(prices: PriceHistory, clock: ForecastClock) -> Labels:
    return realised_variance(prices, clock, horizon=3)


def session_clock(offset: str = "-15min") -> ForecastClock:
    return ForecastClock.sessions(start=START, end=END, offset=offset)


class Silence:
    """A watcher that shows nothing."""

    def advance(self, n: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Pipeline:
    """The parts of a study; the defaults are honest."""

    prices: PriceHistory
    clock: ForecastClock = field(default_factory=session_clock)
    events: Callable[[PriceHistory], EventLog] = small_market_events
    labels: Callable[[PriceHistory, ForecastClock], Labels] = log_variance
    split: WalkForward = SPLIT
    models: tuple[str, ...] = ("linear", "softmax", "mean", "har")
    seeds: tuple[int, ...] = (0,)
    scope: Any = "entity+market"

    def dataset(self) -> PointInTimeDataset:
        return PointInTimeDataset(
            self.events(self.prices), self.clock, self.labels(self.prices, self.clock), scope=self.scope
        )

    def rebuild(self, moment: int, whole: PointInTimeDataset) -> PointInTimeDataset:
        """Do all of it again from the bars known strictly before an instant."""
        prices, shell = self.prices.cut(moment), whole.cut(moment)
        known = self.labels(prices, shell.clock).frame
        late = ~is_visible(pl.col("label_available_at"), pl.lit(instants([moment])).first())
        frame = pl.concat([known, shell.labels.frame.filter(late)]).sort("forecast_time", "entity")
        return PointInTimeDataset(
            self.events(prices),
            shell.clock,
            replace(shell.labels, frame=frame),
            scope=self.scope,
            check=False,
        )

    def settings(self) -> FoldSettings:
        sizes: dict[str, Any] = {
            "width": 4,
            "heads": 1,
            "layers": 1,
            "feed_forward": 4,
            "half_lives": (30.0,),
        }
        return FoldSettings(
            study="small",
            models=self.models,
            seeds=self.seeds,
            networks={name: NetworkConfig(attention=name, **sizes) for name in ("linear", "softmax")},
            training=TrainingConfig(epochs=2),
            text_width=TEXT_WIDTH,
            threads=1,
        )


@dataclass(frozen=True)
class Ran:
    """A pipeline that ran, with everything that the checks look at."""

    pipeline: Pipeline
    dataset: PointInTimeDataset
    history: History
    table: SampleTable
    folds: list[Fold]
    forecasts: pl.DataFrame
    forecasters: dict[tuple[int, str, int], FittedForecaster]

    def inputs(self, **changes: Any) -> TruncationInputs:
        settings = self.pipeline.settings()
        inputs = TruncationInputs(
            forecasts=self.forecasts,
            history=self.history,
            table=self.table,
            folds=self.folds,
            forecasters=self.forecasters,
            baselines=[model for model in settings.models if model not in NETWORKS],
            rebuild=lambda moment: self.pipeline.rebuild(moment, self.dataset),
            text_width=TEXT_WIDTH,
            training=settings.training,
            threads=settings.threads,
        )
        return replace(inputs, **changes)

    def tokens(self) -> dict[int, Any]:
        return {
            fold.index: {
                sequence.entity: sequence
                for sequence in fold_tokens(self.history, fold, TEXT_WIDTH).side(fold.test)
            }
            for fold in self.folds
        }


def run(pipeline: Pipeline, folder: Path, *, folds: Callable[[list[Fold]], list[Fold]] = list) -> Ran:
    """Run a pipeline into a folder; `folds` may tamper with the folds first."""
    dataset, settings = pipeline.dataset(), pipeline.settings()
    history = read_history(dataset, TEXT_WIDTH)
    bars = dataset.events.frame.filter(pl.col("kind") == "bar")
    table = SampleTable(
        dataset.samples,
        history.as_of,
        bars.select("entity", "available_at", "log_return"),
        "variance",
        3,
        True,
    )
    split = folds(pipeline.split.split(dataset.samples))
    outcome = run_folds(history, table, split, settings, run=folder, source="test", watcher=Silence())
    units = [unit for unit in plan_units(split, settings) if unit.model in NETWORKS]
    forecasters = {
        (unit.fold, unit.model, unit.seed): FittedForecaster.load(unit.folder(folder)) for unit in units
    }
    return Ran(pipeline, dataset, history, table, split, outcome.forecasts, forecasters)


def assert_sound(check: Any) -> None:
    """Hold a result against what the report needs: finite JSON, shares from 0 to 1, one sentence."""
    text = canonical_json(check.to_dict())  # refuses NaN, infinities and what JSON does not know
    assert text
    assert all(0.0 <= share <= 1.0 for share in check.coverage.values()), check.coverage
    assert check.summary.endswith("."), check.summary
    assert check.title.endswith("?"), check.title
