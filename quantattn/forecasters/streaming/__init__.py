"""The streaming path: what was backtested is what runs live."""

from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.events.redating import redated
from quantattn.forecasters.streaming.forecaster import StreamingForecaster
from quantattn.forecasters.streaming.forecasts import Forecast, TargetForecast
from quantattn.forecasters.streaming.health.policy import EntityHealth, HealthPolicy, HealthReport
from quantattn.forecasters.streaming.network.cache import CachePolicy
from quantattn.forecasters.streaming.network.packing import PackedNetwork, pack
from quantattn.forecasters.streaming.network.replay import Replay, catch_up, replay, replay_panel
from quantattn.forecasters.streaming.network.stream import NetworkStream

__all__ = [
    "CachePolicy",
    "EntityHealth",
    "Event",
    "Forecast",
    "HealthPolicy",
    "HealthReport",
    "NetworkStream",
    "PackedNetwork",
    "Replay",
    "StreamingForecaster",
    "TargetForecast",
    "catch_up",
    "pack",
    "redated",
    "replay",
    "replay_panel",
]
