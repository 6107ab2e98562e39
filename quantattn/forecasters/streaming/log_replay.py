"""A log of events sent through a streaming forecaster in order, with forecasts by a clock, timed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from quantattn.errors import ClockError, TimestampError, UsageError
from quantattn.forecasters.streaming._asking import refuse_other_text
from quantattn.forecasters.streaming._verifying import refuse_another_log
from quantattn.forecasters.streaming.events._tables import table_of_events
from quantattn.forecasters.streaming.events.event import (
    Moment,
    events_of,
    instant,
    named_entities,
    near_instant,
)
from quantattn.forecasters.streaming.forecasts import Forecast, table_of
from quantattn.pit import EventLog, ForecastClock
from quantattn.pit.events.schema import in_canonical_order
from quantattn.pit.timestamps import iso, nanoseconds_of, visible_counts

if TYPE_CHECKING:
    from quantattn.forecasters.streaming.forecaster import StreamingForecaster
    from quantattn.forecasters.tokens import Floats

Clock = ForecastClock | pl.DataFrame | Iterable[Moment]

_TIMED = 512
"""So many of the events before the first forecast, at least, are written one by one and timed."""


def replay_log(
    forecaster: StreamingForecaster,
    log: EventLog | pl.DataFrame,
    clock: Clock,
    *,
    entities: Sequence[str] | None,
    since: Moment | None,
    until: Moment | None,
    text: Floats | None = None,
) -> pl.DataFrame:
    """Replay a log: :meth:`StreamingForecaster.replay`."""
    if not isinstance(log, EventLog | pl.DataFrame):
        raise UsageError(f"log is a {type(log).__name__}; give an EventLog, or a frame of its columns")
    forecaster._refuse_broken()
    table = table_of_events(log, forecaster.coder.features)
    refuse_other_text(text, table.height, forecaster.coder.text_width, "the log")
    everyone = None if entities is None else named_entities(entities, "entities")
    if everyone is None:
        known = {
            *table["entity"].drop_nulls().unique().to_list(),
            *forecaster.entities,
            *forecaster.ledger.promised,
        }
        everyone = sorted(known)
    table, text = _ordered(*forecaster._in_scope(table, text))
    passed = forecaster.ledger.behind(table)
    refuse_another_log(
        table.filter(pl.Series(passed, dtype=pl.Boolean)),
        forecaster.coder.features,
        forecaster.ledger,
        forecaster.information,
    )
    left = ~passed
    end = None if until is None else instant(until, "until")
    if end is not None:
        left &= np.arange(table.height) < visible_counts(_times(table), np.array([end]))[0]
    table, text = table.filter(pl.Series(left, dtype=pl.Boolean)), None if text is None else text[left]
    due = _due(clock, everyone, named=entities is not None)
    first = -math.inf if since is None else instant(since, "since")
    promised = forecaster.ledger.promised
    due = [
        (at, entity)
        for at, entity in due
        if first <= at and (end is None or at <= end) and (entity not in promised or at > promised[entity])
    ]
    return _Replay(forecaster, table, text).run(due)


class _Replay:
    """One replay: how far the log has been sent, and what the updates took."""

    def __init__(self, forecaster: StreamingForecaster, table: pl.DataFrame, text: Floats | None) -> None:
        self._forecaster, self._table, self._text = forecaster, table, text
        self._sent = 0
        self._market = np.zeros(2)  # microseconds and events
        self._own: dict[str, np.ndarray] = {}
        self._told: dict[str, np.ndarray] = {}

    def run(self, due: Sequence[tuple[int, str]]) -> pl.DataFrame:
        """Make the forecasts that are due, by time, with all events before each; then send the rest."""
        times = sorted({at for at, _ in due})
        stops = visible_counts(_times(self._table), np.array(times, np.int64)).tolist()
        made: list[Forecast] = []
        updates: list[float] = []
        if times:
            kept = max(_TIMED, 4 * len({entity for _, entity in due}))
            self._send_at_once(stops[0] - kept)
        for (at, wanted), stop in zip(groupby(due, key=lambda pair: pair[0]), stops, strict=True):
            self._send(stop)
            for _, entity in wanted:
                made.append(self._forecast(entity, at))
                updates.append(self._mean(entity))
        self._send_at_once(self._table.height)
        return table_of(made, self._forecaster.fitted.reads, updates)

    def _forecast(self, entity: str, at: int) -> Forecast:
        try:
            return self._forecaster.forecast(entity, at)
        except ClockError as error:
            raise ClockError(
                f"{error}; or begin the replay later, with since= after {iso(self._forecaster.as_of or at)}"
            ) from error

    def _send_at_once(self, stop: int) -> None:
        if stop > self._sent:
            part = slice(self._sent, stop)
            self._forecaster.update_many(
                self._table[part], text=None if self._text is None else self._text[part]
            )
            self._sent = stop

    def _send(self, stop: int) -> None:
        """Send events one by one, each as a live caller would."""
        clock = time.perf_counter
        for event in events_of(self._table[self._sent : stop], self._forecaster.coder.features):
            began = clock()
            self._forecaster.update(event)
            took = (clock() - began) * 1e6
            spent = self._market if event.entity is None else self._own.get(event.entity)
            if spent is None:
                assert event.entity is not None
                spent = self._own[event.entity] = np.zeros(2)
            spent += (took, 1.0)
        self._sent = max(self._sent, stop)

    def _mean(self, entity: str) -> float:
        """Give the mean time of the updates that reached an entity since this was asked last."""
        now = self._market + self._own.get(entity, 0.0)
        spent, events = now - self._told.get(entity, np.zeros(2))
        self._told[entity] = now
        return float(spent / events) if events else math.nan


def _times(table: pl.DataFrame) -> np.ndarray:
    return nanoseconds_of(table["available_at"])


def _ordered(table: pl.DataFrame, text: Floats | None) -> tuple[pl.DataFrame, Floats | None]:
    numbered = in_canonical_order(table.with_row_index("#row"))
    rows = numbered["#row"].to_numpy()
    return numbered.drop("#row"), None if text is None else text[rows]


def _due(clock: Clock, everyone: Sequence[str], *, named: bool) -> list[tuple[int, str]]:
    """Give the forecasts of a clock by time, and of one time in the order of the entities."""
    pairs = clock if isinstance(clock, pl.DataFrame) else None
    if isinstance(clock, ForecastClock):
        pairs = clock.pairs
    if pairs is not None:
        return _due_of_pairs(pairs, everyone, named=named)
    if isinstance(clock, ForecastClock):
        times = nanoseconds_of(clock.times).tolist()
    elif isinstance(clock, pl.Series):
        times = nanoseconds_of(clock).tolist()
    elif isinstance(clock, Iterable) and not isinstance(clock, str | bytes):
        times = [near_instant(at, f"clock[{place}]") for place, at in enumerate(clock)]
    else:
        raise UsageError(
            f"clock is a {type(clock).__name__}; give a ForecastClock, a frame of entity and "
            "forecast_time, or a list "
            "of instants"
        )
    for at in (min(times), max(times)) if times else ():
        near_instant(at, "an instant of the clock")
    if times and not everyone:
        raise UsageError("there are no entities to forecast: the log names none; give entities=")
    return [(at, entity) for at in sorted(set(times)) for entity in everyone]


def _due_of_pairs(pairs: pl.DataFrame, everyone: Sequence[str], *, named: bool) -> list[tuple[int, str]]:
    missing = [name for name in ("entity", "forecast_time") if name not in pairs.columns]
    if missing:
        raise UsageError(f"the clock's frame lacks {missing}; it has {pairs.columns}")
    if pairs.schema["entity"] not in (pl.String, pl.Null):
        raise UsageError(
            f"entity of the clock's frame has type {pairs.schema['entity']}, not String; cast it"
        )
    if pairs["forecast_time"].null_count():
        raise TimestampError("the clock's frame has rows without forecast_time; drop or date them")
    wanted: set[tuple[int, str]] = set()
    times = nanoseconds_of(pairs["forecast_time"]).tolist()
    for at in (min(times), max(times)) if times else ():
        near_instant(at, "an instant of the clock")
    rows = zip(times, pairs["entity"].to_list(), strict=True)
    chosen = set(everyone)
    for at, entity in rows:
        if entity is None:
            wanted.update((at, each) for each in everyone)
        elif entity in chosen or not named:
            wanted.add((at, entity))
    place = {entity: number for number, entity in enumerate(everyone)}
    # Entities that have no event yet come behind the others, by name.
    return sorted(wanted, key=lambda pair: (pair[0], place.get(pair[1], len(place)), pair[1]))
