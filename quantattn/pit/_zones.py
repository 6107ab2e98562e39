"""Wall clocks and dates of a place turned into instants."""

from __future__ import annotations

import difflib
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import CalendarError, TimestampError
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of, to_nanoseconds

Mask = npt.NDArray[np.bool_]

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
_HOUR: Final = 3_600 * SECOND
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The zone tables of polars end in 2099; later wall times are read with zoneinfo.
_TABLES_END: Final = to_nanoseconds(datetime(2099, 1, 1, tzinfo=UTC))
# The longest closure on record, of XNYS in 1914, lasted 135 days.
_LONGEST_CLOSURE: Final = 150 * DAY
# Nanoseconds hold the years 1678 to 2261.
_FIRST_DAY, _LAST_DAY = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (1678, 2261))
_NEVER: Final = np.iinfo(np.int64).min


def check_time_zone(name: str) -> None:
    """Refuse a name that is not in the time zone database.

    Raises
    ------
    TimestampError
        Naming the nearest zone.
    """
    if not isinstance(name, str):
        raise TimestampError(f"time_zone={name!r} is no name; use one such as 'America/New_York' or 'UTC'")
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(name, sorted(zoneinfo.available_timezones()), n=1, cutoff=0.4)
        remedy = f"did you mean {near[0]!r}?" if near else "use a name such as 'America/New_York' or 'UTC'"
        raise TimestampError(f"time_zone={name!r} is not in the time zone database; {remedy}") from error


def localise(wall: Nanoseconds, zone: str) -> tuple[Nanoseconds, Mask, Mask]:
    """Turn wall times into instants.

    Parameters
    ----------
    wall : ndarray of int64, shape (n,)
        Nanoseconds from 1970-01-01 00:00 on the wall clock of `zone`.
    zone : str
        A name of the time zone database.

    Returns
    -------
    instant : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC: the earlier one of an ambiguous wall time.
    ambiguous, skipped : ndarray of bool, shape (n,)
        Wall times that occur twice, and that never occur, where the clocks change.
    """
    naive = pl.Series("wall", wall).cast(pl.Datetime("ns"))
    earlier, later = (
        naive.dt.replace_time_zone(zone, ambiguous=choice, non_existent="null")
        .to_physical()
        .fill_null(_NEVER)
        .to_numpy()
        .copy()
        for choice in ("earliest", "latest")
    )
    for row in np.flatnonzero(wall >= _TABLES_END):
        earlier[row], later[row] = _localise_one(int(wall[row]), zone)
    return earlier, earlier != later, earlier == _NEVER


def _localise_one(wall: int, zone: str) -> tuple[int, int]:
    seconds, rest = divmod(wall, SECOND)
    place = zoneinfo.ZoneInfo(zone)
    naive = _EPOCH.replace(tzinfo=None) + timedelta(seconds=seconds)
    first, second = (naive.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first.astimezone(place).replace(tzinfo=None) != naive:
        return _NEVER, _NEVER
    earlier, later = (((stamp - _EPOCH) // timedelta(seconds=1)) * SECOND + rest for stamp in (first, second))
    return earlier, later


def day_starts(days: Nanoseconds, zone: str) -> tuple[Nanoseconds, Mask]:
    """Give the first instant of dates in a zone.

    Parameters
    ----------
    days : ndarray of int64, shape (n,)
        Days since 1970-01-01.
    zone : str
        A name of the time zone database.

    Returns
    -------
    instant : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC: midnight, or one o'clock where the clocks skip midnight; for a
        date that a zone left out altogether, the start of the next date.
    absent : ndarray of bool, shape (n,)
        Dates that the zone left out, such as 2011-12-30 in Samoa.
    """
    instant, _, absent = localise(days * DAY, zone)
    for shift in (_HOUR, DAY):
        rows = np.flatnonzero(instant == _NEVER)
        if rows.size:
            instant[rows], _, skipped = localise(days[rows] * DAY + shift, zone)
            absent[rows] = skipped | (shift == DAY)
    return instant, absent


def next_opens(days: Nanoseconds, ends: Nanoseconds, calendar: str) -> tuple[Nanoseconds, Mask]:
    """Find the open of the next session after dates: of a later date, and not before the date is over.

    Parameters
    ----------
    days : ndarray of int64, shape (n,)
        Days since 1970-01-01.
    ends : ndarray of int64, shape (n,)
        The instants at which those dates end in the zone of their stamps.
    calendar : str
        The trading calendar.

    Returns
    -------
    opens : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC.
    outside : ndarray of bool, shape (n,)
        Dates after which the calendar records no session within the longest closure known.
    """
    held = np.clip(days, _FIRST_DAY, _LAST_DAY)
    first, last = (_EPOCH.date() + timedelta(days=int(day)) for day in (held.min(), held.max()))
    years = _recorded_years(calendar, first.year, (last + timedelta(days=150)).year)
    if not years:
        return np.zeros_like(days), np.ones(days.size, dtype=bool)
    sessions = TradingCalendar(calendar).sessions(date(years[0], 1, 1), date(years[-1], 12, 31))
    labels = sessions["session"].to_physical().cast(pl.Int64).to_numpy()
    opens = nanoseconds_of(sessions["open"])
    found = np.maximum(np.searchsorted(labels, days, side="right"), np.searchsorted(opens, ends, side="left"))
    chosen = opens[np.minimum(found, opens.size - 1)]
    return chosen, (found >= opens.size) | (chosen - ends > _LONGEST_CLOSURE)


def _recorded_years(calendar: str, first: int, last: int) -> range:
    """Narrow a span of years to those that the calendar records in full."""
    while first <= last and not _records(calendar, first):
        first += 1
    while last >= first and not _records(calendar, last):
        last -= 1
    return range(first, last + 1)


def _records(calendar: str, year: int) -> bool:
    try:
        return not TradingCalendar(calendar).sessions(date(year, 1, 1), date(year, 12, 31)).is_empty()
    except CalendarError:
        return False
