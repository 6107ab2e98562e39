"""Point-in-time data: events, prices, forecast clocks, targets, and the dataset that joins them.

An event is visible to a forecast iff it became available strictly before it. Everything here keeps to the
rules of time in :mod:`quantattn.pit.timestamps`.
"""

from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.clock import ForecastClock
from quantattn.pit.dataset import (
    InformationHash,
    PointInTimeDataset,
    WhyReport,
    event_digests,
    information_hash,
)
from quantattn.pit.events import EventLog, EventScan, EventSummary, Gap
from quantattn.pit.labels import Labels, direction, log_return, realised_variance, simple_return
from quantattn.pit.market_events import market_events
from quantattn.pit.packaged import load_sp500_index, load_sp500_ohlcv, load_us_equities
from quantattn.pit.prices import CorporateActions, Delistings, PriceHistory
from quantattn.pit.survivorship import SurvivorshipReport, survivorship
from quantattn.pit.timestamps import CANONICAL_ORDER, TIME
from quantattn.pit.universe import Universe

__all__ = [
    "CANONICAL_ORDER",
    "TIME",
    "CorporateActions",
    "Delistings",
    "EventLog",
    "EventScan",
    "EventSummary",
    "ForecastClock",
    "Gap",
    "InformationHash",
    "Labels",
    "PointInTimeDataset",
    "PriceHistory",
    "SurvivorshipReport",
    "TradingCalendar",
    "Universe",
    "WhyReport",
    "direction",
    "event_digests",
    "information_hash",
    "load_sp500_index",
    "load_sp500_ohlcv",
    "load_us_equities",
    "log_return",
    "market_events",
    "realised_variance",
    "simple_return",
    "survivorship",
]
