"""Trading halts: declared intervals in which nobody could trade."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, TimestampError
from quantattn.pit._dates import open_ended, read_text, refuse_far_dates
from quantattn.pit._tables import (
    clean_names,
    exchange_zone,
    refuse_rows,
    require_columns,
    to_instants,
    to_polars,
)
from quantattn.pit._zones import day_starts
from quantattn.pit.prices.names import check_names
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of

HALTS: Final = pl.Schema({"entity": pl.String(), "start": TIME, "end": TIME})
_END_OF_TIME: Final = np.iinfo(np.int64).max

Mask = npt.NDArray[np.bool_]
Spans = dict[str, tuple[Nanoseconds, Nanoseconds]]


def no_halts() -> pl.DataFrame:
    """Give the table of a market that never stops."""
    return pl.DataFrame(schema=HALTS)


def read_halts(
    frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
    entities: pl.Series,
    time_zone: str | None,
    calendar: str,
) -> pl.DataFrame:
    """Take a table of halts.

    Parameters
    ----------
    frame : polars or pandas DataFrame, or Arrow table
        ``entity`` (null: every entity), ``start`` and ``end`` (instants, or dates, which stand for the
        midnight at which they begin; ISO text of either. A null end, or one after the year 2261: trading was
        never resumed).
    entities : polars.Series of String
        The entities that have bars.
    time_zone : str or None
        Zone of naive stamps and of dates (by default the exchange's).
    calendar : str
        Exchange calendar.

    Returns
    -------
    polars.DataFrame
        ``entity``, ``start``, ``end`` (null: never resumed), sorted, those that touch merged.

    Raises
    ------
    PriceDataError
        If a column is missing, or a halt does not end after its start.
    TimestampError
        If stamps are naive without a zone, or a start is missing.
    """
    table = to_polars(frame, index_column=None, error=PriceDataError)
    require_columns(table, {"entity": "entity", "start": "start", "end": "end"}, PriceDataError)
    if table.is_empty():
        return no_halts()
    named = table["entity"].is_not_null()
    names = pl.Series("entity", [None] * table.height, dtype=pl.String)
    if named.any():
        names = names.scatter(named.arg_true(), clean_names(table.filter(named), "entity", PriceDataError))
    check_names(names.drop_nulls().unique(), entities.unique(), "halts", PriceDataError, stacklevel=5)
    for column in ("start", "end"):
        table = read_text(table, column, TimestampError)
    table = table.with_columns(open_ended(table["end"]))
    resumed = table["end"].is_not_null()
    ends = pl.Series("end", [None] * table.height, dtype=TIME)
    if resumed.any():
        ends = ends.scatter(resumed.arg_true(), _moments(table.filter(resumed), "end", time_zone, calendar))
    halts = pl.DataFrame([names, _moments(table, "start", time_zone, calendar).rename("start"), ends])
    refuse_rows(
        halts,
        halts["end"] <= halts["start"],
        ["entity", "start", "end"],
        "halts do not end after they start",
        "correct or drop those rows; a halt that never ended has a null end",
        PriceDataError,
    )
    everyone = entities.unique().sort().alias("entity").to_frame()
    general = halts.filter(pl.col("entity").is_null()).drop("entity")
    return merged(
        pl.concat(
            [
                halts.filter(pl.col("entity").is_not_null()).select(HALTS.names()),
                everyone.join(general, how="cross").select(HALTS.names()),
            ]
        )
    )


def _moments(table: pl.DataFrame, column: str, time_zone: str | None, calendar: str) -> pl.Series:
    if table[column].dtype != pl.Date:
        return to_instants(table, column, time_zone)
    dates = table[column]
    refuse_rows(table, dates.is_null(), [column], f"column {column!r} has no time", "date it", TimestampError)
    refuse_far_dates(table, dates, column, TimestampError)
    days = dates.to_physical().to_numpy().astype(np.int64)
    return instants(day_starts(days, time_zone or exchange_zone(calendar))[0], column)


def merged(halts: pl.DataFrame) -> pl.DataFrame:
    """Sort halts and merge those of one entity that overlap or touch."""
    last = pl.lit(_END_OF_TIME).cast(pl.Int64)
    spans = halts.select(
        "entity",
        a=pl.col("start").to_physical(),
        b=pl.col("end").to_physical().fill_null(last),
    ).sort("entity", "a", "b")
    begins = pl.col("a") > pl.col("b").cum_max().shift(1).over("entity")
    return (
        spans.with_columns(group=begins.fill_null(True).cum_sum())
        .group_by("group", maintain_order=True)
        .agg(pl.col("entity").first(), pl.col("a").min(), pl.col("b").max())
        .select(
            "entity",
            start=pl.col("a").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"),
            end=pl.when(pl.col("b") < last)
            .then(pl.col("b"))
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC"),
        )
        .cast(HALTS)
    )


def spans_of(halts: pl.DataFrame) -> Spans:
    """Give starts and ends of the halts of each entity, rising, as nanoseconds."""
    found: Spans = {}
    for (entity,), part in halts.partition_by("entity", as_dict=True, maintain_order=True).items():
        starts = nanoseconds_of(part["start"])
        ends = part["end"].to_physical().fill_null(_END_OF_TIME).to_numpy().astype(np.int64, copy=False)
        found[str(entity)] = (starts, ends)
    return found


def halted_at(moments: Nanoseconds, spans: tuple[Nanoseconds, Nanoseconds], *, resumed: bool) -> Mask:
    """Say at which moments trading was halted.

    Parameters
    ----------
    moments : ndarray of int64, shape (n,)
        Nanoseconds, UTC.
    spans : tuple of ndarray
        Starts and ends of disjoint halts, rising.
    resumed : bool
        Whether one can trade at the very instant at which a halt ends: yes for a price that comes after
        the instant (an open), no for one that comes before it (a close).

    Returns
    -------
    ndarray of bool, shape (n,)
        At its start a halt has begun.
    """
    starts, ends = spans
    if not starts.size:
        return np.zeros(moments.shape, dtype=bool)
    place = np.searchsorted(starts, moments, side="right") - 1
    until = ends[np.maximum(place, 0)]
    held: Mask = (place >= 0) & ((moments < until) if resumed else (moments <= until))
    return held


def without_halts(pieces: pl.DataFrame, halts: pl.DataFrame) -> pl.DataFrame:
    """Take the halts out of stretches of time.

    Parameters
    ----------
    pieces : polars.DataFrame
        ``entity``, ``session``, ``start_time``, ``end_time``.
    halts : polars.DataFrame
        As :func:`read_halts` gives them.

    Returns
    -------
    polars.DataFrame
        What is left of the pieces, sorted; a halt inside a piece leaves two.
    """
    if pieces.is_empty() or halts.is_empty():
        return pieces
    spans = spans_of(halts)
    kept = [pieces.filter(~pl.col("entity").is_in(list(spans)))]
    for entity, (starts, ends) in spans.items():
        part = pieces.filter(pl.col("entity") == entity)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            begin, finish = pl.col("start_time").to_physical(), pl.col("end_time").to_physical()
            apart = part.filter((finish <= start) | (begin >= end))
            touched = part.filter((finish > start) & (begin < end))
            cut = pl.concat(
                [
                    touched.filter(begin < start).with_columns(end_time=_time(start)),
                    touched.filter(finish > end).with_columns(start_time=_time(end)),
                ]
            )
            part = pl.concat([apart, cut])
        kept.append(part)
    return pl.concat(kept).sort("entity", "start_time")


def _time(moment: int) -> pl.Expr:
    return pl.lit(moment, dtype=pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def covered_sessions(missing: pl.DataFrame, halts: pl.DataFrame, hours: pl.DataFrame) -> pl.Series:
    """Say which missing sessions lie wholly within a halt of their entity.

    Parameters
    ----------
    missing : polars.DataFrame
        ``entity``, ``session``.
    halts : polars.DataFrame
        As :func:`read_halts` gives them.
    hours : polars.DataFrame
        ``session``, ``open``, ``close``.

    Returns
    -------
    polars.Series of Boolean
        Row by row with `missing`.
    """
    if missing.is_empty() or halts.is_empty():
        return pl.repeat(False, missing.height, dtype=pl.Boolean, eager=True)
    asked = missing.join(hours, on="session", how="left", maintain_order="left")
    opens, closes = nanoseconds_of(asked["open"]), nanoseconds_of(asked["close"])
    covered = np.zeros(missing.height, dtype=bool)
    names = missing["entity"]
    for entity, (starts, ends) in spans_of(halts).items():
        rows = np.flatnonzero((names == entity).to_numpy())
        place = np.searchsorted(starts, opens[rows], side="right") - 1
        covered[rows] = (place >= 0) & (ends[np.maximum(place, 0)] >= closes[rows])
    return pl.Series(covered, dtype=pl.Boolean)
