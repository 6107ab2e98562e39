"""What the dataset is timed against: asof joins, which find each forecast's last event and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.bench.data_tables import Size, dataset_of
from quantattn.pit import EventLog

POLARS = "polars join_asof"
PANDAS = "pandas merge_asof"
DUCKDB = "DuckDB ASOF JOIN"


@dataclass(frozen=True)
class Way:
    """One way to find what forecasts could see.

    Attributes
    ----------
    prepare : callable
        Does what is not timed and returns the call that is.
    matches : callable or None
        Turns what that call returned into the ids of the events that the forecasts saw last of their own,
        in the order of the forecasts; None where it does not tell.
    """

    prepare: Callable[[], Callable[[], Any]]
    matches: Callable[[Any], pl.Series] | None


def ours(log: EventLog, size: Size, scope: str) -> Way:
    """Return the reading of ``.samples``, counts, newest instants and names included."""

    def prepare() -> Callable[[], Any]:
        dataset = dataset_of(log, size, scope)
        return lambda: dataset.samples

    def matches(samples: pl.DataFrame) -> pl.Series:
        return last_seen(samples, log.frame, size)

    return Way(prepare, matches if scope == "entity" else None)


def polars_way(events: pl.DataFrame, forecasts: pl.DataFrame) -> Way:
    """Return a strict backward join in polars."""
    right = events.select("entity", "available_at", "event_id")

    def join() -> pl.DataFrame:
        return forecasts.join_asof(
            right,
            left_on="forecast_time",
            right_on="available_at",
            by="entity",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )

    return Way(lambda: join, _by_row)


def pandas_way(events: pl.DataFrame, forecasts: pl.DataFrame) -> Way:
    """Return the same join in pandas; the tables are turned into its own beforehand."""
    left = forecasts.to_pandas()
    # A market-wide event has no entity, and nobody asks for it here.
    right = events.select("entity", "available_at", "event_id").drop_nulls("entity").to_pandas()

    def join() -> pd.DataFrame:
        return pd.merge_asof(
            left,
            right,
            left_on="forecast_time",
            right_on="available_at",
            by="entity",
            direction="backward",
            allow_exact_matches=False,
        )

    return Way(lambda: join, lambda found: _by_row(pl.from_pandas(found[["row", "event_id"]])))


def duckdb_way(events: pl.DataFrame, forecasts: pl.DataFrame) -> Way | None:
    """Return the same join in DuckDB (extra ``bench``) on its own tables; None if it is not installed."""
    try:
        duckdb: Any = import_module("duckdb")
    except ImportError:
        return None
    session = duckdb.connect()
    # DuckDB's instants with a zone count microseconds; whole numbers keep the nanoseconds.
    tables = {
        "forecasts": forecasts.with_columns(pl.col("forecast_time").to_physical()),
        "events": events.select("entity", pl.col("available_at").to_physical(), "event_id"),
    }
    for name, table in tables.items():
        session.register("given", table.to_arrow())
        session.execute(f"create table {name} as from given")
        session.unregister("given")

    def join() -> Any:
        return session.sql(
            "select row, event_id from forecasts asof left join events "
            "on forecasts.entity = events.entity and forecast_time > available_at"
        ).to_arrow_table()

    return Way(lambda: join, lambda found: _by_row(pl.DataFrame(found)))


def _by_row(found: pl.DataFrame) -> pl.Series:
    return found.sort("row")["event_id"].cast(pl.String)


def last_seen(samples: pl.DataFrame, events: pl.DataFrame, size: Size) -> pl.Series:
    """Give the id of each sample's last visible event, from nothing but its count of events.

    Parameters
    ----------
    samples : polars.DataFrame
        Of a dataset with ``scope="entity"``.
    events : polars.DataFrame
        Its events.
    size : Size
        Of the tables.

    Returns
    -------
    polars.Series of String
        Null where none is visible.
    """
    places = pl.Enum(size.names)
    owner = events["entity"].cast(places).to_physical().cast(pl.Int32).fill_null(size.entities).to_numpy()
    rows = np.argsort(owner, kind="stable")
    begins = np.searchsorted(owner[rows], np.arange(size.entities))
    reader = samples["entity"].cast(places).to_physical().to_numpy().astype(np.int64)
    count = samples["n_visible"].to_numpy()
    last: npt.NDArray[np.int64] = rows[np.maximum(begins[reader] + count - 1, 0)]
    seen = pl.DataFrame({"id": events["event_id"].gather(last), "n": count})
    return seen.select(pl.when(pl.col("n") > 0).then("id").alias("event_id")).to_series()


def differing(ours: pl.Series, theirs: pl.Series) -> int:
    """Count the forecasts for which two joins found different events."""
    if ours.len() != theirs.len():
        return max(ours.len(), theirs.len())
    return int(ours.ne_missing(theirs).sum())
