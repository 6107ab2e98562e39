"""Times and dates as tables write them: text, midnights, and years that mean never."""

from __future__ import annotations

from datetime import date
from typing import Final

import polars as pl

from quantattn.errors import DataError
from quantattn.pit._tables import quote_rows, refuse_rows

_FIRST, _LAST = ((day - date(1970, 1, 1)).days for day in (date(1678, 1, 1), date(2261, 12, 31)))
_DATES, _STAMPS = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,9})?)?"
_ZONED: Final = f"^{_DATES}[T ]{_STAMPS}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$"
_NAIVE: Final = f"^{_DATES}[T ]{_STAMPS}$"


def read_text(table: pl.DataFrame, column: str, error: type[DataError]) -> pl.DataFrame:
    """Turn a column of ISO text into dates or times, and one of naive midnights into dates.

    Parameters
    ----------
    table : polars.DataFrame
        The table.
    column : str
        ``"2020-01-31"``, ``"2020-01-31T09:30"`` or ``"2020-01-31T09:30-05:00"``, one form throughout;
        columns of other types stay as they are, but for naive Datetimes that are midnight on every row,
        as pandas writes dates.
    error : type of DataError
        What to raise.

    Returns
    -------
    polars.DataFrame
        The table, with the column as Date, naive Datetime or Datetime in UTC.
    """
    values = table[column]
    if values.dtype == pl.String:
        values = _parsed(table, values.str.strip_chars(), column, error)
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None and values.count():
        dates = values.dt.date()
        if (values.drop_nulls() == dates.drop_nulls().cast(values.dtype)).all():
            values = dates
    return table.with_columns(values.alias(column))


def _parsed(table: pl.DataFrame, text: pl.Series, column: str, error: type[DataError]) -> pl.Series:
    there = text.is_not_null()
    if text.str.contains(f"^{_DATES}$").fill_null(True).all():
        read = text.str.to_date("%Y-%m-%d", strict=False)
    elif text.str.contains(_ZONED).fill_null(True).all():
        read = text.str.to_datetime(time_unit="ns", time_zone="UTC", strict=False)
    elif text.str.contains(_NAIVE).fill_null(True).all():
        read = text.str.to_datetime(time_unit="ns", strict=False)
    else:
        read = text.str.to_date("%Y-%m-%d", strict=False)
    refuse_rows(
        table,
        read.is_null() & there,
        [column],
        f"column {column!r} has text that is not an ISO date or time like that of the other rows",
        "write '2020-01-31' throughout, or '2020-01-31T09:30-05:00' throughout",
        error,
    )
    return read


def refuse_far_dates(table: pl.DataFrame, dates: pl.Series, column: str, error: type[DataError]) -> None:
    """Refuse dates outside the years 1678 to 2261, which is all that nanoseconds hold; nulls pass."""
    days = dates.to_physical()
    far = ~days.is_between(_FIRST, _LAST)
    if far.fill_null(False).any():
        # Python has no word for dates after the year 9999.
        shown = days.rename(column).to_frame()
        raise error(
            f"column {column!r} has dates outside the years 1678 to 2261, here as days since 1970-01-01: "
            f"{quote_rows(shown, far, [column])}; correct those rows"
        )


def open_ended(values: pl.Series) -> pl.Series:
    """Take ends after the year 2261, such as 9999-12-31, as nulls: there is no end."""
    if values.dtype == pl.Date:
        late = values.to_physical() > _LAST
    elif isinstance(values.dtype, pl.Datetime):
        last = pl.select(pl.lit(date(2262, 1, 1)).cast(values.dtype).to_physical()).item()
        late = values.to_physical() >= last
    else:
        return values
    return pl.select(pl.when(~late).then(values)).to_series().alias(values.name)
