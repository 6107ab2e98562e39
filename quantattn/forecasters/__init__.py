"""Forecasters: token sequences, the network and its twin, training, streaming, baselines."""

from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.fitted import FittedForecaster, TargetScale
from quantattn.forecasters.history import (
    EntityHistory,
    FittedEncoders,
    History,
    encode,
    fit_encoders,
    read_history,
)
from quantattn.forecasters.intervals import residual_interval
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming import Replay, StreamingForecaster, catch_up, replay
from quantattn.forecasters.tokens import EntityTokens, entity_tokens
from quantattn.forecasters.training import EpochLog, TrainingLog, forecast_batch, train

__all__ = [
    "AttentionNetwork",
    "EntityHistory",
    "EntityTokens",
    "EpochLog",
    "FittedEncoders",
    "FittedForecaster",
    "History",
    "NetworkConfig",
    "Replay",
    "StreamingForecaster",
    "TargetScale",
    "TokenBatch",
    "TrainingConfig",
    "TrainingLog",
    "catch_up",
    "encode",
    "entity_tokens",
    "fit_encoders",
    "forecast_batch",
    "merge",
    "read_history",
    "replay",
    "residual_interval",
    "train",
]
