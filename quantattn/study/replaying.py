"""A run's model, streamed through: from a run folder to log, clock, entities and forecaster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from quantattn.errors import CalendarError, StateError, TimestampError, UsageError
from quantattn.forecasters import FittedForecaster
from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.streaming.events.event import instant
from quantattn.forecasters.streaming.events.late import Late
from quantattn.forecasters.streaming.events.lines import short
from quantattn.pit.timestamps import iso
from quantattn.study.loading import load_study
from quantattn.study.replay.checking import refuse_edited_study
from quantattn.study.replay.clock import StudyClock
from quantattn.study.replay.logs import Item, Note, ReplayLog
from quantattn.study.replay.loop import ReplayLoop, Write
from quantattn.study.replay.models import RunModel, chosen_entities, find_model
from quantattn.study.replay.opening import open_log
from quantattn.study.replay.options import ReplayOptions, ReplaySummary
from quantattn.study.replay.pace import Alarm, Pace, speed_of
from quantattn.study.replay.past import write_history
from quantattn.study.replay.states import keep_state, read_state
from quantattn.study.replay.waiting import Waiting

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH: Final = date(1970, 1, 1)
_DAY: Final = 86_400 * 10**9


@dataclass(frozen=True)
class ReplayRequest:
    """What is asked for, as the command line says it.

    Parameters
    ----------
    run : Path
        The run folder.
    log : str, optional
        A Parquet file of ``EventLog.write``, a file of JSON lines, ``"-"`` for standard input; by default the
        run's own data.
    model : str, default "linear"
        Which of the run's networks.
    fold, seed : int, optional
        Which of its trainings; by default the first fold that has a test forecast at or after `since`, else
        the last one, and the least seed.
    since, until : str, optional
        The first and the last instant of forecasts: ISO 8601 with a zone, or a date of UTC.
    speed : str, default "max"
        ``"max"``, ``"real"``, or how many times faster than real.
    entities : str, optional
        Some of the run's, separated by commas; others' own events are left out.
    snapshot : Path, optional
        Where the state is kept. If the file is there, the replay goes on behind it.
    snapshot_every : int, optional
        After how many events it is kept, besides at the end.
    late : {"refuse", "queue"}, default "refuse"
        What becomes of events that come too late.
    with_history : bool, default False
        Write the run's own events first, unless there is a snapshot: all of them before standard input or a
        pipe, before a file those that became available before its first event.
    """

    run: Path
    log: str | None = None
    model: str = "linear"
    fold: int | None = None
    seed: int | None = None
    since: str | None = None
    until: str | None = None
    speed: str = "max"
    entities: str | None = None
    snapshot: Path | None = None
    snapshot_every: int | None = None
    late: Late = "refuse"
    with_history: bool = False


def replay_run(
    request: ReplayRequest,
    *,
    write: Write,
    note: Note,
    standard_input: Callable[[], bytes],
    alarm: Alarm | None = None,
) -> ReplaySummary:
    """Stream a log through a model of a run.

    Forecasts are made at the run's own clock times, of the run's entities, and where a line of the log asks
    for one. Over the run's own data they are those of its forecasts table, bit for bit.

    Parameters
    ----------
    request : ReplayRequest
        What is asked for.
    write : callable
        Takes the values of each forecast, as plain JSON, as soon as it is made.
    note : callable
        Is told what the user should know.
    standard_input : callable
        Gives the next bytes of standard input; none at its end.
    alarm : Alarm, optional
        Ends the replay from outside.

    Returns
    -------
    ReplaySummary

    Raises
    ------
    UsageError
        If the request is wrong.
    DataError
        If an event breaks the data contract.
    ClockError
        If an event comes too late and late ones are refused.
    CheckpointError, StateError
        If study, model or snapshot cannot be read, are not those of the run, or do not belong together.
    """
    since = None if request.since is None else moment_of(request.since, "--from")
    until = None if request.until is None else moment_of(request.until, "--to", end=True)
    speed = speed_of(request.speed)
    _check_options(request)
    study = load_study(request.run / "study.yaml", check_files=False)
    refuse_edited_study(request.run, study)
    model = find_model(request.run, model=request.model, fold=request.fold, seed=request.seed, since=since)
    entities = chosen_entities(model, request.entities)
    only = None if request.entities is None else entities
    clock = StudyClock(study)
    if until is not None:
        _refuse_beyond(clock, until)
    fitted = FittedForecaster.load(model.folder)
    first = _first_forecast(model, fitted.fit_time, request.log, since, until)
    forecaster = StreamingForecaster(fitted, late=request.late)
    stored = _resumed(request, forecaster, only, note)
    log, live = open_log(request.log, run=request.run, only=only, note=note, standard_input=standard_input)
    if stored:
        log.go_on_behind(stored["log"])
    forecaster.warm_up()
    if stored and first is None and forecaster.as_of is not None:
        first = max(fitted.fit_time, forecaster.as_of) + 1
    unit = model.unit
    note(
        f"fold {unit.fold}, {unit.model}, seed {unit.seed}, fitted at {iso(fitted.fit_time)}: forecasts of "
        + ("1 entity" if len(entities) == 1 else f"{len(entities)} entities")
        + ("" if first is None else f" from {iso(first)}")
    )
    if not stored:

        def write_past() -> int | None:
            return write_history(
                forecaster, log, run=request.run, study=study, live=live, only=only, note=note
            )

        first = _begin(request, log, first, until, write_past, note)
    before = [moment for moment in (stored.get("first"), since) if moment is not None]
    options = ReplayOptions(
        entities=entities,
        only=only is not None,
        fit_time=fitted.fit_time,
        first=max(before, default=first) if stored else first,
        last=until,
        snapshot=request.snapshot,
        snapshot_every=request.snapshot_every,
    )
    alarm = alarm or Alarm()
    log.wake_by(alarm)
    loop = ReplayLoop(
        forecaster,
        clock,
        log,
        Pace(speed, live),
        alarm,
        options,
        write=write,
        save=lambda path, more: keep_state(path, forecaster, more),
        note=note,
        done=stored.get("done"),
        waiting=Waiting.of(stored.get("waiting", [])),
    )
    return loop.run()


def _begin(
    request: ReplayRequest,
    log: ReplayLog,
    first: int | None,
    until: int | None,
    write_past: Callable[[], int | None],
    note: Note,
) -> int | None:
    """Begin without a snapshot, with the run's own events or without; say from when on forecasts are made."""
    if request.log is None:
        if request.with_history:
            note("--with-history is not needed: the run's own events are what is replayed")
        begin = log.peek(None)
        if request.since is not None and isinstance(begin, Item) and first is not None and first <= begin.at:
            note(f"there is no data before {iso(begin.at)}: forecasts up to then know nothing")
        return first
    if not request.with_history:
        note(
            "the memories begin empty: forecasts know nothing from before LOG's first event; --with-history "
            "writes the run's own events first"
        )
        return first
    as_of = write_past()
    if as_of is None:
        return first
    if until is not None and until <= as_of:
        raise UsageError(
            f"--to {iso(until)} is not after {iso(as_of)}, the last of the run's own events that are written "
            "first; give a later one, or leave out --with-history"
        )
    if first is not None and first <= as_of:
        note(f"forecasts begin after {iso(as_of)}: nothing is forecast for the events written first")
        return as_of + 1
    return first


def _refuse_beyond(clock: StudyClock, until: int) -> None:
    try:
        clock.reach(until)
    except CalendarError as error:
        raise UsageError(f"--to {iso(until)} lies beyond the study's calendar ({error})") from error


def _check_options(request: ReplayRequest) -> None:
    if request.snapshot_every is not None and request.snapshot is None:
        raise UsageError("--snapshot-every needs a file; name it with --snapshot")
    if request.late not in ("refuse", "queue"):
        raise UsageError(f"--late {request.late!r} is unknown; use refuse or queue")
    if request.snapshot is not None and request.snapshot.is_dir():
        raise UsageError(f"--snapshot {str(request.snapshot)!r} is a folder; give a file in it")


def _resumed(
    request: ReplayRequest, forecaster: StreamingForecaster, only: tuple[str, ...] | None, note: Note
) -> Mapping[str, Any]:
    """Go on from a snapshot that is there; give what the replay that wrote it added to it."""
    path = request.snapshot
    if path is None or not path.exists():
        return {}
    stored = read_state(path, forecaster)
    _check_snapshot(stored, only)
    if request.with_history:
        note("--with-history is not needed: the snapshot holds what was written before")
    as_of = forecaster.as_of
    note(
        f"going on behind the snapshot {str(path)!r}: {forecaster.events_written:,} events"
        + ("" if as_of is None else f", the last available at {iso(as_of)}")
    )
    return stored


def moment_of(text: str, name: str, *, end: bool = False) -> int:
    """Read an instant of the command line.

    Parameters
    ----------
    text : str
        ISO 8601 with a zone; a date alone is that of UTC.
    name : str
        The option, for the error message.
    end : bool, optional
        Whether a date means its end instead of its beginning.

    Returns
    -------
    int
        Nanoseconds since the epoch, UTC.

    Raises
    ------
    UsageError
        If it is no such thing, has no zone, does not exist, or lies outside of 1677-09-21 to 2262-04-11.
    """
    try:
        if not _DATE.fullmatch(text):
            return instant(text, name)
        day = date.fromisoformat(text) + timedelta(days=1 if end else 0)
        return _in_reach((day - _EPOCH).days * _DAY - (1 if end else 0))
    except (ValueError, OverflowError, TimestampError) as error:
        shown, what = short(text), str(error).partition(f"{name}={text!r} ")[2].rpartition(";")[0]
        why = what or f"does not exist ({error})"
        raise UsageError(
            f"{name} {shown} {why}; write for example 2022-06-01 or 2022-06-01T14:30:00Z"
        ) from error


def _in_reach(moment: int) -> int:
    if not -(2**63) < moment < 2**63:
        raise ValueError("it is outside of 1677-09-21 to 2262-04-11")
    return moment


def _first_forecast(
    model: RunModel, fit_time: int, log: str | None, since: int | None, until: int | None
) -> int | None:
    """Say from when on there are forecasts.

    Parameters
    ----------
    model : RunModel
        What is streamed through.
    fit_time : int
        When it was fitted.
    log : str or None
        What is replayed; None for the run's own data.
    since, until : int or None
        What is asked for.

    Returns
    -------
    int or None
        Nanoseconds since the epoch, UTC; None if the first event decides.

    Raises
    ------
    UsageError
        If nothing can lie between.
    """
    first = since if since is not None or log is not None else max(model.first, fit_time + 1)
    least = fit_time + 1 if first is None else first
    if until is not None and until < least:
        if since is not None:
            raise UsageError(f"--from {iso(since)} is later than --to {iso(until)}; swap them")
        raise UsageError(
            f"--to {iso(until)} is before {iso(least)}, where the forecasts of fold {model.unit.fold} begin; "
            "give --from for earlier ones, or another --fold"
        )
    return first


def _check_snapshot(stored: dict[str, Any], only: tuple[str, ...] | None) -> None:
    """See that a replay may go on from a snapshot.

    Parameters
    ----------
    stored : dict
        What the replay that wrote it added to it.
    only : tuple of str or None
        Whose own events are not left out.

    Raises
    ------
    StateError
        If other entities' events were left out.
    """
    before = stored.get("entities")
    if before != (None if only is None else list(only)):
        was = "all entities" if before is None else f"--entities {','.join(map(str, before))}"
        raise StateError(
            f"the snapshot holds the events of {was}, and others are asked for; give the same --entities, or "
            "another --snapshot"
        )
