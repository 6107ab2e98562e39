"""When forecasts are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import CalendarError, TimestampError, UsageError
from quantattn.pit._tables import exchange_zone, localise, to_instants
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import (
    duration_nanoseconds,
    instants,
    iso,
    nanoseconds_of,
    shifted,
    to_nanoseconds,
)

_WALL_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_LONGEST = {"week": timedelta(days=7), "month": timedelta(days=31)}


@dataclass(frozen=True, eq=False)
class ForecastClock:
    """The instants at which forecasts are made; build it with :meth:`sessions` or :meth:`explicit`.

    Parameters
    ----------
    times : polars.Series of Datetime("ns", "UTC")
        Strictly rising.

    Raises
    ------
    TimestampError
        If the times have another type, are missing, or do not rise.
    """

    times: pl.Series

    def __post_init__(self) -> None:
        """Refuse times that are not rising instants."""
        if not isinstance(self.times, pl.Series):
            raise TimestampError(
                f"times is a {type(self.times).__name__}, not a polars Series; "
                "use ForecastClock.explicit(times)"
            )
        steps = np.diff(nanoseconds_of(self.times))
        if (steps <= 0).any():
            row = int(np.argmax(steps <= 0)) + 1
            raise TimestampError(
                f"times do not rise at row {row} ({self.times[row]}); "
                "use ForecastClock.explicit(times), which sorts them"
            )

    def __len__(self) -> int:
        """Count the forecast times."""
        return len(self.times)

    @classmethod
    def sessions(
        cls,
        calendar: str = "XNYS",
        *,
        start: date | str,
        end: date | str,
        at: str = "close",
        offset: str | timedelta | pd.Timedelta = "-15min",
        every: Literal["session", "week", "month"] = "session",
        time_zone: str | None = None,
    ) -> ForecastClock:
        """Make a forecast in every session, or in the last scheduled session of every ISO week or month.

        Parameters
        ----------
        calendar : str
            Exchange calendar; its half days and holidays count.
        start, end : date or ISO text
            First and last session date, both included.
        at : {"open", "close"} or "HH:MM"
            The session's official open or close, or a wall time on the session's date.
        offset : duration
            Added to that instant, negative for before. With the defaults a forecast is made 15 minutes
            before the official close, at 12:45 when the exchange closes at 13:00.
        every : {"session", "week", "month"}
            With a week or month, only its last scheduled session: what weekdays and regular holidays make
            the last, also beyond `end`, so a week that `end` cuts short gives no forecast. Closures out of
            schedule move nothing, because a forecast time must not tell of them in advance: the week of
            2001-09-10 gives no forecast, as its scheduled last session did not take place. Closures
            announced days before, such as for state funerals, and lunar holidays that a calendar lists
            one by one are treated the same.
        time_zone : str, optional
            Zone of the wall time; the exchange's by default.

        Returns
        -------
        ForecastClock

        Raises
        ------
        CalendarError
            If the calendar is unknown or does not cover the dates.
        TimestampError
            If a wall time is repeated or skipped by a daylight-saving night.
        UsageError
            If an argument is unknown, or no session is left.
        """
        if every not in ("session", "week", "month"):
            raise UsageError(f"every={every!r} is unknown; use 'session', 'week' or 'month'")
        first, last = _date(start, "start"), _date(end, "end")
        if first > last:
            raise UsageError(f"start={first} is later than end={last}; swap them")
        shift = duration_nanoseconds(offset, argument="offset")
        chosen = _last_of_periods(calendar, first, last, every)
        moments = _moments(chosen, calendar, at, time_zone)
        if moments.is_empty():
            raise UsageError(
                f"no {every} of calendar {calendar!r} ends between start={first} and end={last}; "
                "choose a longer span"
            )
        return cls(instants(np.unique(shifted(nanoseconds_of(moments), shift, "offset")), "forecast_time"))

    @classmethod
    def explicit(cls, times: pl.Series | pd.Series | pd.Index | Iterable[Any]) -> ForecastClock:
        """Make forecasts at given instants, in any order; repeated instants count once.

        Parameters
        ----------
        times : polars or pandas Series, pandas DatetimeIndex, or iterable of datetime, Timestamp or ISO text
            Every one with its zone.

        Returns
        -------
        ForecastClock

        Raises
        ------
        TimestampError
            If an instant is missing or has no zone.
        """
        if isinstance(times, pl.Series) and isinstance(times.dtype, pl.Datetime):
            moments = nanoseconds_of(to_instants(times.alias("times").to_frame(), "times", None))
        else:
            moments = np.array([_instant(value, row) for row, value in enumerate(times)], dtype=np.int64)
        return cls(instants(np.unique(moments), "forecast_time"))

    def cut(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> ForecastClock:
        """Keep the forecasts made at or before an instant."""
        moments = nanoseconds_of(self.times)
        return ForecastClock(instants(moments[moments <= to_nanoseconds(t)], "forecast_time"))

    def __repr__(self) -> str:
        """Say how many forecasts there are, and their first and last time."""
        if self.times.is_empty():
            return "ForecastClock(no forecasts)"
        moments = nanoseconds_of(self.times)
        return f"ForecastClock({len(self)} forecasts, {iso(moments[0])} to {iso(moments[-1])})"


def _date(value: date | str, argument: str) -> date:
    if isinstance(value, datetime):
        raise UsageError(f"{argument}={value} is a time; give the session's date, for example {value.date()}")
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{argument}={value!r} is not a date; write it as '2020-01-31'") from error


def _instant(value: Any, row: int) -> int:
    try:
        stamp = pd.Timestamp(value) if not isinstance(value, int | float | np.number) else None
    except (ValueError, TypeError) as error:
        raise TimestampError(f"times[{row}]={value!r} is not an instant ({error}); correct it") from error
    if stamp is None or pd.isna(stamp):
        raise TimestampError(f"times[{row}]={value!r} is not an instant; give a time with its zone")
    if stamp.tzinfo is None:
        raise TimestampError(f"times[{row}]={value!r} has no zone; give it one, for example {value}+00:00")
    return to_nanoseconds(stamp)


def _last_of_periods(calendar: str, first: date, last: date, every: str) -> pl.DataFrame:
    trading = TradingCalendar(calendar)
    if every == "session":
        return trading.sessions(first, last)
    try:
        scheduled = trading.scheduled(first, last + _LONGEST[every])
        beyond = True
    except CalendarError:
        scheduled = trading.scheduled(first, last)
        beyond = False
    day = pl.col("session")
    period = (
        day.dt.iso_year() * 100 + day.dt.week() if every == "week" else day.dt.year() * 100 + day.dt.month()
    ).alias("period")
    ends = scheduled.to_frame().with_columns(period).group_by("period", maintain_order=True).last()
    if not beyond:
        # The calendar does not say whether the last period goes on.
        ends = ends.head(-1)
    return trading.sessions(first, last).join(ends, on="session", how="semi", maintain_order="left")


def _moments(sessions: pl.DataFrame, calendar: str, at: str, time_zone: str | None) -> pl.Series:
    if at in ("open", "close"):
        if time_zone is not None:
            raise UsageError(
                f"time_zone={time_zone!r} is read only with a wall time; leave it out with at={at!r}"
            )
        return sessions[at]
    wall = _WALL_TIME.fullmatch(at) if isinstance(at, str) else None
    if wall is None:
        raise UsageError(f"at={at!r} is unknown; use 'open', 'close' or a wall time such as '15:45'")
    zone = time_zone or exchange_zone(calendar)
    hour, minute = int(wall[1]), int(wall[2])
    naive = sessions["session"].cast(pl.Datetime("us")) + timedelta(hours=hour, minutes=minute)
    return localise(naive, zone, naive.rename("at").to_frame(), "at")
