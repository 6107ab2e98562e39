"""Readers of users' own files; each says how it dates what it reads."""

from quantattn.pit.readers.events_table import read_events
from quantattn.pit.readers.prices_table import read_prices

__all__ = ["read_events", "read_prices"]
