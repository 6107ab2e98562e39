"""What a replay is asked for, and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ReplayOptions:
    """What a replay is asked for.

    Parameters
    ----------
    entities : tuple of str
        Whose forecasts the clock asks for.
    only : bool
        Whether other entities' own events are left out.
    fit_time : int
        When the model was fitted; forecasts up to then are marked ``in_sample``.
    first, last : int or None
        Between which instants there are forecasts, both included; by default from the fit and the first event
        on, without a bound.
    snapshot : Path or None
        Where the state is kept.
    snapshot_every : int or None
        After how many events it is kept, besides at the end.
    """

    entities: tuple[str, ...]
    only: bool
    fit_time: int
    first: int | None = None
    last: int | None = None
    snapshot: Path | None = None
    snapshot_every: int | None = None


@dataclass(frozen=True)
class ReplaySummary:
    """How a replay went.

    Parameters
    ----------
    events, forecasts : int
        How many there were.
    stopped : bool
        Whether the alarm ended it.
    """

    events: int
    forecasts: int
    stopped: bool
