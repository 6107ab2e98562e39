"""Events that memory need not hold, read from Parquet files part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events import views
from quantattn.pit.events.external import kept, sorted_batches
from quantattn.pit.events.fingerprint import Fingerprint
from quantattn.pit.events.foreign import ForeignEvents
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.options import intake_rules
from quantattn.pit.events.parquet_files import ParquetFiles
from quantattn.pit.events.reasons import checked_target, write_reject_batches
from quantattn.pit.events.schema import Moment, in_canonical_order, is_canonical
from quantattn.pit.events.sources import Source
from quantattn.pit.events.stamps import DateOnly
from quantattn.pit.events.storage import in_groups, write_batches
from quantattn.pit.events.stored import StoredEvents
from quantattn.pit.events.summary import EventSummary, put_together
from quantattn.pit.events.tally import Tally, content_hashes, lags
from quantattn.pit.timestamps import CANONICAL_ORDER, nanoseconds_of, to_nanoseconds


@dataclass(frozen=True, eq=False, repr=False)
class EventScan:
    """Events in Parquet files, of which no more than a part is in memory at once.

    Make one with :meth:`EventLog.scan`. Nothing is read before it is asked for. Files that a log wrote are
    checked while they are read: what was altered since then is an error. Foreign tables go through the
    rules of :meth:`EventLog.from_frame` each time they are read, and are read once more beforehand for rows
    that repeat each other; :meth:`sort_to` does all of this once and for all.

    Parameters
    ----------
    source : Source
        Where the events come from.
    name : str
        The files, for messages.
    """

    source: Source
    name: str

    def __repr__(self) -> str:
        """Name the files, and what is known of refused rows by now; nothing is read for it."""
        refused = f", {sum(self.reject_counts.values())} rejected" if self.source.counted else ""
        return f"EventScan({self.name}, features={list(self.features)}{refused})"

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns, in the order of the frame."""
        return self.source.features

    @property
    def reject_counts(self) -> dict[str, int]:
        """How many input rows were refused for each reason, the most frequent first."""
        return self.source.reject_counts

    @property
    def frame(self) -> pl.LazyFrame:
        """All events with the columns of :attr:`EventLog.frame`, in no promised order.

        Files that a log wrote are read once for it, and refused if they were altered.
        """
        return self.source.lazy()

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The entities that have events of their own, sorted; market-wide events name none."""
        found: set[str] = set()
        for part in self.source.batches():
            found.update(part["entity"].drop_nulls().unique().to_list())
        return tuple(sorted(found))

    @cached_property
    def height(self) -> int:
        """How many event versions there are."""
        return sum(part.height for part in self.source.batches())

    def __len__(self) -> int:
        """Count the event versions."""
        return self.height

    @cached_property
    def fingerprint(self) -> str:
        """The same 64 hexadecimal digits as :attr:`EventLog.fingerprint` of the same events."""
        if self.source.fingerprint is not None:
            return self.source.fingerprint
        running = Fingerprint(self.features)
        for part in self._sorted():
            running.update(part)
        return running.hexdigest()

    def as_of(self, moment: Moment, *, retracted: views.Retracted = "keep") -> EventLog:
        """Show the events as they stood for a forecast made at `moment`; see :meth:`EventLog.as_of`.

        Returns
        -------
        EventLog
            In memory.
        """
        seen = self._collect(views.available(None, to_nanoseconds(moment)))
        return EventLog(views.latest(seen, self.features, retracted), self.features)

    def between(self, start: Moment, end: Moment) -> EventLog:
        """Give what a forecast at `end` sees and one at `start` did not; see :meth:`EventLog.between`.

        Returns
        -------
        EventLog
            In memory.
        """
        first, last = to_nanoseconds(start), to_nanoseconds(end)
        views.check_interval(start, end, first, last)
        return EventLog(self._collect(views.available(first, last)), self.features)

    def collect(self) -> EventLog:
        """Read all events into memory; the list of the rejects stays in :meth:`rejects_to`."""
        return EventLog(self._collect(pl.lit(True)), self.features, taken=self.source.taken)

    def with_repeats(
        self, threshold: float = 0.8, window: str | timedelta | pd.Timedelta | None = None
    ) -> EventLog:
        """Flag repeated text; see :meth:`EventLog.with_repeats`.

        Returns
        -------
        EventLog
            In memory, as of :meth:`collect`: every text is held against those before it.
        """
        return self.collect().with_repeats(threshold, window)

    def revisions(self, event_id: str) -> pl.DataFrame:
        """List all versions of one event; see :meth:`EventLog.revisions`."""
        found = self._collect(pl.col("event_id") == pl.lit(event_id, dtype=pl.String))
        return views.versions_of(found, event_id, self.features)

    def _collect(self, chosen: pl.Expr) -> pl.DataFrame:
        return in_canonical_order(self.source.collect(chosen))

    def summary(self, calendar: str = "XNYS") -> EventSummary:
        """Describe the events in bounded memory; see :meth:`EventLog.summary`.

        Returns
        -------
        EventSummary
            Retractions are not counted.
        """
        tally = Tally(self.features, calendar)

        def measures() -> Iterator[pl.DataFrame]:
            for part in self.source.batches():
                tally.add(part)
                yield pl.DataFrame(
                    {
                        "available": nanoseconds_of(part["available_at"]),
                        "lag": lags(part),
                        "content": content_hashes(part, self.features),
                    }
                )

        with kept(measures()) as again:

            def ordered(name: str) -> Iterator[npt.NDArray[Any]]:
                return (part[name].to_numpy() for part in sorted_batches(again([name]), (name,)))

            return put_together(
                tally,
                calendar,
                self.reject_counts,
                self.source.taken,
                available=ordered("available"),
                lag=ordered("lag"),
                content=ordered("content"),
                retractions=None,
            )

    def batches(self, rows: int = 1_000_000) -> Iterator[pl.DataFrame]:
        """Give the events in canonical order, `rows` at once.

        Parameters
        ----------
        rows : int
            Rows of each batch but the last.

        Yields
        ------
        polars.DataFrame
            With the columns of :attr:`EventLog.frame`.

        Raises
        ------
        UsageError
            If `rows` is not positive, or the events are not in one file in canonical order.
        EventDataError
            If the file was altered and is out of order.
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise UsageError(f"rows={rows} is no size of a batch; give one or more")
        if not self.source.ordered:
            raise UsageError(
                f"{self.name} is not in canonical order; write it once with scan.sort_to('sorted.parquet') "
                "and scan that file"
            )
        return in_groups(self._in_order(), rows)

    def _in_order(self) -> Iterator[pl.DataFrame]:
        last = pl.DataFrame()
        for part in self.source.batches():
            if part.is_empty():
                continue
            if not is_canonical(pl.concat([last, part]) if last.height else part):
                raise EventDataError(
                    f"{self.name} says that it is in canonical order, but is not; write it again with "
                    "EventLog.write"
                )
            last = part[-1:]
            yield part

    def _sorted(self) -> Iterator[pl.DataFrame]:
        if self.source.ordered:
            return self._in_order()
        return sorted_batches(self.source.batches(), CANONICAL_ORDER)

    def sort_to(self, path: str | Path) -> EventScan:
        """Write the events to one Parquet file in canonical order, in bounded memory.

        Parameters
        ----------
        path : str or Path
            The file, written whole or not at all: the same bytes as :meth:`EventLog.write` gives. While it is
            made, a temporary folder (``TMPDIR``) holds about as much again.

        Returns
        -------
        EventScan
            Of that file.
        """
        checked_target(path)
        write_batches(self._sorted(), self.features, path, self.source.taken)
        return scan_events(path)

    def rejects_to(self, path: str | Path) -> int:
        """Write the refused rows to a file, in bounded memory.

        Parameters
        ----------
        path : str or Path
            A file that ends in ``.parquet`` or ``.csv``, written whole or not at all: ``file, row, reason,
            detail``, rows counted from 0 within their file.

        Returns
        -------
        int
            How many rows were refused.

        Raises
        ------
        UsageError
            If the path has another suffix.
        """
        return write_reject_batches(self.source.rejects(), path)


def scan_events(
    path: str | Path | Sequence[str | Path],
    *,
    event_time: str | None = None,
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
    strict: bool = False,
    now: Moment | None = None,
    name: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> EventScan:
    """Read Parquet files that memory does not hold.

    Parameters
    ----------
    path : str, Path or a sequence of them
        Files, patterns, folders or URLs that polars reads (``s3://``, ``gs://``, ``az://``, ``https://``,
        ``file://``). The ``name=value`` folders of a folder or pattern are text columns.
    event_time : str, optional
        The column that says when it happened. Without it the files must be ones that :meth:`EventLog.write`
        or :meth:`EventScan.sort_to` made, and no other column may be named.
    available_at, entity, event_id, text, kind, revision, features
        Columns of the files, as in :meth:`EventLog.from_frame`.
    time_zone, date_only, calendar, latency, scheduled, now
        As in :meth:`EventLog.from_frame`; every row is judged as there.
    name : str, optional
        The instrument of files that are about one alone; not with `entity`.
    strict : bool
        Whether the first reading raises if a row is refused.
    storage_options : mapping of str to str, optional
        Access to an object store, as polars takes it.

    Returns
    -------
    EventScan
        Nothing but the footers of the files is read for it.

    Raises
    ------
    UsageError
        If there is no such file, or columns are named without `event_time`.
    EventDataError
        If a file is truncated, lacks a column (the nearest name is given) or was made by something else while
        no column is named.
    TimestampError
        As in :meth:`EventLog.from_frame`.
    """
    files = ParquetFiles.of(path, storage_options)
    named = {
        "available_at": available_at,
        "entity": entity,
        "event_id": event_id,
        "text": text,
        "kind": kind,
        "revision": revision,
        "features": None if isinstance(features, Sized) and not len(features) else features,
        "name": name,
    }
    if event_time is None:
        given = [argument for argument, value in named.items() if value is not None]
        if given:
            raise UsageError(f"{given[0]}= is given without event_time=; name the time of the event as well")
        return EventScan(StoredEvents.of(files), str(files))
    rules = intake_rules(
        event_time=event_time,
        available_at=available_at,
        entity=entity,
        event_id=event_id,
        text=text,
        kind=kind,
        revision=revision,
        features=features,
        time_zone=time_zone,
        date_only=date_only,
        calendar=calendar,
        latency=latency,
        scheduled=scheduled,
        now=now,
        name=name,
    )
    files.require(rules.columns.named)
    return EventScan(ForeignEvents(files, rules, strict), str(files))
