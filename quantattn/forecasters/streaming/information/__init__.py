"""What each entity's information set is at any moment: as-of values, counts and the name of the set."""

from quantattn.forecasters.streaming.information.live import LiveInformation

__all__ = ["LiveInformation"]
