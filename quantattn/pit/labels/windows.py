"""Which bars a label spans: from the first tradable price after the forecast to the end of the horizon."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import LabelError
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices.delistings import Delisting, Delistings
from quantattn.pit.prices.halts import spans_of
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of

Entry = Literal["close", "open"]
Unit = Literal["sessions", "seconds"]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DROPPED: Final = pl.Schema({"entity": pl.String(), "forecast_time": TIME, "reason": pl.String()})

_EPOCH: Final = date(1970, 1, 1)

KEPT, INCOMPLETE, NO_PRICE, GAP, HALTED, DELISTED, CLOSED = range(7)
REASONS: Final = {
    INCOMPLETE: "incomplete",
    NO_PRICE: "no_price",
    GAP: "gap",
    HALTED: "halted",
    DELISTED: "delisted",
    CLOSED: "closed",
}


class Spans(NamedTuple):
    """Windows of one entity at every forecast time, each of shape (m,); defined where the fate is ``KEPT``.

    Attributes
    ----------
    entry, last : ndarray of int64
        Rows of the entry bar and of the last bar in ``prices.frame``.
    starts_at, ends_at, known_at : ndarray of int64
        Nanoseconds, UTC.
    final : ndarray of float64
        Delisting return after the last bar; NaN where there is none.
    fate : ndarray of int64
        ``KEPT``, or why there is no label.
    """

    entry: Nanoseconds
    last: Nanoseconds
    starts_at: Nanoseconds
    ends_at: Nanoseconds
    known_at: Nanoseconds
    final: Floats
    fate: Nanoseconds


@dataclass(frozen=True)
class Windows:
    """The label windows that are whole.

    Attributes
    ----------
    entity : ndarray of int64, shape (n,)
        Place in ``prices.entities``.
    forecast_time : ndarray of int64, shape (n,)
        Nanoseconds, UTC.
    spans : Spans
        Of shape (n,).
    at_open : bool
        Whether the entry price is the open of the entry bar rather than its close.
    dropped : polars.DataFrame
        ``entity``, ``forecast_time``, ``reason`` of the others.
    """

    entity: Nanoseconds
    forecast_time: Nanoseconds
    spans: Spans
    at_open: bool
    dropped: pl.DataFrame


@dataclass(frozen=True)
class Terms:
    """How labels are measured: in whole numbers of the unit, and nanoseconds."""

    horizon: int
    unit: Unit
    lag: int
    entry: Entry
    delistings: Delistings | None

    def delisting(self, entity: str, last_day: int, resumption: Resumption) -> Delisting | None:
        """Give an entity's delisting, if its bars reach it, or end because trading was suspended.

        Parameters
        ----------
        entity : str
            The entity.
        last_day : int
            Session of its last bar, in days since 1970-01-01.
        resumption : Resumption
            Tells whether a history shows that the entity never traded again.

        Returns
        -------
        Delisting or None
            Known no earlier than it was known that no bar followed. None also where the data end before the
            delisting, so that nobody can tell whether the entity traded on.

        Raises
        ------
        LabelError
            If it has bars after that session.
        """
        found = None if self.delistings is None else self.delistings.of(entity)
        if found is not None and last_day > found.session:
            last, final = (np.datetime64(day, "D") for day in (last_day, found.session))
            raise LabelError(
                f"entity {entity!r} has bars up to {last}, after its delisting with the last session "
                f"{final}; correct the delisting, or give what trades after it another name"
            )
        if found is None or found.session == last_day:
            return found
        shown = resumption.excluded(entity, last_day, found)
        return None if shown is None else found._replace(available_at=max(found.available_at, shown))


class Resumption:
    """Says whether, and from when on, a history shows that an entity did not trade again before its end.

    Parameters
    ----------
    prices : PriceHistory
        Bars of all entities, and the declared halts.
    """

    def __init__(self, prices: PriceHistory) -> None:
        self._prices = prices

    def excluded(self, entity: str, last_day: int, delisting: Delisting) -> int | None:
        """Give the instant from which on it is known that no bar followed, in nanoseconds; else None."""
        there, bars = delisting.delisted_at + self._prices.latency, self._prices.frame
        later = bars.filter(pl.col("session").to_physical() >= delisting.session)["available_at"]
        if not later.is_empty():
            return max(there, int(nanoseconds_of(later).min()))
        return there if self._halted_until(entity, last_day, delisting) else None

    def _halted_until(self, entity: str, last_day: int, delisting: Delisting) -> bool:
        spans = spans_of(self._prices.halts).get(entity)
        if spans is None:
            return False
        hours = TradingCalendar(self._prices.calendar).sessions(
            _EPOCH + timedelta(days=last_day), _EPOCH + timedelta(days=delisting.session)
        )[1:]
        opens = nanoseconds_of(hours["open"])
        closes = np.minimum(nanoseconds_of(hours["close"]), delisting.delisted_at)
        place = np.searchsorted(spans[0], opens, side="right") - 1
        covered = (place >= 0) & (spans[1][np.maximum(place, 0)] >= closes)
        return bool(np.all(covered | (opens >= delisting.delisted_at)))


def gather(prices: PriceHistory, times: Nanoseconds, parts: list[Spans], at_open: bool) -> Windows:
    """Put the windows of all entities together, those without a label aside."""
    if not parts:
        none = np.empty(0, dtype=np.int64)
        nothing = Spans(none, none, none, none, none, np.empty(0), none)
        return Windows(none, none, nothing, at_open, pl.DataFrame(schema=DROPPED))
    all_spans = Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    entity = np.repeat(np.arange(len(parts), dtype=np.int64), times.size)
    moment = np.tile(times, len(parts))
    kept = all_spans.fate == KEPT
    names = np.asarray(prices.entities, dtype=object)
    reasons = np.asarray([REASONS.get(code, "") for code in range(len(REASONS) + 1)], dtype=object)
    dropped = pl.DataFrame(
        {
            "entity": pl.Series(names[entity[~kept]], dtype=pl.String),
            "forecast_time": instants(moment[~kept]),
            "reason": pl.Series(reasons[all_spans.fate[~kept]], dtype=pl.String),
        },
        schema=DROPPED,
    )
    return Windows(entity[kept], moment[kept], Spans(*(c[kept] for c in all_spans)), at_open, dropped)


def next_true(mask: Mask) -> Nanoseconds:
    """Give, for each place and the one past the end, the first place from it on where `mask` is true.

    Returns
    -------
    ndarray of int64, shape (n + 1,)
        n where there is none.
    """
    n = mask.size
    places = np.where(mask, np.arange(n), n)
    return np.append(np.minimum.accumulate(places[::-1])[::-1], n).astype(np.int64)


def with_delisting(
    spans: Spans,
    delisting: Delisting,
    final_row: int,
    final_end: int,
    final_known: int,
    spanning: Mask,
    ended: Mask,
) -> Spans:
    """Let the windows that span an entity's delisting end with its return.

    Parameters
    ----------
    spans : Spans
        Windows of the entity.
    delisting : Delisting
        Its end.
    final_row, final_end, final_known : int
        Row of its last bar, its end and from when on it is known (nanoseconds).
    spanning : ndarray of bool
        Windows that begin before, and would end after.
    ended : ndarray of bool
        Windows that nobody could enter any more.

    Returns
    -------
    Spans
    """
    declared = not np.isnan(delisting.value)
    end = max(delisting.delisted_at, final_end)
    known = max(delisting.available_at, end, final_known)
    fate = np.where(spanning, KEPT if declared else DELISTED, spans.fate)
    return Spans(
        entry=spans.entry,
        last=np.where(spanning, final_row, spans.last),
        starts_at=spans.starts_at,
        ends_at=np.where(spanning, end, spans.ends_at),
        known_at=np.where(spanning, known, spans.known_at),
        final=np.where(spanning, delisting.value, spans.final),
        fate=np.where(ended, DELISTED, fate).astype(np.int64),
    )
