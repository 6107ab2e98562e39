"""A small market with news: from event rows to a sample table with the events behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from quantattn.forecasters import encode, fit_encoders, read_history
from quantattn.forecasters.baselines import EventSequences, SampleTable, TargetKind
from quantattn.pit import TIME, EventLog, ForecastClock, Labels, PointInTimeDataset
from quantattn.pit.timestamps import instants

DAY = 86_400_000_000_000
FEATURES = ("log_return", "tone")
KNOWN_AFTER = 3  # days until a label is known


@dataclass(frozen=True)
class News:
    """Rows of events and of labels; times in nanoseconds."""

    events: pl.DataFrame
    labels: pl.DataFrame
    kind: TargetKind

    def changed_from(self, now: int) -> News:
        """Everything that becomes known at `now` or later is another."""
        later = pl.col("available_at") >= instants([now]).first()
        events = self.events.with_columns(
            pl.when(later).then(pl.lit("utter ruin")).otherwise("text").alias("text"),
            pl.when(later).then(pl.lit(0.7)).otherwise("log_return").alias("log_return"),
            pl.when(later).then(pl.lit(-9.0)).otherwise("tone").alias("tone"),
        )
        unknown = pl.col("label_available_at") >= instants([now]).first()
        other = -pl.col("y_true") if self.kind == "direction" else pl.col("y_true") + 5
        labels = self.labels.with_columns(pl.when(unknown).then(other).otherwise("y_true").alias("y_true"))
        assert not events.equals(self.events)
        assert not labels.equals(self.labels)
        return replace(self, events=events, labels=labels)


def news_of(
    kind: TargetKind = "direction", *, seed: int = 0, days: int = 90, drive: float = 3.0, noise: float = 1.0
) -> News:
    """Two entities with a bar and now and then a headline; what was last said decides the target.

    Forecasts, bars and some of the news fall on the same instants. Entity B starts late.
    """
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    mood = {"A": 0.0, "B": 0.0}
    for day in range(days):
        for number, entity in enumerate("AB"):
            if entity == "B" and day < 12:
                continue
            made = mood[entity]  # before today's events
            score = drive * made + noise * draw.standard_normal()
            y = float(np.sign(score)) if kind == "direction" else float(score)
            labels.append({"entity": entity, "day": day, "y_true": y})
            rows.append(
                {"entity": entity, "at": day, "kind": "bar", "log_return": 0.01 * draw.standard_normal()}
            )
            if draw.random() < 0.5:
                good = draw.random() < 0.5
                word = "profit rises" if good else "profit warning"
                rows.append({"entity": entity, "at": day + 0.25 * number, "kind": "headline", "text": word})
                mood[entity] = 1.0 if good else -1.0
        if day % 7 == 3:
            rows.append(
                {"entity": None, "at": day + 0.5, "kind": "macro", "text": "rates steady", "tone": 0.1 * day}
            )
    return News(_events(rows), _labels(labels), kind)


def _events(rows: list[dict[str, Any]]) -> pl.DataFrame:
    full = [{"text": None, "log_return": None, "tone": None, **row} for row in rows]
    at = instants([int(row["at"] * DAY) for row in full], "available_at")
    frame = pl.DataFrame(
        {
            "event_id": [f"e{number:05d}" for number in range(len(full))],
            "revision": pl.zeros(len(full), dtype=pl.Int32, eager=True),
            "entity": pl.Series([row["entity"] for row in full], dtype=pl.String),
            "event_time": at,
            "available_at": at,
            "kind": [row["kind"] for row in full],
            "text": pl.Series([row["text"] for row in full], dtype=pl.String),
            **{name: pl.Series([row[name] for row in full], dtype=pl.Float64) for name in FEATURES},
        }
    )
    return frame.sort("available_at", "event_time", "event_id", "revision")


def _labels(rows: list[dict[str, Any]]) -> pl.DataFrame:
    made = [row["day"] * DAY for row in rows]
    return pl.DataFrame(
        {
            "entity": [row["entity"] for row in rows],
            "forecast_time": instants(made),
            "horizon": pl.Series([1] * len(rows), dtype=pl.Int32),
            "y_true": [row["y_true"] for row in rows],
            "label_start_time": instants([at + 1 for at in made]),
            "label_end_time": instants([at + KNOWN_AFTER * DAY for at in made]),
            "label_available_at": instants([at + KNOWN_AFTER * DAY for at in made]),
        }
    ).sort("forecast_time", "entity")


def table_of_news(news: News, *, cutoff: int, until: int | None = None) -> SampleTable:
    """The sample table, with tokens of encoders fitted before `cutoff`; of what is known `until` a time."""
    frame = news.labels
    labels = Labels(frame, _nothing_dropped(), "test", 1, news.kind, ("A", "B"))
    log = EventLog.from_valid(news.events, FEATURES)
    dataset = PointInTimeDataset(log, ForecastClock(frame["forecast_time"].unique().sort()), labels)
    if until is not None:
        dataset = dataset.cut(until)
    history = read_history(dataset, 4)
    # A feature that no event has any more is null throughout, as in the audit.
    encoders = fit_encoders(history, cutoff, text_width=4)
    samples = dataset.samples
    if until is not None:
        known = pl.col("label_available_at") < instants([until]).first()
        samples = samples.with_columns(
            pl.when(known).then("y_true").alias("y_true"),
            pl.when(known).then("label_available_at").alias("label_available_at"),
        )
    bars = dataset.events.frame.filter(pl.col("kind") == "bar")
    return SampleTable(
        samples,
        dataset.as_of_features(),
        bars.select("entity", "available_at", "log_return"),
        news.kind,
        1,
        sequences=EventSequences.of(history).with_tokens(encode(history, encoders), encoders),
    )


def _nothing_dropped() -> pl.DataFrame:
    return pl.DataFrame(schema={"entity": pl.String, "forecast_time": TIME, "reason": pl.String})


def sides(
    table: SampleTable, first_test: int, validation: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test rows: purged by the time at which labels are known."""
    test = np.flatnonzero(table.forecast_times >= first_test)
    start = first_test - validation
    held = np.flatnonzero(
        (table.forecast_times >= start)
        & (table.forecast_times < first_test)
        & (table.label_times < first_test)
    )
    return np.flatnonzero(table.label_times < start), held, test
