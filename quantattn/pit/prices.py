"""Price history: one bar for each entity and session, known at the bar's end plus a latency."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._bars import (
    gaps_of,
    join_sessions,
    numbers,
    refuse_crossed,
    refuse_disorder,
    refuse_duplicates,
    refuse_early_ends,
    refuse_gaps,
    session_dates,
    session_of_ends,
    stamped_ends,
)
from quantattn.pit._intake import MARKET
from quantattn.pit._tables import clean_names, refuse_rows, require_columns, to_polars
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.timestamps import (
    TIME,
    duration_nanoseconds,
    instants,
    nanoseconds_of,
    shifted,
    to_nanoseconds,
)

_KEYS = {"entity": pl.String(), "session": pl.Date(), "event_time": TIME, "available_at": TIME}
# A longer one is a slip of the unit.
_LONGEST_LATENCY = 3650 * 86_400 * 10**9
_FIGURES = ("open", "high", "low", "close", "volume")


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """Bars of one or more entities; build it with :meth:`from_frame`.

    Attributes
    ----------
    frame : polars.DataFrame
        ``entity`` (String), ``session`` (Date), ``event_time`` (end of the bar, UTC), ``available_at``
        (``event_time`` + latency, UTC), then ``open``, ``high``, ``low`` (where given), ``close`` and
        ``volume`` (where given) as Float64; sorted by entity and time.
    gaps : polars.DataFrame
        ``entity``, ``session``: sessions between an entity's first and last bar that lack one.
    calendar : str
        Exchange calendar of the sessions.
    latency : int
        Nanoseconds from a bar's end until it is known.
    """

    frame: pl.DataFrame
    gaps: pl.DataFrame
    calendar: str
    latency: int

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
        *,
        close: str = "close",
        entity: str | None = "entity",
        session: str | None = None,
        event_time: str | None = None,
        stamps: Literal["session", "start", "end"] = "session",
        open: str | None = None,
        high: str | None = None,
        low: str | None = None,
        volume: str | None = None,
        calendar: str = "XNYS",
        latency: str | timedelta | pd.Timedelta = "60s",
        time_zone: str | None = None,
        bar_length: str | timedelta | pd.Timedelta | None = None,
        gaps: Literal["raise", "drop"] = "raise",
        name: str | None = None,
    ) -> PriceHistory:
        """Take a table of bars, one for each entity and session, in any row order.

        Parameters
        ----------
        frame : polars or pandas DataFrame, or Arrow table
            The bars. A pandas ``DatetimeIndex`` may stand in for the session or event-time column when
            it bears that column's name; any other index is the caller's to reset.
        close, open, high, low, volume : str
            Names of the columns; only `close` is needed. Prices must be positive.
        entity : str or None
            Column of entity names; None for a table of one entity, which `name` then names. No entity
            may be called ``"*"``, which marks market-wide events.
        session : str, optional
            Column of session dates. With ``stamps="session"`` it defaults to ``"session"`` or ``"date"``,
            whichever the table has.
        event_time : str, optional
            Column of bar stamps, for ``stamps="start"`` or ``"end"``.
        stamps : {"session", "start", "end"}
            What dates a bar. ``"session"``: its session date; it ends at the official close, half days
            included. ``"end"``: `event_time` is its end. ``"start"``: `event_time` is its start, and it
            ends `bar_length` later.
        calendar : str
            Exchange calendar.
        latency : duration
            From a bar's end until it is known, not negative and 3650 days at most.
        time_zone : str, optional
            Zone of naive `event_time` stamps (an error without it), or the zone in which zoned
            `session` stamps are midnight.
        bar_length : duration, optional
            Span of a bar, with ``stamps="start"``.
        gaps : {"raise", "drop"}
            What to do about a session between an entity's first and last bar without a bar: refuse, or
            keep it in `gaps` and leave out every label and trailing figure that would span it.
        name : str, optional
            The entity's name when `entity` is None.

        Returns
        -------
        PriceHistory

        Raises
        ------
        PriceDataError
            Missing columns, prices that are missing, non-finite or not positive, unknown sessions,
            duplicates, gaps.
        TimestampError
            Stamps that are missing, naive without a zone or not times.
        UsageError
            Arguments that do not go together.
        """
        if stamps not in ("session", "start", "end"):
            raise UsageError(f"stamps={stamps!r} is unknown; use 'session', 'start' or 'end'")
        if gaps not in ("raise", "drop"):
            raise UsageError(f"gaps={gaps!r} is unknown; use 'raise' or 'drop'")
        if not isinstance(close, str):
            raise UsageError(f"close={close!r} names no column; every bar needs its close")
        delay = latency_nanoseconds(latency)
        table = to_polars(frame, index_column=session or event_time or "session", error=PriceDataError)
        session, event_time = _stamp_columns(table, stamps, session, event_time)
        chosen = {"open": open, "high": high, "low": low, "close": close, "volume": volume}
        require_columns(
            table, {"entity": entity, "session": session, "event_time": event_time, **chosen}, PriceDataError
        )
        if table.is_empty():
            raise PriceDataError("the price table has no rows; give at least one bar")
        bars = pl.DataFrame([_entities(table, entity, name)])
        if event_time is not None:
            ends = stamped_ends(table, event_time, stamps, bar_length, time_zone)
            bars = bars.with_columns(ends, session_of_ends(ends, calendar))
        if session is not None:
            bars = bars.with_columns(session_dates(table, session, time_zone))
        bars = bars.with_columns(numbers(table, chosen[f] or f, f) for f in _FIGURES if chosen[f] is not None)
        bars = join_sessions(bars, calendar, session or event_time or "session")
        if event_time is None:
            bars = bars.with_columns(pl.col("official_close").alias("event_time"))
        else:
            refuse_early_ends(bars, event_time)
        refuse_duplicates(bars)
        refuse_crossed(bars)
        found = gaps_of(bars, calendar)
        if gaps == "raise":
            refuse_gaps(found, calendar)
        bars = bars.with_columns(_available(bars["event_time"], delay))
        bars = bars.sort("entity", "session")
        refuse_disorder(bars, event_time or "event_time")
        columns = [*_KEYS, *(figure for figure in _FIGURES if chosen[figure] is not None)]
        return cls(bars.select(columns), found, calendar, delay)

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The entities that have bars, sorted."""
        return tuple(self.frame["entity"].unique().sort().to_list())

    @cached_property
    def session_numbers(self) -> npt.NDArray[np.int64]:
        """Place of each row's session in the calendar; consecutive sessions differ by one."""
        if self.frame.is_empty():
            return np.empty(0, dtype=np.int64)
        session = self.frame["session"]
        sessions = TradingCalendar(self.calendar).sessions(session.min(), session.max())["session"]  # type: ignore[arg-type]
        return sessions.search_sorted(session, side="left").to_numpy().astype(np.int64)

    def rows_of(self, entity: str) -> slice:
        """Give the rows of one entity as a slice of `frame`.

        Raises
        ------
        PriceDataError
            If the entity has no bars.
        """
        if entity not in self._spans:
            known = ", ".join(self.entities[:12])
            raise PriceDataError(f"entity {entity!r} has no prices; give its bars or use one of {known}")
        return self._spans[entity]

    @cached_property
    def _spans(self) -> dict[str, slice]:
        runs = self.frame.select(run=pl.col("entity").rle()).unnest("run")
        stops = runs["len"].cum_sum().to_list()
        return {
            name: slice(stop - length, stop)
            for name, length, stop in zip(runs["value"].to_list(), runs["len"].to_list(), stops, strict=True)
        }

    def cut(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> PriceHistory:
        """Give the bars that are known strictly before an instant.

        Parameters
        ----------
        t : datetime, numpy.datetime64, pandas.Timestamp or int
            An instant; integers are nanoseconds since the epoch.

        Returns
        -------
        PriceHistory
            Exactly what building from the earlier bars alone would give.
        """
        moment = pl.lit(instants([to_nanoseconds(t)]))
        kept = self.frame.filter(pl.col("available_at") < moment)
        gaps = self.gaps if self.gaps.is_empty() else gaps_of(kept, self.calendar)
        return PriceHistory(kept, gaps, self.calendar, self.latency)


def _available(ends: pl.Series, delay: int) -> pl.Series:
    return instants(shifted(nanoseconds_of(ends), delay, "latency"), "available_at")


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


def _stamp_columns(
    table: pl.DataFrame, stamps: str, session: str | None, event_time: str | None
) -> tuple[str | None, str | None]:
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


def _entities(table: pl.DataFrame, entity: str | None, name: str | None) -> pl.Series:
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
