"""From the log that was sent to the one that a stream saw, with its late events where it wrote them."""

from __future__ import annotations

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.forecasters.streaming.events.late import LATE_SCHEMA
from quantattn.pit import EventLog


def redated(log: EventLog, late_events: pl.DataFrame) -> EventLog:
    """Give a log as a stream saw it: late events became available when they were written.

    A backtest over the result gives the bits of the forecasts that the stream made, and it is the log from
    which a snapshot of the stream goes on.

    Parameters
    ----------
    log : EventLog
        The events as they were sent.
    late_events : polars.DataFrame
        Those that came late: :attr:`StreamingForecaster.late_events` of the stream.

    Returns
    -------
    EventLog

    Raises
    ------
    EventDataError
        If a late event is not in the log, or stands there with another time.
    UsageError
        If `log` is no event log, or `late_events` no such frame.
    """
    if not isinstance(log, EventLog):
        raise UsageError(f"log is a {type(log).__name__}; give the EventLog that was streamed")
    if not isinstance(late_events, pl.DataFrame) or late_events.schema != LATE_SCHEMA:
        came = late_events.schema if isinstance(late_events, pl.DataFrame) else type(late_events).__name__
        raise UsageError(f"late_events is {came}; give late_events of the forecaster that was streamed to")
    keys = ["event_id", "revision"]
    moved = late_events.select(*keys, pl.col("available_at").alias("#then"), "written_at")
    joined = log.frame.join(moved, on=keys, how="left", maintain_order="left")
    found = joined.filter(pl.col("#then") == pl.col("available_at")).height
    if found != late_events.height:
        raise EventDataError(
            f"{late_events.height - found} of {late_events.height} late events are not in the log with "
            "the time "
            "that they were sent with; give the log that was streamed"
        )
    frame = joined.with_columns(pl.coalesce("written_at", "available_at").alias("available_at"))
    return EventLog.from_valid(frame.select(log.frame.columns), log.features, rejects=log.rejects)
