"""Honest baselines on the information set of the attention models: the measure of whether attention pays."""

from quantattn.forecasters.baselines.base import Baseline, BaselineForecaster
from quantattn.forecasters.baselines.ewma import EwmaBaseline
from quantattn.forecasters.baselines.gradient_boosting import GradientBoostingBaseline
from quantattn.forecasters.baselines.har import HarBaseline
from quantattn.forecasters.baselines.mean import MeanBaseline
from quantattn.forecasters.baselines.registry import BASELINES, make_baseline, register_baseline
from quantattn.forecasters.baselines.ridge import RidgeBaseline
from quantattn.forecasters.baselines.table import SampleTable, TargetKind

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineForecaster",
    "EwmaBaseline",
    "GradientBoostingBaseline",
    "HarBaseline",
    "MeanBaseline",
    "RidgeBaseline",
    "SampleTable",
    "TargetKind",
    "make_baseline",
    "register_baseline",
]
