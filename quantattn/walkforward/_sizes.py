"""Sizes of windows: counts of forecast times, durations and calendar offsets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pandas as pd

from quantattn.errors import SplitError, TimestampError
from quantattn.pit.timestamps import duration_nanoseconds, to_nanoseconds

Size = int | str | timedelta | pd.offsets.BaseOffset
"""A count of forecast times, a duration (``"365D"``, a timedelta) or a calendar offset (``"QS"``)."""

# The least int64 stands for a missing time in numpy and pandas, so it is no instant.
EARLIEST = int(np.iinfo(np.int64).min) + 1
LATEST = int(np.iinfo(np.int64).max)


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
    value : int, str, timedelta or pandas offset
        The size as the user gave it.
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
    if isinstance(value, int | np.integer):
        if int(value) < least:
            raise SplitError(f"{argument}={value!r} is too small; the least count is {least}")
        return int(value)
    span = _parse_span(value, argument)
    probe = to_nanoseconds(pd.Timestamp("2000-01-03", tz="UTC"))
    length = span.after(probe) - probe
    if length < 0 or (length == 0 and least > 0):
        raise SplitError(
            f"{argument}={value!r} does not go forward in time; write a positive duration such as '365D'"
        )
    return span


def _parse_span(value: object, argument: str) -> Span:
    if isinstance(value, pd.offsets.Tick):
        return Span(int(value.nanos))
    if isinstance(value, pd.offsets.BaseOffset):
        return Span(None, value)
    if isinstance(value, str | timedelta):
        try:
            return Span(duration_nanoseconds(value, argument=argument))
        except TimestampError:
            offset = _offset(value) if isinstance(value, str) else None
            if offset is not None:
                return Span(None, offset)
    raise SplitError(
        f"{argument}={value!r} is not a size; write a count such as 52, a duration such as '365D' "
        "or a calendar offset such as 'QS'"
    )


def parse_frequency(value: object) -> pd.offsets.BaseOffset:
    """Read `freq`, the calendar on which test blocks start.

    Raises
    ------
    SplitError
        If it is no pandas frequency, or does not go forward in time.
    """
    offset = (
        value
        if isinstance(value, pd.offsets.BaseOffset)
        else _offset(value)
        if isinstance(value, str)
        else None
    )
    if offset is None or offset.n <= 0:
        raise SplitError(
            f"freq={value!r} is not a calendar frequency; write for example 'MS', 'QS' or 'WOM-3FRI'"
        )
    return offset
