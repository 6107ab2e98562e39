"""Times of day of Benzinga's archive, whose offset from UTC cannot be trusted in winter."""

from __future__ import annotations

from typing import Final

import numpy as np

from quantattn.pit._zones import SECOND, localise
from quantattn.pit.timestamps import Nanoseconds

ZONE: Final = "America/New_York"
"""Where Benzinga's wall clock hangs."""

HOUR: Final = 3600 * SECOND
_STANDARD: Final = 5 * HOUR


def later_reading(wall: Nanoseconds, offset: Nanoseconds) -> Nanoseconds:
    """Give the later of two readings of a stamp: with its offset, and as wall time in New York.

    Parameters
    ----------
    wall : ndarray of int64, shape (n,)
        Nanoseconds from 1970-01-01 00:00 on the clock as written.
    offset : ndarray of int64, shape (n,)
        Nanoseconds east of UTC, as written.

    Returns
    -------
    ndarray of int64, shape (n,)
        Nanoseconds since the epoch, UTC; of wall times that occur twice the second, and those that never
        occur as if standard time had not ended yet.
    """
    first, twice, never = localise(wall, ZONE)
    in_new_york = np.where(never, wall + _STANDARD, first + np.where(twice, HOUR, 0))
    later: Nanoseconds = np.maximum(wall - offset, in_new_york)
    return later
