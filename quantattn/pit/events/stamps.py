"""Readings of what people write in a time column: instants, wall times and bare dates, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit._tables import exchange_zone
from quantattn.pit._zones import SECOND, check_time_zone, day_starts, localise, next_opens
from quantattn.pit.events.midnights import Midnights, zones_of_dates
from quantattn.pit.timestamps import Nanoseconds

DateOnly = Literal["next_session", "reject"]
Codes = npt.NDArray[np.uint8]

_DAY: Final = 86_400
_CHUNK_ROWS: Final = 200_000
_INSTANT, _WALL, _DATE = range(3)
REASONS: Final = (
    "",
    "missing_time",
    "unreadable_time",
    "leap_second",
    "out_of_range",
    "naive_time",
    "ambiguous_time",
    "nonexistent_time",
    "date_only",
    "outside_calendar",
)
"""What the codes of :class:`Stamps` mean; 0 is no fault."""
_CODE: Final = {reason: code for code, reason in enumerate(REASONS)}
_TICKS: Final = {"ms": 1_000, "us": 1_000_000, "ns": SECOND}
# What tables write for "no value".
_ABSENT: Final = ("", "nat", "nan", "none", "null", "n/a", "na")
_PATTERN: Final = (
    r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2}|[0-9]{8})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<sec>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?:(?P<utc>Z|z|UTC|GMT)|(?P<sign>[+-])(?P<east>[0-9]{2})(?::?(?P<past>[0-9]{2}))?)?)?$"
)


@dataclass(frozen=True)
class TimeRules:
    """How to read stamps that are not instants.

    Parameters
    ----------
    time_zone : str, optional
        The zone of naive stamps and of dates. Without it naive stamps are refused, and dates are days
        at the calendar's exchange.
    date_only : {"next_session", "reject"}
        What to do with a bare date.
    calendar : str
        The trading calendar that gives the next session.
    """

    time_zone: str | None = None
    date_only: DateOnly = "next_session"
    calendar: str = "XNYS"

    def __post_init__(self) -> None:
        """Refuse an unknown zone or policy before any row is read."""
        if self.date_only not in ("next_session", "reject"):
            raise EventDataError(f"date_only={self.date_only!r} is unknown; use 'next_session' or 'reject'")
        if self.time_zone is not None:
            check_time_zone(self.time_zone)


@dataclass(frozen=True)
class Stamps:
    """A time column as read.

    Parameters
    ----------
    time : numpy.ndarray of int64, shape (n,)
        Nanoseconds since the epoch: the instant, or the start of the date; 0 where refused.
    published : numpy.ndarray of int64, shape (n,)
        The first instant at which the stamp is certainly past: the instant itself, or for a bare date the
        next session's open; 0 where refused.
    fault : numpy.ndarray of uint8, shape (n,)
        Why the stamp is refused: a place in `REASONS`; 0 where it is not.
    dated : numpy.ndarray of bool, shape (n,)
        Whether the stamp was a bare date.
    """

    time: Nanoseconds
    published: Nanoseconds
    fault: Codes
    dated: npt.NDArray[np.bool_]


def read_stamps(column: pl.Series, rules: TimeRules, midnights: Midnights | None = None) -> Stamps:
    """Read a time column, row by row.

    Parameters
    ----------
    column : polars.Series, shape (n,)
        Datetime of any unit with or without a zone, Date, or text: ISO 8601 dates and times with up to
        nine decimals and an optional offset, in any mixture.
    rules : TimeRules
        How to read naive stamps and dates. When a zone is declared, a naive stamp that is exactly a
        midnight is a date, whatever the other rows hold: pandas has no other way to write one, and news
        that really came out at midnight is at worst taken as known too late. Give such news its offset.
    midnights : Midnights, optional
        A count of zoned midnights, to which this column's are added.

    Returns
    -------
    Stamps
        Refused rows carry a reason; nothing is guessed.

    Raises
    ------
    EventDataError
        If the column is of a type that holds no times, such as a number of unknown unit.
    """
    _check_type(column)
    time = np.zeros(column.len(), dtype=np.int64)
    published = np.zeros(column.len(), dtype=np.int64)
    fault = np.zeros(column.len(), dtype=np.uint8)
    dated = np.zeros(column.len(), dtype=bool)
    for start in range(0, column.len(), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        part = column.slice(start, _CHUNK_ROWS)
        parts = _parts(part)
        _read_part(parts, rules, midnights, time[rows], published[rows], fault[rows])
        dated[rows] = (parts.form == _DATE) & (fault[rows] == 0)
    return Stamps(time, published, fault, dated)


def midnights_of(column: pl.Series, rules: TimeRules) -> Midnights:
    """Give the empty count that fits a column."""
    written = column.dtype.time_zone if isinstance(column.dtype, pl.Datetime) else None
    return Midnights(zones_of_dates(written, rules.time_zone, rules.calendar))


@dataclass
class _Parts:
    """Stamps split up: `form`, seconds since 1970, nanoseconds, written offset in seconds and fault."""

    form: npt.NDArray[np.uint8]
    second: Nanoseconds
    nano: Nanoseconds
    offset: Nanoseconds
    fault: Codes


def _read_part(
    parts: _Parts,
    rules: TimeRules,
    midnights: Midnights | None,
    time: Nanoseconds,
    published: Nanoseconds,
    fault: Codes,
) -> None:
    """Read stamps into three stretches of the result."""
    _refuse_far(parts)
    _name_naive(parts, rules)
    fault[:] = parts.fault
    usable = parts.fault == 0
    rows = np.flatnonzero(usable & (parts.form == _INSTANT))
    time[rows] = parts.second[rows] * SECOND + parts.nano[rows]
    if midnights is not None and rows.size:
        midnights.add(parts.second[rows], parts.nano[rows], parts.offset[rows])
    rows = np.flatnonzero(usable & (parts.form == _WALL))
    if rows.size and rules.time_zone is not None:
        wall = parts.second[rows] * SECOND + parts.nano[rows]
        time[rows], fault[rows] = _read_walls(wall, rules.time_zone)
    published[:] = time
    rows = np.flatnonzero(usable & (parts.form == _DATE))
    if rows.size:
        time[rows], published[rows], fault[rows] = _read_dates(parts.second[rows] // _DAY, rules)
    time[fault != 0] = 0
    published[fault != 0] = 0


def _check_type(column: pl.Series) -> None:
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime) or dtype in (pl.Date, pl.String, pl.Categorical, pl.Enum, pl.Null):
        return
    raise EventDataError(
        f"column {column.name!r} has type {dtype}, which is not a time; convert it first, numbers "
        f"for example with polars.from_epoch"
    )


def _parts(column: pl.Series) -> _Parts:
    dtype = column.dtype
    if not isinstance(dtype, pl.Datetime) and dtype != pl.Date:
        return _text_parts(column.cast(pl.String))
    stamp = column.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
    fault = column.is_null().to_numpy().astype(np.uint8) * np.uint8(_CODE["missing_time"])
    zero = np.zeros(column.len(), dtype=np.int64)
    if not isinstance(dtype, pl.Datetime):
        form, second, nano = _DATE, stamp * _DAY, zero
    else:
        ticks = _TICKS[dtype.time_unit]
        form = _WALL if dtype.time_zone is None else _INSTANT
        second, nano = np.divmod(stamp, ticks)
        nano = nano * (SECOND // ticks)
    return _Parts(np.full(column.len(), form, dtype=np.uint8), second, nano, zero, fault)


def _text_parts(column: pl.Series) -> _Parts:
    text = pl.col("text")
    numbers = ("hour", "minute", "sec", "east", "past")
    found = (
        pl.DataFrame({"text": column.str.strip_chars()})
        .with_columns(text.str.extract_groups(_PATTERN).alias("found"))
        .unnest("found")
        .with_columns(
            pl.col(numbers).cast(pl.Int64).fill_null(0),
            pl.col("fraction").str.pad_end(9, "0").cast(pl.Int64).fill_null(0),
            pl.col("hour").is_not_null().alias("clocked"),
            pl.col("date").str.replace_all("[-/]", "").str.to_date("%Y%m%d", strict=False).alias("day"),
        )
    )
    hour, minute, sec = pl.col("hour"), pl.col("minute"), pl.col("sec")
    zoned = pl.col("utc").is_not_null() | pl.col("sign").is_not_null()
    east = pl.when(pl.col("sign") == "-").then(-1).otherwise(1)
    offset = (pl.col("east") * 3600 + pl.col("past") * 60) * east
    in_bounds = (hour < 24) & (minute < 60) & (sec < 60) & (pl.col("east") < 16) & (pl.col("past") < 60)
    absent = text.is_null() | text.str.to_lowercase().is_in(_ABSENT)
    leap = pl.col("day").is_not_null() & (minute == 59) & (sec == 60)
    day = pl.col("day").to_physical().cast(pl.Int64) * _DAY
    read = found.select(
        form=pl.when(zoned).then(_INSTANT).when("clocked").then(_WALL).otherwise(_DATE).cast(pl.UInt8),
        second=(day + hour * 3600 + minute * 60 + sec - offset).fill_null(0),
        nano="fraction",
        offset=offset,
        fault=pl.when(absent)
        .then(_CODE["missing_time"])
        .when(leap)
        .then(_CODE["leap_second"])
        .when(pl.col("day").is_null() | ~in_bounds)
        .then(_CODE["unreadable_time"])
        .otherwise(0)
        .cast(pl.UInt8),
    )
    columns = {series.name: series.to_numpy() for series in read}
    # What is changed later must be writable.
    return _Parts(**{**columns, "form": columns["form"].copy(), "fault": columns["fault"].copy()})


def _refuse_far(parts: _Parts) -> None:
    """Refuse what nanoseconds cannot hold; wall times and dates keep two days of room for their zone."""
    first, last = np.iinfo(np.int64).min + 1, np.iinfo(np.int64).max
    second, nano = parts.second, parts.nano
    after = (second > first // SECOND) | ((second == first // SECOND) & (nano >= first % SECOND))
    before = (second < last // SECOND) | ((second == last // SECOND) & (nano <= last % SECOND))
    roomy = (second >= first // SECOND + 2 * _DAY) & (second <= last // SECOND - 2 * _DAY)
    held = np.where(parts.form == _INSTANT, after & before, roomy)
    parts.fault[(parts.fault == 0) & ~held] = _CODE["out_of_range"]


def _name_naive(parts: _Parts, rules: TimeRules) -> None:
    """Refuse wall times without a zone; take wall times that are exact midnights as dates, row by row."""
    wall = (parts.fault == 0) & (parts.form == _WALL)
    if rules.time_zone is None:
        parts.fault[wall] = _CODE["naive_time"]
    else:
        parts.form[wall & (parts.second % _DAY == 0) & (parts.nano == 0)] = _DATE


def _read_walls(wall: Nanoseconds, zone: str) -> tuple[Nanoseconds, Codes]:
    instant, ambiguous, skipped = localise(wall, zone)
    fault = np.zeros(wall.size, dtype=np.uint8)
    fault[ambiguous] = _CODE["ambiguous_time"]
    fault[skipped] = _CODE["nonexistent_time"]
    return instant, fault


def _read_dates(days: Nanoseconds, rules: TimeRules) -> tuple[Nanoseconds, Nanoseconds, Codes]:
    """Give the start, the publication and the fault of dates (days since 1970-01-01)."""
    if rules.date_only == "reject":
        zero = np.zeros_like(days)
        return zero, zero, np.full(days.size, _CODE["date_only"], dtype=np.uint8)
    distinct, back = np.unique(days, return_inverse=True)
    zone = rules.time_zone or exchange_zone(rules.calendar)
    start, absent = day_starts(distinct, zone)
    end, _ = day_starts(distinct + 1, zone)
    opens, outside = next_opens(distinct, end, rules.calendar)
    fault = np.zeros(distinct.size, dtype=np.uint8)
    fault[outside] = _CODE["outside_calendar"]
    fault[absent] = _CODE["nonexistent_time"]
    return start[back], opens[back], fault[back]
