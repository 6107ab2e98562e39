"""Values as they stood: for each feature, the last one that was visible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from quantattn.pit.timestamps import Nanoseconds


def last_values(column: pl.Series, counts: Nanoseconds) -> pl.Series:
    """Give the last non-null value among the first `counts[i]` of a sequence.

    Parameters
    ----------
    column : polars.Series of Float64, length n
        A feature in canonical order of its events.
    counts : ndarray of int64, shape (m,)
        How many leading events each forecast sees.

    Returns
    -------
    polars.Series of Float64, length m
        Null where none of the visible events has the feature.
    """
    if column.is_empty():
        return pl.repeat(None, counts.size, dtype=pl.Float64, eager=True).rename(column.name)
    there = column.is_not_null().to_numpy()
    last = np.maximum.accumulate(np.where(there, np.arange(there.size), -1))
    place = np.where(counts > 0, last[np.maximum(counts, 1) - 1], -1)
    values = column.fill_null(0.0).to_numpy()[np.maximum(place, 0)]
    return (
        pl.DataFrame({column.name: values, "there": place >= 0})
        .select(pl.when("there").then(pl.col(column.name)).alias(column.name))
        .to_series()
    )


def as_of_table(
    own: pl.DataFrame,
    own_counts: Nanoseconds,
    market: pl.DataFrame,
    market_counts: Nanoseconds,
    features: Sequence[str],
) -> pl.DataFrame:
    """Give every feature as of each forecast: the entity's own last value, else the market's.

    Parameters
    ----------
    own, market : polars.DataFrame
        Events of the entity and market-wide events, each in canonical order.
    own_counts, market_counts : ndarray of int64, shape (m,)
        How many of each a forecast sees.
    features : sequence of str
        Feature columns.

    Returns
    -------
    polars.DataFrame
        ``asof_<feature>`` (Float64) for each feature, m rows.
    """
    return pl.DataFrame(
        [
            pl.select(
                pl.coalesce(last_values(own[name], own_counts), last_values(market[name], market_counts))
            )
            .to_series()
            .rename(f"asof_{name}")
            for name in features
        ]
    )
