"""Time columns of news files as text that the intake reads: instants in UTC beside bare dates."""

from __future__ import annotations

import polars as pl

from quantattn.errors import DataError
from quantattn.pit.events.stamps import TimeRules, read_stamps
from quantattn.pit.timestamps import instants

TWITTER = "%a %b %d %H:%M:%S %z %Y"
"""The stamps of Twitter's interface, ``Wed Jan 01 03:57:10 +0000 2014``."""


def held(moments: pl.Series) -> pl.Series:
    """Blank the moments that nanoseconds may not hold in every zone, which polars would wrap around.

    Parameters
    ----------
    moments : polars.Series
        Datetime in microseconds.

    Returns
    -------
    polars.Series
        Datetime in nanoseconds; null outside the years 1678 to 2261.
    """
    frame = pl.DataFrame({"at": moments})
    within = pl.col("at").dt.year().is_between(1678, 2261)
    return frame.select(pl.when(within).then("at").dt.cast_time_unit("ns")).to_series()


def instant_text(moments: pl.Series) -> pl.Series:
    """Write instants as ISO 8601 in UTC with nine decimals; null stays null.

    Parameters
    ----------
    moments : polars.Series
        Datetime with a zone.

    Returns
    -------
    polars.Series of String
    """
    return moments.dt.convert_time_zone("UTC").dt.to_string("%Y-%m-%dT%H:%M:%S%.9fZ")


def plain_columns(table: pl.DataFrame, error: type[DataError]) -> pl.DataFrame:
    """Give times, categories and columns without any value as the text that a CSV file would hold.

    Parameters
    ----------
    table : polars.DataFrame
        As a Parquet file holds it; numbers stay numbers.
    error : type of DataError
        What to raise.

    Raises
    ------
    DataError
        As `error`, if a column holds neither text, numbers nor times: lists, spans, bytes that are no UTF-8.
    """
    return table.with_columns(_plain(column, error) for column in table.iter_columns())


def text_columns(table: pl.DataFrame, error: type[DataError]) -> pl.DataFrame:
    """Give every column as the text that a CSV file would hold, numbers too; see :func:`plain_columns`."""
    return plain_columns(table, error).select(pl.all().cast(pl.String))


def _plain(column: pl.Series, error: type[DataError]) -> pl.Series:
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is not None:
            return instant_text(column)
        return column.dt.to_string("%Y-%m-%dT%H:%M:%S%.9f")
    if dtype in (pl.Date, pl.Categorical, pl.Enum, pl.Null, pl.Time):
        return column.cast(pl.String)
    if dtype == pl.Binary:
        try:
            return column.cast(pl.String)
        except pl.exceptions.PolarsError as failure:
            raise error(
                f"column {column.name!r} holds bytes that are not UTF-8; write it as text"
            ) from failure
    if dtype.is_nested() or dtype in (pl.Duration, pl.Object):
        raise error(f"column {column.name!r} has type {dtype}, not text or numbers; write it as text")
    return column


def published(column: pl.Series, rules: TimeRules | None = None) -> pl.Series:
    """Give the instants at which stamps are certainly past.

    Parameters
    ----------
    column : polars.Series of String, shape (n,)
        Stamps as the intake reads them; a bare date counts from the open of the next session.
    rules : TimeRules, optional
        How to read naive stamps and dates. By default naive stamps are unreadable.

    Returns
    -------
    polars.Series of Datetime("ns", "UTC"), shape (n,)
        Null where the stamp cannot be read.
    """
    read = read_stamps(column.cast(pl.String), TimeRules() if rules is None else rules)
    frame = pl.DataFrame(
        [instants(read.published, "at"), pl.Series("good", read.fault == 0, dtype=pl.Boolean)]
    )
    return frame.select(pl.when("good").then("at")).to_series()


def later_of(first: pl.Series, second: pl.Series, rules: TimeRules | None = None) -> pl.Series:
    """Give the later of two stamps, row by row.

    Parameters
    ----------
    first, second : polars.Series of String, shape (n,)
        Stamps as the intake reads them; a bare date counts from the open of the next session.
    rules : TimeRules, optional
        How to read naive stamps and dates. By default naive stamps are unreadable.

    Returns
    -------
    polars.Series of String, shape (n,)
        Where one of them cannot be read, that one as it is written, so that the intake refuses it by name.
    """
    late = pl.DataFrame(
        {
            "first": published(first, rules),
            "second": published(second, rules),
            "first_text": first,
            "second_text": second,
        }
    )
    late = late.with_columns(
        chosen=instant_text(late.select(pl.max_horizontal("first", "second")).to_series())
    )
    unread = pl.when(pl.col("first").is_null()).then("first_text")
    return late.select(
        unread.when(pl.col("second").is_null()).then("second_text").otherwise("chosen")
    ).to_series()


def versions(event_id: pl.Series, known: pl.Series) -> pl.Series:
    """Give the numbers 0, 1, 2 of the versions of each event, by when they were known.

    Parameters
    ----------
    event_id : polars.Series of String, shape (n,)
        Names of events.
    known : polars.Series of String, shape (n,)
        Stamps that the intake reads.

    Returns
    -------
    polars.Series of Int64, shape (n,)
        Rows of one event and one stamp share their number; 0 where the stamp cannot be read.
    """
    frame = pl.DataFrame({"event_id": event_id, "known": published(known)})
    ranked = frame.select(pl.col("known").rank("dense").over("event_id").cast(pl.Int64) - 1)
    return ranked.to_series().fill_null(0)


def twitter_as_iso(column: pl.Series) -> pl.Series:
    """Write Twitter's stamps as ISO 8601 in UTC; other text stays as it is.

    Parameters
    ----------
    column : polars.Series of String
    """
    # The sixtieth second would silently become the next one.
    text = pl.DataFrame({"text": column.str.strip_chars()})
    proper = pl.when(~pl.col("text").str.contains(":60 ")).then("text")
    read = text.select(
        proper.str.to_datetime(TWITTER, strict=False, time_unit="us", time_zone="UTC")
    ).to_series()
    frame = pl.DataFrame({"iso": instant_text(read), "text": column})
    return frame.select(pl.coalesce("iso", "text")).to_series()
