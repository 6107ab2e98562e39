"""What a forecaster would refuse, found before anything is done about it."""

from __future__ import annotations

from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.streaming.events.event import Event, named_entity, near_instant


def refuse_event(forecaster: StreamingForecaster, event: Event) -> None:
    """Refuse an event that cannot be written; nothing is changed.

    Parameters
    ----------
    forecaster : StreamingForecaster
        What is to write it.
    event : Event
        The event, not later than the forecasts that are to be made before it.

    Raises
    ------
    EventDataError, TimestampError, ClockError, StateError
        As :meth:`StreamingForecaster.update <quantattn.forecasters.StreamingForecaster.update>` does.
    """
    forecaster.coder.refuse_unknown(event)
    if forecaster.scope == ("entity" if event.entity is None else "market"):
        return  # it is left out
    placed = forecaster.ledger.place(event)
    forecaster.memories.refuse_full([placed.entity])
    forecaster.information.ready(placed)


def refuse_request(forecaster: StreamingForecaster, entity: str, at: int) -> None:
    """Refuse a forecast that cannot be made; nothing is changed.

    Parameters
    ----------
    forecaster : StreamingForecaster
        What is to make it.
    entity : str
        Whose.
    at : int
        The forecast time, nanoseconds since the epoch, UTC.

    Raises
    ------
    ClockError, EventDataError, TimestampError
        As :meth:`StreamingForecaster.forecast <quantattn.forecasters.StreamingForecaster.forecast>` does.
    """
    near_instant(at, "at")
    _, last = forecaster.memories.read_by(named_entity(entity))
    if at <= last:
        forecaster.forecast(entity, at, hypothetical=True)  # which says why not
