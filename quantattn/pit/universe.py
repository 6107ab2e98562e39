"""Who was a member when: dated membership intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit._dates import open_ended, read_text, refuse_far_dates
from quantattn.pit._tables import (
    clean_names,
    exchange_zone,
    localise,
    refuse_rows,
    require_columns,
    to_instants,
    to_polars,
)
from quantattn.pit.timestamps import TIME, instants, to_nanoseconds

_INTERVALS: Final = pl.Schema({"entity": pl.String(), "start": TIME, "end": TIME})


_SHOWN: Final = 5


@dataclass(frozen=True)
class UniverseCoverage:
    """How many members ever have prices; made by :meth:`Universe.coverage`.

    Attributes
    ----------
    n_members : int
        Entities that were ever a member.
    without_prices : tuple of str
        Those that never have prices, sorted.
    never_members : tuple of str
        Entities with prices that were never a member, sorted.
    """

    n_members: int
    without_prices: tuple[str, ...]
    never_members: tuple[str, ...]

    def __str__(self) -> str:
        """Name the members without prices; nothing if there are none."""
        if not self.without_prices:
            return ""
        more = ", ..." if len(self.without_prices) > _SHOWN else ""
        return (
            f"{len(self.without_prices)} of {self.n_members} members never have prices: "
            f"{', '.join(self.without_prices[:_SHOWN])}{more}"
        )


@dataclass(frozen=True, eq=False)
class Universe:
    """Membership intervals; build it with :meth:`from_frame`.

    Attributes
    ----------
    frame : polars.DataFrame
        ``entity`` (String), ``start``, ``end`` (UTC; null end: still a member), sorted by entity and
        start. An entity is a member at t iff ``start <= t < end`` in one of its intervals.
    """

    frame: pl.DataFrame

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
        *,
        entity: str = "entity",
        start: str = "start",
        end: str | None = "end",
        time_zone: str | None = None,
        calendar: str = "XNYS",
    ) -> Universe:
        """Take a table of intervals, in any row order.

        Parameters
        ----------
        frame : polars or pandas DataFrame
            One row for each spell of membership.
        entity, start, end : str
            Column names. A null in `end` means that the spell goes on; ``end=None`` means that all do.
            Dates stand for the midnight at which they begin: on its `end` date an entity is out. ISO text of
            dates or times is read; an end after the year 2261, such as 9999-12-31, means that the spell
            goes on.
        time_zone : str, optional
            Zone of naive timestamps (an error without it) and of dates (by default the exchange's).
        calendar : str
            The exchange whose zone dates are read in.

        Returns
        -------
        Universe

        Raises
        ------
        EventDataError
            If a column or a start is missing, an interval does not end after its start, or two
            intervals of an entity overlap.
        TimestampError
            If timestamps are naive without a zone.
        """
        table = to_polars(frame, index_column=None, error=EventDataError)
        require_columns(table, {"entity": entity, "start": start, "end": end}, EventDataError)
        for column in filter(None, (start, end)):
            table = read_text(table, column, TimestampError)
        if end is not None:
            table = table.with_columns(open_ended(table[end]))
        names = clean_names(table, entity, EventDataError)
        refuse_rows(
            table,
            table[start].is_null(),
            [entity],
            f"column {start!r} is null",
            "give every spell a start",
            EventDataError,
        )
        spells = pl.DataFrame(
            {
                "entity": names,
                "start": _moments(table, start, time_zone, calendar),
                "end": pl.repeat(None, table.height, dtype=TIME, eager=True)
                if end is None
                else _moments(table, end, time_zone, calendar),
            },
            schema=_INTERVALS,
        ).sort("entity", "start")
        shown = ["entity", "start", "end"]
        refuse_rows(
            spells,
            spells["end"] <= spells["start"],
            shown,
            "membership intervals do not end after they start",
            "correct or drop those rows",
            EventDataError,
        )
        before = pl.col("end").fill_null(pl.lit(instants([np.iinfo(np.int64).max]))).shift(1).over("entity")
        refuse_rows(
            spells,
            spells.select(pl.col("start") < before).to_series(),
            shown,
            "membership intervals of one entity overlap",
            "merge them",
            EventDataError,
        )
        return cls(spells)

    @property
    def entities(self) -> tuple[str, ...]:
        """Every entity that was ever a member, sorted."""
        return tuple(self.frame["entity"].unique().sort().to_list())

    def coverage(self, entities: Iterable[str]) -> UniverseCoverage:
        """Say which members are missing from a set of priced entities: survivors alone are no universe.

        Parameters
        ----------
        entities : iterable of str
            Entities with prices, or with labels.

        Returns
        -------
        UniverseCoverage

        Raises
        ------
        EventDataError
            If a member and an entity differ only in case or in spaces around.
        """
        if isinstance(entities, str):
            raise UsageError(f"entities={entities!r} is one text; give a sequence of names")
        members, priced = {*self.entities}, {*entities}
        lacking, strange = sorted(members - priced), sorted(priced - members)
        folded = {name.strip().casefold(): name for name in strange}
        for name in lacking:
            twin = folded.get(name.strip().casefold())
            if twin is not None:
                raise EventDataError(
                    f"the universe has a member {name!r}, and the prices have {twin!r}; give one entity one "
                    "spelling"
                )
        return UniverseCoverage(len(members), tuple(lacking), tuple(strange))

    def is_member(self, entity: str, t: datetime | np.datetime64 | pd.Timestamp | int) -> bool:
        """Say whether an entity is a member at an instant.

        Raises
        ------
        UsageError
            If the entity is no text.
        TimestampError
            If the instant is none.
        """
        if not isinstance(entity, str):
            raise UsageError(f"entity={entity!r} is not a name; give one entity as text")
        return bool(self.members(pl.Series([entity]), instants([to_nanoseconds(t)]))[0])

    def members(self, entities: pl.Series, times: pl.Series) -> pl.Series:
        """Say row by row whether an entity is a member at a time.

        Parameters
        ----------
        entities : polars.Series of String, length n
            Names, without nulls.
        times : polars.Series of Datetime("ns", "UTC"), length n
            Instants.

        Returns
        -------
        polars.Series of Boolean, length n
        """
        asked = pl.DataFrame({"entity": entities, "t": times}).with_row_index("row").sort("t")
        # Equality belongs: a member from `start` on is a member at `start`.
        found = asked.join_asof(
            self.frame.sort("start"),
            left_on="t",
            right_on="start",
            by="entity",
            strategy="backward",
            check_sortedness=False,  # both sides were just sorted
        )
        inside = pl.col("start").is_not_null() & (pl.col("end").is_null() | (pl.col("t") < pl.col("end")))
        return found.sort("row").select(member=inside).to_series()

    def __repr__(self) -> str:
        """Say how many entities and spells there are, and how many go on."""
        return (
            f"Universe({len(self.entities)} entities, {self.frame.height} spells, "
            f"{self.frame['end'].null_count()} of them open)"
        )


def _moments(table: pl.DataFrame, column: str, time_zone: str | None, calendar: str) -> pl.Series:
    """Read a column of dates or timestamps, nulls kept."""
    values = table[column]
    if values.dtype == pl.Null:
        return values.cast(TIME)
    there = table.filter(values.is_not_null())
    if values.dtype == pl.Date:
        refuse_far_dates(table, values, column, TimestampError)
        naive = there[column].cast(pl.Datetime("us"))
        read = localise(naive, time_zone or exchange_zone(calendar), there, column)
    else:
        read = to_instants(there, column, time_zone)
    rows = values.is_not_null().arg_true()
    out = pl.repeat(None, table.height, dtype=TIME, eager=True)
    return out.scatter(rows, read) if len(rows) else out
