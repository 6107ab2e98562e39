"""The rules of time, defined once and used everywhere.

Instants are ``Datetime("ns", "UTC")`` in frames and int64 nanoseconds since 1970-01-01 UTC in arrays.

1. *Visible* means ``available_at < forecast_time``, strictly. Equality is not visible.
2. A training row stays iff ``label_available_at <= fit_time``.
3. The canonical order of events is ``available_at, event_time, event_id, revision``.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import TimestampError

TIME = pl.Datetime("ns", "UTC")
"""The type of every instant in every frame."""

CANONICAL_ORDER = ("available_at", "event_time", "event_id", "revision")
"""The one storage order of events; ties of ``available_at`` stay ties for reads."""

Nanoseconds = npt.NDArray[np.int64]

# numpy and pandas spell a missing time as the least int64, which would be earlier than everything.
_MISSING = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max


def _exact(instant: pl.Expr) -> pl.Expr:
    """Bring an instant to nanoseconds; polars compares two resolutions at the coarser one."""
    return instant.dt.cast_time_unit("ns")


def is_visible(available_at: pl.Expr, forecast_time: pl.Expr) -> pl.Expr:
    """Say which rows are visible at a forecast time: rule 1, strictly earlier.

    Parameters
    ----------
    available_at, forecast_time : polars.Expr
        Instants, UTC.

    Returns
    -------
    polars.Expr
        Boolean; false where they are equal, null where either is null.
    """
    return _exact(available_at) < _exact(forecast_time)


def visible_counts(available_at: Nanoseconds, forecast_times: Nanoseconds) -> Nanoseconds:
    """Count the events that are visible at each forecast time: rule 1 over a sorted sequence.

    Parameters
    ----------
    available_at : ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC, in nondecreasing order.
    forecast_times : ndarray of int64, shape (m,)
        Nanoseconds since the epoch, UTC, in any order.

    Returns
    -------
    ndarray of int64, shape (m,)
        How many leading events each forecast sees.

    Raises
    ------
    TimestampError
        If `available_at` is not sorted, or a time on either side is missing (the least int64).
    """
    for name, values in (("available_at", available_at), ("forecast_times", forecast_times)):
        if bool(np.any(values == _MISSING)):
            position = int(np.argmax(values == _MISSING))
            raise TimestampError(f"{name} has no time at position {position}; drop or date that row")
    backwards = available_at[1:] < available_at[:-1]
    if bool(np.any(backwards)):
        first = int(np.argmax(backwards)) + 1
        raise TimestampError(
            f"available_at goes back in time at position {first}; sort the events in canonical order "
            f"({', '.join(CANONICAL_ORDER)}) first"
        )
    return np.searchsorted(available_at, forecast_times, side="left").astype(np.int64)


def may_train(label_available_at: pl.Expr, fit_time: pl.Expr) -> pl.Expr:
    """Say which rows a model fitted at `fit_time` may learn from: rule 2.

    Parameters
    ----------
    label_available_at, fit_time : polars.Expr
        Instants, UTC.

    Returns
    -------
    polars.Expr
        Boolean; true where they are equal, null where either is null.
    """
    return _exact(label_available_at) <= _exact(fit_time)


def last_instant_before(moment: datetime | np.datetime64 | pd.Timestamp | int) -> int:
    """Give the last representable instant before `moment`, one nanosecond earlier.

    A model fitted at ``last_instant_before(t)`` knows exactly what is visible at `t`.

    Parameters
    ----------
    moment : datetime, numpy.datetime64, pandas.Timestamp or int
        An instant; naive values are read as UTC, integers as nanoseconds since the epoch.

    Returns
    -------
    int
        Nanoseconds since the epoch, UTC.

    Raises
    ------
    TimestampError
        If the instant is missing, out of range or the earliest one.
    """
    return to_nanoseconds(to_nanoseconds(moment) - 1)


def is_date(moment: object) -> bool:
    """Say whether a value is a date, not a time: also a ``datetime64`` of days, weeks, months or years."""
    if isinstance(moment, np.datetime64):
        return np.datetime_data(moment.dtype)[0] in ("D", "W", "M", "Y") and not np.isnat(moment)
    return isinstance(moment, date) and not isinstance(moment, datetime)


def to_nanoseconds(moment: datetime | np.datetime64 | pd.Timestamp | int) -> int:
    """Give an instant as nanoseconds since 1970-01-01 UTC.

    Parameters
    ----------
    moment : datetime, numpy.datetime64, pandas.Timestamp or int
        An instant; naive values are read as UTC, integers as nanoseconds since the epoch.

    Returns
    -------
    int
        Nanoseconds since the epoch, UTC.

    Raises
    ------
    TimestampError
        If the instant is missing, a date alone, or lies outside 1677-09-21 to 2262-04-11.
    """
    if isinstance(moment, int | np.integer) and not isinstance(moment, bool):
        if not _MISSING < moment <= _LAST:
            raise TimestampError(
                f"{int(moment)} ns is not an instant between 1677-09-21 and 2262-04-11 UTC; correct the value"
            )
        return int(moment)
    if isinstance(moment, bool | float | np.floating | np.bool_) and not pd.isna(moment):
        raise TimestampError(
            f"{moment!r} is not an instant but a number of no known unit; give nanoseconds since 1970 as "
            "an int, or a datetime"
        )
    try:
        stamp = pd.Timestamp(moment)
        if pd.isna(stamp):
            raise TimestampError("an instant is missing (NaT); drop the row or give it a time")
        if is_date(moment):
            raise TimestampError(
                f"{moment!r} is a date, and a date is not a time; give its hour, for example as a datetime"
            )
        if stamp.tzinfo is None:
            stamp = stamp.tz_localize("UTC")
        return int(stamp.tz_convert("UTC").as_unit("ns").value)
    except (ValueError, OverflowError, TypeError) as error:
        raise TimestampError(
            f"{moment!r} is not an instant between 1677-09-21 and 2262-04-11 UTC ({error}); correct the value"
        ) from error


def nanoseconds_of(column: pl.Series) -> Nanoseconds:
    """Give a column of instants as int64 nanoseconds.

    Parameters
    ----------
    column : polars.Series
        ``Datetime("ns", "UTC")`` without nulls.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    TimestampError
        If the column has another type or holds nulls.
    """
    if column.dtype != TIME:
        raise TimestampError(f"column {column.name!r} has type {column.dtype}, not {TIME}; convert it first")
    if column.null_count():
        rows = column.is_null().arg_true().head(3).to_list()
        raise TimestampError(f"column {column.name!r} has no time in rows {rows}; drop or date those rows")
    return column.to_physical().to_numpy().astype(np.int64, copy=False)


def instants(nanoseconds: npt.ArrayLike, name: str = "time") -> pl.Series:
    """Give nanoseconds since the epoch as a column of UTC instants.

    Parameters
    ----------
    nanoseconds : array_like of int, shape (n,)
        Nanoseconds since the epoch, UTC.
    name : str
        The column's name.

    Returns
    -------
    polars.Series
        ``Datetime("ns", "UTC")``.

    Raises
    ------
    TimestampError
        If the values are not integers (a ``datetime64`` array counts its own unit), or one is missing.
    """
    values = np.asarray(nanoseconds)
    if values.size and not (values.dtype.kind in "iu" and np.can_cast(values.dtype, np.int64)):
        raise TimestampError(
            f"{name} has type {values.dtype}, not int64 nanoseconds; convert it first, for example "
            "with .astype('datetime64[ns]').astype('int64')"
        )
    values = values.astype(np.int64)
    if bool(np.any(values == _MISSING)):
        raise TimestampError(
            f"{name} has no time at position {int(np.argmax(values == _MISSING))}; drop or date that row"
        )
    return pl.Series(name, values).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def iso(nanoseconds: int) -> str:
    """Give an instant as ISO 8601 text in UTC, with as many decimals as it needs.

    Parameters
    ----------
    nanoseconds : int
        Nanoseconds since the epoch, UTC.

    Returns
    -------
    str
        For example ``"2024-11-29T18:00:00Z"``.
    """
    seconds, rest = divmod(int(nanoseconds), 1_000_000_000)
    stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    decimals = f".{rest:09d}".rstrip("0") if rest else ""
    return stamp.strftime("%Y-%m-%dT%H:%M:%S") + decimals + "Z"


def duration_nanoseconds(duration: str | timedelta | pd.Timedelta, *, argument: str) -> int:
    """Read a duration such as ``"15min"``, ``"-1h30min"`` or ``"0s"`` as nanoseconds.

    Parameters
    ----------
    duration : str, timedelta or pandas.Timedelta
        The duration, in pandas notation when text.
    argument : str
        The argument's name, for the error message.

    Returns
    -------
    int
        Nanoseconds.

    Raises
    ------
    TimestampError
        If the value is not a duration: a bare number, for example, has no unit.
    """
    try:
        # pandas reads a bare number as nanoseconds, which nobody who writes "15" means.
        unit = isinstance(duration, timedelta) or (
            isinstance(duration, str) and any(letter.isalpha() or letter == ":" for letter in duration)
        )
        if not unit:
            raise ValueError("it has no unit")
        value: Any = pd.Timedelta(duration)
        if value is pd.NaT:
            raise ValueError("it is missing")
        return int(value.as_unit("ns").value)
    except (ValueError, OverflowError, TypeError) as error:
        raise TimestampError(
            f"{argument}={duration!r} is not a duration ({error}); write for example '15min', '-1h' or '0s'"
        ) from error


def shifted(times: Nanoseconds, by: int, argument: str) -> Nanoseconds:
    """Move instants, refusing to wrap around the end of the range.

    Parameters
    ----------
    times : numpy.ndarray of int64, shape (n,)
        Nanoseconds since the epoch.
    by : int
        Nanoseconds, negative for earlier.
    argument : str
        Name of the argument that says so, for the error message.

    Returns
    -------
    numpy.ndarray of int64, shape (n,)

    Raises
    ------
    TimestampError
        If an instant would leave the years 1677 to 2262, which is all that nanoseconds hold.
    """
    held = np.iinfo(np.int64)
    if times.size and not (held.min < int(times.min()) + by and int(times.max()) + by <= held.max):
        raise TimestampError(
            f"{argument} of {pd.Timedelta(by, unit='ns')} moves instants out of the range from 1677-09-21 to "
            "2262-04-11; give a shorter one"
        )
    return times + np.int64(by)
