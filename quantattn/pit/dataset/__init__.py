"""What could be known at each forecast, and what the forecast is held against."""

from quantattn.pit.dataset.hashing import InformationHash, event_digests, information_hash
from quantattn.pit.dataset.point_in_time import PointInTimeDataset
from quantattn.pit.dataset.why import WhyReport

__all__ = ["InformationHash", "PointInTimeDataset", "WhyReport", "event_digests", "information_hash"]
