"""Instants of Arrow tables in zones that polars does not know, and dies of."""

from __future__ import annotations

from functools import lru_cache

import polars as pl
import pyarrow as pa


def unknown_zones(schema: pa.Schema) -> dict[str, str]:
    """Give the columns in zones that polars does not know, such as ``+05:30``, with their units."""
    found = {}
    for column in schema:
        zone = getattr(column.type, "tz", None)
        if zone is not None and not _is_known(zone):
            found[column.name] = column.type.unit
    return found


def in_known_zones(table: pa.Table) -> pa.Table:
    """Give the same instants in UTC where their zone is unknown: Arrow stores them so whatever the zone."""
    for name, unit in unknown_zones(table.schema).items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(pa.timestamp(unit, "UTC")))
    return table


@lru_cache(maxsize=64)
def _is_known(zone: str) -> bool:
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    except pl.exceptions.PolarsError:
        return False
    return True
