"""What a replay reads: an event log, or lines of JSON from a file or a pipe; and how far it has come."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import polars as pl

from quantattn.errors import StateError
from quantattn.forecasters.streaming.events.event import Event, events_of
from quantattn.forecasters.streaming.events.lines import ForecastRequest, read_line
from quantattn.pit import EventLog, event_digests
from quantattn.pit.timestamps import nanoseconds_of
from quantattn.study.replay.feed import Feed, Nothing
from quantattn.study.replay.pace import Alarm

Position = dict[str, Any]
Note = Callable[[str], None]

_BLOCK: Final = 16_384


@dataclass(frozen=True)
class Item:
    """Something that a log holds.

    Parameters
    ----------
    content : Event or ForecastRequest
        What it is.
    place : str
        Where it stands, to begin an error message with; empty where an event's own name is enough.
    """

    content: Event | ForecastRequest
    place: str

    @property
    def at(self) -> int:
        """Its instant, nanoseconds since the epoch, UTC."""
        return self.content.available_at if isinstance(self.content, Event) else self.content.at


class ReplayLog(Protocol):
    """A log that is read item by item."""

    @property
    def anew(self) -> bool:
        """Whether some of what it holds may have been written before, from another log."""

    @property
    def elsewhere(self) -> bool:
        """Whether another log went before this one, so that nothing tells of what lies between them."""

    def follow(self, *, gap: bool) -> None:
        """Begin behind another log, some of which may come again; `gap`: which ends before this one."""

    def peek(self, timeout: float | None) -> Item | Nothing:
        """Give the next item and leave it; wait for it no longer than so many seconds (None: for ever)."""

    def pop(self) -> None:
        """Go past the item that :meth:`peek` gave."""

    def block(self, before: int) -> pl.DataFrame | None:
        """Give the next events that became available before an instant, if it gives many at once."""

    def pass_block(self, events: int) -> None:
        """Go past so many events that :meth:`block` gave."""

    def position(self) -> Position:
        """Say how far it has come, as plain JSON values."""

    def go_on_behind(self, position: Position) -> None:
        """Skip what was there before a position, if this is the log that it belongs to."""

    def wake_by(self, alarm: Alarm) -> None:
        """Let an alarm end the wait for an item."""


class FrameLog:
    """An event log.

    Parameters
    ----------
    log : EventLog
        The log.
    note : callable
        Is told where it goes on.
    """

    def __init__(self, log: EventLog, note: Note) -> None:
        self._log, self._note = log, note
        self.anew = self.elsewhere = False
        self._place = 0
        self._events: Iterator[Event] = iter(())
        self._next: Event | None = None
        self._loaded = 0

    def peek(self, timeout: float | None = None) -> Item | Nothing:
        """Give the next event and leave it."""
        if self._next is None:
            if self._place == self._loaded:
                part = self._log.frame.slice(self._place, _BLOCK)
                self._events = events_of(part, self._log.features)
                self._loaded += part.height
            self._next = next(self._events, None)
        return Nothing.MORE if self._next is None else Item(self._next, "")

    def pop(self) -> None:
        """Go past it."""
        self._next = None
        self._place += 1

    def block(self, before: int) -> pl.DataFrame | None:
        """Give the next events that became available before an instant; None if there are none."""
        part = self._log.frame.slice(self._place, _BLOCK)
        part = part.head(int(nanoseconds_of(part["available_at"]).searchsorted(before)))
        return part if part.height else None

    def pass_block(self, events: int) -> None:
        """Go past so many events."""
        self._move_to(self._place + events)

    def _move_to(self, place: int) -> None:
        self._place = self._loaded = place
        self._events, self._next = iter(()), None

    def position(self) -> Position:
        """Say how many events are behind it, and name them by a hash."""
        return {
            "kind": "events",
            "count": self._place,
            "digest": self._digest(self._place),
            "anew": self.anew,
        }

    def _digest(self, count: int) -> str:
        digests = event_digests(self._log.frame.head(count), self._log.features)
        return hashlib.sha256(digests.tobytes()).hexdigest()

    def go_on_behind(self, position: Position) -> None:
        """Skip the events before a position, if they are the same."""
        count = position.get("count", 0)
        same = position.get("kind") == "events" and 0 < count <= self._log.frame.height
        if same and self._digest(count) == position.get("digest"):
            self._move_to(count)
            self.anew = position.get("anew") is True
            self._note(f"the log goes on behind its event {count:,}, the last one in the snapshot")
        else:
            self.follow(gap=True)
            self._note("this is not the log that the snapshot went through; what it adds to that is replayed")

    def follow(self, *, gap: bool) -> None:
        """Begin behind another log, some of which may come again; `gap`: which ends before this one."""
        self.anew, self.elsewhere = True, gap

    def wake_by(self, alarm: Alarm) -> None:
        """Do nothing: there is no wait."""


class LineLog:
    """Lines of JSON.

    Parameters
    ----------
    lines : iterable of (int, bytes), or Feed
        Numbered lines, as they are asked for, or as they come.
    source : str
        Its name, for messages.
    note : callable
        Is told where it goes on.
    """

    def __init__(self, lines: Iterable[tuple[int, bytes]] | Feed, source: str, note: Note) -> None:
        self._lines = lines if isinstance(lines, Feed) else iter(lines)
        self._source, self._note = source, note
        self.anew = self.elsewhere = False
        self._digest = hashlib.sha256()
        self._count = 0
        self._first: str | None = None
        self._taken: list[bytes] = []
        self._next: Item | None = None
        self._before: Position | None = None
        self._skipping = False

    def peek(self, timeout: float | None) -> Item | Nothing:
        """Give the next item and leave it, having waited no longer than so many seconds."""
        while self._next is None:
            found = self._line(timeout)
            if isinstance(found, Nothing):
                if found is Nothing.MORE and self._skipping:
                    raise self._other_log(f"ends after line {self._count:,}")
                return found
            number, line = found
            if self._before is not None and self._skip(line):
                continue
            self._taken.append(line)
            place = f"{self._source}, line {number:,}"
            content = read_line(line, place=place)
            if content is not None:
                self._next = Item(content, place)
        return self._next

    def _line(self, timeout: float | None) -> tuple[int, bytes] | Nothing:
        if isinstance(self._lines, Feed):
            return self._lines.take(timeout)
        return next(self._lines, Nothing.MORE)

    def pop(self) -> None:
        """Go past it."""
        for line in self._taken:
            self._count_in(line)
        self._taken.clear()
        self._next = None

    def _count_in(self, line: bytes) -> None:
        self._digest.update(line + b"\n")
        self._count += 1
        if self._first is None:
            self._first = _hash_of(line)

    def block(self, before: int) -> pl.DataFrame | None:
        """Give nothing: each line is read by itself, so that a fault is told with its number."""
        return None

    def pass_block(self, events: int) -> None:
        """Do nothing, as no block was given."""

    def position(self) -> Position:
        """Say how many lines are behind it, and name them by a hash."""
        return {
            "kind": "lines",
            "count": self._count,
            "first": self._first,
            "digest": self._digest.hexdigest(),
            "anew": self.anew,
        }

    def go_on_behind(self, position: Position) -> None:
        """Skip the lines before a position once the first line has come and is the same."""
        self._before = position

    def follow(self, *, gap: bool) -> None:
        """Begin behind another log, some of which may come again; `gap`: which ends before this one."""
        self.anew, self.elsewhere = True, gap

    def wake_by(self, alarm: Alarm) -> None:
        """Let an alarm end the wait for a line."""
        if isinstance(self._lines, Feed):
            alarm.also(self._lines.wake)

    def _skip(self, line: bytes) -> bool:
        """Say whether a line was replayed already; the first one tells whether this is that log."""
        before = self._before
        assert before is not None
        if not self._skipping:
            self._skipping = before.get("kind") == "lines" and _hash_of(line) == before.get("first")
            if not self._skipping:
                self._before = None
                self.follow(gap=True)
                self._note(
                    f"{self._source} is not the log that the snapshot went through; what it adds is replayed"
                )
                return False
        self._count_in(line)
        if self._count == before["count"]:
            if self._digest.hexdigest() != before.get("digest"):
                raise self._other_log(f"differs up to line {self._count:,}")
            self._before, self._skipping, self.anew = None, False, before.get("anew") is True
            self._note(
                f"{self._source} goes on behind its line {self._count:,}, the last one in the snapshot"
            )
        return True

    def _other_log(self, fault: str) -> StateError:
        assert self._before is not None
        return StateError(
            f"{self._source} begins like the log that the snapshot went through up to line "
            f"{self._before['count']:,}, but {fault}; give that log, or one that begins behind it"
        )


def _hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
