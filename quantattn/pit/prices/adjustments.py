"""Splits and dividends, applied as they were known at a time.

A price series is adjusted backwards: earlier prices are restated in the shares of today, so every new split
or dividend changes all earlier levels. A level that was adjusted later was never seen by anybody. Ratios of
prices do not change. Hence :meth:`CorporateActions.growth` runs forwards: the factor of a bar depends on
actions up to that bar alone, and later ones leave it equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import clean_names, refuse_rows, require_columns, to_polars
from quantattn.pit.prices.bars import numbers, session_dates
from quantattn.pit.prices.intake import latency_nanoseconds
from quantattn.pit.prices.known import known_times, opens_from, session_days
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of, shifted, to_nanoseconds

ACTIONS: Final = pl.Schema(
    {
        "entity": pl.String(),
        "kind": pl.String(),
        "ex_date": pl.Date(),
        "value": pl.Float64(),
        "effective_at": TIME,
        "available_at": TIME,
    }
)
_KINDS: Final = ("split", "dividend")
_PRICES: Final = ("open", "high", "low", "close")
_NEVER: Final = np.iinfo(np.int64).min

Floats = npt.NDArray[np.float64]


class Growth(NamedTuple):
    """Factors of some bars of one entity, each of shape (n,).

    Attributes
    ----------
    price : ndarray
        Close times this is the value of what one share of the first bar has become, dividends reinvested.
    shares : ndarray
        Shares into which one share of the first bar was split.
    known_at : ndarray of int64
        Where a bar is the first after actions: when the last of these was known; elsewhere the least int64.
    step : ndarray
        What `price` is multiplied by at each bar: 1 but for the first bars after actions.
    last_price, last_shares : float
        The factors after all actions, those included whose first bar is still to come.
    """

    price: Floats
    shares: Floats
    known_at: Nanoseconds
    step: Floats
    last_price: float
    last_shares: float


@dataclass(frozen=True, eq=False)
class CorporateActions:
    """Splits and cash dividends; build it with :meth:`from_frame`.

    Attributes
    ----------
    frame : polars.DataFrame
        ``entity``, ``kind`` (``"split"`` or ``"dividend"``), ``ex_date``, ``value``, ``effective_at`` (open
        of the first session on or after the ex-date, UTC), ``available_at`` (UTC), sorted by entity,
        ex-date and kind.
    """

    frame: pl.DataFrame

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
        *,
        entity: str = "entity",
        kind: str = "kind",
        ex_date: str = "ex_date",
        value: str = "value",
        announced_at: str | None = None,
        available_at: str | None = None,
        latency: str | timedelta | pd.Timedelta = "0s",
        calendar: str = "XNYS",
        time_zone: str | None = None,
    ) -> CorporateActions:
        """Take a table of splits and dividends, in any row order.

        Parameters
        ----------
        frame : polars or pandas DataFrame, or Arrow table
            One row for each action.
        entity, kind, ex_date, value : str
            Column names. `kind` holds ``"split"`` or ``"dividend"``; `ex_date` is the first date on which the
            share trades without what was paid. `value` of a split is the number of new shares for one old
            share (4.0 for four to one, 0.1 for a reverse split of ten to one); of a dividend, cash for one
            share as it was held before the ex-date, in the currency of the unadjusted price.
        announced_at, available_at : str, optional
            Column that says when the action was published, or when this system could know it; one of the
            two. Dates alone (ISO text or naive midnights, too) are known at the next session's open.
            Without either, an action is taken to be known when its ex-date's session opens, at which the
            price shows it.
        latency : duration
            Added to `announced_at`.
        calendar : str
            Exchange calendar.
        time_zone : str, optional
            Zone of naive timestamps, and of dates in those columns (by default the exchange's).

        Returns
        -------
        CorporateActions

        Raises
        ------
        PriceDataError
            Missing columns or values, an unknown kind, values that are not positive, or two splits of an
            entity on one date.
        TimestampError
            Timestamps that are naive without a zone, or missing.
        CalendarError
            Dates that the calendar does not know.
        """
        if announced_at is not None and available_at is not None:
            raise UsageError("pass announced_at= or available_at=, not both: one of them dates the action")
        delay = latency_nanoseconds(latency)
        if delay and announced_at is None:
            raise UsageError("latency= is added to announced_at=; pass that too, or leave it out")
        table = to_polars(frame, index_column=None, error=PriceDataError)
        wanted = {"entity": entity, "kind": kind, "ex_date": ex_date, "value": value}
        require_columns(
            table, {**wanted, "announced_at": announced_at, "available_at": available_at}, PriceDataError
        )
        if table.is_empty():
            return cls(pl.DataFrame(schema=ACTIONS))
        refuse_rows(
            table,
            ~table[kind].cast(pl.String).is_in(_KINDS) | table[kind].is_null(),
            [entity, kind],
            f"column {kind!r} names actions that are not known",
            f"use {' or '.join(map(repr, _KINDS))}; drop others",
            PriceDataError,
        )
        days = session_days(table, ex_date)
        effective = opens_from(days, calendar)
        stamp = announced_at or available_at
        known = effective if stamp is None else known_times(table, stamp, time_zone, calendar)
        actions = pl.DataFrame(
            {
                "entity": clean_names(table, entity, PriceDataError),
                "kind": table[kind].cast(pl.String),
                "ex_date": session_dates(table, ex_date, None),
                "value": numbers(table, value, "close"),
                "effective_at": instants(effective),
                "available_at": instants(shifted(known, delay, "latency")),
            },
            schema=ACTIONS,
        ).sort("entity", "ex_date", "kind", "available_at", "value")
        refuse_rows(
            actions,
            (actions["kind"] == "split")
            & actions.select(pl.struct("entity", "kind", "ex_date").is_duplicated()).to_series(),
            ["entity", "ex_date", "value"],
            "an entity has more than one split on one date",
            "keep one, with the product of their ratios if there were two",
            PriceDataError,
        )
        refuse_rows(
            actions,
            actions.select(pl.struct("entity", "kind", "ex_date", "value").is_duplicated()).to_series(),
            ["entity", "kind", "ex_date", "value"],
            "an action is given more than once",
            "keep one row; if two equal dividends were paid on one date, give their sum",
            PriceDataError,
        )
        return cls(actions)

    def as_of(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> CorporateActions:
        """Give the actions whose ex-date's session opened and that were known strictly before an instant."""
        moment = pl.lit(instants([to_nanoseconds(t)]))
        return CorporateActions(
            self.frame.filter((pl.col("effective_at") < moment) & (pl.col("available_at") < moment))
        )

    def of(self, entity: str) -> pl.DataFrame:
        """Give the actions of one entity, sorted by ex-date; none if it is not in the table."""
        return self._parts.get(entity, self.frame.clear())

    def growth(self, entity: str, sessions: Nanoseconds, close: Floats) -> Growth:
        """Give the factors that make the prices of an entity comparable over its actions.

        Parameters
        ----------
        entity : str
            The entity.
        sessions : ndarray of int64, shape (n,)
            Session of each bar in days since 1970-01-01, nondecreasing.
        close : ndarray, shape (n,)
            Unadjusted closes.

        Returns
        -------
        Growth
            Bars on or after an ex-date have their factor multiplied by ``split / (1 - dividend / close)``,
            the close being that of the last bar before it. A split and a dividend of one date both refer to
            that close. Actions before the first bar change nothing.

        Raises
        ------
        PriceDataError
            If dividends of one date are not less than the close before.
        """
        price, shares, step = np.ones(close.size), np.ones(close.size), np.ones(close.size)
        known = np.full(close.size, _NEVER, dtype=np.int64)
        last_price = last_shares = 1.0
        for (ex_date,), actions in self.of(entity).partition_by("ex_date", as_dict=True).items():
            row = int(
                np.searchsorted(sessions, np.datetime64(str(ex_date), "D").astype(np.int64), side="left")
            )
            if row == 0:
                continue
            paid = sum(actions.filter(kind="dividend")["value"].to_list(), 0.0)
            before = float(close[row - 1])
            if paid >= before:
                raise PriceDataError(
                    f"entity {entity!r} pays {paid:g} with ex-date {ex_date}, when its last close was "
                    f"{before:g}; dividends are cash for one share held before the ex-date, in the currency "
                    "of the unadjusted price"
                )
            split = float(np.prod(actions.filter(kind="split")["value"].to_numpy()))
            factor = split / (1.0 - paid / before)
            last_price, last_shares = last_price * factor, last_shares * split
            if row < close.size:
                price[row:] *= factor
                step[row] *= factor
                shares[row:] *= split
                known[row] = max(known[row], int(nanoseconds_of(actions["available_at"]).max()))
        return Growth(price, shares, known, step, last_price, last_shares)

    def restate(self, bars: pl.DataFrame, spans: Mapping[str, slice]) -> pl.DataFrame:
        """Restate bars in the shares of today, as if all of these actions had happened by now.

        Parameters
        ----------
        bars : polars.DataFrame
            ``entity``, ``session``, prices and ``volume``, unadjusted, sorted by entity and time.
        spans : mapping of str to slice
            Rows of each entity.

        Returns
        -------
        polars.DataFrame
            Prices times the growth to the bar over the growth to the end; volume in the last shares.
        """
        price, volume = np.ones(bars.height), np.ones(bars.height)
        sessions, close = session_days(bars, "session"), bars["close"].to_numpy()
        for entity, rows in spans.items():
            growth = self.growth(entity, sessions[rows], close[rows])
            price[rows] = growth.price / growth.last_price
            volume[rows] = growth.last_shares / growth.shares
        scaled: dict[str, Floats] = {name: price for name in _PRICES if name in bars.columns}
        if "volume" in bars.columns:
            scaled["volume"] = volume
        return bars.with_columns(pl.col(name) * pl.Series(by) for name, by in scaled.items())

    @cached_property
    def _parts(self) -> dict[str, pl.DataFrame]:
        parts = self.frame.partition_by("entity", as_dict=True, maintain_order=True)
        return {str(entity): part for (entity,), part in parts.items()}

    def __repr__(self) -> str:
        """Say how many actions there are."""
        counts = dict(self.frame.group_by("kind").len().sort("kind").iter_rows())
        return f"CorporateActions({counts}, {self.frame['entity'].n_unique()} entities)"
