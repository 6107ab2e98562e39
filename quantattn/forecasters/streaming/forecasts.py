"""A forecast as it is given live, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from quantattn.forecasters.readout import Readout, TargetForecasts
from quantattn.forecasters.streaming.events._tables import instants_column
from quantattn.forecasters.tokens import Floats
from quantattn.pit.timestamps import TIME


@dataclass(frozen=True, slots=True)
class TargetForecast:
    """The forecast of one target.

    Parameters
    ----------
    y_pred, y_lower, y_upper : float
        Forecast and bounds, in units of the target.
    extra : dict of str to float
        ``y_std`` of the gaussian head; ``q_<level>`` of the quantile head; ``probability_up`` of the
        direction head. Empty for the point head.
    """

    y_pred: float
    y_lower: float
    y_upper: float
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One forecast, and exactly what it was made from.

    Parameters
    ----------
    entity : str
        The entity.
    forecast_time : int
        Nanoseconds since the epoch, UTC.
    by_target : dict of str to TargetForecast
        By the name of the target.
    n_visible : int
        Events that it read.
    max_available_at : int or None
        When the latest of them became available, nanoseconds since the epoch, UTC; None without any.
    info_hash : str
        Their name, as :attr:`PointInTimeDataset.samples <quantattn.pit.PointInTimeDataset.samples>` gives it.
    read_us : float
        Microseconds that the forecast took: as-of values, query token, read and readout.
    flag : str or None
        What of the health is beyond a limit; None if nothing is.
    fit_time : int
        When the model was fitted, nanoseconds since the epoch, UTC. A forecast up to then is one of times
        that it has learned from: see :attr:`in_sample`.
    """

    entity: str
    forecast_time: int
    by_target: Mapping[str, TargetForecast]
    n_visible: int
    max_available_at: int | None
    info_hash: str
    read_us: float
    flag: str | None
    fit_time: int

    @property
    def in_sample(self) -> bool:
        """Whether the forecast time is not after the fit, so that the weights may have seen the outcome."""
        return self.forecast_time <= self.fit_time

    @property
    def first(self) -> TargetForecast:
        """The forecast of the first target, which is the only one of most forecasters."""
        return next(iter(self.by_target.values()))

    @property
    def y_pred(self) -> float:
        """Forecast of the first target, in its units."""
        return self.first.y_pred

    @property
    def y_lower(self) -> float:
        """Lower bound of the first target."""
        return self.first.y_lower

    @property
    def y_upper(self) -> float:
        """Upper bound of the first target."""
        return self.first.y_upper

    @property
    def extra(self) -> Mapping[str, float]:
        """What else the head says of the first target."""
        return self.first.extra


class SingleReadout:
    """Reads one row of raw numbers, bit for bit as :meth:`Readout.forecasts` reads many.

    Parameters
    ----------
    reads : Readout
        What turns raw numbers into forecasts.
    """

    def __init__(self, reads: Readout) -> None:
        self._reads = reads
        # Of plain numbers the arithmetic is two steps, for which tables would cost more than the network.
        self._plain = reads.head.kind == "point" and not any(reads.logs)
        self._parts = [
            (name, scale.scale, scale.center, *interval)
            for name, scale, interval in zip(reads.head.targets, reads.scales, reads.intervals, strict=True)
        ]

    def __call__(self, raw: Floats) -> dict[str, TargetForecast]:
        """Give the forecasts of a row ``(outputs,)`` by target."""
        if self._plain:
            found = {}
            for number, (name, scale, center, low, high) in zip(raw.tolist(), self._parts, strict=True):
                point = number * scale + center
                found[name] = TargetForecast(point, point + low, point + high)
            return found
        return {name: _row(said, 0) for name, said in self._reads.forecasts(raw[None]).items()}


def _row(said: TargetForecasts, row: int) -> TargetForecast:
    return TargetForecast(
        float(said.y_pred[row]),
        float(said.y_lower[row]),
        float(said.y_upper[row]),
        {name: float(values[row]) for name, values in said.extra.items()},
    )


def forecasts_frame(said: Mapping[str, TargetForecasts], told: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """Set forecasts beside what they were made from.

    Parameters
    ----------
    said : mapping of str to TargetForecasts
        m forecasts of each target.
    told : mapping of str to sequence of length m
        ``entity, forecast_time, n_visible, max_available_at, info_hash``, ``update_us`` where it is known,
        ``read_us, flag, fit_time``; times as nanoseconds.

    Returns
    -------
    polars.DataFrame
        ``entity, forecast_time``, ``target`` where there are several, ``y_pred, y_lower, y_upper``, what else
        the head says, and the rest of `told`. Rows of one forecast stand together.
    """
    kinds = {
        "entity": pl.String(),
        "forecast_time": TIME,
        "n_visible": pl.Int64(),
        "max_available_at": TIME,
        "info_hash": pl.String(),
        "update_us": pl.Float64(),
        "read_us": pl.Float64(),
        "flag": pl.String(),
        "fit_time": TIME,
    }
    columns = {
        name: instants_column(name, values) if kinds[name] == TIME else pl.Series(name, values, kinds[name])
        for name, values in told.items()
    }
    keys, rest = (
        ("entity", "forecast_time"),
        [name for name in columns if name not in ("entity", "forecast_time")],
    )
    parts = []
    for place, (name, target) in enumerate(said.items()):
        numbers = {
            "y_pred": target.y_pred,
            "y_lower": target.y_lower,
            "y_upper": target.y_upper,
            **target.extra,
        }
        parts.append(
            pl.DataFrame(
                [
                    *(columns[key] for key in keys),
                    *(
                        [pl.Series("target", [name] * len(target.y_pred), pl.String())]
                        if len(said) > 1
                        else []
                    ),
                    *(pl.Series(key, np.asarray(values, np.float64)) for key, values in numbers.items()),
                    *(columns[key] for key in rest),
                ]
            ).with_columns(pl.int_range(pl.len()).alias("#row"), pl.lit(place).alias("#target"))
        )
    table = pl.concat(parts, how="diagonal")
    return (table.sort("#row", "#target") if len(parts) > 1 else table).drop("#row", "#target")


def table_of(
    forecasts: Sequence[Forecast], reads: Readout, update_us: Sequence[float] | None = None
) -> pl.DataFrame:
    """Give forecasts as :func:`forecasts_frame` does.

    Parameters
    ----------
    forecasts : sequence of Forecast
        The forecasts.
    reads : Readout
        What made them; it names the columns where there is no forecast.
    update_us : sequence of float, optional
        Microseconds of each one's updates.
    """
    if forecasts:
        said = {
            name: _stacked([made.by_target[name] for made in forecasts]) for name in forecasts[0].by_target
        }
    else:
        said = reads.forecasts(np.empty((0, reads.head.outputs), np.float32))
    names = ["entity", "forecast_time", "n_visible", "max_available_at", "info_hash"]
    names += ["read_us", "flag", "fit_time"]
    told: dict[str, Any] = {name: [getattr(made, name) for made in forecasts] for name in names}
    if update_us is not None:
        told = {**dict(list(told.items())[:5]), "update_us": update_us, **dict(list(told.items())[5:])}
    return forecasts_frame(said, told)


def _stacked(rows: Sequence[TargetForecast]) -> TargetForecasts:
    return TargetForecasts(
        np.array([row.y_pred for row in rows]),
        np.array([row.y_lower for row in rows]),
        np.array([row.y_upper for row in rows]),
        {name: np.array([row.extra[name] for row in rows]) for name in rows[0].extra},
    )
