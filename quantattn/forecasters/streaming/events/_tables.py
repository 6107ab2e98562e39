"""Events by the table: what a stream takes, as frames of an event log with the features that it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.forecasters.streaming.events._defaults import with_defaults
from quantattn.forecasters.streaming.events.event import Event, Key, as_event, nearest
from quantattn.pit import EventLog
from quantattn.pit.events.schema import COLUMNS, check_content, check_schema, schema_of
from quantattn.pit.timestamps import TIME, iso, nanoseconds_of

Events = EventLog | pl.DataFrame | Iterable[Event | Mapping[str, Any]]


def table_of_events(events: Events, features: Sequence[str]) -> pl.DataFrame:
    """Give events as a frame of an event log, in the order in which they come.

    Parameters
    ----------
    events : EventLog, polars.DataFrame or iterable of Event or mapping
        A frame has the columns of an event log; see :func:`with_defaults` for what it may lack.
    features : sequence of str
        The features that are known. One that the events lack is null; one that is not known must be null.

    Returns
    -------
    polars.DataFrame
        The columns of an event log, and then `features`.

    Raises
    ------
    EventDataError, TimestampError
        If an event is none that :class:`Event` would take, or has a feature that is not known.
    UsageError
        If `events` is none of these.
    """
    if isinstance(events, EventLog):
        return _with_features(events.frame, events.features, features)
    if isinstance(events, pl.DataFrame):
        frame = _checked(*with_defaults(events))
        return _with_features(frame, [x for x in frame.columns if x not in COLUMNS], features)
    return frame_of(listed(events, features), features)


def listed(events: Any, features: Sequence[str]) -> list[Event]:
    """Give an iterable of events as a list; of mappings, events are made.

    Raises
    ------
    EventDataError, TimestampError
        If one is none that :class:`Event` would take.
    UsageError
        If `events` is no such iterable.
    """
    other_table = hasattr(events, "columns")
    if isinstance(events, str | bytes | Mapping | Event) or not isinstance(events, Iterable) or other_table:
        raise UsageError(
            f"events is a {type(events).__name__}; give an EventLog, a polars DataFrame of its columns, "
            "or a list of events; update(event) takes a single one"
        )
    return [as_event(event, features) for event in events]


def frame_of(made: Sequence[Event], features: Sequence[str]) -> pl.DataFrame:
    """Give events as :func:`table_of_events` does."""
    names = dict.fromkeys(name for event in made for name in event.features)
    return _with_features(_frame_of(made, list(names)), list(names), features)


def _frame_of(events: Sequence[Event], features: Sequence[str]) -> pl.DataFrame:
    columns = []
    for name, kind in COLUMNS.items():
        values = [getattr(event, name) for event in events]
        columns.append(instants_column(name, values) if kind == TIME else pl.Series(name, values, kind))
    for name in features:
        columns.append(pl.Series(name, [event.features.get(name) for event in events], pl.Float64()))
    return pl.DataFrame(columns)


def _checked(frame: pl.DataFrame, scheduled: pl.Series) -> pl.DataFrame:
    """Hold a frame against what an event log promises, but for events that are marked as scheduled."""
    features = tuple(name for name in frame.columns if name not in COLUMNS)
    check_schema(frame.schema, features)
    check_content(frame, features)
    early = ((frame["event_time"] > frame["available_at"]) & ~scheduled).arg_true()
    if early.len():
        happened, available = (
            int(nanoseconds_of(frame[name])[early[0]]) for name in ("event_time", "available_at")
        )
        raise EventDataError(
            f"{early.len()} events happen after they became available, first event_id "
            f"{frame['event_id'][early[0]]!r} at {iso(happened)} against {iso(available)}; correct their "
            "times, or "
            "mark them in a column scheduled, or give an EventLog that was made with scheduled=True"
        )
    # One zero, so that equal values have equal bits.
    return frame.with_columns(
        pl.when(pl.col(name) == 0.0).then(0.0).otherwise(pl.col(name)).alias(name) for name in features
    )


def _with_features(frame: pl.DataFrame, there: Sequence[str], wanted: Sequence[str]) -> pl.DataFrame:
    odd = frame["entity"].unique().drop_nulls()
    odd = odd.filter(odd.str.contains("\0", literal=True))
    if odd.len():
        raise EventDataError(
            f"events are of {odd[0]!r}, and the character NUL is for streams themselves; rename that entity"
        )
    known = set(wanted)
    for name in there:
        if name not in known and frame[name].null_count() < frame.height:
            row = int(frame[name].is_not_null().arg_true()[0])
            raise EventDataError(
                f"events have the feature {name!r}, first event_id {frame['event_id'][row]!r}, which the "
                "encoders "
                f"were not fitted on{nearest(name, wanted)}; they know {', '.join(wanted) or 'none'}"
            )
    missing = [name for name in wanted if name not in there]
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in missing).select(
        *schema_of(wanted)
    )


def keys_of(frame: pl.DataFrame) -> list[Key]:
    """Give the canonical keys of the rows of an event log."""
    return list(
        zip(
            nanoseconds_of(frame["available_at"]).tolist(),
            nanoseconds_of(frame["event_time"]).tolist(),
            frame["event_id"].to_list(),
            frame["revision"].to_list(),
            strict=True,
        )
    )


def instants_column(name: str, nanoseconds: Sequence[int | None]) -> pl.Series:
    """Give nanoseconds since the epoch as a column of UTC instants; None is null."""
    return pl.Series(name, nanoseconds, pl.Int64()).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
