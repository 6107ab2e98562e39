"""Point-in-time data: events, prices, forecast clocks, targets, and the dataset that joins them.

An event is visible to a forecast iff it became available strictly before it. Everything here keeps to the
rules of time in :mod:`quantattn.pit.timestamps`.
"""

from quantattn.pit._hashing import InformationHash, event_digests, information_hash
from quantattn.pit.calendar import TradingCalendar
from quantattn.pit.clock import ForecastClock
from quantattn.pit.dataset import PointInTimeDataset
from quantattn.pit.events import EventLog
from quantattn.pit.labels import Labels, direction, log_return, realised_variance, simple_return
from quantattn.pit.market_events import market_events
from quantattn.pit.packaged import load_sp500_index, load_sp500_ohlcv, load_us_equities
from quantattn.pit.prices import PriceHistory
from quantattn.pit.timestamps import CANONICAL_ORDER, TIME
from quantattn.pit.universe import Universe
from quantattn.pit.why import WhyReport

__all__ = [
    "CANONICAL_ORDER",
    "TIME",
    "EventLog",
    "ForecastClock",
    "InformationHash",
    "Labels",
    "PointInTimeDataset",
    "PriceHistory",
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
]
