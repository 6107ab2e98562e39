"""The order that a stream must keep, and what happens to events that come too late for it.

Each entity's sequence holds its own and the market-wide events, and its canonical key (available_at,
event_time, event_id, revision) rises strictly. A forecast at t promises that whatever became available before
t has been written. An event that comes after either can no longer stand where it belongs: it is *late*.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import ClockError, EventDataError, StateError, TimestampError, UsageError
from quantattn.forecasters.streaming.events._packed import pack, unpack
from quantattn.forecasters.streaming.events._recent import Recent
from quantattn.forecasters.streaming.events._tables import instants_column, keys_of
from quantattn.forecasters.streaming.events.event import FAR, Event, Key, events_of
from quantattn.pit.dataset._visible import entity_codes
from quantattn.pit.events.schema import is_canonical
from quantattn.pit.timestamps import TIME, iso, nanoseconds_of

Late = Literal["refuse", "queue"]

LATE_SCHEMA = pl.Schema(
    {
        "event_id": pl.String(),
        "revision": pl.Int32(),
        "entity": pl.String(),
        "available_at": TIME,
        "written_at": TIME,
    }
)
"""Columns of the list of late events."""

_REMEDY = "send events in canonical order and before the forecasts that see them, or take late='queue'"


class Ledger:
    """What a stream has written and forecast: the last key and the latest forecast of each sequence.

    Parameters
    ----------
    late : {"refuse", "queue"}
        Whether a late event is an error, or is written as one that became available later: at the instant of
        the latest forecast or event that it missed, or just behind where it would stand before that event.
    remember : int
        So many (event_id, revision) last written are known, and refused if they come again.

    Raises
    ------
    UsageError
        If an option is impossible.
    """

    def __init__(self, late: Late = "refuse", remember: int = 100_000) -> None:
        if late not in get_args(Late):
            raise UsageError(f"late={late!r} is not known; use 'refuse' or 'queue'")
        if isinstance(remember, bool) or not isinstance(remember, int) or remember < 1:
            raise UsageError(f"remember={remember!r} must be a whole number from 1")
        self.late: Late = late
        self.remember = remember
        self.promised: dict[str, int] = {}
        """The latest forecast of each entity."""
        self.market: Key | None = None
        """The last market-wide event."""
        self.own: MutableMapping[str, Key] = {}
        """The last event of each entity's own."""
        self._promise: int | None = None
        self._highest: Key | None = None
        self._known = Recent(remember)
        self._moved: list[tuple[str, int, str | None, int, int]] = []

    def place(self, event: Event) -> Event:
        """Give an event as it is to be written; nothing is changed.

        Parameters
        ----------
        event : Event
            Of a sequence in scope.

        Returns
        -------
        Event
            The same, or re-dated if it is late and late ones are queued.

        Raises
        ------
        EventDataError
            If it has been written already, or it is late, late ones are queued, and it stands so far back
            that nobody knows whether it was.
        TimestampError
            If it lies too far from 1970, or would be written there.
        ClockError
            If it is late and late ones are refused.
        """
        if (event.event_id, event.revision) in self._known:
            raise EventDataError(
                f"event {event.event_id!r} revision {event.revision} has been written already; send each "
                "version "
                "once, and number the revisions"
            )
        key, entity = event.key, event.entity
        if not -FAR < key[0] < FAR:
            raise TimestampError(
                f"event {event.event_id!r} became available at {iso(key[0])}, more than 146 years from 1970; "
                "correct it"
            )
        floor = self._floor(entity)
        promise = self._promise if entity is None else self.promised.get(entity)
        if (floor is None or key > floor) and (promise is None or key[0] >= promise):
            return event
        if self.late == "refuse":
            raise ClockError(self._reason(event, floor, promise))
        if self.forgot(key):
            raise EventDataError(
                f"event {event.event_id!r} revision {event.revision}, available at {iso(key[0])}, is late, "
                f"and none of the {self.remember} ids last written; ids that far back are forgotten, so "
                "it may have been written already; leave it out, or take a larger remember from the beginning"
            )
        at = key[0] if promise is None else max(key[0], promise)
        if floor is not None and (at, *key[1:]) <= floor:
            at = floor[0] if (floor[0], *key[1:]) > floor else floor[0] + 1
        if at >= FAR:
            raise TimestampError(
                f"event {event.event_id!r} is late and would be written at {iso(at)}, more than 146 years "
                "from 1970; correct what was written or forecast there"
            )
        return event.moved_to(at)

    def _floor(self, entity: str | None) -> Key | None:
        """Give the last event that an entity's next one, or the market's, must come after."""
        floor, other = self.market, self._highest if entity is None else self.own.get(entity)
        return other if floor is None or (other is not None and other > floor) else floor

    def behind(self, frame: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Say which events of a log stand before what was written or forecast, so that they would be late.

        Parameters
        ----------
        frame : polars.DataFrame
            Of an event log; of sequences in scope.

        Returns
        -------
        ndarray of bool, shape (n,)
            False where :meth:`place` would leave the event as it is, were it a new one.
        """
        names: list[str | None] = [*frame["entity"].drop_nulls().unique().to_list(), None]
        wide = len(names) - 1
        places = entity_codes(frame["entity"], names[:-1], wide, wide)  # type: ignore[arg-type]
        floors = [self._floor(name) for name in names]
        promises = [self._promise if name is None else self.promised.get(name) for name in names]
        at = nanoseconds_of(frame["available_at"])
        least = np.iinfo(np.int64).min
        lasts = np.array([least if floor is None else floor[0] for floor in floors], np.int64)[places]
        promised = np.array([least if when is None else when for when in promises], np.int64)[places]
        behind: npt.NDArray[np.bool_] = (at < lasts) | (at < promised)
        ties = np.flatnonzero((at == lasts) & ~behind)
        for row, key in zip(ties.tolist(), keys_of(frame[ties]), strict=True):
            floor = floors[places[row]]
            behind[row] = floor is not None and key <= floor
        return behind

    def forgot(self, key: Key) -> bool:
        """Whether an event stands so far back that its id may be forgotten."""
        gone = self._known.forgotten
        return gone is not None and key <= gone

    def key_of(self, event_id: str, revision: int) -> Key | None:
        """Give the key that an event was written with; None if it was not, or is forgotten."""
        return self._known.get((event_id, revision))

    def _reason(self, event: Event, floor: Key | None, promise: int | None) -> str:
        whose = "the market" if event.entity is None else repr(event.entity)
        told = (
            f"event {event.event_id!r} revision {event.revision} of {whose}, available at "
            f"{iso(event.available_at)},"
        )
        if promise is not None and event.available_at < promise:
            who = "an entity" if event.entity is None else "it"
            return (
                f"{told} comes after a forecast of {who} at {iso(promise)}, which should have seen it; "
                f"{_REMEDY}"
            )
        assert floor is not None
        return (
            f"{told} does not come after event {floor[2]!r} revision {floor[3]} available at "
            f"{iso(floor[0])}, which "
            f"was written before it; {_REMEDY}"
        )

    def note(self, written: Event, given: Event) -> None:
        """Note that an event was written, as :meth:`place` gave it."""
        self._note(written.key, written.entity)
        if written is not given:
            self._moved.append(_move(given, written))

    def _note(self, key: Key, entity: str | None) -> None:
        if entity is None:
            self.market = key
        else:
            self.own[entity] = key
        if self._highest is None or key > self._highest:
            self._highest = key
        self._known.add(key)

    def promise(self, entity: str, at: int) -> None:
        """Note that an entity was forecast: from now on, whatever became available before `at` is late.

        Raises
        ------
        TimestampError
            If it lies too far from 1970.
        """
        if not -FAR < at < FAR:
            raise TimestampError(
                f"forecast of {entity!r} at {iso(at)} is more than 146 years from 1970; correct it"
            )
        # Whoever is broken off between the two has promised too much for the market, never too little.
        if self._promise is None or at > self._promise:
            self._promise = at
        before = self.promised.get(entity)
        if before is None or at > before:
            self.promised[entity] = at

    def place_many(self, frame: pl.DataFrame, features: tuple[str, ...]) -> Placed:
        """Give events as they are to be written one after the other; nothing is changed.

        Parameters
        ----------
        frame : polars.DataFrame
            Of an event log, in the order in which they come; of sequences in scope.
        features : tuple of str
            Its feature columns.

        Returns
        -------
        Placed

        Raises
        ------
        EventDataError, TimestampError, ClockError
            As :meth:`place`, for the first event that it refuses.
        """
        if self._follows(frame):
            return Placed(frame, in_order=True)
        given = list(events_of(frame, features))
        placed = self.place_each(given)
        moved = tuple(_move(one, event) for one, event in zip(given, placed, strict=True) if event is not one)
        if moved:
            times = [event.available_at for event in placed]
            frame = frame.with_columns(instants_column("available_at", times))
        return Placed(frame, moved, False)

    def place_each(self, events: Sequence[Event]) -> list[Event]:
        """Give events as they are to be written one after the other; nothing is changed.

        Raises
        ------
        EventDataError, TimestampError, ClockError
            As :meth:`place`, for the first event that it refuses.
        """
        if len(events) == 1:
            return [self.place(events[0])]
        trial, placed = self._trial(), []
        for event in events:
            written = trial.place(event)
            trial._note(written.key, written.entity)
            placed.append(written)
        return placed

    def note_many(self, placed: Placed) -> None:
        """Note that events were written, as :meth:`place_many` gave them."""
        frame = placed.frame
        if placed.in_order and frame.height > self.remember + 1:
            lasts = frame.with_row_index("#row").group_by("entity").agg(pl.col("#row").last())["#row"]
            # Ids before the last few are forgotten at once, and the last of them is the highest.
            recent = range(frame.height - self.remember - 1, frame.height)
            frame = frame[sorted({*lasts.to_list(), *recent})]
        for key, entity in zip(keys_of(frame), frame["entity"].to_list(), strict=True):
            self._note(key, entity)
        self._moved.extend(placed.moved)

    def _follows(self, frame: pl.DataFrame) -> bool:
        """Whether events come in canonical order, each where it belongs and for the first time."""
        if frame.is_empty() or not is_canonical(frame):
            return False
        (first,), (last,) = keys_of(frame[:1]), keys_of(frame[-1:])
        if not -FAR < first[0] <= last[0] < FAR:
            return False
        after = (self._highest is None or first > self._highest) and (
            self._promise is None or first[0] >= self._promise
        )
        if not after and self.behind(frame).any():
            return False
        ids = frame.select("event_id", "revision")
        return not ids.is_duplicated().any() and self._known.isdisjoint(ids.iter_rows())

    def _trial(self) -> Ledger:
        """Give a ledger over this one, to try an order of events on."""
        trial = Ledger(self.late, self.remember)
        trial.promised, trial._promise = self.promised, self._promise
        trial.market, trial._highest = self.market, self._highest
        trial.own = ChainMap({}, self.own)
        trial._known = self._known.on_trial()
        return trial

    def written(self, frame: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Say which events of a log were written already.

        Parameters
        ----------
        frame : polars.DataFrame
            Of an event log, in canonical order; of sequences in scope.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the event is remembered. Of one that is forgotten nothing tells whether it was written:
            it is not passed over, and :meth:`place` refuses it as one that came late.
        """
        found = np.zeros(frame.height, bool)
        if self._highest is None:
            return found
        # Nothing that became available later was written.
        frame = frame[: int((nanoseconds_of(frame["available_at"]) <= self._highest[0]).sum())]
        lasts: dict[str | None, Key] = dict(self.own.items())
        if self.market is not None:
            lasts[None] = self.market
        for row, (entity, key) in enumerate(zip(frame["entity"].to_list(), keys_of(frame), strict=True)):
            last = lasts.get(entity)
            found[row] = last is not None and key[0] <= last[0] and key[2:] in self._known
        return found

    @property
    def late_events(self) -> pl.DataFrame:
        """Late events that were written: ``event_id, revision, entity, available_at, written_at``."""
        columns = [list(values) for values in zip(*self._moved, strict=True)] or [[] for _ in LATE_SCHEMA]
        return pl.DataFrame(
            [
                instants_column(name, values) if kind == TIME else pl.Series(name, values, kind)
                for (name, kind), values in zip(LATE_SCHEMA.items(), columns, strict=True)
            ]
        )

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Give copies of everything that the ledger holds, but for its options.

        Returns
        -------
        dict of str to ndarray
            Texts as UTF-8 with the sizes of each; see
            :func:`~quantattn.forecasters.streaming.events._packed.pack`.
        """
        known = [(event_id, revision, *times) for *times, event_id, revision in self._known.in_order()]
        own = [(entity, *key) for entity, key in sorted(self.own.items())]
        last = [key for key in (self.market,) if key is not None]
        gone = [key for key in (self._known.forgotten,) if key is not None]
        return {
            **pack("promised", "ti", sorted(self.promised.items())),
            **pack("own", "tiiti", own),
            **pack("market", "iiti", last),
            **pack("forgotten", "iiti", gone),
            **pack("known", "tiii", known),
            **pack("moved", "titii", [(*row[:2], row[2] or "", *row[3:]) for row in self._moved]),
            "moved_market": np.array([row[2] is None for row in self._moved], np.bool_),
        }

    def restore(self, memory: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take up what :meth:`memory` gave.

        Parameters
        ----------
        memory : mapping of str to ndarray
            Of a ledger that remembered as many ids; of more, the last are kept.

        Raises
        ------
        StateError
            If an array is missing, or they do not fit each other.
        """
        fresh = Ledger(self.late, self.remember)
        for entity, at in unpack("promised", "ti", memory):
            fresh.promise(entity, at)
        for entity, *key in unpack("own", "tiiti", memory):
            fresh.own[entity] = _key(key)
        for row in unpack("market", "iiti", memory):
            fresh.market = _key(row)
        for row in unpack("forgotten", "iiti", memory):
            fresh._known.forgotten = _key(row)
        lasts = [*fresh.own.values(), *([fresh.market] if fresh.market is not None else [])]
        fresh._highest = max(lasts, default=None)
        for event_id, revision, available, happened in unpack("known", "tiii", memory):
            fresh._known.add((available, happened, event_id, revision))
        moved = unpack("moved", "titii", memory)
        wide = memory.get("moved_market")
        if wide is None or wide.shape != (len(moved),) or wide.dtype != np.bool_:
            raise StateError("moved_market is missing or has another shape; take another snapshot")
        fresh._moved = [
            (row[0], row[1], None if market else row[2], row[3], row[4])
            for row, market in zip(moved, wide.tolist(), strict=True)
        ]
        self.__dict__.update(fresh.__dict__)


@dataclass(frozen=True)
class Placed:
    """Events as they are to be written.

    Parameters
    ----------
    frame : polars.DataFrame
        The events, late ones re-dated.
    moved : tuple
        Of each late one: event_id, revision, entity, when it became available, and when it counts as such.
    in_order : bool
        Whether they come in canonical order, none of them late.
    """

    frame: pl.DataFrame
    moved: tuple[tuple[str, int, str | None, int, int], ...] = ()
    in_order: bool = True


def _key(values: Sequence[Any]) -> Key:
    available, happened, event_id, revision = values
    return (available, happened, event_id, revision)


def _move(given: Event, written: Event) -> tuple[str, int, str | None, int, int]:
    return (given.event_id, given.revision, given.entity, given.available_at, written.available_at)
