"""When in the life of an exchange instants lie: before, within and after its sessions, and on other days.

Of the 106,300 tweets about US stocks in StockNet (2014 and 2015), 33.1 % were posted in session, 24.4 %
before the open, 23.7 % after the close and 18.9 % on other days. A join on calendar dates gives the 25,179 of
after the close to the return of a day that was over.
"""

from __future__ import annotations

from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import CalendarError
from quantattn.pit._tables import exchange_zone
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of

PARTS: Final = ("before_open", "in_session", "after_close", "no_session", "unknown")
"""``no_session`` are weekends and holidays; ``unknown`` are years that the calendar does not record."""

_DAY: Final = 86_400 * 1_000_000_000
_SCHEDULE: Final = pl.Schema({"session": pl.Date(), "open": TIME, "close": TIME})


def session_parts(times: Nanoseconds, calendar: str) -> npt.NDArray[np.uint8]:
    """Say in which part of a session each instant lies.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC.
    calendar : str
        A name that ``exchange_calendars`` knows.

    Returns
    -------
    ndarray of uint8, shape (n,)
        Places in `PARTS`. A session holds its open and ends just before its close. An instant outside of
        sessions belongs to the exchange's own date.

    Raises
    ------
    CalendarError
        If the calendar is unknown.
    """
    zone = exchange_zone(calendar)
    parts = np.full(times.size, PARTS.index("unknown"), dtype=np.uint8)
    if not times.size:
        return parts
    wall = instants(times).dt.convert_time_zone(zone).dt.replace_time_zone(None)
    days = wall.to_physical().to_numpy() // _DAY
    years = wall.dt.year().to_numpy()
    recorded, sessions = _sessions(calendar, np.unique(years).tolist())
    if sessions.is_empty():
        return parts
    known = np.isin(years, recorded)
    labels = sessions["session"].to_physical().cast(pl.Int64).to_numpy()
    opens, closes = nanoseconds_of(sessions["open"]), nanoseconds_of(sessions["close"])
    last_open = np.searchsorted(opens, times, side="right") - 1
    within = (last_open >= 0) & (times < closes[np.maximum(last_open, 0)])
    own = np.minimum(np.searchsorted(labels, days), labels.size - 1)
    trading = labels[own] == days
    early = times < opens[own]
    parts[known & ~trading] = PARTS.index("no_session")
    parts[known & trading & early] = PARTS.index("before_open")
    parts[known & trading & ~early] = PARTS.index("after_close")
    parts[known & within] = PARTS.index("in_session")
    return parts


def _sessions(calendar: str, years: list[int]) -> tuple[list[int], pl.DataFrame]:
    """List the sessions of years, and which of these years the calendar records."""
    recorded, parts = [], [pl.DataFrame(schema=_SCHEDULE)]
    # Where sessions begin on the evening before, the last of a year belongs to the next one.
    for year in sorted({*years, *(year + 1 for year in years)}):
        try:
            listed = TradingCalendar(calendar).sessions(date(year, 1, 1), date(year, 12, 31))
        except CalendarError:
            continue
        if listed.height:
            recorded.append(year)
            parts.append(listed)
    return recorded, pl.concat(parts)
