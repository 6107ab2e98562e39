"""Arguments of a price table, read and checked."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import clean_names, refuse_rows
from quantattn.pit.events.reasons import MARKET
from quantattn.pit.timestamps import duration_nanoseconds

# A longer one is a slip of the unit.
_LONGEST_LATENCY = 3650 * 86_400 * 10**9


def latency_nanoseconds(latency: str | timedelta | pd.Timedelta) -> int:
    """Read a latency, from nothing to 3650 days, as nanoseconds."""
    delay = duration_nanoseconds(latency, argument="latency")
    if delay < 0:
        raise UsageError(
            f"latency={latency!r} is negative: nothing is known before it ends; give '0s' or more"
        )
    if delay > _LONGEST_LATENCY:
        raise UsageError(
            f"latency={latency!r} is longer than 3650 days; give the time from a bar's end until it is known"
        )
    return delay


def stamp_columns(
    table: pl.DataFrame, stamps: str, session: str | None, event_time: str | None
) -> tuple[str | None, str | None]:
    """Find the column that dates the bars: (session column, event-time column)."""
    if stamps == "session":
        if event_time is not None:
            raise UsageError(
                f"event_time={event_time!r} is read only with stamps='start' or 'end': say which it marks"
            )
        if session is None:
            session = next((name for name in ("session", "date") if name in table.columns), None)
        if session is None:
            raise PriceDataError(
                "no column dates the bars (a pandas index needs a column's name); pass session= with one of "
                f"{', '.join(map(repr, table.columns[:12]))}"
            )
    elif event_time is None:
        raise UsageError(f"stamps={stamps!r} needs event_time=, the column of bar stamps")
    return session, event_time


def entity_names(table: pl.DataFrame, entity: str | None, name: str | None) -> pl.Series:
    """Give the entity of each row, from a column or from the one `name`."""
    if entity is not None:
        if name is not None:
            raise UsageError("name= is for a table of one entity; pass entity=None with it, or leave it out")
        names = clean_names(table, entity, PriceDataError).rename("entity")
        refuse_rows(
            table,
            names == MARKET,
            [entity],
            f"column {entity!r} names an entity {MARKET!r}, which marks market-wide events",
            "rename the entity, for example after its index",
            PriceDataError,
        )
        return names
    if name is None or not name.strip():
        raise UsageError("entity=None needs name=, the name of the table's one entity")
    if name.strip() == MARKET:
        raise PriceDataError(
            f"name={name!r} marks market-wide events; rename the entity, for example after its index"
        )
    return pl.Series("entity", [name.strip()]).extend_constant(name.strip(), table.height - 1)


def refuse_unknown_volume(table: pl.DataFrame, volume: str) -> None:
    """Refuse bars of which nobody knows whether they had volume."""
    refuse_rows(
        table,
        table[volume].is_null(),
        [volume],
        f"column {volume!r} has no volume",
        "fill in those rows: zero_volume='halt' asks every bar for its volume",
        PriceDataError,
    )
