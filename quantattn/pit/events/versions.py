"""Changes of values over vintages, and growth rates within one vintage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

_EVENT: Final = ("name", "period")


def changes_of(rows: pl.DataFrame, present: pl.DataFrame | None) -> pl.DataFrame:
    """Keep the rows that change what is known of a period.

    Parameters
    ----------
    rows : polars.DataFrame
        ``name, period, vintage`` (Int64) and ``value`` (Float64, null: withdrawn), one row for each.
    present : polars.DataFrame or None
        ``name, period, vintage`` of every observation that a full snapshot holds, with or without a
        usable value: one that the next snapshot of its series lacks was withdrawn then. None if absence says
        nothing.

    Returns
    -------
    polars.DataFrame
        ``name, period, vintage, value``, sorted; the first value of each period and every later change.
    """
    stated = rows.select(*_EVENT, "vintage", "value")
    if present is not None:
        stated = pl.concat([stated, _withdrawn(present)])
    before = pl.col("value").shift(1).over(_EVENT)
    return stated.sort(*_EVENT, "vintage").filter(pl.col("value").ne_missing(before))


def _withdrawn(present: pl.DataFrame) -> pl.DataFrame:
    """Give a null value at the first snapshot of a series that lacks a period the one before had."""
    snapshots = present.select("name", "vintage").unique().sort("name", "vintage")
    snapshots = snapshots.with_columns(pl.col("vintage").shift(-1).over("name").alias("next"))
    held = present.select(*_EVENT, "vintage").unique().sort(*_EVENT, "vintage")
    held = held.with_columns(pl.col("vintage").shift(-1).over(_EVENT).alias("held_next"))
    gone = held.join(snapshots, on=["name", "vintage"]).filter(
        pl.col("next").is_not_null() & pl.col("next").ne_missing(pl.col("held_next"))
    )
    return gone.select(*_EVENT, vintage="next", value=pl.lit(None, dtype=pl.Float64))


def versions_with_growth(changes: pl.DataFrame, lags: Sequence[int]) -> pl.DataFrame:
    """Give every version of every period: at each vintage in which its value or a growth rate changed.

    Parameters
    ----------
    changes : polars.DataFrame
        As :func:`changes_of` gives them.
    lags : sequence of int
        How many periods back the bases of growth rates lie.

    Returns
    -------
    polars.DataFrame
        ``name, period, vintage, value``, ``growth_<lag>`` (the log of the ratio of two values that stood in
        this vintage; null unless both are there and positive) and ``revision`` (Int32, from 0), sorted.
    """
    event = [*_EVENT, "vintage"]
    # A base that changes is news for the period whose growth it is the base of.
    moved = [changes.select("name", pl.col("period") + lag, "vintage") for lag in lags]
    grid = pl.concat([changes.select(event), *moved]).unique().sort("vintage")
    known = changes.sort("vintage").with_columns(found=True)
    grid = _stood(grid, known, "value", 0, found=True).filter("found").drop("found")
    names = []
    for lag in lags:
        name = f"growth_{lag}"
        grid = _stood(grid, known, "base", lag)
        ratio = pl.col("value") / pl.col("base")
        held = ratio.is_finite() & (ratio > 0)
        rate = pl.when(held).then(ratio.log()).otherwise(pl.col("value").log() - pl.col("base").log())
        positive = (pl.col("value") > 0) & (pl.col("base") > 0)
        grid = grid.with_columns(pl.when(positive).then(rate).alias(name)).drop("base")
        names.append(name)
    figures = ["value", *names]
    ordered = grid.sort(event)
    changed = [pl.col(name).ne_missing(pl.col(name).shift(1).over(_EVENT)) for name in figures]
    versions = ordered.filter(pl.any_horizontal(changed))
    number = pl.int_range(pl.len()).over(_EVENT).cast(pl.Int32)
    return versions.with_columns(number.alias("revision"))


def _stood(
    grid: pl.DataFrame, known: pl.DataFrame, alias: str, lag: int, *, found: bool = False
) -> pl.DataFrame:
    """Add the value that stood, in the vintage of each row, for the period `lag` earlier."""
    flags = [pl.col("found")] if found else []
    right = known.select("name", "vintage", pl.col("value").alias(alias), *flags, at=pl.col("period") + lag)
    return grid.join_asof(
        right,
        on="vintage",
        by_left=["name", "period"],
        by_right=["name", "at"],
        strategy="backward",
        check_sortedness=False,
    )
