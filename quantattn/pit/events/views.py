"""What events looked like at an instant: the visible versions, the latest ones, and what replaced them."""

from __future__ import annotations

from typing import Final, Literal, get_args

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.timestamps import is_visible

Retracted = Literal["keep", "drop"]
_NEAREST: Final = 3


def instant_literal(nanoseconds: int) -> pl.Expr:
    """Give an instant as an expression; a Python datetime would lose the nanoseconds."""
    return pl.lit(nanoseconds).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def available(start: int | None, end: int) -> pl.Expr:
    """Say which events a forecast at `end` sees and one at `start` does not (none of them, if None)."""
    stamp = pl.col("available_at")
    seen = is_visible(stamp, instant_literal(end))
    return seen if start is None else seen & ~is_visible(stamp, instant_literal(start))


def check_interval(start: object, end: object, first: int, last: int) -> None:
    """Refuse an interval that runs backwards.

    Raises
    ------
    EventDataError
        If the first instant is later than the last.
    """
    if first > last:
        raise EventDataError(f"start={start} is later than end={end}; swap them")


def latest(seen: pl.DataFrame, features: tuple[str, ...], retracted: Retracted) -> pl.DataFrame:
    """Give of each event the version with the highest revision among those seen.

    Parameters
    ----------
    seen : polars.DataFrame
        Visible events in canonical order.
    features : tuple of str
        The feature columns.
    retracted : {"keep", "drop"}
        Whether an event whose latest version is a retraction stays, with nulls, or goes.

    Raises
    ------
    UsageError
        If `retracted` is another word.
    """
    if retracted not in get_args(Retracted):
        raise UsageError(f"retracted={retracted!r} is unknown; use 'keep' or 'drop'")
    withdrawn = is_retraction(seen, features) if retracted == "drop" else None
    if seen["event_id"].n_unique() == seen.height:
        return seen if withdrawn is None else seen.filter(~withdrawn)
    chosen = pl.col("revision") == pl.col("revision").max().over("event_id")
    return seen.filter(chosen if withdrawn is None else chosen & ~pl.lit(withdrawn))


def is_retraction(events: pl.DataFrame, features: tuple[str, ...]) -> pl.Series:
    """Say which versions withdraw their event.

    A retraction has neither text nor any feature, while an earlier version, one of a lower revision among
    `events`, had some.

    Parameters
    ----------
    events : polars.DataFrame
        Events in any order.
    features : tuple of str
        The feature columns.

    Returns
    -------
    polars.Series of Boolean
    """
    bare = events.select(pl.all_horizontal(pl.col("text", *features).is_null())).to_series()
    doubtful = bare & (events["revision"] > 0)
    if not doubtful.any():
        return doubtful.alias("retracted")
    # Of each event in doubt, the lowest revision that says something.
    ids = events.filter(doubtful).select("event_id").unique()
    said = events.filter(~bare).join(ids, on="event_id", how="semi")
    first = said.group_by("event_id").agg(pl.col("revision").min().alias("first"))
    joined = events.select("event_id", "revision").join(
        first, on="event_id", how="left", maintain_order="left"
    )
    withdrawn = joined.select((pl.col("first") < pl.col("revision")).fill_null(False)).to_series()
    return (doubtful & withdrawn).alias("retracted")


def versions_of(events: pl.DataFrame, event_id: str, features: tuple[str, ...]) -> pl.DataFrame:
    """Give every version of an event by revision, with what became of it.

    Parameters
    ----------
    events : polars.DataFrame
        A log's events.
    event_id : str
        The event.
    features : tuple of str
        The feature columns.

    Returns
    -------
    polars.DataFrame
        The log's columns, ``superseded_at`` and ``retracted``.

    Raises
    ------
    EventDataError
        If there is no such event, with ids that begin alike.
    """
    found = events.filter(pl.col("event_id") == pl.lit(event_id, dtype=pl.String)).sort("revision")
    if found.is_empty():
        near = events.filter(pl.col("event_id").str.starts_with(str(event_id)[:3]))["event_id"]
        hint = near.unique(maintain_order=True).head(_NEAREST).to_list()
        ids = events["event_id"].head(_NEAREST).to_list()
        remedy = f"ids that begin alike: {hint}" if hint else f"the log's first ids are {ids}"
        raise EventDataError(f"event_id={event_id!r} is not in the log; {remedy}")
    # The earliest instant at which any later version could be known.
    later = pl.col("available_at").reverse().cum_min().reverse().shift(-1)
    return found.with_columns(later.alias("superseded_at"), is_retraction(found, features))
