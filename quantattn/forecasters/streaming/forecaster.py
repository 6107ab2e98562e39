"""The streaming forecaster: raw events in as they become available, forecasts out at any clock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from quantattn.errors import CheckpointError, ClockError, StateError
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.streaming._asking import (
    OPTIONS,
    path_of,
    refuse_other,
    refuse_other_text,
    refuse_unknown,
)
from quantattn.forecasters.streaming.coder import EventCoder
from quantattn.forecasters.streaming.events._tables import Events, frame_of, listed, table_of_events
from quantattn.forecasters.streaming.events.event import (
    MARKET,
    Event,
    Moment,
    as_event,
    events_of,
    named_entities,
    named_entity,
    near_instant,
)
from quantattn.forecasters.streaming.events.late import Late, Ledger
from quantattn.forecasters.streaming.forecasts import Forecast, SingleReadout, forecasts_frame
from quantattn.forecasters.streaming.health.monitor import HealthMonitor
from quantattn.forecasters.streaming.health.policy import HealthPolicy, HealthReport
from quantattn.forecasters.streaming.information.live import LiveInformation
from quantattn.forecasters.streaming.log_replay import Clock, replay_log
from quantattn.forecasters.streaming.memories import NEVER, Memories
from quantattn.forecasters.streaming.network.cache import CachePolicy
from quantattn.forecasters.streaming.network.stream import NetworkStream
from quantattn.forecasters.streaming.snapshots.file import read_snapshot, write_snapshot
from quantattn.forecasters.streaming.snapshots.snapshot import restore_into, snapshot_of
from quantattn.forecasters.tokens import Floats
from quantattn.pit import EventLog
from quantattn.pit.events.schema import in_canonical_order, is_canonical
from quantattn.pit.timestamps import iso, nanoseconds_of

_FEW = 128
"""So many events are written one by one: the work on a table of them would take longer."""


class StreamingForecaster:
    """Forecasts from raw events, one at a time; what was backtested is what runs live.

    Every forecast is, bit for bit, the one that a backtest makes at that time over a log of the same events:
    same information set, same tokens, same arithmetic. Reads never change what it remembers, and with linear
    attention the cost of a step does not depend on the length of the history.

    Market-wide events (entity None) reach every entity. An entity that had no event of its own yet reads a
    memory of the market-wide events alone; its first own event makes it a memory of its own, a copy of that.

    Parameters
    ----------
    fitted : FittedForecaster
        Network, encoders, readout and scope.
    late : {"refuse", "queue"}, default "refuse"
        What becomes of an event that should have been seen by a forecast already made, or that stands before
        one already written: it is a ClockError, or it is written as one that became available later, at the
        instant of what it missed. :attr:`late_events` lists those. The log of what was written is then
        another one than the log of what was sent, and it alone gives the same bits again: keep the events
        that :meth:`update` returns, or make it with :func:`~quantattn.forecasters.streaming.redated`.
    health : HealthPolicy, optional
        Limits that every forecast is held against.
    cache : CachePolicy, optional
        How the softmax twin's cache grows.
    remember : int, default 100_000
        So many of the ids last written are known, and refused when they come again. An event that is late
        and stands before those that are forgotten may be one of them, so that it is refused as well.
    book_depth : int, default 32
        So many events are kept for each feature and entity, for revisions to fall back on.

    Raises
    ------
    UsageError
        If an option is impossible, or none of these; the message names the nearest.

    Notes
    -----
    A failing call changes nothing. One that is broken off while it writes, by Ctrl-C or by a denominator that
    is not positive, leaves memories that do not fit each other: every later call is a StateError, and the
    last snapshot and the log bring the forecaster back.

    With linear attention the memory of an entity has a fixed size. What grows all the same: one memory for
    each entity that has events of its own, the latest forecast of each entity that was forecast, id and
    highest revision of every event that was ever revised, and :attr:`late_events`.

    It belongs to one thread.

    Examples
    --------
    >>> live = StreamingForecaster.from_checkpoint("run/folds/3/linear-0")  # doctest: +SKIP
    >>> live.update({"event_id": "n1", "entity": "AAPL", "kind": "news", "text": "New high",
    ...              "event_time": "2024-11-29T18:00:00Z",
    ...              "available_at": "2024-11-29T18:00:02Z"})  # doctest: +SKIP
    >>> live.forecast("AAPL", "2024-11-29T21:00:00Z").y_pred  # doctest: +SKIP
    """

    def __init__(
        self,
        fitted: FittedForecaster,
        *,
        late: Late = "refuse",
        health: HealthPolicy = HealthPolicy(),  # noqa: B008
        cache: CachePolicy = CachePolicy(),  # noqa: B008
        remember: int = 100_000,
        book_depth: int = 32,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown)
        refuse_other(fitted, FittedForecaster, "fitted")
        refuse_other(health, HealthPolicy, "health")
        refuse_other(cache, CachePolicy, "cache")
        self.fitted = fitted
        self._options: dict[str, Any] = {
            "late": late, "health": health, "cache": cache, "remember": remember, "book_depth": book_depth,
        }  # fmt: skip
        self.scope = fitted.scope
        self.coder = EventCoder(fitted.encoders)
        self.ledger = Ledger(late, remember)
        self.stream = NetworkStream(fitted.network, cache=cache)
        self.information = LiveInformation(self.coder.features, scope=self.scope, depth=book_depth)
        self.monitor = HealthMonitor(fitted.network, health, template=MARKET)
        self.memories = Memories(self.stream, self.coder, self.monitor)
        self._readout = SingleReadout(fitted.reads)
        self._broken: Event | str | None = None

    @classmethod
    def from_checkpoint(cls, path: str | Path, *, snapshot: str | Path | None = None, **options: Any) -> Self:
        """Make one of what a run or an estimator has stored.

        Parameters
        ----------
        path : str or Path
            The folder of a fitted forecaster: ``folds/<fold>/<model>-<seed>`` of a run, or what an
            estimator's ``save`` wrote.
        snapshot : str or Path, optional
            A file of :meth:`save` to go on from; empty memories by default.
        **options
            Those of the constructor.

        Raises
        ------
        CheckpointError
            If a file is missing, truncated, altered or of another version. Where `path` is in a run, the
            message lists the forecasters that the run has.
        StateError
            If the snapshot is one of another forecaster.
        UsageError
            If `path` is the name of no file, or an option impossible or unknown.
        """
        refuse_unknown({name: options[name] for name in options if name not in OPTIONS})
        made = cls(FittedForecaster.load(path_of(path)), **options)
        if snapshot is not None:
            made.load(snapshot)
        return made

    # --- what there is ------------------------------------------------------------------------------------

    @property
    def late(self) -> Late:
        """What becomes of late events."""
        return self.ledger.late

    @property
    def entities(self) -> tuple[str, ...]:
        """Entities that had an event of their own, in the order in which they first had one."""
        self._refuse_broken()
        return self.memories.entities

    @property
    def as_of(self) -> int | None:
        """When the latest event written became available, nanoseconds UTC; None before any."""
        self._refuse_broken()
        return self.memories.latest

    @property
    def events_written(self) -> int:
        """Events written, each counted once, however many entities it reached."""
        self._refuse_broken()
        return self.memories.events

    @property
    def late_events(self) -> pl.DataFrame:
        """Late events that were written: ``event_id, revision, entity, available_at, written_at``.

        :func:`~quantattn.forecasters.streaming.redated` makes of them and the log the one that a backtest
        must read to give the same bits.
        """
        self._refuse_broken()
        return self.ledger.late_events

    # --- events -------------------------------------------------------------------------------------------

    def update(self, event: Event | Mapping[str, Any]) -> Event | None:
        """Take one event.

        Parameters
        ----------
        event : Event or mapping
            The event; of a mapping, :meth:`Event.from_mapping <quantattn.forecasters.Event.from_mapping>`
            makes one.

        Returns
        -------
        Event or None
            What was written: the event, with a later `available_at` if it came late and is queued. None where
            the scope leaves it out.

        Raises
        ------
        EventDataError, TimestampError
            If it is no valid event, has an unknown feature, or was written already.
        ClockError
            If it is late, and late events are refused.
        StateError
            If a cache is full, or the forecaster was broken off.
        """
        self._refuse_broken()
        given = as_event(event, self.coder.features)
        self.coder.refuse_unknown(given)
        if not self._reads(given.entity):
            return None
        written = self.ledger.place(given)
        self.memories.refuse_full([written.entity])
        ready = self.information.ready(written)
        self._broken = written
        self.information.take(ready)
        self.memories.write(written)
        self.ledger.note(written, given)
        self._broken = None
        return written

    def update_many(self, events: Events, *, text: Floats | None = None) -> int:
        """Take many events, bit for bit as :meth:`update` one by one; all of them, or none.

        Parameters
        ----------
        events : EventLog, polars.DataFrame or iterable of Event or mapping
            In an order in which :meth:`update` would take them. A frame has the columns of an event log;
            without ``revision`` it is 0, without ``text`` null, and ``scheduled`` may stand beside them, as
            in a mapping.
        text : ndarray of float32, shape (n, text_width), optional
            Hashed text of the rows of a log or frame, if it is at hand.

        Returns
        -------
        int
            How many were written; the scope leaves out the others.

        Raises
        ------
        EventDataError, TimestampError, ClockError, StateError
            As :meth:`update`, for the first that it refuses.
        UsageError
            If `events` is none of these, or `text` not theirs.
        """
        self._refuse_broken()
        features = self.coder.features
        if text is None and not isinstance(events, EventLog | pl.DataFrame):
            made = listed(events, features)
            for event in made:
                self.coder.refuse_unknown(event)
            if len(made) <= _FEW:
                return self._update_few(made)
            table = frame_of(made, features)
        else:
            table = table_of_events(events, features)
            refuse_other_text(text, table.height, self.coder.text_width, "events")
            if text is None and table.height <= _FEW:
                return self._update_few(list(events_of(table, features)))
        return self._update_table(*self._in_scope(table, text))

    def _update_few(self, given: list[Event]) -> int:
        given = [event for event in given if self._reads(event.entity)]
        if not given:
            return 0
        placed = self.ledger.place_each(given)
        self.memories.refuse_full_by([event.entity for event in placed])
        ready = [self.information.ready(event) for event in placed]
        self._broken = f"{len(placed)} events up to {iso(placed[-1].available_at)}"
        for event, one, sent in zip(placed, ready, given, strict=True):
            self.information.take(one)
            self.memories.write(event)
            self.ledger.note(event, sent)
        self._broken = None
        return len(placed)

    def _update_table(self, table: pl.DataFrame, text: Floats | None) -> int:
        if table.is_empty():
            return 0
        placed = self.ledger.place_many(table, self.coder.features)
        ordered, text = (placed.frame, text) if placed.in_order else _sorted(placed.frame, text)
        # In another order than that of the log, new entities come as one event after the other brings them.
        moved = ordered is not placed.frame
        entities = table["entity"].drop_nulls().unique(maintain_order=True).to_list() if moved else None
        self.memories.refuse_full_by(ordered["entity"].to_list())
        ready = self.information.ready_frame(ordered, entities)
        self._broken = (
            f"{ordered.height} events up to {iso(int(nanoseconds_of(ordered['available_at'])[-1]))}"
        )
        self.information.take_frame(ready)
        self.memories.write_table(ordered, text, entities)
        self.ledger.note_many(placed)
        self._broken = None
        return ordered.height

    def _in_scope(
        self, table: pl.DataFrame, text: Floats | None = None
    ) -> tuple[pl.DataFrame, Floats | None]:
        """Keep the events that the scope reads, and their rows of hashed text."""
        wide = table["entity"].is_null()
        if self.scope == "entity+market" or not (wide if self.scope == "entity" else ~wide).any():
            return table, text
        keep = wide if self.scope == "market" else ~wide
        return table.filter(keep), None if text is None else text[keep.to_numpy()]

    # --- forecasts ----------------------------------------------------------------------------------------

    def forecast(self, entity: str, at: Moment, *, hypothetical: bool = False) -> Forecast:
        """Forecast an entity from all that was written; the memories stay as they are.

        Parameters
        ----------
        entity : str
            Any; one that had no event yet is forecast from the market-wide ones.
        at : int, str, datetime, numpy.datetime64 or pandas.Timestamp
            The forecast time, with its zone; strictly after the last event that the entity reads.
        hypothetical : bool, default False
            A forecast promises that whatever became available before `at` has been written: what comes after
            it nevertheless is late. A hypothetical one promises nothing.

        Returns
        -------
        Forecast

        Raises
        ------
        ClockError
            If an event that is not visible at `at` was already written.
        TimestampError, EventDataError
            If `at` is no instant, or too far from 1970, or `entity` no name.
        StateError
            If an as-of value depends on events that are no longer remembered, a limit of the health is
            passed, or the forecaster was broken off.
        DenominatorError
            If the read met something that is not finite, or a limit of the health is passed.
        """
        began = time.perf_counter()
        self._refuse_broken()
        moment = near_instant(at, "at")
        entity = named_entity(entity)
        name, last = self._read_by(entity, moment)
        before = np.array([moment if last == NEVER else last], np.int64)
        token = self.coder.queries(self.information.values(entity)[None], moment, before)[0]
        raw = self.stream.read(name, token, moment)
        flag = None
        if self.monitor.checks:
            flag = self.monitor.check(self.stream, name, token, moment, raw, entity=entity)
        by_target = self._readout(raw)
        count, newest = self.information.n_visible(entity), self.information.max_available_at(entity)
        named = self.information.info_hash(entity)
        if not hypothetical:
            self.ledger.promise(entity, moment)
        took = (time.perf_counter() - began) * 1e6
        return Forecast(entity, moment, by_target, count, newest, named, took, flag, self.fitted.fit_time)

    def forecast_many(
        self, entities: Sequence[str], at: Moment, *, hypothetical: bool = False
    ) -> pl.DataFrame:
        """Forecast several entities at one time, bit for bit as :meth:`forecast` one by one.

        Parameters
        ----------
        entities : sequence of str
            Distinct names.
        at, hypothetical
            As for :meth:`forecast`.

        Returns
        -------
        polars.DataFrame
            One row for each, in the order given: ``entity, forecast_time, y_pred, y_lower, y_upper``, what
            else the head says, ``n_visible, max_available_at, info_hash, read_us`` (the call's time over the
            number of entities), ``flag`` and ``fit_time``: forecasts up to that are of times that the model
            has learned from. Of several targets, one row for each, with ``target``.

        Raises
        ------
        ClockError, TimestampError, EventDataError, StateError, DenominatorError
            As :meth:`forecast`, for the first entity that it refuses; no forecast counts as made then.
        UsageError
            If `entities` is no list of names, or names one twice.
        """
        began = time.perf_counter()
        self._refuse_broken()
        entities = named_entities(entities, "entities")
        moment = near_instant(at, "at")
        read = [self._read_by(entity, moment) for entity in entities]
        names = [name for name, _ in read]
        before = np.array([moment if last == NEVER else last for _, last in read], np.int64)
        information = self.information
        values = np.empty((len(names), len(self.coder.features)))
        for row, entity in enumerate(entities):
            values[row] = information.values(entity)
        tokens = self.coder.queries(values, moment, before)
        raw = self.stream.read_each(names, tokens, moment)
        flags: list[str | None] = [None] * len(names)
        if self.monitor.checks:
            for row, (entity, name) in enumerate(zip(entities, names, strict=True)):
                flags[row] = self.monitor.check(
                    self.stream, name, tokens[row], moment, raw[row], entity=entity
                )
        said = self.fitted.reads.forecasts(raw)
        told: dict[str, Sequence[Any]] = {
            "entity": list(entities),
            "forecast_time": [moment] * len(names),
            "n_visible": [information.n_visible(entity) for entity in entities],
            "max_available_at": [information.max_available_at(entity) for entity in entities],
            "info_hash": [information.info_hash(entity) for entity in entities],
        }
        if not hypothetical:
            for entity in entities:
                self.ledger.promise(entity, moment)
        took = (time.perf_counter() - began) * 1e6 / max(1, len(names))
        fit_times = [self.fitted.fit_time] * len(names)
        return forecasts_frame(
            said, {**told, "read_us": [took] * len(names), "flag": flags, "fit_time": fit_times}
        )

    def replay(
        self,
        log: EventLog | pl.DataFrame,
        clock: Clock,
        *,
        entities: Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        text: Floats | None = None,
    ) -> pl.DataFrame:
        """Send a log through in canonical order, and forecast at every time of a clock.

        Before each forecast whatever became available before it is written. Events that were written already
        are passed over, and so are forecasts at or before the latest that the entity has had: after
        :meth:`load`, a replay of the same log and clock goes on where the snapshot was taken. What is passed
        over is compared with what was written: every entity of which the log has as many events must have the
        same ones, and where the log begins later, its events must be among the ids that are remembered. So
        it must be the log of what was written, late events as they were re-dated.

        Parameters
        ----------
        log : EventLog or polars.DataFrame
            The events, or a frame of their columns.
        clock : ForecastClock, frame of ``entity, forecast_time``, or sequence of instants
            When to forecast; without entities, all of them at every time.
        entities : sequence of str, optional
            Whom to forecast; all that have events in the log or a memory, sorted, by default. Events of
            others are written all the same.
        since, until : int, str, datetime, numpy.datetime64 or pandas.Timestamp, optional
            Forecast from `since` on and up to `until`, both included. Events are written up to what a
            forecast at `until` sees; all of them without it.
        text : ndarray of float32, shape (n, text_width), optional
            Hashed text of the rows of the log, if it is at hand.

        Returns
        -------
        polars.DataFrame
            As of :meth:`forecast_many`, by forecast time and then in the order of the entities, with
            ``update_us``: mean microseconds of the :meth:`update` of each event since the entity's forecast
            before, which wrote it; NaN where there was none, or they were written at once before the first
            forecast.

        Raises
        ------
        ClockError
            If a forecast comes before an event already written; give `since`, or a fresh forecaster.
        StateError
            If the log differs from what was written up to where the forecaster is: an event more, or another
            content or time; nothing is changed then.
        EventDataError, TimestampError, StateError, DenominatorError, UsageError
            As :meth:`update`, :meth:`update_many` and :meth:`forecast`.
        """
        return replay_log(self, log, clock, entities=entities, since=since, until=until, text=text)

    # --- upkeep -------------------------------------------------------------------------------------------

    def health(self) -> HealthReport:
        """Measure the memory of every entity that had an event or a forecast.

        Raises
        ------
        StateError
            If the forecaster was broken off.
        """
        self._refuse_broken()
        known = dict.fromkeys([*self.memories.entities, *self.ledger.promised])
        return self.monitor.report(
            self.stream, {entity: self.memories.read_by(entity)[0] for entity in known}
        )

    def warm_up(self) -> None:
        """Compile, or load from the cache on disk, all that a call needs; nothing else is changed."""
        self.stream.warm_up()
        fresh = StreamingForecaster(self.fitted)
        wide = Event("warm", 0, 0, None, "", text="up é", features=dict.fromkeys(self.coder.features, 0.0))
        for event_id, entity, at in (("a", "a", 1), ("b", None, 2), ("c", "b", 3)):
            fresh.update(replace(wide, event_id=event_id, entity=entity, available_at=at))
        fresh._update_table(
            frame_of([replace(wide, event_id="d", available_at=4)], self.coder.features), None
        )
        fresh.forecast("a", 5)
        fresh.forecast_many(["a", "b"], 6)

    def save(self, path: str | Path) -> None:
        """Write everything that is remembered to one file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file (safetensors); one that is there is replaced.

        Raises
        ------
        StateError
            If the forecaster was broken off.
        UsageError
            If `path` is the name of no file.
        CheckpointError
            If it is a folder, a link or a device.
        OSError
            If the file cannot be written; an older one is untouched.

        Notes
        -----
        The snapshot goes on with the log of what is written from here on. With ``late="queue"`` that is not
        what is sent: keep the events that :meth:`update` returns, as :attr:`late_events` ends with the
        process.
        """
        self._refuse_broken()
        write_snapshot(path_of(path), *snapshot_of(self))

    def load(self, path: str | Path) -> None:
        """Take up what :meth:`save` wrote, in place of all that is remembered.

        What follows is equal bit for bit to what would have followed the save, if the same events follow:
        those that were written, which late ones are in re-dated form where they were queued.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        CheckpointError
            If the file is missing, truncated, altered or of another version.
        StateError
            If it is one of another forecaster. Nothing is changed then. `late` may be another: of one that
            refused late events nothing is late, and one that queued them must have written none to go on
            where they are refused.
        UsageError
            If `path` is the name of no file.
        """
        restore_into(self, *read_snapshot(path_of(path)))

    def _emptied(self) -> Self:
        """Give a forecaster of the same kind with empty memories."""
        return type(self)(self.fitted, **self._options)

    def _become(self, other: StreamingForecaster) -> None:
        """Take over all that another one of the same kind remembers; it is not to be used any more."""
        self.__dict__.update(other.__dict__)

    def _resume(self, as_of: int | None, events_written: int) -> None:
        """Take up what was put into the memories, which must be as a snapshot says.

        Raises
        ------
        CheckpointError
            If they hold another number of events, or end at another instant.
        """
        self.memories.restored()
        if (self.as_of, self.events_written) != (as_of, events_written):
            raise CheckpointError(
                f"the snapshot tells of {events_written} events up to {as_of}, and its memories hold "
                f"{self.events_written} up to {self.as_of}; take an older snapshot, or replay the log "
                "from its beginning"
            )
        self._broken = None

    def _reads(self, entity: str | None) -> bool:
        return self.scope != ("market" if entity is not None else "entity")

    def _read_by(self, entity: str, at: int) -> tuple[str, int]:
        """Give the memory that an entity reads and the last event in it, which must be visible."""
        name, last = self.memories.read_by(entity)
        if at <= last:
            raise ClockError(
                f"forecast of {entity!r} at {iso(at)} comes after an event available at {iso(last)} was "
                "written; an "
                "event is visible only strictly after its available_at, so forecast before writing it"
            )
        return name, last

    def _refuse_broken(self) -> None:
        """Refuse to go on once the forecaster was broken off while it wrote.

        Raises
        ------
        StateError
            Saying what it wrote.
        """
        broken = self._broken
        if broken is not None:
            if isinstance(broken, Event):
                broken = f"event {broken.event_id!r} available at {iso(broken.available_at)}"
            raise StateError(
                f"the forecaster was broken off while it wrote {broken}, and its memories do not "
                "fit each "
                "other; load the last snapshot and replay the log, or begin anew"
            )


def _sorted(frame: pl.DataFrame, text: Floats | None) -> tuple[pl.DataFrame, Floats | None]:
    """Give events in canonical order: the order within each sequence is that already."""
    if is_canonical(frame):
        return frame, text
    ordered = in_canonical_order(frame.with_row_index("#row"))
    rows = ordered["#row"].to_numpy()
    return ordered.drop("#row"), None if text is None else text[rows]
