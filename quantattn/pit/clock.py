"""When forecasts are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import CalendarError, TimestampError, UsageError
from quantattn.pit._intervals import steps, within_sessions
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

if TYPE_CHECKING:
    from quantattn.pit.events import EventLog, EventScan

_WALL_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_LONGEST = {"week": timedelta(days=7), "month": timedelta(days=31)}


@dataclass(frozen=True, eq=False)
class ForecastClock:
    """The instants at which forecasts are made.

    Build it with :meth:`sessions`, :meth:`every`, :meth:`at_events` or :meth:`explicit`.

    Parameters
    ----------
    times : polars.Series of Datetime("ns", "UTC")
        Strictly rising.
    pairs : polars.DataFrame, optional
        ``entity`` (String; null: every entity) and ``forecast_time`` of the forecasts, where they are not
        made of every entity at every time: labels are then measured for these alone. See :meth:`at_events`.

    Raises
    ------
    TimestampError
        If the times have another type, are missing, or do not rise, or those of `pairs` are others.
    """

    times: pl.Series
    pairs: pl.DataFrame | None = None

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
        if self.pairs is not None:
            _check_pairs(self.pairs, self.times)

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
        _refuse_unnamed(calendar)
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
    def every(
        cls,
        interval: str | timedelta | pd.Timedelta,
        *,
        start: datetime | date | str,
        end: datetime | date | str,
        calendar: str | None = None,
        time_zone: str | None = None,
    ) -> ForecastClock:
        """Make forecasts at a fixed interval.

        Parameters
        ----------
        interval : duration
            Positive; the first forecast is at `start`.
        start, end : datetime or date, or ISO text of either
            First forecast, and the last instant at which there may be one. A date begins at its midnight, and
            as `end` it is included as a whole.
        calendar : str, optional
            Keep only forecasts within its sessions: from the open (included) to the close (excluded, since
            nothing can be traded any more); half days and holidays count.
        time_zone : str, optional
            Step on the wall clock of this zone, so that a forecast at 09:00 stays at 09:00 when the clocks
            change. A wall time that a daylight-saving night skips has no forecast; one that it repeats has
            two, or the first alone if the interval is a day or longer. Without a zone, steps are of real
            time. It is also the zone of dates and naive times; dates are read in that of `calendar` if
            there is no other.

        Returns
        -------
        ForecastClock

        Raises
        ------
        TimestampError
            If a time is naive without a zone.
        CalendarError
            If the calendar is unknown or does not cover the span.
        UsageError
            If the interval is not positive or gives too many forecasts, or none is left.

        Examples
        --------
        >>> ForecastClock.every("1D", start="2021-03-27T09:00", end="2021-03-29", time_zone="Europe/Paris")
        ForecastClock(3 forecasts, 2021-03-27T08:00:00Z to 2021-03-29T07:00:00Z)
        """
        step = duration_nanoseconds(interval, argument="interval")
        if step <= 0:
            raise UsageError(f"interval={interval!r} is not positive; give for example '30min'")
        if calendar is not None:
            _refuse_unnamed(calendar)
        moments = steps(step, start, end, calendar, time_zone)
        if calendar is not None and moments.size:
            moments = within_sessions(moments, calendar)
        if not moments.size:
            where = "" if calendar is None else f" within a session of {calendar!r}"
            raise UsageError(
                f"no forecast from start={start} to end={end} is{where or ' left'}; choose others"
            )
        return cls(instants(np.unique(moments), "forecast_time"))

    @classmethod
    def at_events(
        cls,
        events: EventLog | EventScan | pl.Series | pd.Series | pd.Index | Iterable[Any],
        *,
        delay: str | timedelta | pd.Timedelta = "1ns",
        per_entity: bool = False,
    ) -> ForecastClock:
        """Make a forecast after each event, that sees it; events that become available together share one.

        Parameters
        ----------
        events : EventLog, EventScan, or times as for :meth:`explicit`
            Of a log, ``available_at`` counts.
        delay : duration
            From the event until the forecast. The default of one nanosecond is the first instant at which
            the event is visible.
        per_entity : bool
            Forecast only the entity that an event is about, instead of every entity after every event: labels
            measured at this clock are of those pairs alone. A market-wide event (entity null) makes a
            forecast of every entity. Needs a log.

        Returns
        -------
        ForecastClock

        Raises
        ------
        UsageError
            If `delay` is not positive (the event would not be visible), there is no event, or `per_entity`
            comes without a log.
        TimestampError
            If an instant is missing or has no zone.
        """
        by = duration_nanoseconds(delay, argument="delay")
        if by <= 0:
            raise UsageError(
                f"delay={delay!r} is not positive: an event is visible strictly after it became available; "
                "give '1ns' or more"
            )
        frame = getattr(events, "frame", None)
        times: Any = events
        if isinstance(frame, pl.DataFrame | pl.LazyFrame):
            columns = ["entity", "available_at"] if per_entity else ["available_at"]
            rows = frame.lazy().select(columns).collect()
            times = rows["available_at"]
        elif per_entity:
            raise UsageError(
                "per_entity=True needs the entities of the events; give an EventLog or EventScan"
            )
        seen = nanoseconds_of(cls.explicit(times).times)
        if not seen.size:
            raise UsageError("there is no event to make a forecast after; give some, or explicit times")
        moments = instants(shifted(seen, by, "delay"), "forecast_time")
        if not per_entity:
            return cls(moments)
        after = instants(shifted(nanoseconds_of(times), by, "delay"), "forecast_time")
        return cls(moments, pl.DataFrame([rows["entity"], after]).unique().sort("forecast_time", "entity"))

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
        elif isinstance(times, str | bytes) or not isinstance(times, Iterable):
            raise TimestampError(
                f"times is a {type(times).__name__}; give a series or a list of instants, each with its zone"
            )
        else:
            moments = np.array([_instant(value, row) for row, value in enumerate(times)], dtype=np.int64)
        return cls(instants(np.unique(moments), "forecast_time"))

    def cut(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> ForecastClock:
        """Keep the forecasts made at or before an instant."""
        moments = nanoseconds_of(self.times)
        last = to_nanoseconds(t)
        made = None
        if self.pairs is not None:
            made = self.pairs.filter(pl.col("forecast_time") <= pl.lit(instants([last])))
        return ForecastClock(instants(moments[moments <= last], "forecast_time"), made)

    def select(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep the rows whose forecast is made; all where every entity is forecast at every time.

        Parameters
        ----------
        rows : polars.DataFrame
            With ``entity`` and ``forecast_time``.

        Returns
        -------
        polars.DataFrame
            In the order given.
        """
        if self.pairs is None:
            return rows
        keys = ["entity", "forecast_time"]
        named, general = self.pairs.drop_nulls("entity"), self.pairs.filter(pl.col("entity").is_null())
        numbered = rows.with_row_index("_row")
        kept = pl.concat(
            [
                numbered.join(named, on=keys, how="semi").select("_row"),
                numbered.join(general, on="forecast_time", how="semi").select("_row"),
            ]
        )["_row"]
        return rows[kept.unique().sort().cast(pl.Int64)]

    def __repr__(self) -> str:
        """Say how many forecasts there are, and their first and last time."""
        if self.times.is_empty():
            return "ForecastClock(no forecasts)"
        moments = nanoseconds_of(self.times)
        return f"ForecastClock({len(self)} forecasts, {iso(moments[0])} to {iso(moments[-1])})"


def _refuse_unnamed(calendar: object) -> None:
    if not isinstance(calendar, str):
        raise UsageError(f"calendar={calendar!r} is no name; give for example 'XNYS'")


def _check_pairs(pairs: pl.DataFrame, times: pl.Series) -> None:
    schema = {"entity": pl.String(), "forecast_time": times.dtype}
    if not isinstance(pairs, pl.DataFrame) or dict(pairs.schema) != schema:
        raise TimestampError(
            f"pairs is no frame of {schema}; use ForecastClock.at_events(log, per_entity=True)"
        )
    if not pairs["forecast_time"].unique().sort().equals(times):
        raise TimestampError("pairs have forecast times that differ from times; give the same")


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
