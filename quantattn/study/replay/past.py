"""The run's own events, written before a log begins."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.pit.timestamps import iso, nanoseconds_of
from quantattn.study.config import Study
from quantattn.study.replay.logs import Item, Note, ReplayLog
from quantattn.study.replay.opening import kept, own_log

_BLOCK = 16_384


def write_history(
    forecaster: StreamingForecaster,
    log: ReplayLog,
    *,
    run: Path,
    study: Study,
    live: bool,
    only: tuple[str, ...] | None,
    note: Note,
) -> int | None:
    """Write the run's own events into empty memories; nothing is forecast for them.

    Parameters
    ----------
    forecaster : StreamingForecaster
        What runs.
    log : ReplayLog
        What comes next; it leaves out what it has in common with them.
    run : Path
        The run folder.
    study : Study
        Its study.
    live : bool
        Whether the log's events come as they happen. If not, only what became available before the first one
        is written.
    only : tuple of str or None
        Leave out other entities' own events.
    note : callable
        Is told how much was written.

    Returns
    -------
    int or None
        When the last one became available, nanoseconds since the epoch, UTC; None if there is none.

    Raises
    ------
    DataError
        If a file of the run's data, or the beginning of the log, breaks the data contract.
    """
    past = kept(own_log(run, study, note), only).frame
    height = past.height
    if not live and isinstance(first := log.peek(None), Item):
        past = past.head(int(nanoseconds_of(past["available_at"]).searchsorted(first.at)))
    for place in range(0, past.height, _BLOCK):
        forecaster.update_many(past.slice(place, _BLOCK))
    log.follow(gap=past.height == height)
    as_of = forecaster.as_of
    note(
        f"{_counted(past)} of the run's own written first"
        + ("" if as_of is None else f", the last available at {iso(as_of)}")
    )
    return as_of


def _counted(past: pl.DataFrame) -> str:
    return "1 event" if past.height == 1 else f"{past.height:,} events"
