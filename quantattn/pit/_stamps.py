"""Readings of what people write in a time column: instants, wall times and bare dates, row by row."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import CalendarError, EventDataError
from quantattn.pit._tables import exchange_zone
from quantattn.pit._zones import SECOND, check_time_zone, day_starts, localise, next_opens
from quantattn.pit.timestamps import Nanoseconds, instants

DateOnly = Literal["next_session", "reject"]
Reasons = npt.NDArray[np.object_]

_DAY: Final = 86_400
# As many midnights are no accident.
_MANY: Final = 10
_TICKS: Final = {"ms": 1_000, "us": 1_000_000, "ns": SECOND}
_NOTHING: Final = pl.lit(None, dtype=pl.String)
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
    time : polars.Series
        TIME: the instant, or the start of the date; null where refused.
    published : polars.Series
        TIME: the first instant at which the stamp is certainly past: the instant itself, or for a bare
        date the next session's open; null where refused.
    reason : polars.Series
        String: why the stamp is refused, else null.
    zoned_midnights : bool
        Whether ten distinct zoned stamps or more, and more than half of all zoned ones, are midnights of
        one clock (the written one, UTC, the declared zone, or without one the exchange's), as of dates
        that were given a zone.
    """

    time: pl.Series
    published: pl.Series
    reason: pl.Series
    zoned_midnights: bool


def read_stamps(column: pl.Series, rules: TimeRules) -> Stamps:
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

    Returns
    -------
    Stamps
        Refused rows carry a reason; nothing is guessed.

    Raises
    ------
    EventDataError
        If the column is of a type that holds no times, such as a number of unknown unit.
    """
    parts = _name_naive(_refuse_far(_parts(column)), rules)
    reason = parts["reason"].to_numpy().astype(object)
    form = parts["form"].to_numpy()
    second, nano = (parts[name].fill_null(0).to_numpy() for name in ("second", "nano"))
    time = np.zeros(column.len(), dtype=np.int64)
    published = np.zeros(column.len(), dtype=np.int64)
    usable = parts["reason"].is_null().to_numpy()

    rows = np.flatnonzero(usable & (form == "instant"))
    time[rows] = published[rows] = second[rows] * SECOND + nano[rows]
    rows = np.flatnonzero(usable & (form == "wall"))
    if rows.size and rules.time_zone is not None:
        time[rows], reason[rows] = _read_walls(second[rows] * SECOND + nano[rows], rules.time_zone)
        published[rows] = time[rows]
    rows = np.flatnonzero(usable & (form == "date"))
    if rows.size:
        time[rows], published[rows], reason[rows] = _read_dates(second[rows] // _DAY, rules)

    why = pl.Series("reason", reason.tolist(), dtype=pl.String)
    read = pl.DataFrame(
        {"time": instants(time), "published": instants(published), "reason": why}
    ).with_columns(pl.when(pl.col("reason").is_null()).then(pl.col("time", "published")))
    midnights = _mostly_midnights(column, parts, usable & (form == "instant"), rules)
    return Stamps(read["time"], read["published"], read["reason"], midnights)


def _parts(column: pl.Series) -> pl.DataFrame:
    """Split stamps into `form` (instant, wall, date), `second` since 1970, `nano`, `offset` and `reason`."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        ticks = _TICKS[dtype.time_unit]
        return _numeric_parts(
            column,
            form="wall" if dtype.time_zone is None else "instant",
            second=pl.col("stamp") // ticks,
            nano=pl.col("stamp") % ticks * (SECOND // ticks),
        )
    if dtype == pl.Date:
        return _numeric_parts(column, form="date", second=pl.col("stamp") * _DAY, nano=pl.col("stamp") * 0)
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return _text_parts(column.cast(pl.String))
    raise EventDataError(
        f"column {column.name!r} has type {dtype}, which is not a time; convert it first, numbers "
        f"for example with polars.from_epoch"
    )


def _numeric_parts(column: pl.Series, *, form: str, second: pl.Expr, nano: pl.Expr) -> pl.DataFrame:
    stamp = column.to_physical().cast(pl.Int64).alias("stamp")
    missing = pl.when(pl.col("stamp").is_null()).then(pl.lit("missing_time")).otherwise(_NOTHING)
    return pl.DataFrame([stamp]).select(
        form=pl.lit(form), second=second, nano=nano, offset=pl.col("stamp") * 0, reason=missing
    )


def _text_parts(column: pl.Series) -> pl.DataFrame:
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
    offset = (pl.col("east") * 3600 + pl.col("past") * 60) * pl.when(pl.col("sign") == "-").then(
        -1
    ).otherwise(1)
    in_bounds = (hour < 24) & (minute < 60) & (sec < 60) & (pl.col("east") < 16) & (pl.col("past") < 60)
    return found.select(
        form=pl.when(zoned)
        .then(pl.lit("instant"))
        .when("clocked")
        .then(pl.lit("wall"))
        .otherwise(pl.lit("date")),
        second=pl.col("day").to_physical().cast(pl.Int64) * _DAY + hour * 3600 + minute * 60 + sec - offset,
        nano="fraction",
        offset=offset,
        reason=pl.when(text.is_null() | text.str.to_lowercase().is_in(_ABSENT))
        .then(pl.lit("missing_time"))
        .when(pl.col("day").is_not_null() & (minute == 59) & (sec == 60))
        .then(pl.lit("leap_second"))
        .when(pl.col("day").is_null() | ~in_bounds)
        .then(pl.lit("unreadable_time"))
        .otherwise(_NOTHING),
    )


def _refuse_far(parts: pl.DataFrame) -> pl.DataFrame:
    """Refuse what nanoseconds cannot hold; wall times and dates keep two days of room for their zone."""
    first, last = np.iinfo(np.int64).min + 1, np.iinfo(np.int64).max
    second, nano = pl.col("second"), pl.col("nano")
    after = (second > first // SECOND) | ((second == first // SECOND) & (nano >= first % SECOND))
    before = (second < last // SECOND) | ((second == last // SECOND) & (nano <= last % SECOND))
    roomy = second.is_between(first // SECOND + 2 * _DAY, last // SECOND - 2 * _DAY)
    held = pl.when(pl.col("form") == "instant").then(after & before).otherwise(roomy)
    far = pl.when(pl.col("reason").is_null() & ~held).then(pl.lit("out_of_range"))
    return parts.with_columns(reason=far.otherwise("reason"))


def _name_naive(parts: pl.DataFrame, rules: TimeRules) -> pl.DataFrame:
    """Refuse wall times without a zone; take wall times that are exact midnights as dates, row by row."""
    wall = pl.col("reason").is_null() & (pl.col("form") == "wall")
    if rules.time_zone is None:
        return parts.with_columns(reason=pl.when(wall).then(pl.lit("naive_time")).otherwise("reason"))
    midnight = (pl.col("second") % _DAY == 0) & (pl.col("nano") == 0)
    return parts.with_columns(form=pl.when(wall & midnight).then(pl.lit("date")).otherwise("form"))


def _mostly_midnights(
    column: pl.Series, parts: pl.DataFrame, zoned: npt.NDArray[np.bool_], rules: TimeRules
) -> bool:
    second, nano, offset = (parts[name].to_numpy()[zoned] for name in ("second", "nano", "offset"))
    if np.unique(second).size < _MANY:
        return False
    clocks = [second, second + offset]
    moments = instants(second.astype(np.int64) * SECOND)
    for zone in _zones_of_dates(column, rules):
        wall = moments.dt.convert_time_zone(zone).dt.replace_time_zone(None)
        clocks.append(wall.to_physical().to_numpy() // SECOND)
    for clock in clocks:
        midnight = (clock % _DAY == 0) & (nano == 0)
        if 2 * np.count_nonzero(midnight) > second.size and np.unique(second[midnight]).size >= _MANY:
            return True
    return False


def _zones_of_dates(column: pl.Series, rules: TimeRules) -> list[str]:
    """Name the zones whose midnights may stand for dates: the column's, the declared or the exchange's."""
    zones = [column.dtype.time_zone] if isinstance(column.dtype, pl.Datetime) else []
    if rules.time_zone is not None:
        zones.append(rules.time_zone)
    else:
        # Without dates in the table a calendar that is unknown is no error.
        with suppress(CalendarError):
            zones.append(exchange_zone(rules.calendar))
    return [zone for zone in zones if zone is not None]


def _read_walls(wall: Nanoseconds, zone: str) -> tuple[Nanoseconds, Reasons]:
    instant, ambiguous, skipped = localise(wall, zone)
    reason = np.full(wall.size, None, dtype=object)
    reason[ambiguous] = "ambiguous_time"
    reason[skipped] = "nonexistent_time"
    return np.where(ambiguous | skipped, 0, instant), reason


def _read_dates(days: Nanoseconds, rules: TimeRules) -> tuple[Nanoseconds, Nanoseconds, Reasons]:
    """Give the start, the publication and the refusal of dates (days since 1970-01-01)."""
    if rules.date_only == "reject":
        return np.zeros_like(days), np.zeros_like(days), np.full(days.size, "date_only", dtype=object)
    distinct, back = np.unique(days, return_inverse=True)
    zone = rules.time_zone or exchange_zone(rules.calendar)
    start, absent = day_starts(distinct, zone)
    end, _ = day_starts(distinct + 1, zone)
    opens, outside = next_opens(distinct, end, rules.calendar)
    reason: Any = np.full(distinct.size, None, dtype=object)
    reason[outside] = "outside_calendar"
    reason[absent] = "nonexistent_time"
    return start[back], opens[back], reason[back]
