"""Vintage tables: what a statistic said of a period, as published on each date, as events with revisions.

A row says that from a vintage on, the value of a series for a period is this one. Every change becomes a
revision of the period's event; an observation that was withdrawn becomes a retraction. Growth rates are
computed within one vintage: both values are those that stood in it, never one of today's and one of then.

In the 80 snapshots of 29 series that the Federal Reserve Bank of New York took from 2016-06-29 to 2017-01-27,
1,051 of the 1,236 changes after the first snapshot revise figures already published, and 131 of the 185
figures that came out in between were others by the end. Real growth in the third quarter of 2016 was first
0.715 % (in logs), then 0.777 % and 0.864 %: a backtest on the final table reads figures that nobody had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit._tables import exchange_zone
from quantattn.pit._zones import day_starts
from quantattn.pit.events.columns import as_numbers, as_text, decoded, take_columns
from quantattn.pit.events.notes import Notes
from quantattn.pit.events.periods import FREQUENCIES, Stamped, number_periods, spell_frequency
from quantattn.pit.events.schema import COLUMNS, repeated
from quantattn.pit.events.sieve import Sieve
from quantattn.pit.events.stamps import REASONS, TimeRules, read_stamps
from quantattn.pit.events.taken import Taken
from quantattn.pit.events.versions import changes_of, versions_with_growth
from quantattn.pit.timestamps import instants

Layout = Literal["changes", "snapshots"]

_LAST_DAYS: Final = 106_000
"""Days from 1970 within which nanoseconds hold every instant."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VintageColumns:
    """Which column of the table plays which part; `frequency` may be a frequency instead of a column."""

    series: str
    period: str
    vintage: str
    value: str
    frequency: str
    entity: str | None = None

    @property
    def named(self) -> dict[str, str | None]:
        """Argument name to column name."""
        parts = ("series", "period", "vintage", "value", "frequency", "entity")
        listed: dict[str, str | None] = {part: getattr(self, part) for part in parts}
        if self.constant is not None:
            del listed["frequency"]
        return listed

    @property
    def constant(self) -> str | None:
        """The frequency of all series, if it is not a column."""
        return spell_frequency(pl.Series([self.frequency]))[0] if self.frequency else None


@dataclass(frozen=True)
class VintageRules:
    """How a vintage table is read; the arguments of :meth:`EventLog.from_vintages`."""

    columns: VintageColumns
    stamped: Stamped
    layout: Layout
    growth: tuple[int, ...]
    times: TimeRules
    latency: int
    scheduled: bool

    def __post_init__(self) -> None:
        """Refuse words and lags that mean nothing.

        Raises
        ------
        UsageError
            Naming the argument.
        """
        for argument, known in (("stamped", get_args(Stamped)), ("layout", get_args(Layout))):
            if getattr(self, argument) not in known:
                words = " or ".join(map(repr, known))
                raise UsageError(f"{argument}={getattr(self, argument)!r} is unknown; use {words}")
        wrong = [lag for lag in self.growth if isinstance(lag, bool) or not isinstance(lag, int) or lag < 1]
        if wrong or len(set(self.growth)) < len(self.growth):
            raise UsageError(
                f"growth={list(self.growth)} are not distinct numbers of periods; write growth=[1, 12]"
            )

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns that come out."""
        return ("value", *(f"growth_{lag}" for lag in self.growth))


def growth_lags(growth: Sequence[int] | int) -> tuple[int, ...]:
    """Give the lags of growth rates; a single one may be given bare."""
    if not isinstance(growth, int | Sequence) or isinstance(growth, str):
        raise UsageError(f"growth={growth!r} is no list of numbers of periods; write growth=[1, 12]")
    return (growth,) if isinstance(growth, int) else tuple(growth)


def take_vintages(frame: object, rules: VintageRules) -> tuple[pl.DataFrame, pl.DataFrame, Taken]:
    """Read a vintage table.

    Parameters
    ----------
    frame : object
        A polars or pandas frame or an Arrow table.
    rules : VintageRules
        How to read it.

    Returns
    -------
    events : polars.DataFrame
        The columns of an event log with the features of the rules.
    rejects : polars.DataFrame
        ``row, reason, detail`` of the refused rows, by row.
    taken : Taken
        How many rows there were, and what became of them.

    Raises
    ------
    EventDataError
        If a column is missing or unusable, or a series has several frequencies or spellings.
    """
    columns, notes = rules.columns, Notes()
    table = take_columns(frame, columns.named)
    sieve = Sieve(table)
    keyed = _read_keys(sieve, rules, notes)
    placed = sieve.good.copy()
    text, garbled = decoded(table[columns.value])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", columns.value)
    value, unreadable = as_numbers(text)
    sieve.refuse(unreadable.to_numpy(), "bad_feature", columns.value)
    sieve.refuse(value.is_infinite().fill_null(False).to_numpy(), "infinite_feature", columns.value)
    keyed = keyed.with_columns(value.alias("value"))
    _refuse_repeated(sieve, keyed, columns.vintage)
    notes.check()
    notes.warn(stacklevel=3)

    rows = keyed.filter(pl.Series(sieve.good))
    present = keyed.filter(pl.Series(placed)) if rules.layout == "snapshots" else None
    versions = versions_with_growth(changes_of(rows, present), rules.growth)
    # An event keeps the period's end, and a version the first instant at which its vintage was out.
    periods = rows.select("name", "period", "label", "entity", "series", "event_time").unique(
        ("name", "period"), maintain_order=True
    )
    vintages = keyed.filter(pl.Series(placed)).select("vintage", "published").unique("vintage")
    events = versions.join(periods, on=["name", "period"], how="left").join(
        vintages, on="vintage", how="left"
    )
    events = events.rechunk()
    moved = events["published"].to_numpy() + rules.latency
    rejects = sieve.rejects()
    read = events.select(
        event_id=pl.format("{}:{}", "name", "label"),
        revision="revision",
        entity="entity",
        event_time=instants(events["event_time"].to_numpy()),
        available_at=instants(moved),
        kind="series",
        text=pl.lit(None, dtype=pl.String),
        **{name: name for name in rules.features},
    ).select(*COLUMNS, *rules.features)
    return read, rejects, Taken(table.height, rejects.height, sieve.dates, rejects.height)


def _read_keys(sieve: Sieve, rules: VintageRules, notes: Notes) -> pl.DataFrame:
    """Read series, period and vintage of every row; meaningless where refused."""
    columns = rules.columns
    series = _names(sieve, columns.series, "null_series", notes)
    entity = pl.repeat(None, sieve.table.height, dtype=pl.String, eager=True)
    name = series
    if columns.entity is not None:
        entity = _names(sieve, columns.entity, "null_entity", notes)
        name = entity + ":" + series
    frequency = _frequencies(sieve, columns)
    _refuse_mixed(sieve, name, frequency)
    number, label, end = _periods(sieve, rules, frequency)
    written, garbled = decoded(sieve.table[columns.vintage])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", columns.vintage)
    stamps = read_stamps(written, rules.times, notes.midnights(written, rules.times))
    for code in np.flatnonzero(np.bincount(stamps.fault, minlength=1)):
        if code:
            sieve.refuse(stamps.fault == code, REASONS[code], columns.vintage)
    sieve.dated = stamps.dated
    if not rules.scheduled:
        sieve.refuse(
            stamps.published < end,
            "available_before_event",
            columns.vintage,
            meaning="published before its period is over; correct stamped= or frequency=, or pass "
            "scheduled=True for figures that are published ahead, such as surveys",
        )
        notes.count_future(sieve, stamps.time, columns.vintage)
    sieve.refuse(stamps.published > np.iinfo(np.int64).max - rules.latency, "out_of_range", columns.vintage)
    keys = pl.DataFrame({"published": stamps.published, "time": stamps.time})
    return pl.DataFrame(
        {
            "name": name,
            "series": series,
            "entity": pl.select(pl.when(entity != "*").then(entity)).to_series(),
            "period": number,
            "label": label,
            "event_time": end,
            # Dates of one weekend share their publication, but not their order.
            "vintage": keys.select(pl.struct("published", "time").rank("dense").cast(pl.Int64)).to_series(),
            "published": stamps.published,
        }
    )


def _names(sieve: Sieve, column: str, reason: str, notes: Notes) -> pl.Series:
    written, garbled = decoded(sieve.table[column])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", column)
    names = as_text(written).str.strip_chars()
    sieve.refuse((names.fill_null("") == "").to_numpy(), reason, column)
    notes.spell(names.filter(pl.Series(sieve.good)), column)
    return names


def _frequencies(sieve: Sieve, columns: VintageColumns) -> pl.Series:
    if columns.constant is not None:
        return pl.repeat(columns.constant, sieve.table.height, dtype=pl.String, eager=True)
    spelled = spell_frequency(as_text(decoded(sieve.table[columns.frequency])[0]))
    sieve.refuse(spelled.is_null().to_numpy(), "bad_frequency", columns.frequency)
    return spelled


def _refuse_mixed(sieve: Sieve, name: pl.Series, frequency: pl.Series) -> None:
    """Refuse series whose rows are of several frequencies, which have no common growth rate."""
    good = pl.DataFrame({"name": name, "frequency": frequency}).filter(pl.Series(sieve.good)).unique()
    mixed = good.group_by("name").agg(pl.col("frequency").sort()).filter(pl.col("frequency").list.len() > 1)
    if mixed.height:
        first, found = mixed.sort("name").row(0)
        raise EventDataError(
            f"series {first!r} has rows of several frequencies, {', '.join(found)}; name them apart"
        )


def _periods(sieve: Sieve, rules: VintageRules, frequency: pl.Series) -> tuple[Integers, pl.Series, Integers]:
    """Give the number, the first day and the end of each row's period; meaningless where refused."""
    column = rules.columns.period
    days = _days(sieve.table[column], column)
    far = (days.abs() > _LAST_DAYS).fill_null(True)
    sieve.refuse(
        far.to_numpy(),
        "bad_period",
        column,
        meaning="not a date (YYYY-MM-DD) between 1679 and 2260; correct it",
    )
    day = days.fill_null(0).clip(-_LAST_DAYS, _LAST_DAYS).to_numpy()
    number, first, following = (np.zeros(day.size, dtype=np.int64) for _ in range(3))
    for code in FREQUENCIES:
        rows = np.flatnonzero((frequency == code).fill_null(False).to_numpy())
        if rows.size:
            number[rows], first[rows], following[rows] = number_periods(day[rows], code)
    if rules.stamped != "within":
        declared = first if rules.stamped == "start" else following - 1
        edge = "first" if rules.stamped == "start" else "last"
        sieve.refuse(
            day != declared,
            "bad_period",
            column,
            meaning=f"not the {edge} day of its period, as stamped={rules.stamped!r} declares; pass "
            "stamped='within' if any day may stand for the period, or correct frequency=",
        )
    zone = rules.times.time_zone or exchange_zone(rules.times.calendar)
    edges, back = np.unique(following, return_inverse=True)
    label = pl.Series("label", first).cast(pl.Int32).cast(pl.Date).cast(pl.String)
    return number, label, day_starts(edges, zone)[0][back]


def _days(column: pl.Series, name: str) -> pl.Series:
    """Give dates as days since 1970; null where there is none."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is None:
        midnight = column.dt.truncate("1d") == column
        column = pl.select(pl.when(midnight).then(column.dt.date())).to_series()
    elif dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        column = column.cast(pl.String).str.strip_chars().str.to_date("%Y-%m-%d", strict=False)
    elif dtype != pl.Date:
        raise EventDataError(f"column {name!r} has type {dtype}, which is not a date; cast it to Date")
    return column.to_physical().cast(pl.Int64)


def _refuse_repeated(sieve: Sieve, keyed: pl.DataFrame, column: str) -> None:
    """Refuse rows that state the value of one period in one vintage more than once."""
    key = ("name", "period", "vintage")
    good = np.flatnonzero(sieve.good)
    rows = keyed[good].select(*key, "value")
    doubtful = repeated(rows, key)
    if doubtful.is_empty():
        return
    judged = rows[doubtful].select(
        conflicting=pl.col("value").n_unique().over(key) > 1, later=~pl.struct(key).is_first_distinct()
    )
    for reason, chosen in (("conflicting_vintage", "conflicting"), ("repeated_vintage", "later")):
        bad = np.zeros(sieve.table.height, dtype=bool)
        bad[good[doubtful.to_numpy()[judged[chosen].to_numpy()]]] = True
        sieve.refuse(bad, reason, column)
