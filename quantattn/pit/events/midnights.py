"""Stamps that look like dates which were given a zone: counted, in as many parts as a table has."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt

from quantattn.errors import CalendarError
from quantattn.pit._tables import exchange_zone
from quantattn.pit._zones import SECOND
from quantattn.pit.timestamps import Nanoseconds, instants

# As many midnights are no accident.
_MANY: Final = 10
_DAY: Final = 86_400
# Since about 1922 no zone in use differs from UTC by a part of a minute, bar one.
_WHOLE_MINUTES: Final = -1_514_764_800


class Midnights:
    """A count of zoned stamps and of those that are midnights of one clock.

    Parameters
    ----------
    zones : sequence of str
        Clocks to look at beside UTC and the written one.
    """

    def __init__(self, zones: list[str]) -> None:
        self._zones = zones
        self._stamps = 0
        self._counts = [0] * (len(zones) + 2)
        self._distinct: list[set[int]] = [set() for _ in self._counts]

    def add(self, second: Nanoseconds, nano: Nanoseconds, offset: Nanoseconds) -> None:
        """Count stamps, given as seconds since 1970 UTC, nanoseconds and written offset in seconds."""
        self._stamps += second.size
        # Most stamps are not at a full minute, and need not be turned into wall times.
        near = (nano == 0) & ((second % 60 == 0) | (second < _WHOLE_MINUTES))
        second, offset = second[near], offset[near]
        if not second.size:
            return
        clocks: list[npt.NDArray[np.int64]] = [second, second + offset]
        moments = instants(second.astype(np.int64) * SECOND)
        for zone in self._zones:
            wall = moments.dt.convert_time_zone(zone).dt.replace_time_zone(None)
            clocks.append(wall.to_physical().to_numpy() // SECOND)
        for place, clock in enumerate(clocks):
            midnights = second[clock % _DAY == 0]
            self._counts[place] += midnights.size
            if len(self._distinct[place]) < _MANY:
                self._distinct[place].update(np.unique(midnights)[:_MANY].tolist())

    @property
    def mostly(self) -> bool:
        """Whether ten distinct stamps, and more than half of all, are midnights of one clock."""
        return any(
            2 * count > self._stamps and len(distinct) >= _MANY
            for count, distinct in zip(self._counts, self._distinct, strict=True)
        )

    def warn(self, column: str, stacklevel: int) -> None:
        """Warn if the stamps of `column` are mostly midnights."""
        if self.mostly:
            warnings.warn(
                f"most zoned stamps of column {column!r} are midnights and are taken at their word: if they "
                "are dates, news of the day leaks into its morning; cast the column to Date",
                UserWarning,
                stacklevel=stacklevel + 1,
            )


def zones_of_dates(written: str | None, declared: str | None, calendar: str) -> list[str]:
    """Name the zones whose midnights may stand for dates: the column's, the declared or the exchange's."""
    zones = [written, declared]
    if declared is None:
        # Without dates in the table a calendar that is unknown is no error.
        with suppress(CalendarError):
            zones.append(exchange_zone(calendar))
    return list(dict.fromkeys(zone for zone in zones if zone is not None and zone != "UTC"))
