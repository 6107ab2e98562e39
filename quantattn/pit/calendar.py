"""Sessions of an exchange, with their official opens and closes, from ``exchange_calendars``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import exchange_calendars
import numpy as np
import pandas as pd
import polars as pl
from pandas.tseries.holiday import AbstractHolidayCalendar

from quantattn.errors import CalendarError
from quantattn.pit.timestamps import TIME

_QUOTED = 160
"""How much of a foreign error message is quoted; some list every day of decades."""

_DAY = 86_400 * 10**9
_MARGIN = timedelta(days=14)
# Nanoseconds reach a day farther on either side.
_EARLIEST, _LATEST = date(1677, 9, 23), date(2262, 4, 9)
_BUILD_ERRORS = (ValueError, RuntimeError, exchange_calendars.errors.CalendarError)
# The zone does not depend on the span, and the default span takes long to build.
_ANY_YEAR = {"start": "2022-01-01", "end": "2022-12-31"}


def _build(name: str, **span: str) -> Any:
    """Build a calendar of ``exchange_calendars``, its faults told in one line."""
    try:
        return exchange_calendars.get_calendar(name, **span)
    except exchange_calendars.errors.InvalidCalendarName as error:
        known = sorted(exchange_calendars.get_calendar_names(include_aliases=True))
        near = difflib.get_close_matches(name.upper(), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(known)}"
        raise CalendarError(f"calendar={name!r} is unknown; {hint}") from error
    except _BUILD_ERRORS as error:
        fault = f"{type(error).__name__}: {error}"
        fault = fault if len(fault) <= _QUOTED else fault[:_QUOTED] + "..."
        if span:
            raise CalendarError(
                f"calendar {name!r} cannot give sessions from {span['start']} to {span['end']} ({fault}); "
                "choose other dates"
            ) from error
        raise CalendarError(
            f"calendar {name!r} cannot be built by exchange_calendars {exchange_calendars.__version__} with "
            f"pandas {pd.__version__} ({fault}); use another calendar of the same hours, or other versions"
        ) from error


@lru_cache(maxsize=128)
def _zone(name: str) -> str:
    try:
        return str(_build(name, **_ANY_YEAR).tz)
    except CalendarError:
        # A calendar may not reach that year, or may not exist.
        return str(_build(name).tz)


@lru_cache(maxsize=128)
def _bounds(name: str) -> tuple[date, date]:
    """Give the first and last date on which the calendar `name` knows its holidays."""
    calendar = _build(name)
    first, last = date.min, date.max
    if calendar.regular_holidays is not None:
        # Outside these years pandas applies no holiday rule at all: every weekday would be a session.
        first, last = AbstractHolidayCalendar.start_date.date(), AbstractHolidayCalendar.end_date.date()
    if calendar.bound_min() is not None:
        first = max(first, calendar.bound_min().date())
    if calendar.bound_max() is not None:
        last = min(last, calendar.bound_max().date())
    return first, last


@lru_cache(maxsize=32)
def _schedule(name: str, start: date, end: date) -> pl.DataFrame:
    calendar = _build(name, start=start.isoformat(), end=end.isoformat())
    times = {
        "open": calendar.opens,
        "close": calendar.closes,
        "break_start": calendar.break_starts,
        "break_end": calendar.break_ends,
    }
    return pl.DataFrame(
        {
            "session": pl.Series(calendar.sessions.to_numpy()).cast(pl.Date),
            **{
                column: pl.Series(stamps.dt.tz_convert(None).to_numpy()).cast(pl.Datetime("ns"))
                for column, stamps in times.items()
            },
        }
    ).with_columns(pl.col(*times).dt.replace_time_zone("UTC").cast(TIME))


@lru_cache(maxsize=32)
def _unplanned(name: str) -> pl.Series:
    """Give the weekdays of trading, no regular holidays, on which the calendar records a closure."""
    calendar = _build(name)
    closures = pd.DatetimeIndex([pd.Timestamp(day).tz_localize(None) for day in calendar.adhoc_holidays])
    closures = closures.unique().sort_values()
    trading = np.array([mark == "1" for mark in calendar.weekmask])
    closures = closures[trading[closures.weekday]]
    if calendar.regular_holidays is not None and len(closures):
        closures = closures.difference(calendar.regular_holidays.holidays(closures[0], closures[-1]))
    return pl.Series("session", closures.to_numpy().astype("datetime64[ms]")).cast(pl.Date)


def _moved(day: date, by: timedelta, known: tuple[date, date]) -> date:
    """Move a date as far as the calendar is known, and nanoseconds reach."""
    if by.days < 0:
        return min(day, max(known[0], _EARLIEST, day + by))
    return max(day, min(known[1], _LATEST, day + by))


@dataclass(frozen=True)
class TradingCalendar:
    """The sessions of one exchange, half days and holidays included.

    Parameters
    ----------
    name : str
        A name that ``exchange_calendars`` knows, for example ``"XNYS"`` or ``"XLON"``.

    Notes
    -----
    Sessions after the last announced ones are what today's holiday rules give. Hours are today's, too,
    for decades in which the exchange kept others: ``XNYS`` opens at 09:30 all through, although New York
    opened at 10:00 until September 1985.
    """

    name: str = "XNYS"

    def sessions(self, start: date, end: date) -> pl.DataFrame:
        """List the sessions from `start` to `end`, both included.

        Parameters
        ----------
        start, end : date
            Session labels (the exchange's local dates).

        Returns
        -------
        polars.DataFrame
            ``session`` (Date), ``open`` and ``close`` (official times, UTC, ns), in order.

        Raises
        ------
        CalendarError
            If the calendar is unknown, `start` is later than `end` or is an instant rather than a date,
            or the calendar's holidays are not known on all of these dates. Calendars with holidays reach
            from 1970 to 2200 at most.
        """
        for argument, value in (("start", start), ("end", end)):
            if isinstance(value, datetime):
                raise CalendarError(
                    f"{argument}={value!r} is an instant, not a session; give the exchange's local date"
                )
        return self._hours(start, end).select("session", "open", "close")

    def _hours(self, start: date, end: date) -> pl.DataFrame:
        if start > end:
            raise CalendarError(f"start {start} is later than end {end}; swap them")
        first, last = _bounds(self.name)
        if start < first or end > last:
            raise CalendarError(
                f"calendar {self.name!r} knows its holidays from {first} to {last} only, not from {start} to "
                f"{end}; choose dates within"
            )
        # Whole years keep the cache small and make neighbouring requests share one schedule.
        schedule = _schedule(
            self.name,
            max(first, min(start, max(start.replace(month=1, day=1), _EARLIEST))),
            min(last, max(end, min(end.replace(month=12, day=31), _LATEST))),
        )
        return schedule.filter(pl.col("session").is_between(start, end))

    def around(self, first: int, last: int) -> pl.DataFrame:
        """List the sessions about two instants, and those of the two weeks before and after.

        Parameters
        ----------
        first, last : int
            Nanoseconds since the epoch, UTC.

        Returns
        -------
        polars.DataFrame
            ``session``, ``open``, ``close`` as of :meth:`sessions`, and ``break_start``, ``break_end``, null
            where the session has no break at noon.

        Raises
        ------
        CalendarError
            If the calendar's holidays are not known on the dates of the instants.
        """
        days = [date(1970, 1, 1) + timedelta(days=moment // _DAY) for moment in (first, last)]
        known = _bounds(self.name)
        # The date of an exchange differs by one at most from that of UTC.
        nearest = [min(max(day, known[0]), known[1]) for day in days]
        checked = [
            near if abs(near - day) <= timedelta(days=1) else day
            for near, day in zip(nearest, days, strict=True)
        ]
        self._hours(checked[0], checked[1])
        return self._hours(_moved(checked[0], -_MARGIN, known), _moved(checked[1], _MARGIN, known))

    @property
    def time_zone(self) -> str:
        """Name of the exchange's zone in the time zone database.

        Raises
        ------
        CalendarError
            If the calendar is unknown or cannot be built.
        """
        return _zone(self.name)

    def scheduled(self, start: date, end: date) -> pl.Series:
        """List the days that regular holidays and weekdays make sessions, whether or not they took place.

        Parameters
        ----------
        start, end : date
            First and last day, both included.

        Returns
        -------
        polars.Series of Date
            The sessions, and the days on which the exchange stayed closed for once (after an attack or a
            storm, or for a state funeral), in order. Lunar holidays that a calendar can only list one by
            one count among the latter.

        Raises
        ------
        CalendarError
            As for :meth:`sessions`.
        """
        sessions = self.sessions(start, end)["session"]
        closed = _unplanned(self.name)
        return pl.concat([sessions, closed.filter(closed.is_between(start, end))]).unique().sort()
