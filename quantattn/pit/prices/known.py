"""From when on a row of a table beside the bars was known."""

from __future__ import annotations

import numpy as np
import polars as pl

from quantattn.errors import CalendarError, TimestampError
from quantattn.pit._dates import read_text
from quantattn.pit._tables import exchange_zone, quote_rows, to_instants
from quantattn.pit._zones import DAY, day_starts, next_opens
from quantattn.pit.prices.bars import session_dates
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of


def known_times(table: pl.DataFrame, column: str, time_zone: str | None, calendar: str) -> Nanoseconds:
    """Read a column that says when something was known.

    Parameters
    ----------
    table : polars.DataFrame
        The table; no null in `column`.
    column : str
        Instants, or dates, as ISO text too: a date alone is known at the next session's open. A naive
        midnight is a date, whatever the other rows hold: pandas has no other way to write one.
    time_zone : str or None
        Zone of naive stamps and of dates (by default the exchange's).
    calendar : str
        Exchange calendar.

    Returns
    -------
    ndarray of int64, shape (n,)
        Nanoseconds, UTC.
    """
    table = read_text(table, column, TimestampError)
    stamps = table[column]
    if isinstance(stamps.dtype, pl.Datetime) and stamps.dtype.time_zone is None:
        midnight = stamps == stamps.dt.truncate("1d")
        if midnight.any():
            return _mixed(table, column, midnight, time_zone, calendar)
    if stamps.dtype != pl.Date:
        return nanoseconds_of(to_instants(table, column, time_zone))
    days = session_days(table, column)
    if not days.size:
        return days
    ends, _ = day_starts(days + 1, time_zone or exchange_zone(calendar))
    opens, outside = next_opens(days, ends, calendar)
    if outside.any():
        raise CalendarError(
            f"column {column!r} has dates after which {calendar} records no session: "
            f"{quote_rows(table, pl.Series(outside), [column])}; give instants, or another calendar"
        )
    return opens


def _mixed(
    table: pl.DataFrame, column: str, midnight: pl.Series, time_zone: str | None, calendar: str
) -> Nanoseconds:
    known = np.empty(table.height, dtype=np.int64)
    dates = midnight.to_numpy()
    known[dates] = known_times(
        table.filter(midnight).with_columns(pl.col(column).dt.date()), column, time_zone, calendar
    )
    known[~dates] = nanoseconds_of(to_instants(table.filter(~midnight), column, time_zone))
    return known


def session_days(table: pl.DataFrame, column: str) -> Nanoseconds:
    """Read a column of dates (or midnights, or ISO text) as days since 1970-01-01."""
    return session_dates(table, column, None).to_physical().to_numpy().astype(np.int64)


def opens_from(days: Nanoseconds, calendar: str) -> Nanoseconds:
    """Give the open of the first session on or after each date."""
    if not days.size:
        return days
    # A session that opens on the evening before its date is found by its date all the same.
    midnights, _ = day_starts(days, exchange_zone(calendar))
    opens, outside = next_opens(days - 1, midnights - 2 * DAY, calendar)
    if outside.any():
        row = int(np.argmax(outside))
        raise CalendarError(
            f"{calendar} records no session on or after {np.datetime64(int(days[row]), 'D')}; correct that "
            "date, or give another calendar"
        )
    return opens
