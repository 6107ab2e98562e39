"""Checks that a bar table passes before it becomes a :class:`~quantattn.pit.prices.PriceHistory`."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, time, timedelta

import pandas as pd
import polars as pl

from quantattn.errors import CalendarError, PriceDataError, TimestampError, UsageError
from quantattn.pit._dates import refuse_far_dates
from quantattn.pit._tables import exchange_zone, refuse_rows, to_instants
from quantattn.pit._zones import check_time_zone
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import duration_nanoseconds, instants, nanoseconds_of, shifted

# Vendors that adjust prices round each of them, some to single precision.
_ROUNDING = 1e-6
_NEAR = timedelta(days=14)
_SIZES = (1e-100, 1e100)
_PRICES = ("open", "high", "low", "close")


def session_dates(frame: pl.DataFrame, column: str, time_zone: str | None) -> pl.Series:
    """Give a column of session labels as dates.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    column : str
        Dates, midnight timestamps (zoned ones are read in `time_zone`, or else their own zone) or ISO
        text such as ``"2020-01-02"``.
    time_zone : str or None
        The zone in which zoned stamps are midnight.

    Returns
    -------
    polars.Series of Date
    """
    stamps = frame[column]
    if stamps.dtype == pl.String:
        dates = stamps.str.to_date("%Y-%m-%d", strict=False)
        refuse_rows(
            frame,
            dates.is_null() & stamps.is_not_null(),
            [column],
            f"column {column!r} has text that is not an ISO date",
            "write dates as '2020-01-02'",
            PriceDataError,
        )
    elif isinstance(stamps.dtype, pl.Datetime):
        if stamps.dtype.time_zone is not None and time_zone is not None:
            check_time_zone(time_zone)
            stamps = stamps.dt.convert_time_zone(time_zone)
        dates = stamps.dt.date()
        refuse_far_dates(frame, dates, column, PriceDataError)
        refuse_rows(
            frame,
            stamps.dt.time() != pd.Timestamp(0).time(),
            [column],
            f"column {column!r} holds times of day where session dates belong",
            "pass it as event_time= with stamps='start' or 'end', or convert it to the exchange's dates",
            PriceDataError,
        )
    elif stamps.dtype == pl.Date:
        dates = stamps
    else:
        raise PriceDataError(
            f"column {column!r} has type {stamps.dtype}, not Date; convert it to session dates"
        )
    refuse_rows(
        frame,
        dates.is_null(),
        [column],
        f"column {column!r} has no date",
        "drop or date those rows",
        PriceDataError,
    )
    refuse_far_dates(frame, dates, column, PriceDataError)
    return dates.rename("session")


def stamped_ends(
    frame: pl.DataFrame,
    column: str,
    stamps: str,
    bar_length: str | timedelta | pd.Timedelta | None,
    zone: str | None,
) -> pl.Series:
    """Give the end of each bar from declared start or end stamps."""
    ends = to_instants(frame, column, zone)
    if stamps == "end":
        if bar_length is not None:
            raise UsageError("bar_length is read only with stamps='start'; leave it out")
        return ends.rename("event_time")
    if bar_length is None:
        raise UsageError(
            "stamps='start' needs bar_length=, for example '390min': a bar is known only at its end, "
            "and the stamp alone does not say when that is"
        )
    length = duration_nanoseconds(bar_length, argument="bar_length")
    if length <= 0:
        raise TimestampError(
            f"bar_length={bar_length!r} is not positive; give the span from a bar's start to its end"
        )
    return instants(shifted(nanoseconds_of(ends), length, "bar_length"), "event_time")


def session_of_ends(ends: pl.Series, calendar: str) -> pl.Series:
    """Give the local date that each bar end closes; an end at midnight closes the day before."""
    just_before = (ends.to_physical() - 1).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return just_before.dt.convert_time_zone(exchange_zone(calendar)).dt.date().rename("session")


def numbers(frame: pl.DataFrame, column: str, name: str) -> pl.Series:
    """Give a column as Float64, refusing text and (for ``close``) missing values.

    Non-finite values, non-positive prices and negative volumes are refused in every column, and so is what
    lies outside 1e-100 to 1e100: ratios of such figures leave the range of a float.
    """
    values = frame[column]
    if not (values.dtype.is_numeric() or values.dtype == pl.Null):
        raise PriceDataError(f"column {column!r} has type {values.dtype}, not numbers; cast it")
    values = values.cast(pl.Float64)
    if name == "close":
        refuse_rows(
            frame,
            values.is_null(),
            [column],
            f"column {column!r} has no price",
            "drop those rows",
            PriceDataError,
        )
    refuse_rows(
        frame,
        ~values.is_finite(),
        [column],
        f"column {column!r} is not finite",
        "drop those rows",
        PriceDataError,
    )
    if name in _PRICES:
        refuse_rows(
            frame,
            values <= 0,
            [column],
            f"column {column!r} has prices that are not positive",
            "drop or correct those rows",
            PriceDataError,
        )
    else:
        refuse_rows(
            frame,
            values < 0,
            [column],
            f"column {column!r} is negative",
            "drop or correct those rows",
            PriceDataError,
        )
    refuse_rows(
        frame,
        (values > 0) & ~values.is_between(*_SIZES),
        [column],
        f"column {column!r} is outside 1e-100 to 1e100",
        "drop or correct those rows",
        PriceDataError,
    )
    return values.rename(name)


def join_sessions(bars: pl.DataFrame, calendar: str, source: str) -> pl.DataFrame:
    """Attach each bar's official open and close, refusing dates on which the exchange has no session.

    Parameters
    ----------
    bars : polars.DataFrame
        With ``entity`` and ``session``.
    calendar : str
        Exchange calendar.
    source : str
        Name of the column that the session comes from, for the message.

    Returns
    -------
    polars.DataFrame
        With ``official_open`` and ``official_close`` added, rows in the order given.
    """
    sessions = TradingCalendar(calendar).sessions(bars["session"].min(), bars["session"].max())  # type: ignore[arg-type]
    sessions = sessions.rename({"open": "official_open", "close": "official_close"})
    joined = bars.join(sessions, on="session", how="left", maintain_order="left")
    refuse_rows(
        joined,
        joined["official_close"].is_null(),
        ["entity", "session"],
        f"column {source!r} has bars on dates when {calendar} has no session",
        "drop those rows, or pass calendar= with the exchange they come from "
        "(bars stamped at their start need stamps='start')",
        PriceDataError,
    )
    return joined


def refuse_duplicates(bars: pl.DataFrame) -> None:
    """Refuse two bars of one entity in one session."""
    twice = bars.select(pl.struct("entity", "session").is_duplicated()).to_series()
    refuse_rows(
        bars,
        twice,
        ["entity", "session", "close"],
        "more than one bar of an entity in a session",
        "keep one bar for each entity and session; intraday bars need frequency='intraday'",
        PriceDataError,
    )


def refuse_early_ends(bars: pl.DataFrame, column: str) -> None:
    """Refuse bars that end before their session opens."""
    refuse_rows(
        bars,
        bars["event_time"] <= bars["official_open"],
        ["entity", "session", "event_time"],
        f"column {column!r} gives bars that end before their session opens",
        "check stamps= ('start' needs bar_length=) and time_zone=",
        PriceDataError,
    )


def at_official_close(bars: pl.DataFrame, calendar: str, column: str) -> pl.DataFrame:
    """Let bars that are stamped past the close of a shortened session end at that close.

    Parameters
    ----------
    bars : polars.DataFrame
        With ``session``, ``event_time``, ``official_open`` and ``official_close``.
    calendar : str
        Exchange calendar.
    column : str
        Column of the stamps.

    Returns
    -------
    polars.DataFrame
        A stamp by the rule, such as 16:00 or midnight on every day, names the close where the exchange
        closes at 13:00.

    Raises
    ------
    PriceDataError
        If a bar ends later than a whole session would: what it holds beyond the close is not known.
    """
    late = bars["event_time"] > bars["official_close"]
    if not late.any():
        return bars
    whole = _longest_session(bars, calendar)
    wall = bars["event_time"].dt.convert_time_zone(exchange_zone(calendar))
    midnight = (wall.dt.time() == time(0)) & (wall.dt.offset_by("-1d").dt.date() == bars["session"])
    refuse_rows(
        bars,
        late & ~midnight & ((bars["event_time"] - bars["official_open"]).dt.total_nanoseconds() > whole),
        ["entity", "session", "event_time"],
        f"column {column!r} gives session bars that end after the official close of {calendar}",
        "pass session= alone if their price is that of the close, with latency= until it is known; bars of "
        "extended hours need frequency='intraday'",
        PriceDataError,
    )
    return bars.with_columns(pl.min_horizontal("event_time", "official_close").alias("event_time"))


def _longest_session(bars: pl.DataFrame, calendar: str) -> int:
    """Give the length of the longest session about the bars, in nanoseconds."""
    first: date = bars["session"].min()  # type: ignore[assignment]
    last: date = bars["session"].max()  # type: ignore[assignment]
    spans = [bars.select(pl.col("official_close") - pl.col("official_open")).to_series()]
    # A shortened session may be the only one of the table.
    for begin, end in ((first - _NEAR, first), (last, last + _NEAR)):
        with suppress(CalendarError):
            hours = TradingCalendar(calendar).sessions(begin, end)
            spans.append(hours["close"] - hours["open"])
    return max(int(span.dt.total_nanoseconds().to_numpy().max()) for span in spans if len(span))


def refuse_disorder(bars: pl.DataFrame, column: str) -> None:
    """Refuse an entity whose sorted sessions do not end one after the other."""
    refuse_rows(
        bars,
        bars.select(pl.col("event_time") <= pl.col("event_time").shift(1).over("entity")).to_series(),
        ["entity", "session", "event_time"],
        f"column {column!r} gives a bar that ends no later than the bar of the session before",
        "check session= and stamps=",
        PriceDataError,
    )


def refuse_crossed(bars: pl.DataFrame) -> None:
    """Refuse bars whose low is above their high, or whose close lies outside of the two."""
    if {"low", "high"} <= set(bars.columns):
        refuse_rows(
            bars,
            bars["low"] > bars["high"],
            ["entity", "session", "low", "high"],
            "low is above high",
            "check which columns low= and high= name",
            PriceDataError,
        )
    for name, beyond in (
        ("high", pl.col("close") > pl.col("high") * (1 + _ROUNDING)),
        ("low", pl.col("close") < pl.col("low") * (1 - _ROUNDING)),
    ):
        if name in bars.columns:
            refuse_rows(
                bars,
                bars.select(beyond).to_series(),
                ["entity", "session", name, "close"],
                f"close is {'above' if name == 'high' else 'below'} {name}",
                f"check which columns close= and {name}= name: they must be adjusted alike",
                PriceDataError,
            )


def gaps_of(bars: pl.DataFrame, calendar: str) -> pl.DataFrame:
    """List the sessions between an entity's first and last bar that lack one.

    Parameters
    ----------
    bars : polars.DataFrame
        With ``entity`` and ``session``.
    calendar : str
        Exchange calendar.

    Returns
    -------
    polars.DataFrame
        ``entity``, ``session``, sorted.
    """
    if bars.is_empty():
        return pl.DataFrame(schema={"entity": pl.String, "session": pl.Date})
    spans = bars.group_by("entity").agg(
        first=pl.col("session").min(), last=pl.col("session").max(), n=pl.len().cast(pl.Int64)
    )
    sessions = TradingCalendar(calendar).sessions(spans["first"].min(), spans["last"].max())["session"]  # type: ignore[arg-type]
    due = sessions.search_sorted(spans["last"], side="right").cast(pl.Int64) - sessions.search_sorted(
        spans["first"], side="left"
    ).cast(pl.Int64)
    short = spans.filter(due != spans["n"])
    expected = short.join(sessions.to_frame(), how="cross").filter(
        pl.col("session").is_between("first", "last")
    )
    return (
        expected.join(bars.select("entity", "session"), on=["entity", "session"], how="anti")
        .select("entity", "session")
        .sort("entity", "session")
    )


def refuse_gaps(gaps: pl.DataFrame, calendar: str) -> None:
    """Refuse missing bars, naming the first entity and its first missing dates."""
    if gaps.is_empty():
        return
    entity = gaps["entity"][0]
    dates = gaps.filter(pl.col("entity") == entity)["session"]
    shown = ", ".join(str(day) for day in dates.head(3)) + (", ..." if len(dates) > 3 else "")
    n_entities = gaps["entity"].n_unique()
    raise PriceDataError(
        f"{gaps.height} bars are missing between first and last bars of {n_entities} "
        f"entit{'y' if n_entities == 1 else 'ies'}: {entity!r} lacks {shown} ({calendar} was open); "
        "supply them, or pass gaps='drop' to leave out every label and trailing figure that would span a gap"
    )
