"""Events that a price history tells of by itself: bars, large moves, extremes, regimes."""

from quantattn.pit.market_events.build import market_events

__all__ = ["market_events"]
