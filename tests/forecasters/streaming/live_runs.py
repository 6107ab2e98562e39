"""Random events and forecasts in the order in which a live caller would send them, and how to run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch

from quantattn.forecasters import AttentionNetwork, FittedForecaster, NetworkConfig, TargetScale, fit_encoders
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.forecaster import StreamingForecaster
from quantattn.forecasters.streaming.snapshots.snapshot import snapshot_of
from tests.forecasters.sequences import small_config
from tests.forecasters.test_history import history
from tests.pit.build import at

Step = Event | tuple[str, int]
"""An event, or an entity to forecast and when."""

ENTITIES = ("A", "B", "C", "Zürich")
WORDS = ("up again", "down", "", None, "très bien", "no news is good news")


def fitted_forecaster(
    attention: Attention = "linear",
    *,
    seed: int = 3,
    scope: Any = "entity+market",
    text_width: int = 4,
    **sizes: Any,
) -> FittedForecaster:
    """A forecaster whose weights are random, with encoders fitted on a handful of events."""
    encoders = replace(
        fit_encoders(history(text_width=text_width), at(40), text_width=text_width), scope=scope
    )
    config: NetworkConfig = small_config(attention, **sizes)
    network = AttentionNetwork(config, encoders.events.width_ + 1, 2 + 3).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(0.7 * torch.randn(weight.shape, generator=generator))
    return FittedForecaster(network, encoders, TargetScale(0.5, 2.0), (-0.7, 0.4), at(40) - 1, seed)


def random_steps(count: int, *, seed: int = 0, disorder: bool = False) -> list[Step]:
    """Events with ties, revisions, withdrawn figures and market-wide ones, and forecasts between them.

    With `disorder`, some events come long after the forecasts that should have seen them.
    """
    generator = np.random.default_rng(seed)
    steps: list[Step] = []
    ids: list[tuple[str, str | None, int, int]] = []
    now = at(100)
    events: list[Event] = []
    for number in range(count):
        # Late events move by some nanoseconds, which must not bring them to the next forecast.
        now += int(generator.choice([0, 10**9, 3600 * 10**9] if disorder else [0, 1, 10**9, 3600 * 10**9]))
        entity = None if generator.random() < 0.25 else str(generator.choice(ENTITIES))
        if ids and generator.random() < 0.2:
            place = int(generator.integers(len(ids)))
            event_id, entity, revision, happened = ids[place]
            ids[place] = (event_id, entity, revision + 1, happened)
            revision += 1
        else:
            event_id, revision, happened = f"e{number}", 0, now - int(generator.integers(0, 5)) * 10**9
            ids.append((event_id, entity, 0, happened))
        features = {
            name: float(generator.standard_normal()) for name in ("x", "y") if generator.random() < 0.6
        }
        kind = str(generator.choice(["news", "bar", "never seen"]))
        text = WORDS[generator.integers(len(WORDS))]
        events.append(Event(event_id, now, happened, entity, kind, revision, text, features))
    events.sort(key=lambda event: event.key)
    moved = set(generator.choice(count, count // 6, replace=False).tolist()) if disorder else set()
    held: list[Event] = []
    for place, event in enumerate(events):
        if place in moved and event.revision == 0:
            held.append(event)
        else:
            steps.append(event)
        if held and generator.random() < 0.3:
            steps.append(held.pop(0))
        later = events[place + 1].available_at if place + 1 < count else event.available_at + 10**9
        if later > event.available_at:
            for entity in generator.choice([*ENTITIES, "nobody"], generator.integers(0, 3), replace=False):
                soonest = event.available_at + (10**6 if disorder else 0)
                steps.append((str(entity), int(generator.integers(soonest, later)) + 1))
    return [*steps, *held]


def told(made: Any) -> tuple[Any, ...]:
    """Everything that a forecast says, but for the time that it took."""
    return (
        made.entity, made.forecast_time, made.y_pred, made.y_lower, made.y_upper, dict(made.extra),
        made.n_visible, made.max_available_at, made.info_hash, made.flag,
    )  # fmt: skip


def run(forecaster: StreamingForecaster, steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """Send the steps through; give the forecasts."""
    made = []
    for step in steps:
        if isinstance(step, Event):
            forecaster.update(step)
        else:
            made.append(told(forecaster.forecast(*step)))
    return made


def state(forecaster: StreamingForecaster) -> tuple[Any, ...]:
    """All that a forecaster remembers, to the bit."""
    arrays, meta = snapshot_of(forecaster)
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}, meta


def log_of(events: Sequence[Event], features: Sequence[str] = ("x", "y")) -> pl.DataFrame:
    """The events as a frame with the columns of an event log, in canonical order."""
    ordered = sorted(events, key=lambda event: event.key)
    times = {
        name: pl.Series(name, [getattr(event, name) for event in ordered], pl.Int64)
        .cast(pl.Datetime("ns"))
        .dt.replace_time_zone("UTC")
        for name in ("event_time", "available_at")
    }
    return pl.DataFrame(
        [
            pl.Series("event_id", [event.event_id for event in ordered], pl.String),
            pl.Series("revision", [event.revision for event in ordered], pl.Int32),
            pl.Series("entity", [event.entity for event in ordered], pl.String),
            *times.values(),
            pl.Series("kind", [event.kind for event in ordered], pl.String),
            pl.Series("text", [event.text for event in ordered], pl.String),
            *(
                pl.Series(name, [event.features.get(name) for event in ordered], pl.Float64)
                for name in features
            ),
        ]
    )
