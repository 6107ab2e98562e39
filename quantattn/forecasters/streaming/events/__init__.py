"""Raw events: one event, lines of JSON, their order, and what becomes of late ones."""

from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.events.redating import redated

__all__ = ["Event", "redated"]
