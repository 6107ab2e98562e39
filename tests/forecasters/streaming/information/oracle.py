"""What an entity's information set says, by looking at every version that it has seen: slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from quantattn.pit import information_hash
from tests.pit.build import at, event_log

FEATURES = ("x", "y")


@dataclass(frozen=True)
class SeenEvent:
    """An event version, its times in nanoseconds."""

    event_id: str
    available_at: int
    event_time: int
    entity: str | None = "A"
    revision: int = 0
    kind: str = "news"
    text: str | None = None
    features: dict[str, float] = field(default_factory=dict)


def events_of(frame: pl.DataFrame, features: Sequence[str] = FEATURES) -> list[SeenEvent]:
    """The rows of a log as single events."""
    found = []
    for row in frame.with_columns(pl.col("event_time", "available_at").to_physical()).to_dicts():
        present = {name: row.pop(name) for name in features}
        there = {name: value for name, value in present.items() if value is not None}
        found.append(SeenEvent(**row, features=there))
    return found


def frame_of(events: Sequence[SeenEvent], features: Sequence[str] = FEATURES) -> pl.DataFrame:
    """A log of events, whose times must be whole seconds; in canonical order."""
    start = at(0)
    rows = [
        {
            **{name: getattr(event, name) for name in ("event_id", "revision", "entity", "kind", "text")},
            "happened": (event.event_time - start) // 10**9,
            "available": (event.available_at - start) // 10**9,
            **event.features,
        }
        for event in events
    ]
    return event_log(rows, features).frame


def reads(entity: str, scope: str) -> tuple[str | None, ...]:
    """Whose events an entity reads, those that come first first."""
    return {"entity+market": (entity, None), "entity": (entity,), "market": (None,)}[scope]


def value_of(seen: Sequence[SeenEvent], entity: str, scope: str, name: str) -> float | None:
    """Keep of each event the highest revision, and take the event that happened last."""
    events: dict[str, list[SeenEvent]] = {}
    for event in seen:
        if event.entity in reads(entity, scope):
            events.setdefault(event.event_id, []).append(event)
    for owner in reads(entity, scope):
        candidates = []
        for event_id, versions in events.items():
            current = max(versions, key=lambda event: event.revision)
            if current.entity == owner and name in current.features:
                first = min(event.available_at for event in versions)
                candidates.append((current.event_time, first, event_id, current.features[name]))
        if candidates:
            return max(candidates)[3]
    return None


def information_of(seen: Sequence[SeenEvent], entity: str, scope: str) -> tuple[int, int | None, str]:
    """Number, latest availability and name of what an entity has seen."""
    mine = [event for event in seen if event.entity in reads(entity, scope)]
    newest = max((event.available_at for event in mine), default=None)
    return len(mine), newest, information_hash(frame_of(mine), FEATURES)


def random_events(draw: Any, count: int, *, revised: float, market: float, moves: float) -> list[SeenEvent]:
    """Events with ties, withdrawn values, revisions in any order, and ids that change their owner."""
    found = []
    for number in range(count):
        owner = None if draw.random() < market else str(draw.choice(list("ABC")))
        happened = int(draw.integers(-9, 0))
        event_id = f"e{int(draw.integers(0, 10))}-{number}"
        for revision in range(int(draw.geometric(1 - revised))):
            if draw.random() < moves:
                owner = None if draw.random() < 0.5 else str(draw.choice(list("AB")))
            if draw.random() < 0.2:
                happened = int(draw.integers(-9, 0))
            features = {name: float(draw.integers(0, 99)) for name in FEATURES if draw.random() < 0.6}
            available = at(int(draw.integers(0, 30)))
            found.append(SeenEvent(event_id, available, at(happened), owner, revision, features=features))
    return in_order(found)


def in_order(events: Sequence[SeenEvent]) -> list[SeenEvent]:
    """Sort events canonically."""
    return sorted(events, key=lambda e: (e.available_at, e.event_time, e.event_id, e.revision))
