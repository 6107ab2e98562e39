"""One dated event, checked when it is made."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.timestamps import is_date, iso, nanoseconds_of, to_nanoseconds

MARKET = "\0market"
"""The name under which streams keep the market-wide events; no entity bears it."""

Moment = int | str | datetime | np.datetime64 | pd.Timestamp
Key = tuple[int, int, str, int]
"""The canonical order: available_at, event_time, event_id, revision."""

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REMEDY = "give an aware datetime, ISO text with a zone such as '2024-11-29T18:00:00Z', or nanoseconds as int"
_FIRST, _LAST = -(2**63), 2**63 - 1
_TEXTS: Final = (("event_id", False), ("entity", True), ("kind", False), ("text", True))
_MOST_REVISIONS = 2**31
_NUL: Final = "holds the character NUL, which streams keep for themselves; rename that entity"

FAR = 2**62
"""Streams take instants within so many nanoseconds of 1970 (146 years): no difference of two overflows."""


def instant(value: Any, name: str) -> int:
    """Read an instant, which must say its zone.

    Parameters
    ----------
    value : int, str, datetime, numpy.datetime64 or pandas.Timestamp
        Nanoseconds since the epoch, UTC; ISO 8601 text with a zone and up to nine decimals; an aware datetime
        or stamp. numpy's stamps are UTC.
    name : str
        What it is, for the error message.

    Returns
    -------
    int
        Nanoseconds since the epoch, UTC.

    Raises
    ------
    TimestampError
        If it is naive, missing, a date alone, no instant at all, or outside of 1677-09-21 to 2262-04-11.
    """
    if type(value) is int and _FIRST < value <= _LAST:
        return value
    if isinstance(value, str):
        return _from_text(value, name)
    if isinstance(value, datetime):
        if value is pd.NaT:
            raise TimestampError(f"{name} is missing (NaT); {_REMEDY}")
        if value.utcoffset() is None:
            raise TimestampError(f"{name}={value} has no zone; {_REMEDY}")
        if not isinstance(value, pd.Timestamp):
            return _in_range(_nanoseconds(value), value, name)
    elif is_date(value):
        raise TimestampError(f"{name}={value} is a date, and a date is not a time; {_REMEDY}")
    elif value is None:
        raise TimestampError(f"{name} is missing; {_REMEDY}")
    try:
        return to_nanoseconds(value)
    except TimestampError as error:
        raise TimestampError(f"{name}: {error}") from error


def near_instant(value: Any, name: str) -> int:
    """Read an instant as :func:`instant` does, and refuse one too far from 1970 to be subtracted from others.

    Raises
    ------
    TimestampError
        As :func:`instant` does; also if it is 146 years from 1970 or more.
    """
    moment = instant(value, name)
    if not -FAR < moment < FAR:
        raise TimestampError(f"{name}={iso(moment)} is more than 146 years from 1970; correct it")
    return moment


def _nanoseconds(value: datetime) -> int:
    passed = value - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000_000 + passed.microseconds * 1_000


def _in_range(nanoseconds: int, value: object, name: str) -> int:
    if not _FIRST < nanoseconds <= _LAST:
        raise TimestampError(f"{name}={value} lies outside of 1677-09-21 to 2262-04-11; correct it")
    return nanoseconds


def _from_text(value: str, name: str) -> int:
    found = _ISO.fullmatch(value.strip())
    if found is None:
        raise TimestampError(f"{name}={value!r} is not an instant in ISO 8601; {_REMEDY}")
    year, month, day, hour, minute, second, decimals, zulu, sign, hours, minutes = found.groups()
    if zulu is None and sign is None:
        raise TimestampError(f"{name}={value!r} has no zone; {_REMEDY}")
    try:
        there = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC
        )
    except ValueError as error:
        raise TimestampError(f"{name}={value!r} is not an instant ({error}); correct it") from error
    offset = timedelta(0)
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise TimestampError(f"{name}={value!r} has an impossible zone; {_REMEDY}")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
    shift = int(offset.total_seconds()) * 1_000_000_000
    exact = _nanoseconds(there) + int((decimals or "").ljust(9, "0")) + (shift if sign == "-" else -shift)
    return _in_range(exact, value, name)


def text_of(value: Any, name: str, event_id: object, *, null: bool) -> str | None:
    """Check a text of an event: Unicode that has a UTF-8, or null where that may be."""
    if type(value) is not str:
        if value is None and null:
            return None
        if not isinstance(value, str):
            what = "null" if value is None else f"a {type(value).__name__}"
            raise EventDataError(f"{name} of event {event_id!r} is {what}; give a text")
    text = str(value)  # numpy's become plain
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EventDataError(
                f"{name} of event {event_id!r} holds half of a surrogate pair ({error.reason}); decode "
                "it anew"
            ) from error
    return text


def named_entity(value: Any) -> str:
    """Check the name of an entity to forecast.

    Raises
    ------
    EventDataError
        If it is no text, or holds the character NUL.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            if "\0" in value:
                raise EventDataError(f"entity={value!r} {_NUL}")
            return str(value)
    raise EventDataError(f"entity={value!r} is no name of an entity; give a text")


def named_entities(values: Any, argument: str) -> list[str]:
    """Check a collection of names of entities.

    Raises
    ------
    UsageError
        If it is no list, tuple or column of names, or holds one twice.
    EventDataError
        If one of them is no text, or holds the character NUL.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
        raise UsageError(f"{argument}={values!r}: give a list of names, such as ['AAPL']")
    for value in values:
        if isinstance(value, Collection) and not isinstance(value, str | bytes):
            raise UsageError(f"{argument} holds {value!r}, a {type(value).__name__}; give one list of names")
    names = [named_entity(value) for value in values]
    if len(set(names)) < len(names):
        raise UsageError(f"{argument}={values!r}: give a list of names that are all different")
    return names


def number_of(value: Any, name: str, event_id: object) -> float | None:
    """Check a feature of an event: a finite number with one zero, or None where it has none."""
    if type(value) is not float:
        if value is None:
            return None
        if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
            raise EventDataError(
                f"feature {name!r} of event {event_id!r} is {value!r}, not a number; leave out what is "
                "missing"
            )
        try:
            value = float(value)
        except OverflowError as error:
            raise EventDataError(f"feature {name!r} of event {event_id!r} is too large ({error})") from error
    number: float = value
    if not math.isfinite(number):
        raise EventDataError(
            f"feature {name!r} of event {event_id!r} is {number}, not a finite number; leave out what is "
            "missing"
        )
    return number + 0.0  # one zero, so that equal values have equal bits


@dataclass(frozen=True, slots=True)
class Event:
    """One version of one event, as it comes in.

    Parameters
    ----------
    event_id : str
        Names the event; its versions share it.
    available_at : int, str, datetime, numpy.datetime64 or pandas.Timestamp
        First instant at which it could be known; kept as nanoseconds since the epoch, UTC. See
        :func:`instant`.
    event_time : int, str, datetime, numpy.datetime64 or pandas.Timestamp
        When it happened; kept likewise.
    entity : str or None
        The instrument; None is market-wide.
    kind : str
        Its kind, such as ``"news"``.
    revision : int, default 0
        The version, counted from 0.
    text : str, optional
        What was said.
    features : mapping of str to float, optional
        Figures by name, copied and not to be changed. One that is missing is left out, or None.
    scheduled : bool, default False
        Whether it tells of what is still to come, so that `event_time` may lie after `available_at`.

    Raises
    ------
    TimestampError
        If a time is naive, missing or no instant.
    EventDataError
        If a key is null or no text, a feature is not a finite number, or the event happens after it could be
        known without being scheduled.
    """

    event_id: str
    available_at: int
    event_time: int
    entity: str | None
    kind: str
    revision: int = 0
    text: str | None = None
    features: Mapping[str, float] = field(default_factory=dict, hash=False)
    scheduled: bool = False

    def __post_init__(self) -> None:
        """Check every field, and bring times and figures into one form."""
        put = object.__setattr__
        name = self.event_id
        for field_name, may_be_null in _TEXTS:
            value = getattr(self, field_name)
            text = text_of(value, field_name, name, null=may_be_null)
            if text is not value:
                put(self, field_name, text)
        if self.entity is not None and "\0" in self.entity:
            raise EventDataError(f"entity {self.entity!r} of event {name!r} {_NUL}")
        if type(self.available_at) is not int or type(self.event_time) is not int:
            put(self, "available_at", instant(self.available_at, f"available_at of event {name!r}"))
            put(self, "event_time", instant(self.event_time, f"event_time of event {name!r}"))
        elif not (_FIRST < self.available_at <= _LAST and _FIRST < self.event_time <= _LAST):
            instant(self.available_at, f"available_at of event {name!r}")
            instant(self.event_time, f"event_time of event {name!r}")
        if type(self.revision) is not int:
            if not isinstance(self.revision, np.integer):
                raise EventDataError(
                    f"revision of event {name!r} is {self.revision!r}; give a whole number from 0"
                )
            put(self, "revision", int(self.revision))
        if not 0 <= self.revision < _MOST_REVISIONS:
            raise EventDataError(
                f"revision of event {name!r} is {self.revision}; count from 0, below {_MOST_REVISIONS}"
            )
        if not isinstance(self.features, Mapping):
            raise EventDataError(
                f"features of event {name!r} are a {type(self.features).__name__}; give figures by name"
            )
        figures = {}
        for feature, value in self.features.items():
            if type(feature) is not str:
                raise EventDataError(f"event {name!r} has a feature named {feature!r}; name it by a text")
            number = number_of(value, feature, name)
            if number is not None:
                figures[feature] = number
        put(self, "features", MappingProxyType(figures))
        if type(self.scheduled) is not bool:
            raise EventDataError(f"scheduled of event {name!r} is {self.scheduled!r}; give True or False")
        if self.event_time > self.available_at and not self.scheduled:
            raise EventDataError(
                f"event {name!r} happens at {iso(self.event_time)}, after it became available at "
                f"{iso(self.available_at)}; correct its times, or say scheduled=True of what was announced"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let copies and pickles make the event anew: the view of its figures can be neither."""
        return type(self), self._fields(dict(self.features))

    @property
    def key(self) -> Key:
        """Its place in the canonical order: available_at, event_time, event_id, revision."""
        return (self.available_at, self.event_time, self.event_id, self.revision)

    def moved_to(self, available_at: int) -> Event:
        """Give the same event as one that became available later.

        Parameters
        ----------
        available_at : int
            Nanoseconds since the epoch, UTC; not earlier than it is.
        """
        event_id, _, *others = self._fields(self.features)
        return Event(event_id, available_at, *others)

    def _fields(self, features: Mapping[str, float]) -> tuple[Any, ...]:
        head = (self.event_id, self.available_at, self.event_time, self.entity, self.kind)
        return (*head, self.revision, self.text, features, self.scheduled)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, features: Collection[str] | None = None) -> Self:
        """Make an event from a mapping, such as a line of JSON or a row of an event log.

        Parameters
        ----------
        values : mapping
            The fields by name; those with a default may be left out. ``entity`` is null for a market-wide
            event, and must be written out. Figures stand in ``features``, by name, or beside the fields as in
            a row of a log.
        features : collection of str, optional
            The names that figures beside the fields may have; any by default.

        Raises
        ------
        TimestampError, EventDataError
            As the constructor does; also if a field is missing, a key unknown, or a value beside the fields
            no figure.
        """
        if not isinstance(values, Mapping):
            raise EventDataError(f"an event is a {type(values).__name__}; give an Event or a mapping")
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            more = "; entity=None is a market-wide event" if "entity" in missing else ""
            raise EventDataError(f"the event {_short(values)} lacks {missing}; add them{more}")
        inner = values.get("features")
        figures: dict[Any, Any] = {}
        if isinstance(inner, Mapping):
            figures.update(inner)
        elif inner is not None:
            raise EventDataError(
                f"features of event {values['event_id']!r} are a {type(inner).__name__}; give figures by name"
            )
        for name, value in values.items():
            if name in _FIELDS:
                continue
            fault = None
            if name in figures:
                fault = "stands there twice"
            elif isinstance(value, str):
                fault = f"is {value[:40]!r}, which is no figure"
            elif features is not None and name not in features:
                fault = "is neither a field nor a feature"
            if fault is not None:
                near = nearest(str(name), (*_FIELDS, *(features or ())))
                known = "features" if not features else f"the features {', '.join(features)}"
                raise EventDataError(
                    f"{name!r} of event {values['event_id']!r} {fault}{near}; an event has "
                    f"{', '.join(_FIELDS)} and {known}"
                )
            figures[name] = value
        given = {name: values[name] for name in _PLAIN if name in values}
        return cls(**given, features=figures)


_FIELDS: Final = (
    "event_id",
    "available_at",
    "event_time",
    "entity",
    "kind",
    "revision",
    "text",
    "features",
    "scheduled",
)
_PLAIN: Final = tuple(name for name in _FIELDS if name != "features")
_REQUIRED: Final = ("event_id", "available_at", "event_time", "entity", "kind")


def as_event(value: Any, features: Collection[str] | None = None) -> Event:
    """Give an event as it is, and make one from a mapping, whose figures have known names."""
    return value if isinstance(value, Event) else Event.from_mapping(value, features=features)


def nearest(name: str, known: Collection[str]) -> str:
    """Offer the known names nearest to an unknown one: text to append, or nothing."""
    near = difflib.get_close_matches(name, sorted(known), n=2)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def _short(values: Mapping[str, Any]) -> str:
    told = repr(dict(values))
    return told if len(told) <= 80 else f"{told[:77]}..."


def events_of(frame: pl.DataFrame, features: Sequence[str]) -> Iterator[Event]:
    """Give the rows of an event log's frame as events.

    Parameters
    ----------
    frame : polars.DataFrame
        Of an :class:`~quantattn.pit.EventLog`, which has checked it.
    features : sequence of str
        Its feature columns.

    Yields
    ------
    Event
        Of what happens after it became available, the log has said that it is scheduled.
    """
    columns = [frame[name].to_list() for name in features]
    figures: Iterator[tuple[Any, ...]] = (
        zip(*columns, strict=True) if columns else iter(() for _ in range(frame.height))
    )
    rows = zip(
        frame["event_id"].to_list(),
        nanoseconds_of(frame["available_at"]).tolist(),
        nanoseconds_of(frame["event_time"]).tolist(),
        frame["entity"].to_list(),
        frame["kind"].to_list(),
        frame["revision"].to_list(),
        frame["text"].to_list(),
        figures,
        strict=True,
    )
    for event_id, available, happened, entity, kind, revision, text, values in rows:
        there = {name: value for name, value in zip(features, values, strict=True) if value is not None}
        yield Event(event_id, available, happened, entity, kind, revision, text, there, happened > available)
