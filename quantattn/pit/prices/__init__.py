"""Bars, each known at its end plus a latency, and what they must be adjusted for."""

from quantattn.pit.prices.adjustments import CorporateActions
from quantattn.pit.prices.delistings import Delistings
from quantattn.pit.prices.history import PriceHistory

__all__ = ["CorporateActions", "Delistings", "PriceHistory"]
