"""Dated events: what happened, when it could have been known, and in which version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, Self

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, TimestampError
from quantattn.pit._intake import ColumnMap, complain, take_in
from quantattn.pit._stamps import DateOnly, TimeRules
from quantattn.pit.timestamps import (
    CANONICAL_ORDER,
    TIME,
    duration_nanoseconds,
    is_visible,
    to_nanoseconds,
)

Moment = datetime | np.datetime64 | pd.Timestamp | int

COLUMNS: Final = pl.Schema(
    {
        "event_id": pl.String(),
        "revision": pl.Int32(),
        "entity": pl.String(),
        "event_time": TIME,
        "available_at": TIME,
        "kind": pl.String(),
        "text": pl.String(),
    }
)
REJECTS: Final = pl.Schema({"row": pl.Int64(), "reason": pl.String(), "detail": pl.String()})

_NEVER_NULL = ("event_id", "revision", "event_time", "available_at", "kind")
_HASH_ROWS = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EventLog:
    """An immutable log of event versions in canonical order.

    Make one with :meth:`from_frame` or :meth:`from_valid`; the constructor trusts its caller.

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
    """

    frame: pl.DataFrame
    features: tuple[str, ...] = ()
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECTS))

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
        _check_schema(frame, names)
        _check_content(frame, names)
        ordered = frame.select(*COLUMNS, *names).sort(CANONICAL_ORDER)
        return cls(ordered, names, pl.DataFrame(schema=REJECTS) if rejects is None else rejects)

    @classmethod
    def from_frame(
        cls,
        frame: object,
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
        strict: bool = False,
    ) -> Self:
        """Read a table of events; every row becomes an event version or a reject with its reason.

        Parameters
        ----------
        frame : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or an Arrow table
            One row for each event version, in any order. Columns that are not named here are ignored. A
            named level of a pandas index counts as a column.
        event_time : str
            The column that says when it happened: zoned or naive datetimes, dates, or ISO 8601 text with
            up to nine decimals, also mixed. Numbers are refused, because they do not tell their unit.
        available_at : str, optional
            The column that says when it was published. By default an event is published when it happens.
        entity : str, optional
            The column of the instrument; spaces around a name are dropped. ``"*"`` marks a market-wide
            event and an empty value is refused. Without this column every event is market-wide.
        event_id : str, optional
            The column that identifies an event across its revisions. By default the id is a hash of the
            row's content, so that rows of equal content are one event.
        text, kind : str, optional
            The columns of the text, which may be missing, and of the kind, ``"event"`` where missing.
        revision : str, optional
            The column that numbers the versions of an event 0, 1, 2; needs `event_id`. By default 0.
        features : sequence of str, optional
            Numeric columns. Null and NaN both mean that this event has no such feature.
        time_zone : str, optional
            The zone of naive stamps and of dates, for example ``"America/New_York"``. Without it naive
            stamps are refused, and a date is a day at the calendar's exchange.
        date_only : {"next_session", "reject"}
            A bare date happens at its first instant; under ``"next_session"`` it is published at the open
            of the first session that is of a later date and does not begin before the date is over in its
            zone. When `time_zone` is given, a naive stamp at exactly 00:00:00 is a date, row by row.
        calendar : str
            The trading calendar of `date_only`, a name that ``exchange_calendars`` knows.
        latency : str or timedelta
            Time from publication until this system has the event, such as ``"2s"``: added to the
            publication stamp, whichever column it comes from, to give ``available_at``.
        scheduled : bool
            Whether an event may be published before it happens, like an announced meeting.
        strict : bool
            Whether to raise instead of collecting rejects.

        Returns
        -------
        EventLog
            With the refused rows in :attr:`rejects`, one reason (the first that applies) for each:
            ``missing_time``, ``unreadable_time``, ``naive_time``, ``ambiguous_time``,
            ``nonexistent_time``, ``leap_second``, ``out_of_range``, ``date_only``, ``outside_calendar``,
            ``available_before_event``, ``null_entity``, ``null_event_id``, ``bad_revision``,
            ``bad_feature`` (no number), ``infinite_feature``, ``duplicate`` (an identical row with the
            same event id and revision came before) and ``conflicting_duplicate`` (rows of one event id
            and revision differ: none is kept).

        Raises
        ------
        EventDataError
            If a column is missing or of an unusable type, entity names differ only in case, or `strict`
            is set and a row is refused.
        TimestampError
            If `time_zone` is unknown or `latency` is no duration or negative.
        CalendarError
            If there are dates and `calendar` is unknown.

        Warns
        -----
        UserWarning
            If publication stamps look like dates that were given a zone: ten distinct midnights or more,
            and more than half of the zoned stamps.

        Examples
        --------
        >>> import polars as pl
        >>> from quantattn.pit import EventLog
        >>> news = pl.DataFrame(
        ...     {
        ...         "published": ["2024-11-29T13:02:00-05:00", "2024-11-29", "2024-11-29 13:02"],
        ...         "ticker": ["AAPL", "MSFT", "MSFT"],
        ...         "headline": ["Apple rises", "Microsoft rises", "Microsoft falls"],
        ...     }
        ... )
        >>> log = EventLog.from_frame(
        ...     news, event_time="published", entity="ticker", text="headline", latency="2s"
        ... )
        >>> log.frame["available_at"].dt.to_string().to_list()
        ['2024-11-29 18:02:02.000000000+00:00', '2024-12-02 14:30:02.000000000+00:00']
        >>> log.reject_counts
        {'naive_time': 1}
        """
        names = feature_names(features)
        if revision is not None and event_id is None:
            raise EventDataError(f"revision={revision!r} numbers versions of nothing; pass event_id= as well")
        delay = duration_nanoseconds(latency, argument="latency")
        if delay < 0:
            raise TimestampError(f"latency={latency!r} is negative; nothing is known before it is published")
        columns = ColumnMap(event_time, available_at, entity, event_id, text, kind, revision, names)
        rules = TimeRules(time_zone, date_only, calendar)
        events, rejects = take_in(frame, columns, rules, latency=delay, scheduled=scheduled)
        if strict and rejects.height:
            raise complain(rejects, rejects.height + events.height)
        return cls.from_valid(events, names, rejects=rejects)

    @classmethod
    def concat(cls, logs: Iterable[EventLog]) -> Self:
        """Merge logs into one.

        Parameters
        ----------
        logs : iterable of EventLog
            Logs that share no (event_id, revision). A feature that a log lacks is null in its events.

        Returns
        -------
        EventLog
            Features in order of first appearance; rejects one after the other, each with the row
            numbers of its own input.

        Raises
        ------
        EventDataError
            If two logs hold the same (event_id, revision).
        """
        parts = list(logs)
        names = tuple(dict.fromkeys(name for part in parts for name in part.features))
        schema = {**COLUMNS, **dict.fromkeys(names, pl.Float64())}
        frame = pl.concat([pl.DataFrame(schema=schema), *(part.frame for part in parts)], how="diagonal")
        rejects = pl.concat([pl.DataFrame(schema=REJECTS), *(part.rejects for part in parts)])
        return cls.from_valid(frame, names, rejects=rejects)

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
        counts = self.rejects.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
        return dict(counts.iter_rows())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (64 hexadecimal digits) over the whole content in canonical order.

        The order of the input rows does not matter; any change of a value, a null, a column name or
        the order of the features does. Rejects do not count.
        """
        digest = hashlib.sha256(f"quantattn.EventLog/1:{self.frame.height}".encode())
        for name in self.frame.columns:
            _update(digest, name, self.frame[name])
        return digest.hexdigest()

    def as_of(self, moment: Moment) -> EventLog:
        """Show the events as they stood for a forecast made at `moment`.

        Parameters
        ----------
        moment : datetime, numpy.datetime64, pandas.Timestamp or int
            The forecast time; naive values are read as UTC, integers as nanoseconds since the epoch.

        Returns
        -------
        EventLog
            The visible versions (``available_at < moment``, strictly), and of each ``event_id`` the
            visible one with the highest revision alone. Without rejects.
        """
        seen = self._available(None, to_nanoseconds(moment))
        if seen["event_id"].n_unique() < seen.height:
            seen = seen.filter(pl.col("revision") == pl.col("revision").max().over("event_id"))
        return EventLog(seen, self.features)

    def between(self, start: Moment, end: Moment) -> EventLog:
        """Give what a forecast at `end` sees and one at `start` did not.

        Parameters
        ----------
        start, end : datetime, numpy.datetime64, pandas.Timestamp or int
            Naive values are read as UTC, integers as nanoseconds since the epoch.

        Returns
        -------
        EventLog
            Every version, superseded ones too, with ``start <= available_at < end``. Without rejects.

        Raises
        ------
        EventDataError
            If `start` is later than `end`.
        """
        first, last = to_nanoseconds(start), to_nanoseconds(end)
        if first > last:
            raise EventDataError(f"start={start} is later than end={end}; swap them")
        return EventLog(self._available(first, last), self.features)

    def _available(self, start: int | None, end: int) -> pl.DataFrame:
        stamp = pl.col("available_at")
        chosen = is_visible(stamp, _literal(end))
        if start is not None:
            chosen = chosen & ~is_visible(stamp, _literal(start))
        return self.frame.filter(chosen)


def feature_names(features: Sequence[str]) -> tuple[str, ...]:
    """Check the names of feature columns.

    Raises
    ------
    EventDataError
        If `features` is a bare text, names a column twice, or uses a name of the log's own columns.
    """
    if isinstance(features, str):
        raise EventDataError(f"features={features!r} is one text; write features=[{features!r}]")
    names = tuple(features)
    taken = [name for name in names if name in COLUMNS]
    if taken:
        raise EventDataError(f"features {taken} have names of the log's own columns; rename them")
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise EventDataError(f"features names {twice} more than once; name each column once")
    return names


def _literal(nanoseconds: int) -> pl.Expr:
    # A Python datetime would lose the nanoseconds.
    return pl.lit(nanoseconds).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def _check_schema(frame: pl.DataFrame, features: tuple[str, ...]) -> None:
    expected = {**COLUMNS, **dict.fromkeys(features, pl.Float64())}
    missing = [name for name in expected if name not in frame.columns]
    if missing:
        raise EventDataError(f"events lack the columns {missing}; they have {frame.columns}; add them")
    extra = [name for name in frame.columns if name not in expected]
    if extra:
        raise EventDataError(
            f"events have columns {extra} that are not declared; drop them or list them in features"
        )
    for name, dtype in expected.items():
        if frame.schema[name] != dtype:
            raise EventDataError(
                f"column {name!r} of the events has type {frame.schema[name]}, not {dtype}; cast it"
            )


def _check_content(frame: pl.DataFrame, features: tuple[str, ...]) -> None:
    for name in _NEVER_NULL:
        _refuse(
            frame, pl.col(name).is_null(), f"column {name!r} of the events is null", "drop or fill those rows"
        )
    _refuse(
        frame, pl.col("revision") < 0, "column 'revision' of the events is negative", "count revisions from 0"
    )
    for name in features:
        _refuse(
            frame,
            ~pl.col(name).is_finite(),
            f"feature {name!r} is not finite",
            "use null for a missing value",
        )
    key = ("event_id", "revision")
    _refuse(frame, pl.struct(key).is_duplicated(), f"{key} occurs more than once", "number the revisions")


def _refuse(frame: pl.DataFrame, condition: pl.Expr, fault: str, remedy: str) -> None:
    rows = frame.select(condition.fill_null(False).arg_true()).to_series()
    if rows.len():
        examples = frame[rows.head(3)].select("event_id", "revision").rows()
        raise EventDataError(
            f"{fault} in {rows.len()} rows, first {rows.head(3).to_list()} "
            f"(event_id, revision: {examples}); {remedy}"
        )


def _update(digest: hashlib._Hash, name: str, column: pl.Series) -> None:
    """Feed one column to a digest in a form that depends on nothing but its content."""
    digest.update(f"\n{name}:{column.dtype}:".encode())
    for start in range(0, column.len(), _HASH_ROWS):
        part = column.slice(start, _HASH_ROWS)
        digest.update(np.packbits(part.is_null().to_numpy()).tobytes())
        if part.dtype == pl.String:
            filled = part.fill_null("")
            digest.update(filled.str.len_bytes().to_numpy().astype("<u4").tobytes())
            digest.update("".join(filled.to_list()).encode())
        elif part.dtype == pl.Float64:
            digest.update(part.fill_null(0.0).to_numpy().astype("<f8").tobytes())
        else:
            digest.update(part.to_physical().fill_null(0).to_numpy().astype("<i8").tobytes())
