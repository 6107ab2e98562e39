"""Who is missing from a set of entities that was picked after the fact.

Labels tell of it as bars do: a forecast that could be made of an entity has a label, or was dropped for a
reason that lies in the measure (a dead band, say) rather than in the entity's absence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit.clock import ForecastClock
from quantattn.pit.labels import Labels
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.timestamps import instants, iso, nanoseconds_of

Counted = Literal["bars", "forecasts"]

_SHOWN: Final = 5
# Why a forecast has no label although its entity was there. Where the data end, nothing tells.
_THERE: Final = ("gap", "zero_variance", "total_loss", "closed", "dead_band")
STATEMENT: Final = (
    "No universe was given, so the entities are those in the price table: they were picked after the fact. "
    "Entities that ceased to exist, or were never looked at, are missing without a trace, and results are of "
    "those that somebody chose to keep."
)


@dataclass(frozen=True, eq=False)
class SurvivorshipReport:
    """What can be seen of survivorship in a price history; made by :func:`survivorship`.

    Attributes
    ----------
    start, end : int
        Span looked at, nanoseconds, UTC: from the first forecast or bar, whichever is later, to the last
        forecast or bar, whichever is earlier.
    n_entities : int
        Entities with bars.
    n_alive : int
        Those with a bar that ends at or after `end`.
    late : polars.DataFrame
        ``entity``, ``first_session``: entities whose first bar ends after `start`.
    early : polars.DataFrame
        ``entity``, ``last_session``: entities whose last bar ends before `end`.
    by_year : polars.DataFrame
        ``year``, ``entries``, ``exits``, ``alive``: first bars of the late ones, last bars of the early ones,
        and entities with any bar in the year, for every year of the span.
    counted : {"bars", "forecasts"}
        What entities have: bars, or labelled forecasts, which then stand for bars above.
    """

    start: int
    end: int
    n_entities: int
    n_alive: int
    late: pl.DataFrame
    early: pl.DataFrame
    by_year: pl.DataFrame
    counted: Counted = "bars"

    @property
    def share_alive(self) -> float:
        """Share of the entities that are there to the end."""
        return self.n_alive / self.n_entities

    @property
    def statement(self) -> str:
        """What this means, in words."""
        if self.n_alive == self.n_entities:
            seen = "Every one of them is there to the end, which no set chosen at the start would be sure of."
        else:
            seen = f"{self.n_entities - self.n_alive} of {self.n_entities} end early."
        return f"{STATEMENT} {seen}"

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain JSON values."""
        return {
            "statement": self.statement,
            "counted": self.counted,
            "start": iso(self.start),
            "end": iso(self.end),
            "n_entities": self.n_entities,
            "n_alive": self.n_alive,
            "share_alive": self.share_alive,
            "late": {entity: day.isoformat() for entity, day in self.late.iter_rows()},
            "early": {entity: day.isoformat() for entity, day in self.early.iter_rows()},
            "by_year": self.by_year.to_dicts(),
        }

    def __str__(self) -> str:
        """Tell the report in a few lines."""
        one = self.counted == "bars"
        what, each = ("history", "bars") if one else ("labelled forecasts", "labelled forecasts")
        lines = [
            f"Survivorship of {self.n_entities} entities, {iso(self.start)} to {iso(self.end)}",
            self.statement,
            f"alive to the end: {self.n_alive} of {self.n_entities} ({self.share_alive:.0%})",
            f"{what} {'starts' if one else 'start'} late: {_names(self.late)}",
            f"{what} {'ends' if one else 'end'} early: {_names(self.early)}",
        ]
        moved = self.by_year.filter((pl.col("entries") > 0) | (pl.col("exits") > 0))
        lines += [
            f"{year}: {entries} in, {exits} out, {alive} with {each}"
            for year, entries, exits, alive in moved.iter_rows()
        ]
        return "\n".join(lines)


def survivorship(prices: PriceHistory | Labels | pl.DataFrame, clock: ForecastClock) -> SurvivorshipReport:
    """Report which entities start late or end early over the span of the forecasts.

    Parameters
    ----------
    prices : PriceHistory, Labels or polars.DataFrame
        Bars; or labels, whose forecasts count, those included that were dropped because of the measure (such
        as ``dead_band``) and not because the entity was gone; or a table of ``entity`` and
        ``forecast_time`` of such forecasts.
    clock : ForecastClock
        Forecast times.

    Returns
    -------
    SurvivorshipReport

    Raises
    ------
    PriceDataError
        If there are no bars or no forecasts, or the forecasts lie outside the bars.
    UsageError
        If an argument is of another type, or the table lacks a column.
    """
    if not isinstance(clock, ForecastClock):
        raise UsageError(f"clock is a {type(clock).__name__}; give a ForecastClock")
    frame, counted = _presence(prices)
    if frame.is_empty() or not len(clock):
        raise PriceDataError("survivorship needs bars and forecasts, and one of them is empty; give both")
    ends, times = nanoseconds_of(frame["event_time"]), nanoseconds_of(clock.times)
    start, end = max(int(ends.min()), int(times[0])), min(int(ends.max()), int(times[-1]))
    if start > end:
        raise PriceDataError(
            f"the forecasts ({iso(int(times[0]))} to {iso(int(times[-1]))}) and the bars "
            f"({iso(int(ends.min()))} to {iso(int(ends.max()))}) do not meet; give bars of their time"
        )
    spans = (
        frame.group_by("entity")
        .agg(
            first_session=pl.col("session").min(),
            last_session=pl.col("session").max(),
            first=pl.col("event_time").min(),
            last=pl.col("event_time").max(),
        )
        .sort("entity")
    )
    begin, finish = (pl.lit(instants([moment])).first() for moment in (start, end))
    late = spans.filter(pl.col("first") > begin).select("entity", "first_session")
    early = spans.filter(pl.col("last") < finish).select("entity", "last_session")
    return SurvivorshipReport(
        start=start,
        end=end,
        n_entities=spans.height,
        n_alive=spans.height - early.height,
        late=late,
        early=early,
        by_year=_by_year(frame, late, early, start, end),
        counted=counted,
    )


def _presence(source: PriceHistory | Labels | pl.DataFrame) -> tuple[pl.DataFrame, Counted]:
    """Give entity, session and time of what an entity has."""
    if isinstance(source, PriceHistory):
        return source.frame, "bars"
    columns = ["entity", "forecast_time"]
    if isinstance(source, Labels):
        there = source.dropped.filter(pl.col("reason").is_in(_THERE))
        table = pl.concat([source.frame.select(columns), there.select(columns)])
    elif isinstance(source, pl.DataFrame):
        lacking = [name for name in columns if name not in source.columns]
        if lacking:
            raise UsageError(f"the table of forecasts lacks {lacking}; give entity and forecast_time")
        table = source.select(columns)
    else:
        raise UsageError(
            f"prices is a {type(source).__name__}; give a PriceHistory, Labels, or a table of entity and "
            "forecast_time"
        )
    moment = pl.col("forecast_time")
    return table.select("entity", session=moment.dt.date(), event_time=moment), "forecasts"


def _by_year(
    bars: pl.DataFrame, late: pl.DataFrame, early: pl.DataFrame, start: int, end: int
) -> pl.DataFrame:
    years = np.array([start, end], dtype="datetime64[ns]").astype("datetime64[Y]").astype(int) + 1970
    every = pl.DataFrame({"year": np.arange(years[0], years[1] + 1)}, schema={"year": pl.Int32})
    alive = bars.group_by(pl.col("session").dt.year().alias("year")).agg(alive=pl.col("entity").n_unique())
    entries = late.group_by(pl.col("first_session").dt.year().alias("year")).agg(entries=pl.len())
    exits = early.group_by(pl.col("last_session").dt.year().alias("year")).agg(exits=pl.len())
    for table in (entries, exits, alive):
        every = every.join(table, on="year", how="left", maintain_order="left")
    return every.with_columns(pl.col("entries", "exits", "alive").fill_null(0).cast(pl.Int64))


def _names(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return "none"
    column = rows.columns[1]
    shown: list[tuple[str, date]] = list(rows.sort(column, "entity").head(_SHOWN).iter_rows())
    told = ", ".join(f"{entity} ({day})" for entity, day in shown)
    return f"{rows.height}: {told}" + (", ..." if rows.height > _SHOWN else "")
