"""What holders got when an entity was delisted.

A label that spans a delisting is not missing: the share was cashed in, acquired or became worthless. Leaving
such labels out keeps the survivors alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, TimestampError, UsageError
from quantattn.pit._dates import read_text
from quantattn.pit._tables import clean_names, refuse_rows, require_columns, to_instants, to_polars
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices.bars import session_dates
from quantattn.pit.prices.intraday import Hours
from quantattn.pit.prices.known import known_times
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of

DELISTINGS: Final = pl.Schema(
    {
        "entity": pl.String(),
        "session": pl.Date(),
        "delisted_at": TIME,
        "value": pl.Float64(),
        "available_at": TIME,
    }
)


class Delisting(NamedTuple):
    """One entity's end: days since 1970-01-01, nanoseconds, and the simple return (NaN: not declared)."""

    session: int
    delisted_at: int
    value: float
    available_at: int


@dataclass(frozen=True, eq=False)
class Delistings:
    """Delistings with their returns; build it with :meth:`from_frame`.

    Attributes
    ----------
    frame : polars.DataFrame
        ``entity``, ``session`` (Date: the last one in which it traded), ``delisted_at`` (UTC), ``value``
        (simple return from the last close to what holders got; null: not known), ``available_at`` (UTC,
        of the return; null where that is null), sorted by entity.
    """

    frame: pl.DataFrame

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
        *,
        entity: str = "entity",
        last_session: str | None = None,
        delisted_at: str | None = None,
        value: str = "return",
        available_at: str = "available_at",
        calendar: str = "XNYS",
        time_zone: str | None = None,
    ) -> Delistings:
        """Take a table of delistings, one for each entity.

        Parameters
        ----------
        frame : polars or pandas DataFrame, or Arrow table
            The table.
        entity, value, available_at : str
            Column names. `value` is the simple return from the last close to the proceeds, -1.0 or more
            (-1.0: nothing was left; 0.0: the last price was paid out); null if it is not known.
            `available_at` says when that was known: databases of delisting returns fill them in weeks
            later. A date alone (ISO text or a naive midnight, too) is known at the next session's open.
        last_session, delisted_at : str
            Exactly one: a column of dates, the last session in which the entity traded; or one of instants,
            whose last session is the last that opened before. An entity whose bars end earlier was suspended
            in between: with bars of others, or halts, that reach the delisting, labels end with its return.
        calendar : str
            Exchange calendar.
        time_zone : str, optional
            Zone of naive timestamps.

        Returns
        -------
        Delistings

        Raises
        ------
        PriceDataError
            Missing columns, two rows of one entity, a return below -1, or one that is known before the
            delisting or not dated.
        TimestampError
            Timestamps that are naive without a zone.
        UsageError
            If not exactly one of `last_session` and `delisted_at` is given.
        """
        if (last_session is None) == (delisted_at is None):
            raise UsageError("pass exactly one of last_session= (dates) and delisted_at= (instants)")
        table = to_polars(frame, index_column=None, error=PriceDataError)
        stamp = str(last_session or delisted_at)
        wanted = {"entity": entity, "value": value, "available_at": available_at}
        dated = {"last_session": last_session, "delisted_at": delisted_at}
        require_columns(table, {**wanted, **dated}, PriceDataError)
        if delisted_at is not None:
            table = read_text(table, delisted_at, TimestampError)
        if table.is_empty():
            return cls(pl.DataFrame(schema=DELISTINGS))
        if delisted_at is not None and table[stamp].dtype == pl.Date:
            raise PriceDataError(
                f"column {stamp!r} holds dates, which may be the last session or the day after it; pass the "
                "last sessions as last_session="
            )
        sessions, moments = (
            _of_sessions(table, stamp, calendar)
            if last_session is not None
            else _of_instants(nanoseconds_of(to_instants(table, stamp, time_zone)), calendar)
        )
        returns = _returns(table, value)
        there = returns.is_not_null()
        refuse_rows(
            table,
            there & table[available_at].is_null(),
            [entity, available_at],
            f"column {available_at!r} does not say when a return was known",
            "date it, or drop that return",
            PriceDataError,
        )
        known = pl.Series("available_at", [None] * table.height, dtype=TIME)
        if there.any():
            dates = instants(known_times(table.filter(there), available_at, time_zone, calendar))
            known = known.scatter(there.arg_true(), dates)
        delistings = pl.DataFrame(
            {
                "entity": clean_names(table, entity, PriceDataError),
                "session": sessions,
                "delisted_at": instants(moments),
                "value": returns,
                "available_at": known,
            },
            schema=DELISTINGS,
        ).sort("entity")
        refuse_rows(
            delistings,
            delistings["entity"].is_duplicated(),
            ["entity", "delisted_at"],
            "an entity is delisted more than once",
            "keep one row; give a relisted entity another name",
            PriceDataError,
        )
        refuse_rows(
            delistings,
            delistings["available_at"] < delistings["delisted_at"],
            ["entity", "delisted_at", "available_at"],
            "a delisting return is known before the delisting",
            "correct those times",
            PriceDataError,
        )
        return cls(delistings)

    def of(self, entity: str) -> Delisting | None:
        """Give the delisting of one entity, if there was one."""
        return self._by_entity.get(entity)

    @cached_property
    def _by_entity(self) -> dict[str, Delisting]:
        rows = self.frame.select(
            "entity",
            pl.col("session").to_physical(),
            pl.col("delisted_at").to_physical(),
            pl.col("value").fill_null(float("nan")),
            pl.col("available_at").to_physical().fill_null(0),
        )
        return {entity: Delisting(*others) for entity, *others in rows.iter_rows()}

    def __repr__(self) -> str:
        """Say how many delistings there are, and how many have no return."""
        return f"Delistings({self.frame.height}, {self.frame['value'].null_count()} without a return)"


def _returns(table: pl.DataFrame, value: str) -> pl.Series:
    if not (table[value].dtype.is_numeric() or table[value].dtype == pl.Null):
        raise PriceDataError(f"column {value!r} has type {table[value].dtype}, not numbers; cast it")
    returns = table[value].cast(pl.Float64)
    refuse_rows(
        table,
        ~returns.is_finite() | (returns < -1.0),
        [value],
        f"column {value!r} has returns that are not finite, or below -1",
        "give simple returns, -1.0 for a total loss, null where unknown",
        PriceDataError,
    )
    return returns


def _of_sessions(table: pl.DataFrame, column: str, calendar: str) -> tuple[pl.Series, Nanoseconds]:
    days = session_dates(table, column, None)
    hours = TradingCalendar(calendar).sessions(days.min(), days.max())  # type: ignore[arg-type]
    closes = days.alias("session").to_frame().join(hours, on="session", how="left", maintain_order="left")
    refuse_rows(
        table,
        closes["close"].is_null(),
        [column],
        f"column {column!r} has dates on which {calendar} has no session",
        "give the last session in which the entity traded",
        PriceDataError,
    )
    return days, nanoseconds_of(closes["close"])


def _of_instants(moments: Nanoseconds, calendar: str) -> tuple[pl.Series, Nanoseconds]:
    hours = Hours.around(calendar, int(moments.min()), int(moments.max()))
    last = np.searchsorted(hours.open, moments, side="left") - 1
    return hours.session.gather(np.maximum(last, 0)), moments
