"""Targets, with the interval that each measures and the instant from which on it can be known."""

from quantattn.pit.labels.labels import Labels
from quantattn.pit.labels.targets import direction, log_return, realised_variance, simple_return

__all__ = ["Labels", "direction", "log_return", "realised_variance", "simple_return"]
