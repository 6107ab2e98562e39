"""Dated events: what happened, when it could have been known, and in which version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events import storage, views
from quantattn.pit.events.fingerprint import fingerprint_of
from quantattn.pit.events.making import EventIntake
from quantattn.pit.events.merging import merge
from quantattn.pit.events.options import ScanOptions
from quantattn.pit.events.reasons import counts_of, write_rejects
from quantattn.pit.events.schema import (
    COLUMNS,
    REJECTS,
    Moment,
    check_content,
    check_schema,
    feature_names,
    in_canonical_order,
)
from quantattn.pit.events.summary import EventSummary, summarise
from quantattn.pit.events.taken import Taken, sum_of
from quantattn.pit.timestamps import to_nanoseconds

if TYPE_CHECKING:
    from quantattn.pit.events.scan import EventScan


@dataclass(frozen=True, eq=False, repr=False)
class EventLog(EventIntake):
    """An immutable log of event versions in canonical order.

    Make one with :meth:`from_frame`, :meth:`from_vintages`, :meth:`read` or :meth:`from_valid`; the
    constructor trusts its caller. A table that memory does not hold is an
    :class:`~quantattn.pit.events.EventScan`, which :meth:`scan` gives.

    Parameters
    ----------
    frame : polars.DataFrame
        ``event_id`` (String), ``revision`` (Int32, from 0), ``entity`` (String; null means market-wide),
        ``event_time`` and ``available_at`` (``Datetime("ns", "UTC")``), ``kind`` (String), ``text``
        (String, may be null), then one Float64 column for each feature (null: this event has no such
        feature), sorted by ``available_at, event_time, event_id, revision``.
    features : tuple of str
        The feature columns, in the order of the frame.
    rejects : polars.DataFrame
        ``row`` (Int64, position in the input), ``reason`` and ``detail`` of every row that was refused.
    taken : Taken or None
        How many rows the log was made from; None where that is not known.

    Notes
    -----
    Each revision is an event of its own, with its own ``available_at``. A *retraction* is a revision that
    has neither text nor any feature, where a lower one had some: it says that the event is withdrawn, and it
    is seen from its own ``available_at`` on, as every other version.
    """

    frame: pl.DataFrame
    features: tuple[str, ...] = ()
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECTS))
    taken: Taken | None = None

    @classmethod
    def from_valid(
        cls, frame: pl.DataFrame, features: Sequence[str] = (), *, rejects: pl.DataFrame | None = None
    ) -> Self:
        """Make a log from a frame that already has the log's own columns and types.

        Parameters
        ----------
        frame : polars.DataFrame
            The columns of :attr:`frame`, in any order of rows and columns, and no others.
        features : sequence of str, optional
            Names of the feature columns.
        rejects : polars.DataFrame, optional
            ``row, reason, detail`` of the rows that were refused on the way here.

        Returns
        -------
        EventLog
            Sorted in canonical order.

        Raises
        ------
        EventDataError
            If a column is missing, superfluous or of another type, a key or a time is null, a revision
            is negative, a feature is not finite, or an (event_id, revision) occurs twice.
        """
        names = feature_names(features)
        if not isinstance(frame, pl.DataFrame):
            raise EventDataError(f"frame is a {type(frame).__name__}; give a polars DataFrame")
        check_schema(frame.schema, names)
        check_content(frame, names)
        if rejects is not None and (not isinstance(rejects, pl.DataFrame) or rejects.schema != REJECTS):
            raise EventDataError(
                f"rejects must be a polars DataFrame of the columns {dict(REJECTS)}; leave it out"
            )
        # One zero, so that equal values have equal bits.
        plain = [pl.when(pl.col(name) == 0.0).then(0.0).otherwise(pl.col(name)).alias(name) for name in names]
        return cls._ordered(frame.select(*COLUMNS, *plain).rechunk(), names, rejects)

    @classmethod
    def _ordered(
        cls,
        events: pl.DataFrame,
        features: tuple[str, ...],
        rejects: pl.DataFrame | None,
        taken: Taken | None = None,
    ) -> Self:
        listed = pl.DataFrame(schema=REJECTS) if rejects is None else rejects
        return cls(in_canonical_order(events), features, listed, taken)

    @classmethod
    def concat(cls, logs: Iterable[EventLog], *, names: Sequence[str] | None = None) -> Self:
        """Merge logs into one, such as those of two overlapping exports.

        Parameters
        ----------
        logs : iterable of EventLog
            The logs. A feature that one lacks is null in its events.
        names : sequence of str, optional
            What to call the logs in the details of refused rows, such as their files; each detail then begins
            with one. By default ``log 0``, ``log 1``, in the details of what two logs share.

        Returns
        -------
        EventLog
            Features in order of first appearance; rejects one after the other, each with the row numbers of
            its own input. Of an (event_id, revision) that several logs hold, the version available first
            stays: equal ones are refused as ``duplicate``, others as ``conflicting_duplicate``, and all of
            them if those available first differ; the row of such a reject is the place in its own log.

        Raises
        ------
        UsageError
            If one is no log, or there are more or fewer names than logs.
        """
        if not isinstance(logs, Iterable):
            raise UsageError(f"logs is a {type(logs).__name__}; give a list of event logs")
        parts = list(logs)
        odd = [part for part in parts if not isinstance(part, EventLog)]
        if odd:
            hint = "; collect() scans first" if hasattr(odd[0], "collect") else ""
            raise UsageError(f"logs hold a {type(odd[0]).__name__}, which is no EventLog{hint}; leave it out")
        if names is not None and len(names) != len(parts):
            raise UsageError(f"names= has {len(names)} entries for {len(parts)} logs; name each")
        features = tuple(dict.fromkeys(name for part in parts for name in part.features))
        called = [f"log {place}" for place in range(len(parts))] if names is None else list(names)
        frame, shared = merge([part.frame for part in parts], features, called)
        listed = [part.rejects.select(*REJECTS) for part in parts]
        if names is not None:
            told = pl.format("{}: {}", pl.col("#name"), pl.col("detail"))
            listed = [
                part.rechunk().with_columns(pl.lit(name).alias("#name")).select("row", "reason", detail=told)
                for name, part in zip(called, listed, strict=True)
            ]
        rejects = pl.concat([pl.DataFrame(schema=REJECTS), *listed, shared], how="vertical_relaxed")
        taken = sum_of(part.counted for part in parts)
        if taken is not None:
            taken = replace(taken, refused=taken.refused + shared.height, listed=rejects.height)
        return cls._ordered(frame, features, rejects, taken)

    @property
    def counted(self) -> Taken | None:
        """How many rows the log was made from, with those that a file format refused before."""
        return None if self.taken is None else self.taken.now_listing(self.rejects.height)

    def __len__(self) -> int:
        """Count the event versions."""
        return self.frame.height

    def __repr__(self) -> str:
        """Name the log by its size, so that a notebook does not print every event."""
        return (
            f"EventLog({self.frame.height} events, {len(self.entities)} entities, "
            f"features={list(self.features)}, {self.rejects.height} rejected)"
        )

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The entities that have events of their own, sorted; market-wide events name none."""
        return tuple(self.frame["entity"].drop_nulls().unique().sort().to_list())

    @cached_property
    def reject_counts(self) -> dict[str, int]:
        """How many input rows were refused for each reason, the most frequent first."""
        return counts_of(self.rejects)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (64 hexadecimal digits) over the whole content in canonical order.

        The order of the input rows does not matter; any change of a value, a null, a column name or
        the order of the features does. Rejects do not count.
        """
        return fingerprint_of(self.frame, self.features)

    def as_of(self, moment: Moment, *, retracted: views.Retracted = "keep") -> EventLog:
        """Show the events as they stood for a forecast made at `moment`.

        Parameters
        ----------
        moment : datetime, numpy.datetime64, pandas.Timestamp or int
            The forecast time; naive values are read as UTC, integers as nanoseconds since the epoch.
        retracted : {"keep", "drop"}
            An event that was withdrawn by then appears as its retraction, all null, or not at all.

        Returns
        -------
        EventLog
            The visible versions (``available_at < moment``, strictly), and of each ``event_id`` the
            visible one with the highest revision alone. Without rejects.
        """
        seen = self.frame.filter(views.available(None, to_nanoseconds(moment)))
        return EventLog(views.latest(seen, self.features, retracted), self.features)

    def between(self, start: Moment, end: Moment) -> EventLog:
        """Give what a forecast at `end` sees and one at `start` did not.

        Parameters
        ----------
        start, end : datetime, numpy.datetime64, pandas.Timestamp or int
            Naive values are read as UTC, integers as nanoseconds since the epoch.

        Returns
        -------
        EventLog
            Every version, superseded ones and retractions too, with ``start <= available_at < end``.
            Without rejects.

        Raises
        ------
        EventDataError
            If `start` is later than `end`.
        """
        first, last = to_nanoseconds(start), to_nanoseconds(end)
        views.check_interval(start, end, first, last)
        return EventLog(self.frame.filter(views.available(first, last)), self.features)

    def revisions(self, event_id: str) -> pl.DataFrame:
        """List all versions of one event, and until when each was the latest known.

        Parameters
        ----------
        event_id : str
            The event.

        Returns
        -------
        polars.DataFrame
            The columns of :attr:`frame` by ``revision``, then ``superseded_at`` (the first ``available_at``
            of any higher revision; null for the latest; not later than the version's own ``available_at``
            if it was never the latest, because the versions arrived out of order) and ``retracted``
            (whether this version withdraws the event).

        Raises
        ------
        EventDataError
            If the log has no such event.
        """
        return views.versions_of(self.frame, event_id, self.features)

    def summary(self, calendar: str = "XNYS") -> EventSummary:
        """Describe the log: lags, session parts, ties, duplicates, gaps, nulls and rejects.

        Parameters
        ----------
        calendar : str
            The trading calendar that says which events became available outside its sessions.

        Returns
        -------
        EventSummary
            Prints as aligned text.

        Raises
        ------
        CalendarError
            If `calendar` is unknown.
        """
        return summarise(self.frame, self.features, self.reject_counts, self.counted, calendar)

    def with_repeats(
        self, threshold: float = 0.8, window: str | timedelta | pd.Timedelta | None = None
    ) -> EventLog:
        """Flag repeated and nearly repeated text, each event held only against strictly earlier ones.

        Parameters
        ----------
        threshold : float
            The least similarity that counts as nearly the same, in (0, 1].
        window : str or timedelta, optional
            How far back an earlier text may lie, such as ``"3D"``. By default any distance.

        Returns
        -------
        EventLog
            With the features ``repeat`` (1 where the entity's strictly earlier events hold the same text, as
            normalised by :func:`~quantattn.pit.events.repeats.normalise`, else 0) and ``near_repeat`` (the
            greatest Jaccard similarity of the sets of neighbouring word pairs against those texts; null below
            `threshold`). Both are null where there is no text. See
            :func:`~quantattn.pit.events.repeats.flag_repeats`.

        Raises
        ------
        EventDataError
            If the log already has a feature of either name.
        UsageError
            If `threshold` is not in (0, 1] or `window` is not positive.
        TimestampError
            If `window` is no duration.
        """
        # The search is compiled; whoever does not ask for it does not wait for the compiler.
        from quantattn.pit.events.repeats import flag_repeats

        flags = flag_repeats(self.frame, self.features, threshold=threshold, window=window)
        return EventLog(self.frame.hstack(flags), (*self.features, *flags.columns), self.rejects, self.taken)

    def write(self, path: str | Path) -> None:
        """Write the events to one Parquet file in canonical order, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file. Its schema metadata name the features and the fingerprint. Rejects are not in it; see
            :meth:`write_rejects`.

        Raises
        ------
        UsageError
            If `path` is no path, or a folder.
        OSError
            If the file cannot be written; what was there before is untouched.
        """
        storage.write_log(self.frame, self.features, path, self.counted)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file that :meth:`write` or :meth:`EventScan.sort_to` made.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        EventLog
            With the fingerprint that it was written with.

        Raises
        ------
        UsageError
            If the file is missing or cannot be opened.
        EventDataError
            If it is truncated, was not made by :meth:`write`, or was altered since.
        """
        events, features, taken = storage.read_log(path)
        return replace(cls.from_valid(events, features), taken=taken)

    def write_rejects(self, path: str | Path) -> None:
        """Write the refused rows (``row, reason, detail``) to a ``.parquet`` or ``.csv`` file.

        Raises
        ------
        UsageError
            If the path has another suffix.
        """
        write_rejects(self.rejects, path)

    @staticmethod
    def scan(path: str | Path | Sequence[str | Path], **options: Unpack[ScanOptions]) -> EventScan:
        """Read Parquet files that memory does not hold.

        Parameters
        ----------
        path : str, Path or a sequence of them
            Files, folders, patterns or URLs.
        **options
            Those of :func:`~quantattn.pit.events.scan.scan_events`: the columns and rules of
            :meth:`from_frame` for foreign tables, none for files that :meth:`write` made.

        Returns
        -------
        EventScan
        """
        from quantattn.pit.events.scan import scan_events

        return scan_events(path, **options)
