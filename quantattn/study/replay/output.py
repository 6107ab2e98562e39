"""What a replay says of each forecast."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from quantattn.forecasters.streaming.forecasts import Forecast
from quantattn.pit.timestamps import iso


class UpdateTimes:
    """The time that events took to be written, by the forecasts that see them."""

    def __init__(self) -> None:
        self._market = [0, 0]
        self._own: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._seen: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, entity: str | None, nanoseconds: int) -> None:
        """Count one event, an entity's or a market-wide one."""
        total = self._market if entity is None else self._own[entity]
        total[0] += nanoseconds
        total[1] += 1

    def take(self, entity: str) -> float | None:
        """Give the mean microseconds of an entity's events since it was asked before; None without any."""
        own, seen = self._own[entity], self._seen[entity]
        total = [own[0] + self._market[0], own[1] + self._market[1]]
        spent, count = total[0] - seen[0], total[1] - seen[1]
        self._seen[entity] = total
        return spent / count / 1000 if count else None


def forecast_values(
    made: Forecast, update_us: float | None, *, in_sample: bool, asked: bool = False
) -> dict[str, Any]:
    """Give a forecast as the plain values of its line.

    Parameters
    ----------
    made : Forecast
        The forecast.
    update_us : float or None
        Mean microseconds of the events since the one before.
    in_sample : bool
        Whether the model was fitted later.
    asked : bool, default False
        Whether a line asked for it, and not the clock.
    """
    values: dict[str, Any] = {"entity": made.entity, "forecast_time": iso(made.forecast_time)}
    values |= {"y_pred": made.y_pred, "y_lower": made.y_lower, "y_upper": made.y_upper, **made.extra}
    values |= {
        "n_visible": made.n_visible,
        "max_available_at": None if made.max_available_at is None else iso(made.max_available_at),
        "info_hash": made.info_hash,
        "update_us": None if update_us is None else round(update_us, 3),
        "read_us": round(made.read_us, 3),
        "flag": made.flag,
    }
    return values | ({"in_sample": True} if in_sample else {}) | ({"asked": True} if asked else {})
