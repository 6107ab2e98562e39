"""Whether what is remembered is still sound: limits, measurements, a float64 shadow."""

from quantattn.forecasters.streaming.health.monitor import HealthMonitor
from quantattn.forecasters.streaming.health.policy import EntityHealth, HealthPolicy, HealthReport
from quantattn.forecasters.streaming.health.shadow import Shadow

__all__ = ["EntityHealth", "HealthMonitor", "HealthPolicy", "HealthReport", "Shadow"]
