"""Sizes of windows: counts of forecast times, durations and calendar offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pandas as pd

from quantattn.errors import SplitError, TimestampError
from quantattn.pit.timestamps import duration_nanoseconds, to_nanoseconds

Size = int | str | timedelta | np.timedelta64 | pd.offsets.BaseOffset
"""A count of forecast times, a duration (``"365D"``), a calendar length (``"6M"``) or offset (``"QS"``)."""

# The least int64 stands for a missing time in numpy and pandas, so it is no instant.
EARLIEST = int(np.iinfo(np.int64).min) + 1
LATEST = int(np.iinfo(np.int64).max)

# Months in the units in which a pandas Period counts and a duration cannot: they differ in length.
_MONTHS = {"M": 1, "Q": 3, "Y": 12}
_CALENDAR_LENGTH = re.compile(r"(\d{0,6})([MQY])")
# pandas reads the months of an ISO 8601 period as minutes.
_ISO_MONTHS = re.compile(r"[+-]?P[^T]*[YM]", re.IGNORECASE)
# These set a part of the date instead of moving along it.
_SETTING = frozenset(
    ("year", "month", "day", "weekday", "hour", "minute", "second", "microsecond", "nanosecond")
)
# What a test calendar may hold at most, a date a minute for over a year; more is a slip of the unit.
_MOST_PERIODS = 1_000_000


def _clip(nanoseconds: int) -> int:
    """Keep an instant inside int64, where every comparison with it still comes out right."""
    return max(EARLIEST, min(LATEST, nanoseconds))


@dataclass(frozen=True)
class Span:
    """A stretch of time: either a fixed number of nanoseconds or a calendar offset in UTC.

    Attributes
    ----------
    nanoseconds : int or None
        The fixed length, or None for a calendar offset.
    offset : pandas offset or None
        The calendar offset, or None for a fixed length.
    """

    nanoseconds: int | None
    offset: pd.offsets.BaseOffset | None = None

    def after(self, moment: int, times: int = 1) -> int:
        """Give the instant `times` spans after `moment`, both in nanoseconds, UTC."""
        return self._shifted(moment, times)

    def before(self, moment: int) -> int:
        """Give the instant one span before `moment`, both in nanoseconds, UTC."""
        return self._shifted(moment, -1)

    def _shifted(self, moment: int, times: int) -> int:
        if times == 0:
            return moment
        if self.offset is None:
            return _clip(moment + times * (self.nanoseconds or 0))
        try:
            return to_nanoseconds(pd.Timestamp(moment, tz="UTC") + self.offset * times)
        except (ValueError, OverflowError, TimestampError):
            return LATEST if times > 0 else EARLIEST


def _offset(text: str) -> pd.offsets.BaseOffset | None:
    """Read the text as a calendar offset, or give None where it is none."""
    try:
        return pd.tseries.frequencies.to_offset(text)
    except ValueError:
        return None


def parse_size(value: object, argument: str, *, least: int) -> int | Span:
    """Read one size argument.

    Parameters
    ----------
    value : int, str, timedelta, numpy.timedelta64 or pandas offset
        The size as the user gave it. Text is a duration in pandas notation (``"365D"``, ``"12h"``), a number
        of calendar months, quarters or years in the notation of a pandas Period (``"6M"``, ``"2Q"``,
        ``"5Y"``: exactly that long, wherever it starts), or a pandas offset (``"QS"``, ``"2ME"``: to a date
        of that calendar, so the first step may be short).
    argument : str
        The argument's name, for messages.
    least : int
        The smallest count allowed; a span must be positive where this is 1, and may be zero where it is 0.

    Returns
    -------
    int or Span
        A count of forecast times, or a stretch of time.

    Raises
    ------
    SplitError
        If the value is no size, or too small.
    """
    if isinstance(value, bool | np.bool_ | float | np.floating) or value is None:
        raise SplitError(
            f"{argument}={value!r} is not a size; write a count such as 52 or a duration such as '365D'"
        )
    # A numpy duration is a numpy integer too.
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        if int(value) < least:
            raise SplitError(f"{argument}={value!r} is too small; the least count is {least}")
        return int(value)
    span = _parse_span(value, argument)
    probe = to_nanoseconds(pd.Timestamp("2000-01-03 12:34:56", tz="UTC"))
    length = min(span.after(probe) - probe, probe - span.before(probe))
    if length < 0 or (length == 0 and least > 0):
        raise SplitError(
            f"{argument}={value!r} does not go forward in time; write a positive duration such as '365D'"
        )
    return span


def _parse_span(value: object, argument: str) -> Span:
    if isinstance(value, pd.offsets.Tick):
        return Span(int(value.nanos))
    if isinstance(value, pd.offsets.BaseOffset):
        _refuse_setting(value, argument)
        return Span(None, value)
    if isinstance(value, pd.Period):
        raise SplitError(
            f"{argument}={value!r} is one period of the calendar, not a length; write a length, such as '1M'"
        )
    if isinstance(value, str):
        return _parse_text(value.strip(), argument)
    if isinstance(value, timedelta | np.timedelta64):
        try:
            length = _numpy_duration(value) if isinstance(value, np.timedelta64) else value
            return Span(duration_nanoseconds(length, argument=argument))
        except (TimestampError, ValueError, OverflowError) as error:
            raise SplitError(f"{argument}={value!r} is not a size ({error}); {_REMEDY}") from error
    raise SplitError(f"{argument}={value!r} is not a size; {_REMEDY}")


def _numpy_duration(value: np.timedelta64) -> timedelta:
    if np.datetime_data(value.dtype)[0] == "generic":
        raise ValueError("it has no unit")
    return pd.Timedelta(value)


_REMEDY = (
    "write a count such as 52, a duration such as '365D', a calendar length such as '6M' or an offset "
    "such as 'QS'"
)


def _parse_text(text: str, argument: str) -> Span:
    calendar = _CALENDAR_LENGTH.fullmatch(text)
    if calendar:
        return Span(None, pd.DateOffset(months=int(calendar[1] or 1) * _MONTHS[calendar[2]]))
    if _ISO_MONTHS.match(text):
        raise SplitError(
            f"{argument}={text!r} counts months or years in ISO 8601 notation, which pandas would take for "
            "minutes or refuse; write for example '6M' or '5Y'"
        )
    try:
        return Span(duration_nanoseconds(text, argument=argument))
    except TimestampError:
        offset = _offset(text)
    if offset is None:
        raise SplitError(f"{argument}={text!r} is not a size; {_REMEDY}")
    return Span(None, offset)


def _refuse_setting(offset: pd.offsets.BaseOffset, argument: str) -> None:
    if type(offset) is pd.DateOffset and _SETTING & set(offset.kwds):
        raise SplitError(
            f"{argument}={offset!r} sets a part of the date, so it has no length; use the plural "
            "(months=1 moves by a month, month=1 goes to January)"
        )


def parse_extra(purged_size: object) -> int:
    """Read `purged_size`: how many forecast times go beyond the label rule.

    Raises
    ------
    SplitError
        If it is neither ``"label"`` nor a count.
    """
    extra = 0 if isinstance(purged_size, str) and purged_size == "label" else purged_size
    if isinstance(extra, int | np.integer | float | np.floating) and not isinstance(extra, np.timedelta64):
        extra = parse_size(extra, "purged_size", least=0)
    if not isinstance(extra, int):
        raise SplitError(
            f"purged_size={purged_size!r} is neither 'label' nor a count; 'label' follows "
            "label_available_at, a count purges as many forecast times more"
        )
    return extra


def parse_switch(value: object, argument: str) -> bool:
    """Read an argument that is on or off; a text such as ``"no"`` would count as true.

    Raises
    ------
    SplitError
        If it is not a bool.
    """
    if not isinstance(value, bool | np.bool_):
        raise SplitError(f"{argument}={value!r} is neither True nor False; write one of them")
    return bool(value)


def parse_frequency(value: object) -> pd.offsets.BaseOffset:
    """Read `freq`, the calendar on which test blocks start.

    Raises
    ------
    SplitError
        If it is no pandas frequency, or does not go forward in time.
    """
    if isinstance(value, str) and _CALENDAR_LENGTH.fullmatch(value.strip()):
        start, end = f"{value.strip()}S", f"{value.strip()}E"
        raise SplitError(
            f"freq={value!r} does not say on which day of it blocks start; write {start!r} for the first day "
            f"or {end!r} for the last one"
        )
    if isinstance(value, pd.offsets.BaseOffset):
        offset: pd.offsets.BaseOffset | None = value
        _refuse_setting(value, "freq")
    else:
        offset = _offset(value.strip()) if isinstance(value, str) else None
    monday = pd.Timestamp("2000-01-03")
    if offset is None or offset.n <= 0 or monday + offset <= monday:
        raise SplitError(
            f"freq={value!r} is not a calendar frequency; write for example 'MS', 'QS' or 'WOM-3FRI'"
        )
    return offset


def calendar_dates(start: int, end: int, freq: pd.offsets.BaseOffset) -> list[int]:
    """Give the dates of a calendar from the midnight before `start` to `end`.

    Parameters
    ----------
    start, end : int
        Nanoseconds since the epoch, UTC.
    freq : pandas offset
        The calendar.

    Returns
    -------
    list of int
        Nanoseconds since the epoch, UTC, ascending.

    Raises
    ------
    SplitError
        If there are more than a million of them.
    """
    if isinstance(freq, pd.offsets.Tick) and (end - start) // int(freq.nanos) > _MOST_PERIODS:
        raise SplitError(
            f"freq={freq.freqstr!r} makes more than {_MOST_PERIODS:,} periods of this history; make it longer"
        )
    first, last = (pd.Timestamp(moment, tz="UTC") for moment in (start, end))
    return [to_nanoseconds(date) for date in pd.date_range(first.normalize(), last, freq=freq)]
