"""Markets whose answer is known: events, forecasts between them, and targets that follow a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from quantattn.forecasters.estimators import LinearAttentionForecaster, SoftmaxAttentionForecaster
from quantattn.pit import Labels, PointInTimeDataset

from ...pit.build import clock, event_log, times

HOUR = 3600
Rule = Callable[[np.random.Generator, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From a generator, the feature x of the events and how many each forecast sees: the targets, and y."""

SMALL: dict[str, Any] = {
    "hidden": 16,
    "heads": 2,
    "half_lives": (0.5, None),
    "text_width": 0,
    "batch_entities": 2,
    "learning_rate": 0.01,
}


@dataclass(frozen=True)
class Known:
    """A market and the sides of one fold: three fifths, a fifth, a fifth of the forecast times."""

    dataset: PointInTimeDataset
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    y_true: np.ndarray


def labels_of(rows: list[tuple[str, int, float]], kind: str = "return", known_after: int = 1800) -> Labels:
    """Targets of (entity, second of the forecast, value), known half an hour later."""
    rows = sorted(rows, key=lambda row: (row[1], row[0]))
    made = [row[1] for row in rows]
    frame = pl.DataFrame(
        {
            "entity": pl.Series([row[0] for row in rows], dtype=pl.String),
            "forecast_time": times(made),
            "horizon": pl.Series([1] * len(rows), dtype=pl.Int32),
            "y_true": pl.Series([row[2] for row in rows], dtype=pl.Float64),
            "label_start_time": times(second + 1 for second in made),
            "label_end_time": times(second + known_after for second in made),
            "label_available_at": times(second + known_after for second in made),
        }
    )
    dropped = pl.DataFrame(
        schema={"entity": pl.String, "forecast_time": pl.Datetime("ns", "UTC"), "reason": pl.String}
    )
    names = tuple(sorted({row[0] for row in rows}))
    return Labels(frame, dropped, "target", 1, kind, names)  # type: ignore[arg-type]


def market(
    rule: Rule, *, entities: int = 4, events: int = 400, every: int = 2, first: int = 2, seed: int = 0
) -> Known:
    """Events an hour apart; a forecast a second after every so many of them."""
    rows: list[dict[str, Any]] = []
    targets: list[tuple[str, int, float]] = []
    for number in range(entities):
        generator = np.random.default_rng(100 * seed + number)
        x = generator.standard_normal(events)
        counts = np.arange(first, events + 1, every)
        y_true, y = rule(generator, x, counts)
        name = f"E{number}"
        rows += [
            {"event_id": f"{name}-{k}", "entity": name, "available": k * HOUR, "x": x[k], "y": y[k]}
            for k in range(events)
        ]
        targets += [
            (name, (count - 1) * HOUR + 1, float(value)) for count, value in zip(counts, y_true, strict=True)
        ]
    rows.sort(key=lambda row: (row["available"], row["event_id"]))
    dataset = PointInTimeDataset(event_log(rows), clock(row[1] for row in targets), labels_of(targets))
    samples = dataset.samples
    forecast_times = samples["forecast_time"].to_physical().to_numpy()
    ends = np.quantile(np.unique(forecast_times), [0.6, 0.8])
    known = samples["label_available_at"].to_physical().to_numpy()
    side = np.searchsorted(ends, forecast_times)
    starts = [forecast_times[side == number].min() for number in (1, 2)]
    train, validation = (
        np.flatnonzero((side == number) & (known < starts[number])).astype(np.int64) for number in (0, 1)
    )
    return Known(
        dataset, train, validation, np.flatnonzero(side == 2).astype(np.int64), samples["y_true"].to_numpy()
    )


def last(x: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The feature of the last event that each forecast sees."""
    return x[counts - 1]


def follows_the_last_event(noise: float) -> Rule:
    """Target: the last event's x, plus noise."""

    def rule(generator: np.random.Generator, x: np.ndarray, counts: np.ndarray) -> Any:
        return last(x, counts) + noise * generator.standard_normal(len(counts)), np.zeros(len(x))

    return rule


def fitted(
    market: Known, *, twin: type[Any] = LinearAttentionForecaster, **options: Any
) -> LinearAttentionForecaster | SoftmaxAttentionForecaster:
    """A small forecaster, fitted on the market's sides."""
    forecaster = twin(**{**SMALL, **options})
    return forecaster.fit(market.dataset, market.train, validation=market.validation)
