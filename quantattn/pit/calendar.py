"""Sessions of an exchange, with their official opens and closes, from ``exchange_calendars``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import exchange_calendars
import numpy as np
import pandas as pd
import polars as pl
from pandas.tseries.holiday import AbstractHolidayCalendar

from quantattn.errors import CalendarError
from quantattn.pit.timestamps import TIME


@lru_cache(maxsize=32)
def _bounds(name: str) -> tuple[date, date]:
    """Give the first and last date on which the calendar `name` knows its holidays."""
    try:
        calendar: Any = exchange_calendars.get_calendar(name)
    except exchange_calendars.errors.InvalidCalendarName as error:
        known = sorted(exchange_calendars.get_calendar_names(include_aliases=True))
        near = difflib.get_close_matches(name.upper(), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(known)}"
        raise CalendarError(f"calendar={name!r} is unknown; {hint}") from error
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
    try:
        calendar: Any = exchange_calendars.get_calendar(name, start=start.isoformat(), end=end.isoformat())
    except (ValueError, exchange_calendars.errors.CalendarError) as error:
        raise CalendarError(
            f"calendar {name!r} cannot give sessions from {start} to {end} ({error}); choose other dates"
        ) from error
    return pl.DataFrame(
        {
            "session": pl.Series(calendar.sessions.to_numpy()).cast(pl.Date),
            "open": pl.Series(calendar.opens.dt.tz_convert(None).to_numpy()).cast(pl.Datetime("ns")),
            "close": pl.Series(calendar.closes.dt.tz_convert(None).to_numpy()).cast(pl.Datetime("ns")),
        }
    ).with_columns(pl.col("open", "close").dt.replace_time_zone("UTC").cast(TIME))


@lru_cache(maxsize=32)
def _unplanned(name: str) -> pl.Series:
    """Give the weekdays of trading, no regular holidays, on which the calendar records a closure."""
    calendar: Any = exchange_calendars.get_calendar(name)
    closures = pd.DatetimeIndex([pd.Timestamp(day).tz_localize(None) for day in calendar.adhoc_holidays])
    closures = closures.unique().sort_values()
    trading = np.array([mark == "1" for mark in calendar.weekmask])
    closures = closures[trading[closures.weekday]]
    if calendar.regular_holidays is not None and len(closures):
        closures = closures.difference(calendar.regular_holidays.holidays(closures[0], closures[-1]))
    return pl.Series("session", closures.to_numpy().astype("datetime64[ms]")).cast(pl.Date)


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
            max(first, start.replace(month=1, day=1)),
            min(last, end.replace(month=12, day=31)),
        )
        return schedule.filter(pl.col("session").is_between(start, end))

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
