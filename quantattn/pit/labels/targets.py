"""Targets: what a forecast is held against, and from when on it can be known.

All of them share their windows. The entry price is the first tradable one strictly after
``forecast_time + execution_lag``: the close of the first bar that ends after it, or with ``entry="open"`` the
open of the first bar that begins after it. The window then holds the horizon: with session bars, `horizon`
whole sessions after the entry price (the bars after the entry bar; with entry at the open, the entry bar and
those after it), so it ends at a close. With intraday bars, a duration from the entry on, which must end while
the market is open; or, if `horizon` is a whole number, all until the official close of the session `horizon`
sessions after that of the entry bar.

No label is entered in a halt: the entry is the first bar after it. In a halt at the end of a window the last
price stands.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from numbers import Real
from typing import Final

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import LabelError
from quantattn.pit.clock import ForecastClock
from quantattn.pit.labels.figures import Marks, directions, log_returns, simple_returns, variances
from quantattn.pit.labels.intraday_windows import intraday_windows
from quantattn.pit.labels.labels import LABELS, Kind, Labels
from quantattn.pit.labels.session_windows import session_windows
from quantattn.pit.labels.windows import DROPPED, Entry, Floats, Terms, Unit, Windows
from quantattn.pit.prices.adjustments import CorporateActions
from quantattn.pit.prices.delistings import Delistings
from quantattn.pit.prices.history import PriceHistory
from quantattn.pit.prices.names import check_names
from quantattn.pit.timestamps import duration_nanoseconds, instants, nanoseconds_of

__all__ = ["Labels", "direction", "log_return", "realised_variance", "simple_return"]

Horizon = int | str | timedelta | pd.Timedelta

_SECOND: Final = 1_000_000_000
_LARGEST: Final = np.iinfo(np.int32).max


def realised_variance(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: Horizon = 5,
    log: bool = True,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
    entry: Entry = "close",
    overnight: bool = True,
    actions: CorporateActions | None = None,
    delistings: Delistings | None = None,
) -> Labels:
    """Measure the sum of squared log returns over the bars after the entry price.

    The entry bar is the first whose end is strictly after ``forecast_time + execution_lag``, so the
    return of the day on which the forecast is made is not part of the target.

    Parameters
    ----------
    prices : PriceHistory
        Bars: daily returns of session bars, or intraday ones.
    times : ForecastClock or polars.Series of Datetime("ns", "UTC")
        Forecast times. Of a clock with pairs (``ForecastClock.at_events(log, per_entity=True)``) those alone
        are measured.
    horizon : int or duration
        Sessions; with intraday bars also a duration of whole seconds, such as ``"30min"``.
    log : bool
        Take the natural logarithm of the sum.
    execution_lag : duration
        From the forecast until a trade is possible.
    entry : {"close", "open"}
        Which price is the first: the close of the first bar that ends, or the open of the first that begins,
        after the forecast and the lag. The latter needs opens that were traded. A session bar begins at
        the official open.
    overnight : bool
        With intraday bars, whether the return from one session to the next counts. If not, the first bar
        of a session counts from its open, where there is one, else not at all.
    actions : CorporateActions, optional
        Splits and dividends: prices are then comparable over them, dividends reinvested. A label is known
        no earlier than the last action within its window.
    delistings : Delistings, optional
        A window that spans a delisting ends with its return instead of being dropped.

    Returns
    -------
    Labels

    Raises
    ------
    LabelError
        If `horizon` is not positive or is a duration with session bars, `execution_lag` is negative, or
        an entity has bars after its delisting.
    PriceDataError
        If `actions` come with prices that are adjusted already.
    """
    if not overnight and prices.frequency == "session":
        raise LabelError(
            "overnight=False is for intraday bars: a session bar does not tell when its price moved"
        )
    name = "log_realised_variance" if log else "realised_variance"
    figure = partial(variances, log=log, overnight=overnight)
    return _measure(
        prices, times, horizon, execution_lag, entry, actions, delistings, name, "variance", figure
    )


def simple_return(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: Horizon = 5,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
    entry: Entry = "close",
    actions: CorporateActions | None = None,
    delistings: Delistings | None = None,
) -> Labels:
    """Measure the simple return from the entry price to the close at the end of the horizon.

    Parameters, entry and errors are those of :func:`realised_variance`.
    """
    return _measure(
        prices,
        times,
        horizon,
        execution_lag,
        entry,
        actions,
        delistings,
        "simple_return",
        "return",
        simple_returns,
    )


def log_return(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: Horizon = 5,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
    entry: Entry = "close",
    actions: CorporateActions | None = None,
    delistings: Delistings | None = None,
) -> Labels:
    """Measure the log return from the entry price to the close at the end of the horizon.

    Parameters, entry and errors are those of :func:`realised_variance`.
    """
    return _measure(
        prices, times, horizon, execution_lag, entry, actions, delistings, "log_return", "return", log_returns
    )


def direction(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: Horizon = 5,
    dead_band: float = 0.0,
    lower: float | None = None,
    upper: float | None = None,
    between: str = "zero",
    execution_lag: str | timedelta | pd.Timedelta = "0s",
    entry: Entry = "close",
    actions: CorporateActions | None = None,
    delistings: Delistings | None = None,
) -> Labels:
    """Give the sign of the simple return: 1.0 above `upper`, -1.0 below `lower`, else 0.0.

    Parameters, entry and errors are those of :func:`realised_variance`, and:

    Parameters
    ----------
    prices : PriceHistory
        Bars.
    times : ForecastClock or polars.Series of Datetime("ns", "UTC")
        Forecast times.
    horizon : int or duration
        Sessions, or with intraday bars a duration.
    dead_band : float
        Simple return within which (bounds included) there is no direction, when `lower` and `upper` are
        not given: from ``-dead_band`` to ``dead_band``; not negative.
    lower, upper : float, optional
        Bounds of the zone without direction (included), if they are not symmetric; both or none, as simple
        returns, ``lower <= upper``. They are fixed beforehand: quantiles of the labels would be taken
        from the whole sample, and belong into the fold, where they are fitted on its training rows.
    between : {"zero", "drop"}
        What the zone gives: class 0.0, or no label (``dropped`` says ``dead_band``).
    execution_lag : duration
        From the forecast until a trade is possible.
    entry : {"close", "open"}
        Which price is the first.
    actions : CorporateActions, optional
        Splits and dividends.
    delistings : Delistings, optional
        Returns at the end of entities.

    Returns
    -------
    Labels
    """
    low, high = _thresholds(dead_band, lower, upper)
    if between not in ("zero", "drop"):
        raise LabelError(f"between={between!r} is unknown; use 'zero' or 'drop'")

    def figure(marks: Marks, windows: Windows) -> Floats:
        signs = directions(marks, windows, lower=low, upper=high)
        return np.where(signs == 0.0, np.nan, signs) if between == "drop" else signs

    return _measure(
        prices,
        times,
        horizon,
        execution_lag,
        entry,
        actions,
        delistings,
        "direction",
        "direction",
        figure,
    )


def _thresholds(dead_band: float, lower: float | None, upper: float | None) -> tuple[float, float]:
    for name, value in (("dead_band", dead_band), ("lower", lower), ("upper", upper)):
        if (value is not None or name == "dead_band") and (
            isinstance(value, bool) or not isinstance(value, Real)
        ):
            raise LabelError(
                f"{name}={value!r} is not a return; give a number fixed beforehand: a quantile of the labels "
                "would look at the whole sample, and belongs into the fold, fitted on its training rows"
            )
    if not 0 <= dead_band < np.inf:
        raise LabelError(f"dead_band={dead_band} is not a share of zero or more; give for example 0.001")
    if lower is None and upper is None:
        return -dead_band, dead_band
    if lower is None or upper is None or dead_band:
        raise LabelError(
            f"dead_band={dead_band}, lower={lower}, upper={upper}: give dead_band alone, or lower and upper"
        )
    if not -np.inf < lower <= upper < np.inf:
        raise LabelError(
            f"lower={lower} and upper={upper} are not two rising returns; give e.g. -0.01 and 0.02"
        )
    return float(lower), float(upper)


def _terms(
    prices: PriceHistory,
    horizon: Horizon,
    execution_lag: str | timedelta | pd.Timedelta,
    entry: Entry,
    actions: CorporateActions | None,
    delistings: Delistings | None,
) -> Terms:
    if not isinstance(prices, PriceHistory):
        raise LabelError(f"prices is a {type(prices).__name__}; build it with PriceHistory.from_frame")
    lag = duration_nanoseconds(execution_lag, argument="execution_lag")
    if lag < 0:
        raise LabelError(
            f"execution_lag={execution_lag!r} is negative: a trade follows its forecast; give '0s' or more"
        )
    if entry not in ("close", "open"):
        raise LabelError(f"entry={entry!r} is unknown; use 'close' or 'open'")
    if entry == "open" and "open" not in prices.frame.columns:
        raise LabelError("entry='open' needs the opens of the bars; give open= with the prices")
    for argument, table, kind in (
        ("actions", actions, CorporateActions),
        ("delistings", delistings, Delistings),
    ):
        if table is not None and not isinstance(table, kind):
            raise LabelError(
                f"{argument} is a {type(table).__name__}; build it with {kind.__name__}.from_frame"
            )
        if table is not None:
            check_names(table.frame["entity"].unique(), prices.entities, argument, LabelError, stacklevel=4)
    length, unit = _length(horizon, prices)
    return Terms(length, unit, lag, entry, delistings)


def _length(horizon: Horizon, prices: PriceHistory) -> tuple[int, Unit]:
    if isinstance(horizon, int | np.integer | float) or prices.frequency == "session":
        whole = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
        if not whole or not 1 <= int(horizon) <= _LARGEST:  # type: ignore[arg-type]
            hint = "" if prices.frequency == "session" else ", or a duration such as '30min'"
            raise LabelError(f"horizon={horizon!r} is not a whole number of sessions; give 1 or more{hint}")
        return int(horizon), "sessions"  # type: ignore[arg-type]
    span = duration_nanoseconds(horizon, argument="horizon")
    if span <= 0 or span % _SECOND or span // _SECOND > _LARGEST:
        raise LabelError(
            f"horizon={horizon!r} is not a positive number of whole seconds up to 68 years; give e.g. '30min'"
        )
    return span // _SECOND, "seconds"


def _measure(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    horizon: Horizon,
    execution_lag: str | timedelta | pd.Timedelta,
    entry: Entry,
    actions: CorporateActions | None,
    delistings: Delistings | None,
    name: str,
    kind: Kind,
    figure: Callable[[Marks, Windows], Floats],
) -> Labels:
    terms = _terms(prices, horizon, execution_lag, entry, actions, delistings)
    clock = times if isinstance(times, ForecastClock) else ForecastClock.explicit(times)
    find = session_windows if prices.frequency == "session" else intraday_windows
    windows = find(prices, nanoseconds_of(clock.times), terms)
    marks = Marks.of(prices, actions)
    values = figure(marks, windows)
    known_at = np.maximum(windows.spans.known_at, marks.known_within(windows))
    finite = np.isfinite(values)
    entities = np.asarray(prices.entities, dtype=object)
    rows = pl.DataFrame(
        {
            "entity": pl.Series(entities[windows.entity[finite]], dtype=pl.String),
            "forecast_time": instants(windows.forecast_time[finite]),
            "horizon": pl.repeat(terms.horizon, int(finite.sum()), dtype=pl.Int32, eager=True),
            "y_true": values[finite],
            "label_start_time": instants(windows.spans.starts_at[finite]),
            "label_end_time": instants(windows.spans.ends_at[finite]),
            "label_available_at": instants(known_at[finite]),
        },
        schema=LABELS,
    )
    lost = windows.spans.final[~finite] == -1.0
    reason = {"direction": "dead_band", "variance": "zero_variance", "return": "total_loss"}[kind]
    undefined = pl.DataFrame(
        {
            "entity": pl.Series(entities[windows.entity[~finite]], dtype=pl.String),
            "forecast_time": instants(windows.forecast_time[~finite]),
            "reason": pl.Series(
                np.where(lost & (kind != "direction"), "total_loss", reason), dtype=pl.String
            ),
        },
        schema=DROPPED,
    )
    order = ["forecast_time", "entity"]
    dropped = clock.select(pl.concat([windows.dropped, undefined]).sort(order))
    return Labels(
        clock.select(rows.sort(order)), dropped, name, terms.horizon, kind, prices.entities, terms.unit
    )
