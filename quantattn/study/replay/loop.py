"""The replay of a log: events and forecasts in the order of the clock, one whole step after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from quantattn.errors import CalendarError, ClockError, DataError, EventDataError, QuantAttnError
from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.streaming.events._tables import table_of_events
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.events.lines import ForecastRequest, cut, short
from quantattn.forecasters.streaming.forecasts import Forecast
from quantattn.pit.timestamps import iso
from quantattn.study._values import nearest
from quantattn.study.replay.clock import StudyClock
from quantattn.study.replay.feed import Nothing
from quantattn.study.replay.judging import refuse_event, refuse_request
from quantattn.study.replay.logs import Item, Note, ReplayLog
from quantattn.study.replay.options import ReplayOptions, ReplaySummary
from quantattn.study.replay.output import UpdateTimes, forecast_values
from quantattn.study.replay.pace import Alarm, Pace
from quantattn.study.replay.waiting import Waiting

Write = Callable[[dict[str, Any]], None]
Save = Callable[[Path, dict[str, Any]], None]


class ReplayLoop:
    """Goes through a log.

    A forecast that is due at an instant is made before the first event is written that became available then
    or later. Between two items, and between the forecasts of two instants, the state is whole: there the
    replay stops when it is told to, and there snapshots are taken.

    Parameters
    ----------
    forecaster : StreamingForecaster
        What runs.
    clock : StudyClock
        When forecasts are due.
    log : ReplayLog
        What happens.
    pace : Pace
        How fast.
    alarm : Alarm
        Ends it from outside.
    options : ReplayOptions
        What is asked for.
    write : callable
        Takes the values of a forecast, as plain JSON.
    save : callable
        Keeps a snapshot, with what the replay adds to it.
    note : callable
        Is told what the user should know.
    done : int, optional
        Up to which instant, included, the clock's forecasts were made before.
    waiting : Waiting, optional
        What was asked for before and is not due yet.
    """

    def __init__(
        self,
        forecaster: StreamingForecaster,
        clock: StudyClock,
        log: ReplayLog,
        pace: Pace,
        alarm: Alarm,
        options: ReplayOptions,
        *,
        write: Write,
        save: Save,
        note: Note,
        done: int | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        self._forecaster, self._clock, self._log = forecaster, clock, log
        self._pace, self._alarm, self._options = pace, alarm, options
        self._write, self._save, self._note = write, save, note
        self._first, self._done = options.first, done
        self._times = UpdateTimes()
        self._shown = frozenset(options.entities)
        self._strangers: set[str] = set()
        self._events = self._forecasts = self._unsaved = self._repeats = 0
        self._late = forecaster.late_events.height
        self._warned = self._writing = self._begun = False
        self._waiting = waiting or Waiting()

    def run(self) -> ReplaySummary:
        """Replay the log to its end, to the last instant asked for, or until the alarm rings.

        Returns
        -------
        ReplaySummary

        Raises
        ------
        QuantAttnError
            What a line, an event or a forecast is refused for; the snapshot then holds everything before it,
            unless a memory was spoiled.
        """
        self._alarm.heard = True
        try:
            self._run()
        except (DataError, ClockError, OSError):
            # What was refused has changed nothing, and forecasts that were not written are made again.
            self._keep()
            raise
        except KeyboardInterrupt:
            if self._writing:  # to somebody who reads no more; anywhere else the state may not be whole
                self._keep()
            raise
        self._keep()
        return ReplaySummary(self._events, self._forecasts, self._alarm.rung)

    def _run(self) -> None:
        while not self._alarm.rung:
            item = self._log.peek(self._patience())
            if item is Nothing.YET:
                if self._by_the_wall():
                    return
            elif isinstance(item, Item):
                if not self._step(item):
                    return
            else:
                self._answer_waiting(None, wait=True)
                if self._options.last is not None:
                    self._make_due(self._options.last, wait=False)
                return

    # --- one item -----------------------------------------------------------------------------------

    def _step(self, item: Item) -> bool:
        """Do what an item asks for; say whether to go on."""
        self._refuse_unknown(item)
        if isinstance(item.content, ForecastRequest) and self._is_ahead(item.at):
            last = self._options.last
            self._judge(item, item.at if last is None else min(item.at, last))
            self._waiting.add(item)
            self._log.pop()
            return True
        self._tell_of_gap(item)
        at, last = item.at, self._options.last
        up_to = at if last is None else min(at, last)
        if self._first is None or self._next_due(up_to) is not None:
            self._judge(item, up_to)
        if isinstance(item.content, Event):
            self._answer_waiting(up_to, wait=False)
        first = self._begin(at)
        if at < first and self._write_block(first if last is None else min(first, last + 1)):
            return True
        if at >= first:
            self._pace.begin(self._next_due(at) or at)
        self._make_due(up_to, wait=True)
        if last is not None and at > last:
            return False
        if at >= first:
            self._sleep_until(at)
        if self._alarm.rung:
            return False
        self._take(item)
        return True

    def _is_ahead(self, at: int) -> bool:
        """Say whether events before an instant may still come, by the clock on the wall."""
        return self._pace.by_the_wall and bool(self._pace.until(at))

    def _tell_of_gap(self, item: Item) -> None:
        """Say once that nobody knows what lies between another log and the first event of this one."""
        if self._begun or not isinstance(item.content, Event):
            return
        self._begun, last = True, self._forecaster.as_of
        if self._log.elsewhere and last is not None and item.at > last:
            self._note(f"nothing tells whether events between {iso(last)} and {iso(item.at)} are missing")

    def _refuse_unknown(self, item: Item) -> None:
        """Refuse an event that no forecaster could read before its time lets forecasts be made."""
        if isinstance(item.content, Event):
            with _told_of(item.place):
                self._forecaster.coder.refuse_unknown(item.content)

    def _judge(self, item: Item, up_to: int) -> None:
        """Refuse what can be refused before its time begins the clock, or lets forecasts be made.

        A forecast promises that everything before it has come, and is not unmade: an item that is refused
        must not have brought it about.
        """
        content = item.content
        with _told_of(item.place):
            if isinstance(content, ForecastRequest):
                for entity in self._asked(content):
                    refuse_request(self._forecaster, entity, content.at)
            elif self._reads(content):
                try:
                    refuse_event(self._forecaster, content)
                except (EventDataError, ClockError):
                    if not (self._log.anew and self._is_there(content)):
                        raise
            self._clock.reach(up_to)

    def _reads(self, event: Event) -> bool:
        return not self._options.only or event.entity is None or event.entity in self._shown

    def _begin(self, at: int) -> int:
        if self._first is None:
            # The run's own events may have been written first.
            self._first = max(self._options.fit_time, at, self._forecaster.as_of or at) + 1
            if at > self._options.fit_time:
                self._pace.begin(at)
        return self._first

    def _write_block(self, before: int) -> bool:
        """Write events before the first forecast, many at once."""
        frame = self._log.block(before)
        if frame is None:
            return False
        fresh = frame
        if self._log.anew:
            fresh = frame.filter(~pl.Series(self._forecaster.ledger.written(frame), dtype=pl.Boolean))
            self._left_out(frame.height - fresh.height)
        with _told_of(""):
            self._forecaster.update_many(fresh)
        self._log.pass_block(frame.height)
        self._count(frame.height)
        return True

    def _take(self, item: Item) -> None:
        content = item.content
        with _told_of(item.place):
            if isinstance(content, ForecastRequest):
                self._answer(content)
            elif self._reads(content):
                self._update(content)
        self._log.pop()
        self._count(0 if isinstance(content, ForecastRequest) else 1)

    def _update(self, event: Event) -> None:
        started = time.perf_counter_ns()
        try:
            written = self._forecaster.update(event)
        except (EventDataError, ClockError):
            if not (self._log.anew and self._is_there(event)):
                raise
            self._left_out(1)
            return
        self._times.add(event.entity, time.perf_counter_ns() - started)
        if written is not None and written.available_at != event.available_at:
            self._late += 1
            self._note(
                f"late: event {short(event.event_id)} available at {iso(event.available_at)} is read as of "
                f"{iso(written.available_at)}; {self._late:,} so far"
            )

    def _is_there(self, event: Event) -> bool:
        """Say whether the snapshot holds an event that comes again."""
        table = table_of_events([event], self._forecaster.coder.features)
        return bool(self._forecaster.ledger.written(table).all())

    def _left_out(self, events: int) -> None:
        if events and not self._repeats:
            self._note("events that the memories hold already are left out")
        self._repeats += events

    def _count(self, events: int) -> None:
        self._events += events
        self._unsaved += events
        every = self._options.snapshot_every
        if every is not None and self._unsaved >= every:
            self._keep()

    # --- forecasts ----------------------------------------------------------------------------------

    def _next_due(self, up_to: int | None = None) -> int | None:
        if self._first is None:
            return None
        after = self._first - 1 if self._done is None else max(self._done, self._first - 1)
        return self._clock.after(after, up_to)

    def _make_due(self, up_to: int, *, wait: bool) -> None:
        """Make the clock's forecasts up to an instant, included."""
        while not self._alarm.rung and (due := self._next_due(up_to)) is not None:
            if wait:
                self._sleep_until(due)
                if self._alarm.rung:
                    return
            self._show([self._forecast(entity, due) for entity in self._options.entities])
            self._done = due

    def _answer(self, request: ForecastRequest) -> None:
        entities = self._asked(request)
        self._tell_of_stranger(request.entity)
        self._show([self._forecast(entity, request.at) for entity in entities], asked=True)

    def _answer_waiting(self, up_to: int | None, *, wait: bool) -> None:
        """Make the forecasts that were asked for up to an instant (None: up to the last one), in order."""
        last = self._options.last
        while (at := self._waiting.next_at) is not None and not self._alarm.rung:
            if at > (at if up_to is None else up_to) or at > (at if last is None else last):
                return
            self._make_due(at, wait=wait)
            if wait:
                self._sleep_until(at)
                if self._alarm.rung:
                    return
            item = self._waiting.first
            assert isinstance(item.content, ForecastRequest)
            with _told_of(item.place):
                self._answer(item.content)
            self._waiting.pop()

    def _asked(self, request: ForecastRequest) -> tuple[str, ...]:
        if request.entity is None:
            return self._options.entities
        if self._options.only and request.entity not in self._shown:
            raise EventDataError(
                f"forecast of {request.entity!r}, whose events are left out; add it to --entities"
            )
        return (request.entity,)

    def _tell_of_stranger(self, entity: str | None) -> None:
        """Say once of an entity that neither the run nor the log has: its name may be mistyped."""
        known = self._options.entities
        if entity is None or entity in self._shown or entity in self._strangers:
            return
        if entity in self._forecaster.memories.entities:
            return
        self._strangers.add(entity)
        self._note(
            f"forecast of {short(entity)}, which is no entity of the run{nearest(entity, known)} and has had "
            "no event of its own: it is made from market-wide events alone"
        )

    def _forecast(self, entity: str, at: int) -> Forecast:
        return self._forecaster.forecast(entity, at)

    def _show(self, forecasts: list[Forecast], *, asked: bool = False) -> None:
        for made in forecasts:
            seen = made.forecast_time <= self._options.fit_time
            if seen and not self._warned:
                self._warned = True
                self._note(
                    f"forecasts up to {iso(self._options.fit_time)}, when the model was fitted, are of times "
                    "that it has learned from; they are marked in_sample"
                )
            values = forecast_values(made, self._times.take(made.entity), in_sample=seen, asked=asked)
            self._writing = True
            self._write(values)
            self._writing = False
            self._forecasts += 1

    # --- time ---------------------------------------------------------------------------------------

    def _patience(self) -> float | None:
        """Give how long to wait for an item before something else is due; None: for ever."""
        target = self._target()
        return None if target is None else self._pace.until(target)

    def _target(self) -> int | None:
        """Give the instant at which something happens though no event comes; None if nothing does."""
        if not self._pace.waits:
            return None
        asked = self._waiting.next_at if self._pace.by_the_wall else None
        if self._first is None:
            return asked
        # What was due before the start waits for the events of that time, which a feed may still hold.
        since = self._pace.started if self._pace.by_the_wall else self._first
        last = self._options.last
        try:
            due = self._next_due()
            if due is not None and due < since:
                due = self._clock.after(since - 1)
        except CalendarError:  # it is told when an event comes from beyond the calendar
            due = None
        moments = [moment for moment in (due, last) if moment is not None and moment >= since]
        return min([*moments, *([] if asked is None else [asked])], default=None)

    def _by_the_wall(self) -> bool:
        """Make what is due by the clock alone; say whether that was the last."""
        target = self._target()
        if target is None or (self._pace.until(target) or 0.0) > 0.0:
            return False
        self._make_due(target, wait=False)
        self._answer_waiting(target, wait=False)
        return target == self._options.last

    def _sleep_until(self, instant: int) -> None:
        rest = self._pace.until(instant)
        if rest:
            self._alarm.sleep(rest)

    # --- snapshots ----------------------------------------------------------------------------------

    def _keep(self) -> None:
        if self._options.snapshot is None:
            return
        self._save(
            self._options.snapshot,
            {
                "log": self._log.position(),
                "first": self._first,
                "done": self._done,
                "entities": list(self._options.entities) if self._options.only else None,
                "waiting": self._waiting.plain(),
            },
        )
        self._unsaved = 0


@contextmanager
def _told_of(place: str) -> Iterator[None]:
    """Put an item's place before what it is refused for, and keep that short."""
    try:
        yield
    except QuantAttnError as error:
        told = cut(str(error))
        if not place and told == str(error):
            raise
        raise type(error)(f"{place}: {told}" if place else told) from error
