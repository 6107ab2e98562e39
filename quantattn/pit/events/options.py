"""The arguments of an intake, checked before any row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypedDict

import pandas as pd

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.events.intake import ColumnMap, IntakeRules
from quantattn.pit.events.reasons import MARKET
from quantattn.pit.events.schema import Moment, feature_names
from quantattn.pit.events.stamps import DateOnly, TimeRules
from quantattn.pit.timestamps import duration_nanoseconds, to_nanoseconds


class ScanOptions(TypedDict, total=False):
    """The options of :meth:`EventLog.scan`, explained in :func:`~quantattn.pit.events.scan.scan_events`."""

    event_time: str | None
    available_at: str | None
    entity: str | None
    event_id: str | None
    text: str | None
    kind: str | None
    revision: str | None
    features: Sequence[str]
    time_zone: str | None
    date_only: DateOnly
    calendar: str
    latency: str | timedelta | pd.Timedelta
    scheduled: bool
    strict: bool
    now: Moment | None
    name: str | None
    storage_options: Mapping[str, str] | None


def intake_rules(
    *,
    event_time: str,
    available_at: str | None = None,
    entity: str | None = None,
    event_id: str | None = None,
    text: str | None = None,
    kind: str | None = None,
    revision: str | None = None,
    features: Sequence[str] = (),
    time_zone: str | None = None,
    date_only: DateOnly = "next_session",
    calendar: str = "XNYS",
    latency: str | timedelta | pd.Timedelta = "0s",
    scheduled: bool = False,
    now: Moment | None = None,
    number_revisions: bool = False,
    name: str | None = None,
) -> IntakeRules:
    """Turn the arguments of :meth:`EventLog.from_frame` into rules.

    Raises
    ------
    UsageError
        If an argument is of the wrong type, or names the entity twice.
    EventDataError
        If features are misnamed, or revisions number versions of nothing or are given twice.
    TimestampError
        If the zone is unknown, the latency is no duration or negative, or `now` is no instant.
    """
    optional = {
        "available_at": available_at,
        "entity": entity,
        "event_id": event_id,
        "text": text,
        "kind": kind,
        "revision": revision,
    }
    check_columns({"event_time": event_time}, optional)
    check_texts(time_zone=time_zone, date_only=date_only, calendar=calendar)
    names = feature_names(features)
    entity_name = _entity_name(name, entity)
    if event_id is None and (revision is not None or number_revisions):
        given = "number_revisions=True" if revision is None else f"revision={revision!r}"
        raise EventDataError(f"{given} numbers versions of nothing; pass event_id= as well")
    if revision is not None and number_revisions:
        raise EventDataError(f"revision={revision!r} and number_revisions=True contradict; pass one of them")
    moment = None if now is None else to_nanoseconds(now)
    return IntakeRules(
        ColumnMap(event_time, available_at, entity, event_id, text, kind, revision, names, entity_name),
        TimeRules(time_zone, date_only, calendar),
        latency=checked_latency(latency),
        scheduled=scheduled,
        now=moment,
    )


def check_columns(needed: Mapping[str, object], optional: Mapping[str, object]) -> None:
    """Refuse what is no name of a column.

    Raises
    ------
    UsageError
        Naming the argument.
    """
    for argument, column in (dict(needed) | {a: c for a, c in optional.items() if c is not None}).items():
        if not isinstance(column, str):
            raise UsageError(f"{argument}={column!r} is no name of a column; give a text")


def check_texts(*, time_zone: object, date_only: object, calendar: object) -> None:
    """Refuse rules of time that are no text.

    Raises
    ------
    UsageError
        Naming the argument.
    """
    if time_zone is not None and not isinstance(time_zone, str):
        raise UsageError(f"time_zone={time_zone!r} is no zone; write for example 'America/New_York'")
    if not isinstance(date_only, str):
        raise UsageError(f"date_only={date_only!r} is unknown; use 'next_session' or 'reject'")
    if not isinstance(calendar, str):
        raise UsageError(f"calendar={calendar!r} is no trading calendar; write for example 'XNYS'")


def _entity_name(name: object, entity: str | None) -> str | None:
    if name is None:
        return None
    if entity is not None:
        raise UsageError(f"entity={entity!r} and name={name!r} both name the instrument; give one of them")
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"name={name!r} names no instrument; give its ticker")
    return None if name.strip() == MARKET else name.strip()


def checked_latency(latency: str | timedelta | pd.Timedelta) -> int:
    """Give a latency in nanoseconds.

    Raises
    ------
    TimestampError
        If it is no duration or negative.
    """
    delay = duration_nanoseconds(latency, argument="latency")
    if delay < 0:
        raise TimestampError(f"latency={latency!r} is negative; nothing is known before it is published")
    return delay
