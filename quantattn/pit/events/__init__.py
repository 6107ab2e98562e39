"""Dated events: what happened, when it could have been known, and in which version."""

from quantattn.pit.events.log import EventLog
from quantattn.pit.events.scan import EventScan
from quantattn.pit.events.summary import EventSummary, Gap

__all__ = ["EventLog", "EventScan", "EventSummary", "Gap"]
