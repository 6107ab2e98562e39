"""Targets: what a forecast is held against, and from when on it can be known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import LabelError
from quantattn.pit._label_windows import DROPPED, LABELS, Windows, label_windows
from quantattn.pit._tables import refuse_rows
from quantattn.pit.clock import ForecastClock
from quantattn.pit.prices import PriceHistory
from quantattn.pit.timestamps import duration_nanoseconds, instants, nanoseconds_of, to_nanoseconds

Floats = npt.NDArray[np.float64]
Kind = Literal["variance", "return", "direction"]

_KINDS: Final = ("variance", "return", "direction")


@dataclass(frozen=True, eq=False)
class Labels:
    """Targets of one kind and horizon, one for each entity and forecast time that has one.

    Parameters
    ----------
    frame : polars.DataFrame
        ``entity`` (String), ``forecast_time``, ``horizon`` (Int32, sessions), ``y_true`` (Float64, finite),
        ``label_start_time``, ``label_end_time``, ``label_available_at`` (UTC), sorted by forecast time and
        entity. ``forecast_time < label_start_time <= label_end_time <= label_available_at`` on every row.
    dropped : polars.DataFrame
        ``entity``, ``forecast_time``, ``reason`` of the pairs without a label: ``incomplete`` (the data end
        first), ``no_price`` (the entity has no bar where the label starts or ends, though the data go on),
        ``gap`` (a bar is missing inside), ``zero_variance`` (the price never moved, so the log is undefined).
    name : str
        What is measured, for example ``"log_realised_variance"``.
    horizon : int
        Sessions.
    kind : {"variance", "return", "direction"}
        Which metrics apply.
    entities : tuple of str
        Every entity for which labels were asked, sorted, those without any included.

    Raises
    ------
    LabelError
        If a column is missing or of another type, a value is null or not finite, times are out of order,
        or an entity has two labels at one forecast time.
    """

    frame: pl.DataFrame
    dropped: pl.DataFrame
    name: str
    horizon: int
    kind: Kind
    entities: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse labels that break the rules of time."""
        if self.kind not in _KINDS:
            raise LabelError(f"kind={self.kind!r} is unknown; use one of {', '.join(map(repr, _KINDS))}")
        for title, frame, schema in (("frame", self.frame, LABELS), ("dropped", self.dropped, DROPPED)):
            if frame.schema != schema:
                raise LabelError(
                    f"{title} of the labels has columns {dict(frame.schema)}; "
                    f"give {dict(schema)}, in that order"
                )
        _refuse_bad_labels(self.frame)
        strangers = sorted(
            {*self.frame["entity"].unique(), *self.dropped["entity"].unique()} - {*self.entities}
        )
        if strangers:
            raise LabelError(f"entities of the labels lacks {strangers[:3]}, which have rows; list them too")

    def cut(self, t: datetime | np.datetime64 | pd.Timestamp | int) -> Labels:
        """Keep the labels of forecasts made at or before an instant (their outcomes may be later)."""
        made = pl.col("forecast_time") <= pl.lit(instants([to_nanoseconds(t)]))
        return Labels(
            self.frame.filter(made),
            self.dropped.filter(made),
            self.name,
            self.horizon,
            self.kind,
            self.entities,
        )

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many labels were not produced, by reason."""
        return dict(self.dropped.group_by("reason").len().sort("reason").iter_rows())

    def __repr__(self) -> str:
        """Say what is measured and how many labels there are."""
        return (
            f"Labels({self.name}, horizon={self.horizon}, {self.frame.height} rows, "
            f"dropped={self.dropped_counts})"
        )


def realised_variance(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: int = 5,
    log: bool = True,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
) -> Labels:
    """Measure the sum of squared daily log returns over the `horizon` bars after the entry bar.

    The entry bar is the first whose end is strictly after ``forecast_time + execution_lag``, so the
    return of the day on which the forecast is made is not part of the target.

    Parameters
    ----------
    prices : PriceHistory
        Bars.
    times : ForecastClock or polars.Series of Datetime("ns", "UTC")
        Forecast times.
    horizon : int
        Sessions.
    log : bool
        Take the natural logarithm of the sum.
    execution_lag : duration
        From the forecast until a trade is possible.

    Returns
    -------
    Labels

    Raises
    ------
    LabelError
        If `horizon` is not positive or `execution_lag` is negative.
    """
    name = "log_realised_variance" if log else "realised_variance"
    return _measure(prices, times, horizon, execution_lag, name, "variance", partial(_variances, log=log))


def simple_return(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: int = 5,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
) -> Labels:
    """Measure the simple return from the entry close to the close `horizon` sessions later.

    Parameters, entry and errors are those of :func:`realised_variance`.
    """
    return _measure(prices, times, horizon, execution_lag, "simple_return", "return", _simple_returns)


def log_return(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: int = 5,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
) -> Labels:
    """Measure the log return from the entry close to the close `horizon` sessions later.

    Parameters, entry and errors are those of :func:`realised_variance`.
    """
    return _measure(prices, times, horizon, execution_lag, "log_return", "return", _log_returns)


def direction(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    *,
    horizon: int = 5,
    dead_band: float = 0.0,
    execution_lag: str | timedelta | pd.Timedelta = "0s",
) -> Labels:
    """Give the sign of the simple return: 1.0 above `dead_band`, -1.0 below ``-dead_band``, else 0.0.

    Parameters, entry and errors are those of :func:`realised_variance`, and:

    Parameters
    ----------
    prices : PriceHistory
        Bars.
    times : ForecastClock or polars.Series of Datetime("ns", "UTC")
        Forecast times.
    horizon : int
        Sessions.
    dead_band : float
        Simple return within which (bounds included) there is no direction; not negative.
    execution_lag : duration
        From the forecast until a trade is possible.

    Returns
    -------
    Labels
    """
    if not 0 <= dead_band < np.inf:
        raise LabelError(f"dead_band={dead_band} is not a share of zero or more; give for example 0.001")
    return _measure(
        prices,
        times,
        horizon,
        execution_lag,
        "direction",
        "direction",
        partial(_directions, dead_band=dead_band),
    )


def _variances(close: Floats, windows: Windows, log: bool) -> Floats:
    total = np.zeros(windows.entry.size)
    logs = np.log(close)
    for step in range(1, windows.horizon + 1):
        change = logs[windows.entry + step] - logs[windows.entry + step - 1]
        total += change * change
    if not log:
        return total
    return np.log(total, out=np.full(total.shape, -np.inf), where=total > 0)


def _simple_returns(close: Floats, windows: Windows) -> Floats:
    return close[windows.entry + windows.horizon] / close[windows.entry] - 1.0


def _log_returns(close: Floats, windows: Windows) -> Floats:
    logs = np.log(close)
    return logs[windows.entry + windows.horizon] - logs[windows.entry]


def _directions(close: Floats, windows: Windows, dead_band: float) -> Floats:
    returns = _simple_returns(close, windows)
    return np.where(returns > dead_band, 1.0, np.where(returns < -dead_band, -1.0, 0.0))


def _measure(
    prices: PriceHistory,
    times: ForecastClock | pl.Series,
    horizon: int,
    execution_lag: str | timedelta | pd.Timedelta,
    name: str,
    kind: Kind,
    figure: Callable[[Floats, Windows], Floats],
) -> Labels:
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise LabelError(f"horizon={horizon!r} is not a whole number of sessions; give 1 or more")
    lag = duration_nanoseconds(execution_lag, argument="execution_lag")
    if lag < 0:
        raise LabelError(
            f"execution_lag={execution_lag!r} is negative: a trade follows its forecast; give '0s' or more"
        )
    clock = times if isinstance(times, ForecastClock) else ForecastClock.explicit(times)
    windows = label_windows(prices, nanoseconds_of(clock.times), int(horizon), lag)
    values = figure(prices.frame["close"].to_numpy(), windows)
    finite = np.isfinite(values)
    entities = np.asarray(prices.entities, dtype=object)
    rows = pl.DataFrame(
        {
            "entity": pl.Series(entities[windows.entity[finite]], dtype=pl.String),
            "forecast_time": instants(windows.forecast_time[finite]),
            "horizon": pl.repeat(int(horizon), int(finite.sum()), dtype=pl.Int32, eager=True),
            "y_true": values[finite],
            "label_start_time": prices.frame["event_time"][windows.entry[finite]],
            "label_end_time": prices.frame["event_time"][windows.entry[finite] + int(horizon)],
            "label_available_at": prices.frame["available_at"][windows.entry[finite] + int(horizon)],
        },
        schema=LABELS,
    )
    undefined = pl.DataFrame(
        {
            "entity": pl.Series(entities[windows.entity[~finite]], dtype=pl.String),
            "forecast_time": instants(windows.forecast_time[~finite]),
            "reason": pl.repeat("zero_variance", int((~finite).sum()), dtype=pl.String, eager=True),
        },
        schema=DROPPED,
    )
    order = ["forecast_time", "entity"]
    dropped = pl.concat([windows.dropped, undefined]).sort(order)
    return Labels(rows.sort(order), dropped, name, int(horizon), kind, prices.entities)


def _refuse_bad_labels(frame: pl.DataFrame) -> None:
    shown = ["entity", "forecast_time"]
    for column in LABELS:
        refuse_rows(
            frame,
            frame[column].is_null(),
            shown,
            f"column {column!r} of the labels is null",
            "drop those rows",
            LabelError,
        )
    refuse_rows(
        frame,
        ~frame["y_true"].is_finite(),
        [*shown, "y_true"],
        "column 'y_true' of the labels is not finite",
        "drop those rows",
        LabelError,
    )
    for early, late, strict in (
        ("forecast_time", "label_start_time", True),
        ("label_start_time", "label_end_time", False),
        ("label_end_time", "label_available_at", False),
    ):
        wrong = frame[late] <= frame[early] if strict else frame[late] < frame[early]
        refuse_rows(
            frame,
            wrong,
            [*shown, early, late],
            f"column {late!r} of the labels is {'not after' if strict else 'before'} {early!r}",
            "correct those times: a label begins after its forecast and is known at its end or later",
            LabelError,
        )
    refuse_rows(
        frame,
        frame.select(pl.struct(shown).is_duplicated()).to_series(),
        shown,
        "an entity has more than one label at one forecast time",
        "keep one",
        LabelError,
    )
