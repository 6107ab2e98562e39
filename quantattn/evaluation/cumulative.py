"""How the lead of one model over another built up in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.pit.timestamps import Nanoseconds, iso

Floats = npt.NDArray[np.float64]


def cumulative_loss_difference(losses: Mapping[str, Floats], reference: str) -> dict[str, Floats]:
    """Give the running sum over time of each model's loss minus the reference's.

    Parameters
    ----------
    losses : mapping of str to ndarray of float, shape (T,)
        Losses at each forecast time, averaged over entities (and seeds) first.
    reference : str
        The model to hold the others against; a key of `losses`.

    Returns
    -------
    dict of str to ndarray of float, shape (T,)
        For every other model. A rising line means that the reference is ahead.

    References
    ----------
    Welch, I. & Goyal, A. (2008). A comprehensive look at the empirical performance of equity premium
    prediction. Review of Financial Studies, 21(4), 1455-1508, figures 1 to 3.
    """
    return {name: np.cumsum(loss - losses[reference]) for name, loss in losses.items() if name != reference}


def cumulative_records(times: Nanoseconds, lines: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """Give the lines of :func:`cumulative_loss_difference` as rows for ``comparisons.json``.

    Parameters
    ----------
    times : ndarray of int64, shape (T,)
        Forecast times, nanoseconds UTC.
    lines : mapping of str to ndarray of float, shape (T,)
        One line per model.

    Returns
    -------
    list of dict
        `forecast_time` (ISO text), `against` and `value`.
    """
    stamps = [iso(int(time)) for time in times]
    return [
        {"forecast_time": stamp, "against": name, "value": float(value)}
        for name, line in lines.items()
        for stamp, value in zip(stamps, line, strict=True)
    ]
