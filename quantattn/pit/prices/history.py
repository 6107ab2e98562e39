"""Price history: bars of sessions or within them, each known at its end plus a latency."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import LeakageError, PriceDataError, UsageError
from quantattn.pit._tables import to_polars
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices.adjustments import CorporateActions
from quantattn.pit.prices.aggregate import session_bars
from quantattn.pit.prices.bars import gaps_of, join_sessions, refuse_gaps
from quantattn.pit.prices.building import (
    FIGURES,
    KEYS,
    BarOptions,
    Frequency,
    ZeroVolume,
    available_from,
    gaps_in,
    read_bars,
)
from quantattn.pit.prices.halts import Mask, halted_at, no_halts, spans_of
from quantattn.pit.prices.intake import latency_nanoseconds
from quantattn.pit.prices.intraday import MissingBars, Outside
from quantattn.pit.prices.names import check_names
from quantattn.pit.prices.storage import stored_fields, write_prices
from quantattn.pit.timestamps import Nanoseconds, instants, nanoseconds_of, to_nanoseconds

Adjustment = Literal["none", "vendor", "as_of"]


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """Bars of one or more entities; build it with :meth:`from_frame`.

    Attributes
    ----------
    frame : polars.DataFrame
        ``entity`` (String), ``session`` (Date), ``event_time`` (end of the bar, UTC), ``available_at``
        (``event_time`` + latency, UTC; later where :meth:`to_sessions` says so), then ``open``, ``high``,
        ``low`` (where given), ``close`` and ``volume`` (where given) as Float64; sorted by entity and time.
        Intraday bars of known length also have ``start_time`` (UTC).
    gaps : polars.DataFrame
        ``entity``, ``session``: sessions between an entity's first and last bar that lack one. Of intraday
        bars also ``start_time``, ``end_time``: the stretches of official hours without a bar.
    calendar : str
        Exchange calendar of the sessions.
    latency : int
        Nanoseconds from a bar's end until it is known.
    frequency : {"session", "intraday"}
        Whether there is one bar for each session, or any number.
    bar_length : int or None
        Nanoseconds of an intraday bar, where it was declared; the last one of a session may be shorter.
    missing_bars : {"gap", "no_trade"}
        What an absent intraday bar means.
    zero_volume : {"keep", "halt"}
        Whether a bar without volume was tradable.
    halts : polars.DataFrame
        ``entity``, ``start``, ``end`` (UTC; null: never resumed), sorted and merged.
    adjustment : {"none", "vendor", "as_of"}
        ``"none"``: prices as they were traded. ``"vendor"``: adjusted by the vendor at some later time, so
        levels are not what anybody saw, though returns are. ``"as_of"``: made by :meth:`adjusted`.
    """

    frame: pl.DataFrame
    gaps: pl.DataFrame
    calendar: str
    latency: int
    frequency: Frequency = "session"
    bar_length: int | None = None
    missing_bars: MissingBars = "gap"
    zero_volume: ZeroVolume = "keep"
    halts: pl.DataFrame = field(default_factory=no_halts)
    adjustment: Adjustment = "none"

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
        frequency: Frequency = "session",
        outside: Outside = "raise",
        missing_bars: MissingBars = "gap",
        halts: pl.DataFrame | pl.LazyFrame | pd.DataFrame | None = None,
        zero_volume: ZeroVolume = "keep",
        adjusted: bool = False,
    ) -> PriceHistory:
        """Take a table of bars, in any row order: one for each entity and session, or intraday ones.

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
            Span of a bar, with ``stamps="start"``; of intraday bars with ``stamps="end"``, too.
        gaps : {"raise", "drop"}
            What to do about a session between an entity's first and last bar without a bar: refuse, or
            keep it in `gaps` and leave out every label and trailing figure that would span it. The same for
            stretches of official hours without intraday bars. Declared halts are no gaps.
        name : str, optional
            The entity's name when `entity` is None.
        frequency : {"session", "intraday"}
            One bar for each session, or any number, dated by `event_time`.
        outside : {"raise", "drop", "keep"}
            What to do about intraday bars that begin (or, stamped at their end, end) outside the official
            hours: before the open, after the close, in the break at noon. Kept ones can be traded at, and
            belong to the session that they lead to. With ``"raise"`` every bar is one of official
            hours alone: an hourly bar that begins at 15:30 ends when the exchange closes at 16:00. With
            ``"drop"`` the table holds trades of extended hours, so that bar may hold some of 16:10, and is
            left out like those that begin later; bars whose length divides the hours lose none.
        missing_bars : {"gap", "no_trade"}
            Intraday bars: whether every stretch of the official hours must have a bar (which needs
            `bar_length`), or a bar is only made when something trades, so that the last price stands where
            there is none. Whole sessions without a bar are gaps in both cases.
        halts : polars or pandas DataFrame, optional
            ``entity`` (null: all), ``start``, ``end`` (null: never resumed) of trading halts; naive stamps
            are read in `time_zone`, and dates stand for the midnight at which they begin (in `time_zone`, or
            at the exchange). No label is entered in a halt: its entry is the first bar after it.
        zero_volume : {"keep", "halt"}
            ``"halt"``: a bar whose volume is zero was not tradable; its price is a stale one.
        adjusted : bool
            Declare that the vendor has adjusted the prices for splits or dividends. Returns are then
            right, and levels are of no use to a forecast, since they contain what was paid out later:
            :meth:`levels` refuses them.

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
        options = BarOptions(
            close=close,
            entity=entity,
            session=session,
            event_time=event_time,
            stamps=stamps,
            open=open,
            high=high,
            low=low,
            volume=volume,
            calendar=calendar,
            latency=latency_nanoseconds(latency),
            time_zone=time_zone,
            bar_length=bar_length,
            gaps=gaps,
            name=name,
            frequency=frequency,
            outside=outside,
            missing_bars=missing_bars,
            zero_volume=zero_volume,
        )
        table = to_polars(frame, index_column=session or event_time or "session", error=PriceDataError)
        built = read_bars(table, options, halts)
        return cls(
            built.bars,
            built.gaps,
            calendar,
            options.latency,
            frequency,
            built.length,
            missing_bars,
            zero_volume,
            built.halts,
            "vendor" if adjusted else "none",
        )

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
        return self._with_bars(kept)

    def _with_bars(self, kept: pl.DataFrame) -> PriceHistory:
        gaps = self.gaps
        if not gaps.is_empty():
            gaps = gaps_in(kept, self.calendar, self.frequency, self.missing_bars, self.halts)
        return replace(self, frame=kept, gaps=gaps)

    def to_sessions(self, *, gaps: Literal["raise", "drop"] = "raise") -> PriceHistory:
        """Put intraday bars together into one bar for each session.

        Parameters
        ----------
        gaps : {"raise", "drop"}
            What to do about sessions that are incomplete, because a stretch of their official hours has
            neither bar nor declared halt (with ``missing_bars="no_trade"``: because the data end before
            their close), and about sessions that are missing: refuse, or leave them out and list them in
            ``gaps``.

        Returns
        -------
        PriceHistory
            Session bars, which end at the official close: first open, highest high, lowest low, last
            close and total volume of the bars within official hours. Bars of extended hours are left out.
            A session is known once its last bar is; with ``missing_bars="no_trade"`` once the first bar of
            any entity that ends at or after the close is, as nothing else shows that it was over.

        Raises
        ------
        PriceDataError
            If a session is incomplete or missing under ``gaps="raise"``.
        """
        if gaps not in ("raise", "drop"):
            raise UsageError(f"gaps={gaps!r} is unknown; use 'raise' or 'drop'")
        if self.frequency == "session":
            return self
        every_bar = self.missing_bars == "gap"
        bars = session_bars(self.frame, self.halts, self.calendar, every_bar=every_bar, gaps=gaps)
        bars = bars.with_columns(available_from(bars["shown_at"], self.latency))
        found = gaps_in(bars, self.calendar, "session", "gap", self.halts)
        if gaps == "raise":
            refuse_gaps(found, self.calendar)
        return replace(
            self,
            frame=bars.select(*KEYS, *(figure for figure in FIGURES if figure in bars.columns)),
            gaps=found,
            frequency="session",
            bar_length=None,
            missing_bars="gap",
        )

    def adjusted(
        self, actions: CorporateActions, *, as_of: datetime | np.datetime64 | pd.Timestamp | int
    ) -> PriceHistory:
        """Give the bars known at an instant, adjusted back for the splits and dividends known at it.

        Parameters
        ----------
        actions : CorporateActions
            Splits and dividends; entities without any stay as they are.
        as_of : datetime, numpy.datetime64, pandas.Timestamp or int
            An instant. An action counts iff the session of its ex-date opened, and it was available,
            strictly before; bars are those of ``cut(as_of)``.

        Returns
        -------
        PriceHistory
            Prices divided by the growth from the bar to `as_of` (see
            :meth:`CorporateActions.growth`), so the
            last price is the one that was traded; volume in shares of `as_of`. Its levels are those on
            the screen at `as_of`, and are for forecasts at that time alone. Returns do not depend on `as_of`
            (but for rounding, and for actions that became known only after their ex-date).

        Raises
        ------
        PriceDataError
            If the prices are adjusted already, or a dividend is not less than the close before it.
        """
        if not isinstance(actions, CorporateActions):
            raise PriceDataError(
                f"actions is a {type(actions).__name__}; build it with CorporateActions.from_frame"
            )
        self.refuse_adjusted("adjusted again")
        check_names(actions.frame["entity"].unique(), self.entities, "actions", PriceDataError)
        known, seen = self.cut(as_of), actions.as_of(as_of)
        spans = {entity: known.rows_of(entity) for entity in known.entities}
        return replace(known, frame=seen.restate(known.frame, spans), adjustment="as_of")

    def refuse_adjusted(self, what: str) -> None:
        """Refuse to adjust prices twice.

        Raises
        ------
        PriceDataError
            If the prices are adjusted.
        """
        if self.adjustment != "none":
            raise PriceDataError(
                f"prices that are adjusted already ({self.adjustment}) cannot be {what}; give them as "
                "they were traded, or leave the actions out: returns of adjusted prices need none"
            )

    def levels(self) -> pl.DataFrame:
        """Give `frame` for use as features: refused if the levels tell of later events.

        Raises
        ------
        LeakageError
            If the vendor has adjusted the prices.
        """
        if self.adjustment == "vendor":
            raise LeakageError(
                "the levels of prices that the vendor adjusted contain splits and dividends of later years; "
                "use returns or ratios (as market_events does), or unadjusted prices with "
                "adjusted(actions, as_of=...)"
            )
        return self.frame

    def write(self, path: str | Path) -> None:
        """Write the bars to one Parquet file, with what was declared of them, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file. Equal content gives equal bytes.
        """
        write_prices(self, path)

    @classmethod
    def read(cls, path: str | Path) -> PriceHistory:
        """Read a file that :meth:`write` made.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        PriceHistory

        Raises
        ------
        UsageError
            If the file is missing or cannot be opened.
        PriceDataError
            If it is truncated, was made by something else or by another version, or lacks a column.
        """
        return cls(**stored_fields(path))

    def stale_runs(self, at_least: int = 5) -> pl.DataFrame:
        """List runs of bars whose close does not move, often a sign of prices that were filled forward.

        Parameters
        ----------
        at_least : int
            Shortest run, in bars; 2 or more.

        Returns
        -------
        polars.DataFrame
            ``entity``, ``close``, ``n_bars``, ``first``, ``last`` (UTC, ends of the bars), sorted.
        """
        if isinstance(at_least, bool) or not isinstance(at_least, int) or at_least < 2:
            raise UsageError(f"at_least={at_least!r} is not a number of bars; give 2 or more")
        moved = (pl.col("close") != pl.col("close").shift(1)) | (
            pl.col("entity") != pl.col("entity").shift(1)
        )
        runs = self.frame.group_by(moved.fill_null(True).cum_sum().alias("run"), maintain_order=True).agg(
            pl.col("entity").first(),
            pl.col("close").first(),
            n_bars=pl.len(),
            first=pl.col("event_time").first(),
            last=pl.col("event_time").last(),
        )
        return runs.filter(pl.col("n_bars") >= at_least).drop("run")

    def __repr__(self) -> str:
        """Say how many bars there are, and of what."""
        return (
            f"PriceHistory({self.frame.height} {self.frequency} bars, {len(self.entities)} entities, "
            f"calendar={self.calendar!r}, {self.gaps.height} gaps, adjustment={self.adjustment!r})"
        )

    @cached_property
    def starts(self) -> Nanoseconds | None:
        """Start of each bar, in nanoseconds: of a session bar, the official open; None if unknown."""
        if self.frequency == "session":
            if self.frame.is_empty():
                return np.empty(0, dtype=np.int64)
            return nanoseconds_of(join_sessions(self.frame, self.calendar, "session")["official_open"])
        return nanoseconds_of(self.frame["start_time"]) if "start_time" in self.frame.columns else None

    def tradable(self, moments: Nanoseconds, *, at_open: bool) -> Mask:
        """Say at which bars one could have traded.

        Parameters
        ----------
        moments : ndarray of int64, shape (n,)
            Instant of the price of each row of `frame`: the bar's end or its start.
        at_open : bool
            Whether the price comes after the instant. A close at the end of a halt is a price from before
            it; an open at its end is the first one after it.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        free: Mask = np.ones(self.frame.height, dtype=bool)
        if self.zero_volume == "halt":
            free &= (self.frame["volume"] > 0).to_numpy()
        for entity, spans in spans_of(self.halts).items():
            rows = self._spans.get(entity)
            if rows is not None:
                free[rows] &= ~halted_at(moments[rows], spans, resumed=at_open)
        return free

    @cached_property
    def halted_sessions(self) -> dict[str, Nanoseconds]:
        """Numbers (as in `session_numbers`) of the sessions without a bar that a halt covers, by entity."""
        if self.halts.is_empty() or self.frame.is_empty() or self.frequency != "session":
            return {}
        missing = gaps_of(self.frame, self.calendar).join(self.gaps, on=["entity", "session"], how="anti")
        session = self.frame["session"]
        sessions = TradingCalendar(self.calendar).sessions(session.min(), session.max())["session"]  # type: ignore[arg-type]
        placed = missing.with_columns(n=sessions.search_sorted(missing["session"]).cast(pl.Int64))
        parts = placed.sort("entity", "n").partition_by("entity", as_dict=True)
        return {str(entity): part["n"].to_numpy() for (entity,), part in parts.items()}
