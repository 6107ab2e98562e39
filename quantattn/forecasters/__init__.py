"""Forecasters: token sequences, the network and its twin, training, streaming, baselines."""

from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.fitted import FittedForecaster, TargetScale
from quantattn.forecasters.heads import Distribution, HeadConfig, distribution
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
from quantattn.forecasters.objectives import Objective
from quantattn.forecasters.passes import forecast_outputs
from quantattn.forecasters.readout import Readout, TargetForecasts
from quantattn.forecasters.streaming import Replay, StreamingForecaster, catch_up, replay
from quantattn.forecasters.targets import Targets
from quantattn.forecasters.tokens import EntityTokens, entity_tokens
from quantattn.forecasters.training import EpochLog, TrainingLog, forecast_batch, train

__all__ = [
    "AttentionNetwork",
    "Distribution",
    "EntityHistory",
    "EntityTokens",
    "EpochLog",
    "FittedEncoders",
    "FittedForecaster",
    "HeadConfig",
    "History",
    "NetworkConfig",
    "Objective",
    "Readout",
    "Replay",
    "StreamingForecaster",
    "TargetForecasts",
    "TargetScale",
    "Targets",
    "TokenBatch",
    "TrainingConfig",
    "TrainingLog",
    "catch_up",
    "distribution",
    "encode",
    "entity_tokens",
    "fit_encoders",
    "forecast_batch",
    "forecast_outputs",
    "merge",
    "read_history",
    "replay",
    "residual_interval",
    "train",
]
