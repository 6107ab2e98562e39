"""Encoded tokens through a network, one event at a time: memories, their compiled steps, replay."""

from quantattn.forecasters.streaming.network.cache import CachePolicy
from quantattn.forecasters.streaming.network.packing import PackedNetwork, pack
from quantattn.forecasters.streaming.network.replay import Replay, catch_up, replay, replay_panel
from quantattn.forecasters.streaming.network.stream import NetworkStream

__all__ = [
    "CachePolicy",
    "NetworkStream",
    "PackedNetwork",
    "Replay",
    "catch_up",
    "pack",
    "replay",
    "replay_panel",
]
