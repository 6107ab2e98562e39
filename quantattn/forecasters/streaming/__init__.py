"""The streaming path: what was backtested is what runs live."""

from quantattn.forecasters.streaming.forecaster import StreamingForecaster
from quantattn.forecasters.streaming.packing import PackedNetwork, pack
from quantattn.forecasters.streaming.replay import Replay, catch_up, replay, replay_panel

__all__ = ["PackedNetwork", "Replay", "StreamingForecaster", "catch_up", "pack", "replay", "replay_panel"]
