"""Instants at fixed intervals, on a wall clock or in real time."""

from __future__ import annotations

import zoneinfo
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pandas as pd

from quantattn.errors import TimestampError, UsageError
from quantattn.pit._tables import exchange_zone
from quantattn.pit._zones import DAY, SECOND, check_time_zone, day_starts, localise
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of, to_nanoseconds

_MOST: Final = 50_000_000


def steps(step: int, start: Any, end: Any, calendar: str | None, time_zone: str | None) -> Nanoseconds:
    """Give instants from `start` to `end`, `step` nanoseconds apart, as ``ForecastClock.every`` says."""
    if time_zone is not None:
        check_time_zone(time_zone)
        first, last = _wall(start, "start", time_zone, end=False), _wall(end, "end", time_zone, end=True)
        wall = _range(first, last, step, start, end)
        earlier, repeated, skipped = localise(wall, time_zone)
        found = [earlier[~skipped]]
        if step < DAY and repeated.any():
            found.append(_second(wall[repeated], time_zone))
        moments = np.unique(np.concatenate(found))
        # A bound with a zone is an instant, which the wall clock alone may name twice.
        for bound, keep in ((start, np.greater_equal), (end, np.less_equal)):
            stamp, _ = _read(bound, "start")
            if stamp.tzinfo is not None:
                moments = moments[keep(moments, to_nanoseconds(stamp))]
        return moments
    zone = None if calendar is None else exchange_zone(calendar)
    begin, stop = _instant(start, "start", zone, end=False), _instant(end, "end", zone, end=True)
    return _range(begin, stop, step, start, end)


def within_sessions(moments: Nanoseconds, calendar: str) -> Nanoseconds:
    """Keep the instants from the open of a session (included) to its close (excluded)."""
    hours = TradingCalendar(calendar).around(int(moments[0]), int(moments[-1]))
    opens, closes = nanoseconds_of(hours["open"]), nanoseconds_of(hours["close"])
    place = np.searchsorted(opens, moments, side="right") - 1
    return moments[(place >= 0) & (moments < closes[np.maximum(place, 0)])]


def _range(first: int, last: int, step: int, start: Any, end: Any) -> Nanoseconds:
    if first > last:
        raise UsageError(f"start={start} is later than end={end}; swap them")
    count = (last - first) // step + 1
    if count > _MOST:
        raise UsageError(
            f"{count} forecasts from start={start} to end={end} are too many; lengthen interval="
        )
    return first + step * np.arange(count, dtype=np.int64)


def _read(value: Any, argument: str) -> tuple[pd.Timestamp, bool]:
    """Read a time, and whether it is a date alone."""
    try:
        plain = isinstance(value, date) and not isinstance(value, datetime)
        if isinstance(value, str):
            try:
                value, plain = date.fromisoformat(value), True
            except ValueError:
                plain = False
        stamp = pd.Timestamp(value) if isinstance(value, date | str | np.datetime64) else None
    except (ValueError, TypeError) as error:
        raise TimestampError(f"{argument}={value!r} is not a time ({error}); correct it") from error
    if stamp is None or pd.isna(stamp):
        raise TimestampError(f"{argument}={value!r} is not a time; write it as '2020-01-31T09:30' or a date")
    return stamp, plain


def _wall(value: Any, argument: str, zone: str, *, end: bool) -> int:
    """Give a time on the wall clock of a zone; the last one of a date that is an end."""
    stamp, plain = _read(value, argument)
    if stamp.tzinfo is not None:
        stamp = stamp.tz_convert(zone).tz_localize(None)
    wall = to_nanoseconds(stamp)
    return wall + DAY - 1 if plain and end else wall


def _instant(value: Any, argument: str, zone: str | None, *, end: bool) -> int:
    stamp, plain = _read(value, argument)
    if stamp.tzinfo is not None:
        return to_nanoseconds(stamp)
    if not plain:
        raise TimestampError(
            f"{argument}={value!r} has no zone; give it one, or pass time_zone= to step on a wall clock"
        )
    if zone is None:
        raise TimestampError(
            f"{argument}={value!r} is a date, which begins at another instant in every zone; pass "
            "time_zone= or calendar=, or an instant with its zone"
        )
    day = to_nanoseconds(stamp) // DAY
    begins, _ = day_starts(np.array([day + 1 if end else day], dtype=np.int64), zone)
    return int(begins[0]) - 1 if end else int(begins[0])


def _second(wall: Nanoseconds, zone: str) -> Nanoseconds:
    """Give the second instant of wall times that a daylight-saving night repeats."""
    place, epoch = zoneinfo.ZoneInfo(zone), datetime(1970, 1, 1)
    found = []
    for moment in wall.tolist():
        seconds, rest = divmod(moment, SECOND)
        stamp = (epoch + timedelta(seconds=seconds)).replace(tzinfo=place, fold=1)
        found.append(int(stamp.timestamp()) * SECOND + rest)
    return np.array(found, dtype=np.int64)
