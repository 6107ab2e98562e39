"""Which bars a label spans: the first tradable one after the forecast, and the sessions after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import numpy as np
import polars as pl

from quantattn.errors import CalendarError
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.prices import PriceHistory
from quantattn.pit.timestamps import TIME, Nanoseconds, instants, nanoseconds_of

LABELS: Final = pl.Schema(
    {
        "entity": pl.String(),
        "forecast_time": TIME,
        "horizon": pl.Int32(),
        "y_true": pl.Float64(),
        "label_start_time": TIME,
        "label_end_time": TIME,
        "label_available_at": TIME,
    }
)
DROPPED: Final = pl.Schema({"entity": pl.String(), "forecast_time": TIME, "reason": pl.String()})

# The longest closure on record, of XNYS in 1914, lasted 135 days.
_LOOK_BACK: Final = timedelta(days=150)
# Where the calendar does not say when the session before was.
_WEEKEND: Final = timedelta(days=5)

_KEPT, _INCOMPLETE, _NO_PRICE, _GAP = 0, 1, 2, 3
_REASONS: Final = {_INCOMPLETE: "incomplete", _NO_PRICE: "no_price", _GAP: "gap"}


@dataclass(frozen=True)
class Windows:
    """The label windows that are whole.

    Attributes
    ----------
    entity : ndarray of int64, shape (n,)
        Place in ``prices.entities``.
    forecast_time : ndarray of int64, shape (n,)
        Nanoseconds, UTC.
    entry : ndarray of int64, shape (n,)
        Row of the entry bar in ``prices.frame``; the last bar is `horizon` rows later.
    horizon : int
        Sessions.
    dropped : polars.DataFrame
        ``entity``, ``forecast_time``, ``reason`` of the others.
    """

    entity: Nanoseconds
    forecast_time: Nanoseconds
    entry: Nanoseconds
    horizon: int
    dropped: pl.DataFrame


def label_windows(prices: PriceHistory, times: Nanoseconds, horizon: int, lag: int) -> Windows:
    """Find the window of every entity at every forecast time.

    Parameters
    ----------
    prices : PriceHistory
        Bars.
    times : ndarray of int64
        Forecast times, nanoseconds, UTC.
    horizon : int
        Sessions after the entry bar.
    lag : int
        Nanoseconds from forecast to execution.

    Returns
    -------
    Windows
    """
    ends = nanoseconds_of(prices.frame["event_time"])
    numbers = prices.session_numbers
    due = _due_session(prices, times + lag)
    last = int(numbers.max(initial=-1))
    entities: list[Nanoseconds] = []
    entries: list[Nanoseconds] = []
    moments: list[Nanoseconds] = []
    fates: list[Nanoseconds] = []
    for place, entity in enumerate(prices.entities):
        rows = prices.rows_of(entity)
        entry = np.searchsorted(ends[rows], times + lag, side="right") + rows.start
        entities.append(np.full(times.size, place, dtype=np.int64))
        entries.append(entry)
        moments.append(times)
        fates.append(_fates(numbers, rows, entry, due, horizon, last))
    if not entities:
        none = np.empty(0, dtype=np.int64)
        return Windows(none, none, none, horizon, pl.DataFrame(schema=DROPPED))
    which, entry, moment, fate = (np.concatenate(parts) for parts in (entities, entries, moments, fates))
    kept = fate == _KEPT
    names = np.asarray(prices.entities, dtype=object)
    dropped = pl.DataFrame(
        {
            "entity": pl.Series(names[which[~kept]], dtype=pl.String),
            "forecast_time": instants(moment[~kept]),
            "reason": pl.Series([_REASONS[code] for code in fate[~kept].tolist()], dtype=pl.String),
        },
        schema=DROPPED,
    )
    return Windows(which[kept], moment[kept], entry[kept], horizon, dropped)


def _fates(
    numbers: Nanoseconds, rows: slice, entry: Nanoseconds, due: Nanoseconds, horizon: int, last: int
) -> Nanoseconds:
    """Say of each window of one entity whether it is whole, and if not, why."""
    first_bar, last_bar = int(numbers[rows.start]), int(numbers[rows.stop - 1])
    ended = entry >= rows.stop
    begins = numbers[np.minimum(entry, rows.stop - 1)]
    late = ~ended & (begins > due)
    target = np.where(ended, due, begins) + horizon
    finish = entry + horizon
    broken = (finish >= rows.stop) | (numbers[np.minimum(finish, rows.stop - 1)] != target)
    return np.select(
        [
            late & (due < first_bar),
            late,
            target > last,
            ended | (target > last_bar),
            broken,
        ],
        [_NO_PRICE, _GAP, _INCOMPLETE, _NO_PRICE, _GAP],
        default=_KEPT,
    ).astype(np.int64)


def _due_session(prices: PriceHistory, moments: Nanoseconds) -> Nanoseconds:
    """Give the number of the first session whose official close is strictly after each moment.

    Numbers count from the first session of the history, as in ``prices.session_numbers``; -1 stands for
    every session before it.
    """
    if prices.frame.is_empty():
        return np.zeros(moments.shape, dtype=np.int64)
    trading = TradingCalendar(prices.calendar)
    first: date = prices.frame["session"].min()  # type: ignore[assignment]
    final: date = prices.frame["session"].max()  # type: ignore[assignment]
    closes = nanoseconds_of(trading.sessions(first, final)["close"])
    due = np.searchsorted(closes, moments, side="right").astype(np.int64)
    try:
        earlier = nanoseconds_of(trading.sessions(first - _LOOK_BACK, first - timedelta(days=1))["close"])
    except CalendarError:
        earlier = np.empty(0, dtype=np.int64)
    previous = earlier[-1] if earlier.size else closes[0] - int(_WEEKEND.total_seconds()) * 10**9
    due[moments < previous] = -1
    return due
