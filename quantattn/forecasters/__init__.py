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
from quantattn.forecasters.streaming import (
    CachePolicy,
    EntityHealth,
    Event,
    Forecast,
    HealthPolicy,
    HealthReport,
    NetworkStream,
    Replay,
    StreamingForecaster,
    TargetForecast,
    catch_up,
    redated,
    replay,
)
from quantattn.forecasters.targets import Targets
from quantattn.forecasters.tokens import EntityTokens, entity_tokens
from quantattn.forecasters.training import EpochLog, TrainingLog, forecast_batch, train

__all__ = [
    "AttentionNetwork",
    "CachePolicy",
    "Distribution",
    "EntityHealth",
    "EntityHistory",
    "EntityTokens",
    "EpochLog",
    "Event",
    "FittedEncoders",
    "FittedForecaster",
    "Forecast",
    "HeadConfig",
    "HealthPolicy",
    "HealthReport",
    "History",
    "NetworkConfig",
    "NetworkStream",
    "Objective",
    "Readout",
    "Replay",
    "StreamingForecaster",
    "TargetForecast",
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
    "redated",
    "replay",
    "residual_interval",
    "train",
]
