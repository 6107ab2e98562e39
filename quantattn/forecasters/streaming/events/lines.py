r"""Events and forecasts as lines of JSON: strict on the way in, safe to show on the way out.

An event is one object on one line::

    {"event_id": "n-17", "revision": 0, "entity": "AAPL", "event_time": "2024-01-05T14:29:58Z",
     "available_at": "2024-01-05T14:30:00Z", "kind": "news", "text": "Up", "features": {"score": 0.5}}

``entity`` is null for a market-wide event; ``revision``, ``text``, ``features`` and ``scheduled`` may be left
out. ``{"forecast": "AAPL", "at": "2024-01-05T15:00:00Z"}`` asks for one forecast, with null for every
entity's. A feed can hold anything, so every line is checked, and what is wrong is told with its number.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quantattn.errors import DataError, EventDataError, TimestampError
from quantattn.forecasters.streaming.events.event import Event, instant, nearest, text_of
from quantattn.pit.timestamps import iso

MOST_BYTES: Final = 1 << 20
"""Bytes of a line, at most: a feed that never ends one must not fill the memory."""

_REQUIRED: Final = ("event_id", "available_at", "event_time", "entity", "kind")
_OPTIONAL: Final = ("revision", "text", "features", "scheduled")
_REQUEST: Final = ("forecast", "at")
_SHOWN: Final = 60
_LONGEST: Final = 700
_HEAD, _TAIL = 200, 240


@dataclass(frozen=True)
class ForecastRequest:
    """A line that asks for a forecast.

    Parameters
    ----------
    entity : str or None
        Whose; None for all.
    at : int
        The forecast time, nanoseconds since the epoch, UTC.
    """

    entity: str | None
    at: int


def numbered_lines(
    chunks: Iterable[bytes], *, source: str, most: int = MOST_BYTES
) -> Iterator[tuple[int, bytes]]:
    """Cut a stream of bytes into lines.

    Parameters
    ----------
    chunks : iterable of bytes
        The stream, in parts of any size.
    source : str
        Its name, for the error message.
    most : int, optional
        Bytes of a line, at most.

    Yields
    ------
    number : int
        From 1.
    line : bytes
        Without its line feed. What follows the last line feed is a line, too, unless it is empty.

    Raises
    ------
    EventDataError
        If a line is too long.
    """
    number, begun = 1, bytearray()

    def line(end: int) -> bytes:
        if end > most:
            raise EventDataError(
                f"{source}, line {number}: longer than {most:,} bytes; end each object with a line feed"
            )
        return bytes(begun[:end])

    for chunk in chunks:
        looked = len(begun)
        begun += chunk
        while (end := begun.find(b"\n", looked)) >= 0:
            yield number, line(end)
            number, looked = number + 1, 0
            del begun[: end + 1]
        if len(begun) > most:
            line(len(begun))
    if begun:
        yield number, line(len(begun))


def read_line(line: bytes, *, place: str) -> Event | ForecastRequest | None:
    """Read one line.

    Parameters
    ----------
    line : bytes
        UTF-8; a byte order mark before it is left out.
    place : str
        Where it stands, for the error message: ``"feed.jsonl, line 17"``.

    Returns
    -------
    Event or ForecastRequest or None
        None for a line of nothing but space.

    Raises
    ------
    EventDataError
        If it is not UTF-8, not one JSON object, has a key twice, unknown or missing, a number that is not
        finite, or a value of another kind.
    TimestampError
        If a time is no ISO 8601 text with a zone.
    """
    try:
        fields = _object(line)
        if fields is None:
            return None
        return _request(fields) if "forecast" in fields else _event(fields)
    except DataError as error:
        raise type(error)(f"{place}: {cut(str(error))}") from error


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EventDataError(f"byte {error.start} is not UTF-8; send UTF-8") from error
    if not text.strip():
        return None
    try:
        fields = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
    except json.JSONDecodeError as error:
        fault = f"it is no JSON ({error.msg}, column {error.colno})"
        raise EventDataError(f"{fault}; write one whole object on each line") from error
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise EventDataError(f"it is no event ({error}); write one whole object on each line") from error
    if not isinstance(fields, dict):
        raise EventDataError(f"it holds {short(fields)}, not an object; write one object on each line")
    return fields


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise EventDataError(f"key {short(twice)} stands twice in one object; keep one")
    return fields


def _constant(name: str) -> float:
    raise EventDataError(f"{name} is no number of JSON; leave a missing value out, or write null")


def _request(fields: dict[str, Any]) -> ForecastRequest:
    _refuse_keys(fields, _REQUEST, ())
    entity = fields["forecast"]
    if entity is not None:
        _texts(fields, ("forecast",))
        text_of(entity, "forecast", entity, null=True)
    _times(fields, ("at",))
    return ForecastRequest(entity, instant(fields["at"], "at"))


def _event(fields: dict[str, Any]) -> Event:
    _refuse_keys(fields, _REQUIRED, _OPTIONAL)
    _texts(fields, ("event_id", "kind") if fields["entity"] is None else ("event_id", "kind", "entity"))
    _times(fields, ("available_at", "event_time"))
    if isinstance(fields.get("revision"), bool):
        raise EventDataError(f"revision is {fields['revision']}; number the versions 0, 1, 2")
    features = fields.get("features")
    if features is None:
        fields = fields | {"features": {}}
    elif not isinstance(features, dict):
        raise EventDataError(f"features is {short(features)}, not an object of names and numbers")
    else:
        _refuse_truths(features)
    return Event(**fields)


def _refuse_keys(fields: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    known = (*required, *optional)
    for name in fields:
        if name not in known:
            raise EventDataError(
                f"key {short(name)} is unknown{nearest(name, known)}; known are {', '.join(known)}"
            )
    for name in required:
        if name not in fields:
            more = "; write null for a market-wide event" if name == "entity" else "; add it"
            raise EventDataError(f"key {name!r} is missing{more}")


def _texts(fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = fields[name]
        if not isinstance(value, str) or not value:
            raise EventDataError(f"{name} is {short(value)}, not a text; write it in quotation marks")


def _times(fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = fields[name]
        if not isinstance(value, str):
            # A number could count seconds, milliseconds or nanoseconds, from one epoch or another.
            raise TimestampError(
                f"{name} is {short(value)}, not an ISO 8601 text; write for example '2024-01-05T14:30:00Z'"
            )


def _refuse_truths(features: Mapping[str, Any]) -> None:
    for name, value in features.items():
        if isinstance(value, bool):
            raise EventDataError(f"feature {short(name)} is {value}, not a number; write one, or null")


def short(value: Any) -> str:
    """Write a value as Python does, but for what is beyond its first 60 characters."""
    said = repr(value)
    return said if len(said) <= _SHOWN else said[:_SHOWN] + "..."


def cut(message: str) -> str:
    """Leave out the middle of a message that repeats too much of what came in; its end is the remedy."""
    return message if len(message) <= _LONGEST else f"{message[:_HEAD]} ... {message[-_TAIL:]}"


def event_line(event: Event) -> str:
    """Write an event as one line of JSON, which :func:`read_line` reads back equal.

    Parameters
    ----------
    event : Event
        The event.

    Returns
    -------
    str
        ASCII, without a line feed at its end; texts cannot command a terminal.
    """
    fields: dict[str, Any] = {
        "event_id": event.event_id,
        "revision": event.revision,
        "entity": event.entity,
        "event_time": iso(event.event_time),
        "available_at": iso(event.available_at),
        "kind": event.kind,
    }
    if event.text is not None:
        fields["text"] = event.text
    if event.features:
        fields["features"] = dict(event.features)
    if event.scheduled:
        fields["scheduled"] = True
    return json.dumps(fields, allow_nan=False)


def values_line(values: Mapping[str, Any]) -> str:
    """Write values as one line of JSON.

    Parameters
    ----------
    values : mapping
        Texts, numbers, truth values and None, or mappings of them.

    Returns
    -------
    str
        ASCII, without a line feed at its end. Floats are written so that they read back equal; those that
        are not finite become null, as JSON has none.
    """
    return json.dumps(_finite(values), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(held) for name, held in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
