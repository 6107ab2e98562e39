"""Where a dataset's events come from: a log in memory, or a scan of files that memory does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from quantattn.pit.events.log import EventLog
from quantattn.pit.timestamps import CANONICAL_ORDER, instants, is_visible

BATCH = 2**17
"""Rows that are read from files at a time: those of a group in the files that logs are written to."""

_FIRST = np.iinfo(np.int64).min + 1
"""The earliest instant, in nanoseconds."""


class Scan(Protocol):
    """What a dataset needs of events that lie in files; ``EventScan`` is one."""

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns."""

    @property
    def frame(self) -> pl.LazyFrame:
        """The columns of ``EventLog.frame``, in any order of rows."""

    def batches(self, *, rows: int) -> Iterator[pl.DataFrame]:
        """Give the events in canonical order, part by part."""

    def between(self, start: int, end: int, /) -> EventLog:
        """Give the versions with ``start <= available_at < end`` as a log in memory."""


def in_batches(events: EventLog | Scan) -> Iterable[pl.DataFrame]:
    """Give the events in canonical order, in as many frames as it takes."""
    return [events.frame] if isinstance(events, EventLog) else events.batches(rows=BATCH)


def owners(events: EventLog | Scan) -> tuple[set[str], bool]:
    """Give the entities that have events of their own, and whether there are market-wide events."""
    named = events.frame.lazy().select(pl.col("entity").unique()).collect(engine="streaming")["entity"]
    return set(named.drop_nulls().to_list()), named.null_count() > 0


def sequence_of(
    scan: Scan,
    entities: Sequence[str],
    *,
    own: bool,
    market: bool,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Read the events that forecasts for some entities see, in canonical order, into memory."""
    mine = pl.col("entity").is_in(list(entities)).fill_null(False) & pl.lit(own)
    wide = pl.col("entity").is_null() & pl.lit(market)
    found = scan.frame.filter(mine | wide)
    if columns is not None:
        found = found.select(columns)
    return found.sort(CANONICAL_ORDER).collect(engine="streaming")


def before(events: EventLog | Scan, moment: int) -> EventLog:
    """Give the versions that a forecast at an instant sees, in memory."""
    if isinstance(events, EventLog):
        seen = is_visible(pl.col("available_at"), pl.lit(instants([moment])))
        return EventLog(events.frame.filter(seen), events.features)
    return events.between(min(_FIRST, moment), moment)
