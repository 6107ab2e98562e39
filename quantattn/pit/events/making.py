"""From foreign tables to event logs: the part of the log that takes tables in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Self

import pandas as pd
import polars as pl

from quantattn.pit.events.intake import take_in
from quantattn.pit.events.options import check_columns, check_texts, checked_latency, intake_rules
from quantattn.pit.events.periods import Stamped
from quantattn.pit.events.reasons import complain
from quantattn.pit.events.schema import Moment
from quantattn.pit.events.stamps import DateOnly, TimeRules
from quantattn.pit.events.taken import Taken
from quantattn.pit.events.vintages import (
    Layout,
    VintageColumns,
    VintageRules,
    growth_lags,
    take_vintages,
)


class EventIntake(ABC):
    """What :class:`~quantattn.pit.events.EventLog` is made with; not to be used by itself."""

    @classmethod
    @abstractmethod
    def _ordered(
        cls,
        events: pl.DataFrame,
        features: tuple[str, ...],
        rejects: pl.DataFrame | None,
        taken: Taken | None = None,
    ) -> Self:
        """Make a log of valid events in any order."""

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
        now: Moment | None = None,
        number_revisions: bool = False,
        name: str | None = None,
    ) -> Self:
        """Read a table of events; every row becomes an event version or a reject with its reason.

        Parameters
        ----------
        frame : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or an Arrow table
            One row for each event version, in any order. Columns that are not named here are ignored. A
            named level of a pandas index counts as a column. Whatever speaks the Arrow C stream interface
            is an Arrow table: a DuckDB relation, a reader of record batches, a cuDF or Ibis table. Bytes are
            read as UTF-8 text.
        event_time : str
            The column that says when it happened: zoned or naive datetimes, dates, or ISO 8601 text with
            up to nine decimals, also mixed, each with its own offset. Numbers are refused, because they do
            not tell their unit.
        available_at : str, optional
            The column that says when it was published. By default an event is published when it happens.
        entity : str, optional
            The column of the instrument; spaces around a name are dropped. ``"*"`` marks a market-wide
            event and an empty value is refused. Without this column every event is market-wide, unless
            `name` is given.
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
            Whether an event may be published before it happens, like an announced meeting, and in the
            future.
        strict : bool
            Whether to raise instead of collecting rejects.
        now : datetime, numpy.datetime64, pandas.Timestamp or int, optional
            When the table was made. A row whose publication stamp, as written, is later cannot be right
            and is refused. Without it such rows are held against this machine's clock: they are kept, so
            that a log does not depend on the day of reading, and a warning counts and quotes them.
        number_revisions : bool
            Whether to number the rows of each `event_id` 0, 1, 2 by ``available_at``, for sources that give
            edited items under the same id. A version's number depends on nothing that came later. Rows of
            one id and one ``available_at`` have no order: if they differ, all of them are refused.
        name : str, optional
            The instrument of a table that is about one alone; not with `entity`.

        Returns
        -------
        EventLog
            With the refused rows in :attr:`rejects`, one reason (the first that applies) for each:
            ``missing_time``, ``unreadable_time``, ``naive_time``, ``ambiguous_time``,
            ``nonexistent_time``, ``leap_second``, ``out_of_range``, ``date_only``, ``outside_calendar``,
            ``available_before_event``, ``in_the_future``, ``null_entity``, ``null_event_id``,
            ``not_utf8`` (bytes), ``bad_revision``, ``bad_feature`` (no number), ``infinite_feature``,
            ``duplicate`` (an identical row with the same event id and revision came before) and
            ``conflicting_duplicate`` (contradicts the row of its event id and revision that was available
            first; if those available first contradict each other, none is kept).

        Raises
        ------
        UsageError
            If an argument is of the wrong type, or both `entity` and `name` are given.
        EventDataError
            If a column is missing or of an unusable type, entity names differ only in case or spaces,
            revisions are both given and to be numbered, or `strict` is set and a row is refused.
        TimestampError
            If `time_zone` is unknown, `latency` is no duration or negative, or `now` is no instant.
        CalendarError
            If there are dates and `calendar` is unknown.

        Warns
        -----
        UserWarning
            If publication stamps look like dates that were given a zone (ten distinct midnights or more,
            and more than half of the zoned stamps), or lie in the future.

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
            number_revisions=number_revisions,
            name=name,
        )
        events, rejects, taken = take_in(frame, rules, number_revisions=number_revisions)
        if strict and rejects.height:
            raise complain(rejects, rejects.height + events.height)
        return cls._ordered(events, rules.columns.features, rejects, taken)

    @classmethod
    def from_vintages(
        cls,
        frame: object,
        *,
        series: str,
        period: str,
        vintage: str,
        value: str,
        frequency: str,
        stamped: Stamped,
        layout: Layout = "changes",
        growth: Sequence[int] | int = (),
        entity: str | None = None,
        time_zone: str | None = None,
        date_only: DateOnly = "next_session",
        calendar: str = "XNYS",
        latency: str | timedelta | pd.Timedelta = "0s",
        scheduled: bool = False,
        strict: bool = False,
    ) -> Self:
        """Read a vintage table: one row for each series, period and vintage in which a value was published.

        Parameters
        ----------
        frame : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or an Arrow table
            Change events (a row where a value changed, a null value where it was withdrawn) or full
            snapshots. Rows that repeat the value of the vintage before say nothing new and become no events.
        series : str
            The column that names the statistic; it becomes ``kind``.
        period : str
            The column of the date that stands for the period: dates, naive midnights or ``YYYY-MM-DD`` text.
        vintage : str
            The column that says when this value was published, read as `available_at` of :meth:`from_frame`:
            a bare date is known at the open of the next session.
        value : str
            The column of the value; null or NaN where the observation was withdrawn.
        frequency : str
            ``"D"``, ``"W-SUN"`` to ``"W-SAT"`` (by the day a week ends on), ``"M"``, ``"Q"`` or ``"A"``
            for all series, or else the column that holds these.
        stamped : {"start", "end", "within"}
            Whether `period` is the first day of its period, the last one, or any day in it. A row whose date
            is not the declared day is refused.
        layout : {"changes", "snapshots"}
            Under ``"snapshots"`` every vintage of a series lists all of its periods, so that one which a
            vintage lacks was withdrawn then. Under ``"changes"`` absence says nothing.
        growth : int or sequence of int
            For each k a feature ``growth_k``, ``log(value_t / value_{t-k})`` over k periods, both values as
            they stood in the same vintage; null unless both are there and positive. A revision of the base
            is a revision of the event.
        entity : str, optional
            The column of the instrument, ``"*"`` for none. By default all events are market-wide.
        time_zone, date_only, calendar, latency
            As in :meth:`from_frame`, for vintages. Periods end in `time_zone`, or else in that of the
            exchange.
        scheduled : bool
            Whether a value may be published before its period is over, as surveys are. By default such rows
            are refused.
        strict : bool
            Whether to raise instead of collecting rejects.

        Returns
        -------
        EventLog
            One event for each series and period: ``event_id`` is ``"SERIES:FIRST-DAY"`` (after
            ``"ENTITY:"`` with entities), ``event_time`` the end of the period, ``available_at`` that of the
            vintage, features ``value`` and ``growth_k``. Each change is a revision, a withdrawal a
            retraction. Reasons for rejects beside those of :meth:`from_frame` are ``null_series``,
            ``bad_frequency``, ``bad_period``, ``repeated_vintage`` and ``conflicting_vintage``.

        Raises
        ------
        UsageError
            If `stamped`, `layout` or `growth` makes no sense.
        EventDataError
            As in :meth:`from_frame`, or if a series has rows of several frequencies.
        TimestampError, CalendarError
            As in :meth:`from_frame`.
        """
        check_columns(
            {"series": series, "period": period, "vintage": vintage, "value": value, "frequency": frequency},
            {"entity": entity},
        )
        check_texts(time_zone=time_zone, date_only=date_only, calendar=calendar)
        rules = VintageRules(
            VintageColumns(series, period, vintage, value, frequency, entity),
            stamped,
            layout,
            growth_lags(growth),
            TimeRules(time_zone, date_only, calendar),
            checked_latency(latency),
            scheduled,
        )
        events, rejects, taken = take_vintages(frame, rules)
        if strict and rejects.height:
            raise complain(rejects, rejects["row"].n_unique() + events.height)
        return cls._ordered(events, rules.features, rejects, taken)
