"""What every entity's information set is, live: as-of features, how many events, the latest, their name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import ClockError, EventDataError, UsageError
from quantattn.forecasters.streaming.information._arrays import Memory, memory_of
from quantattn.forecasters.streaming.information._book_frames import MARKET, NOBODY, Codes, see_rows
from quantattn.forecasters.streaming.information._books import Books, Version
from quantattn.forecasters.streaming.information._chains import Chains
from quantattn.forecasters.streaming.information._reading import restored
from quantattn.pit.dataset._visible import entity_codes
from quantattn.pit.dataset.hashing import event_words
from quantattn.pit.dataset.one_event import EventHasher, OneEvent
from quantattn.pit.events.schema import COLUMNS
from quantattn.pit.timestamps import iso, nanoseconds_of

Scope = Literal["entity+market", "entity", "market"]

SCOPES: Final = ("entity+market", "entity", "market")

Ready = tuple[str | None, int, Version]
"""An event to be taken: its entity, its digest, and what the books keep."""


class ReadyFrame(NamedTuple):
    """Events to be taken: their frame, entities, the place of each among them, times and digests."""

    frame: pl.DataFrame
    entities: list[str]
    codes: Codes
    times: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]


class LiveInformation:
    """The information sets of all entities, kept up to date event by event.

    After the same events it gives, value for value, what
    :meth:`~quantattn.pit.PointInTimeDataset.as_of_features` and ``PointInTimeDataset.samples`` give for a
    forecast that sees them: revisions that arrive out of order, withdrawn values, events that happened at
    once, and events that pass between an entity and the market included.

    Parameters
    ----------
    features : sequence of str
        Names of the features, all different, in the order in which :meth:`values` gives them.
    scope : {"entity+market", "entity", "market"}
        Which events an entity reads: its own, the market-wide ones (entity None), or both. Others are
        ignored.
    depth : int
        How many events are remembered of each entity, and of the market, for each feature.

    Raises
    ------
    UsageError
        If the scope is unknown, a name occurs twice or is that of an event's own field, or the depth is not a
        positive whole number.

    Notes
    -----
    Memory is bounded: for each entity, the market, and each feature, the `depth` events that happened last
    are remembered, and of every event that was ever revised its id and highest revision. As long as nothing
    is revised that is enough. Where a revision reaches beyond it, such as when all remembered events of a
    feature are withdrawn, :meth:`values` raises ``StateError`` until a later event decides; it never gives
    a value that may be wrong.

    Reads change nothing. Events are trusted to be checked and in canonical order, and to have features that
    are finite; only time that goes backwards is refused.
    """

    def __init__(self, features: Sequence[str], *, scope: Scope, depth: int = 32) -> None:
        if isinstance(features, str) or len(set(features)) < len(features):
            raise UsageError(f"features={features!r}: give a sequence of names that are all different")
        taken = [name for name in features if name in COLUMNS]
        if taken:
            raise UsageError(f"features {taken} have names of an event's own fields; rename them")
        if scope not in SCOPES:
            raise UsageError(f"scope={scope!r} is unknown; use one of {', '.join(map(repr, SCOPES))}")
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise UsageError(f"depth={depth!r}: give a positive whole number of events")
        self._features = tuple(features)
        self._scope: Scope = scope
        self._depth = depth
        self._reads_own, self._reads_market = scope != "market", scope != "entity"
        self._places = {name: place for place, name in enumerate(self._features)}
        self._hasher = EventHasher(self._features)
        self._books = Books(self._features, depth)
        self._chains = Chains()
        self._latest: int | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return self._features

    @property
    def scope(self) -> Scope:
        """Which events an entity reads."""
        return self._scope

    @property
    def depth(self) -> int:
        """How many events are remembered for each feature."""
        return self._depth

    @property
    def entities(self) -> tuple[str, ...]:
        """Entities that had an event of their own in scope, in the order in which they first had one."""
        return tuple(self._chains.own)

    def see(self, event: OneEvent) -> None:
        """Take one event version.

        Parameters
        ----------
        event : OneEvent
            With ``event_id``, ``revision``, ``entity`` (None: market-wide), ``event_time`` and
            ``available_at`` (nanoseconds since the epoch, UTC), ``kind``, ``text`` and ``features``.

        Raises
        ------
        ClockError
            If it became available before the last event of its entity or of the market; if it is market-wide,
            before the last event of any entity.
        EventDataError
            If it has an unknown feature, or a text that is not Unicode. Nothing has changed then.
        """
        self.take(self.ready(event))

    def ready(self, event: OneEvent) -> Ready | None:
        """Do all that :meth:`see` may fail in, and change nothing; None for an event out of scope.

        Raises
        ------
        ClockError, EventDataError
            As :meth:`see` does.
        """
        entity, available = event.entity, event.available_at
        if not (self._reads_market if entity is None else self._reads_own):
            return None
        before = self._last_before(entity)
        if before is not None and available < before:
            _refuse_the_past(entity, available, before)
        digest = self._hasher.number(event)
        places = self._places
        values = {places[name]: value for name, value in event.features.items()}
        return entity, digest, Version(event.event_id, event.revision, event.event_time, available, values)

    def take(self, ready: Ready | None) -> None:
        """Take an event that :meth:`ready` gave, before any other is taken of its entity or the market."""
        if ready is None:
            return
        entity, digest, version = ready
        available = version.available_at
        if entity is None:
            self._chains.see_market(digest, available)
            self._books.see_market(version)
        else:
            self._chains.see_own(entity, digest, available)
            self._books.see_own(entity, version)
        if self._latest is None or available > self._latest:
            self._latest = available

    def see_frame(self, frame: pl.DataFrame) -> None:
        """Take many event versions; afterwards all is as if :meth:`see` had taken one after the other.

        Parameters
        ----------
        frame : polars.DataFrame
            Columns of :class:`~quantattn.pit.EventLog`, in canonical order. Features may be missing: they are
            null.

        Raises
        ------
        ClockError
            If time goes backwards, within the frame or against what was seen.
        EventDataError, TimestampError, UsageError
            If a column is missing, unknown or of another type. Nothing has changed then.
        """
        self.take_frame(self.ready_frame(frame))

    def ready_frame(self, frame: pl.DataFrame, entities: Sequence[str] | None = None) -> ReadyFrame | None:
        """Do all that :meth:`see_frame` may fail in, and change nothing; None where there is nothing to take.

        Parameters
        ----------
        frame : polars.DataFrame
            As for :meth:`see_frame`.
        entities : sequence of str, optional
            All entities of the frame in the order in which they come into :attr:`entities`; by default that
            of their first events.

        Raises
        ------
        ClockError, EventDataError, TimestampError, UsageError
            As :meth:`see_frame` does.
        """
        if not isinstance(frame, pl.DataFrame):
            raise UsageError(f"frame is of type {type(frame).__name__}; give a polars DataFrame of events")
        unknown = [name for name in frame.columns if name not in COLUMNS and name not in self._places]
        if unknown:
            raise EventDataError(
                f"columns {unknown} are neither those of an event log nor features; the features are "
                f"{list(self._features)}; drop them"
            )
        present = [name for name in self._features if name in frame.columns]
        words = event_words(frame, present)
        if frame.is_empty():
            return None
        if any(frame.schema[name] != pl.String for name in ("event_id", "entity")):
            frame = frame.with_columns(pl.col("event_id", "entity").cast(pl.String))
        names: list[str] = []
        if self._reads_own:
            names = list(entities or frame["entity"].drop_nulls().unique(maintain_order=True).to_list())
        codes = entity_codes(frame["entity"], names, MARKET if self._reads_market else NOBODY, NOBODY)
        times = nanoseconds_of(frame["available_at"])
        self._refuse_times(times, names, codes)
        return ReadyFrame(frame, names, codes, times, words) if (codes != NOBODY).any() else None

    def take_frame(self, ready: ReadyFrame | None) -> None:
        """Take events that :meth:`ready_frame` gave, before any others are taken."""
        if ready is None:
            return
        frame, names, codes, times, words = ready
        self._chains.see_rows(names, codes, times, words)
        see_rows(self._books, frame, self._features, names, codes, self._depth)
        newest = int(times[np.flatnonzero(codes != NOBODY)[-1]])
        self._latest = newest if self._latest is None else max(self._latest, newest)

    def values(self, entity: str) -> npt.NDArray[np.float64]:
        """Give every feature as it stands for an entity.

        Parameters
        ----------
        entity : str
            Any; one that has no events of its own reads the market-wide ones.

        Returns
        -------
        ndarray of float64, shape (k,)
            In the order of `features`; NaN where no event has it.

        Raises
        ------
        StateError
            If a value depends on events that were forgotten; it names the feature, the event whose revision
            made it so, and the remedy.
        """
        return self._books.values(entity)

    def n_visible(self, entity: str) -> int:
        """Count the event versions that an entity has seen."""
        return self._chains.count(entity)

    def max_available_at(self, entity: str) -> int | None:
        """Give when the latest of them became available, nanoseconds since the epoch; None without any."""
        return self._chains.newest(entity)

    def info_hash(self, entity: str) -> str:
        """Name them in their order: 32 hexadecimal digits, those of ``PointInTimeDataset.samples``."""
        return self._chains.name(entity)

    def memory(self) -> dict[str, npt.NDArray[np.generic]]:
        """Give copies of all that is remembered, as plain arrays for a snapshot.

        Returns
        -------
        dict of str to ndarray
            Numbers, and texts as UTF-8 bytes with offsets; what :meth:`restore` takes.
        """
        return memory_of(self._features, self._scope, self._depth, self._books, self._chains)

    def restore(self, memory: Memory) -> None:
        """Take up a memory, in place of all that was seen; what follows is equal bit for bit.

        Parameters
        ----------
        memory : mapping of str to ndarray
            Of :meth:`memory`, with the same features, scope and depth.

        Raises
        ------
        StateError
            If arrays are missing, damaged, do not fit together, or are of other features, another scope or
            depth. Nothing has changed then.
        """
        self._books, self._chains = restored(memory, self._features, self._scope, self._depth)
        chains = [self._chains.market, *self._chains.own.values()]
        self._latest = max((chain.newest for chain in chains if chain.count), default=None)

    def _last_before(self, entity: str | None) -> int | None:
        """Give the instant before which no event may come any more."""
        return self._latest if entity is None else self._chains.newest(entity)

    def _refuse_times(self, times: npt.NDArray[np.int64], names: list[str], codes: Codes) -> None:
        back = np.flatnonzero(np.diff(times) < 0)
        if back.size:
            row = int(back[0]) + 1
            raise ClockError(
                f"row {row} of the frame became available at {iso(int(times[row]))}, before row {row - 1} at "
                f"{iso(int(times[row - 1]))}; sort it in canonical order"
            )
        codes_there, firsts = np.unique(codes, return_index=True)
        for code, row in zip(codes_there.tolist(), firsts.tolist(), strict=True):
            if code != NOBODY:
                entity = None if code == MARKET else names[code]
                before = self._last_before(entity)
                if before is not None and times[row] < before:
                    _refuse_the_past(entity, int(times[row]), before)


def _refuse_the_past(entity: str | None, available: int, before: int) -> None:
    whose = "market-wide event" if entity is None else f"event of entity {entity!r}"
    raise ClockError(
        f"a {whose} that became available at {iso(available)} comes after one of {iso(before)} in its "
        "sequence; give events in canonical order"
    )
