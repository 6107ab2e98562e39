"""Sessions of an exchange, with their official opens and closes, from ``exchange_calendars``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

import exchange_calendars
import polars as pl

from quantattn.errors import CalendarError
from quantattn.pit.timestamps import TIME


@lru_cache(maxsize=32)
def _schedule(name: str, start: str, end: str) -> pl.DataFrame:
    try:
        calendar: Any = exchange_calendars.get_calendar(name, start=start, end=end)
    except exchange_calendars.errors.InvalidCalendarName as error:
        known = ", ".join(sorted(exchange_calendars.get_calendar_names(include_aliases=False)))
        raise CalendarError(f"calendar={name!r} is unknown; use one of {known}") from error
    except ValueError as error:
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


@dataclass(frozen=True)
class TradingCalendar:
    """The sessions of one exchange, half days and holidays included.

    Parameters
    ----------
    name : str
        A name that ``exchange_calendars`` knows, for example ``"XNYS"`` or ``"XLON"``.
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
            If the calendar is unknown or does not reach those dates.
        """
        if start > end:
            raise CalendarError(f"start {start} is later than end {end}; swap them")
        # Whole years keep the cache small and make neighbouring requests share one schedule.
        schedule = _schedule(self.name, f"{start.year:04d}-01-01", f"{end.year:04d}-12-31")
        return schedule.filter(pl.col("session").is_between(start, end))
