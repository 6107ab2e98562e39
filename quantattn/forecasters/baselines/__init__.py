"""Honest baselines on the information set of the attention models: the measure of whether attention pays."""

from quantattn.forecasters.baselines.base import Baseline, BaselineForecaster, Inputs
from quantattn.forecasters.baselines.estimator import EstimatorBaseline
from quantattn.forecasters.baselines.events_linear import EventsLogisticBaseline, EventsRidgeBaseline
from quantattn.forecasters.baselines.ewma import EwmaBaseline
from quantattn.forecasters.baselines.foreign import register_estimator, register_torch_module
from quantattn.forecasters.baselines.garch import GarchBaseline
from quantattn.forecasters.baselines.gradient_boosting import GradientBoostingBaseline
from quantattn.forecasters.baselines.gru import GruBaseline
from quantattn.forecasters.baselines.har import HarBaseline
from quantattn.forecasters.baselines.mean import MeanBaseline
from quantattn.forecasters.baselines.registry import (
    BASELINES,
    BUILT_IN,
    BaselineTraits,
    baseline_traits,
    fit_baseline,
    make_baseline,
    register_baseline,
    unregister_baseline,
)
from quantattn.forecasters.baselines.ridge import RidgeBaseline
from quantattn.forecasters.baselines.sequences import EventSequences
from quantattn.forecasters.baselines.softmax_window import SoftmaxWindowBaseline
from quantattn.forecasters.baselines.table import SampleTable, TargetKind
from quantattn.forecasters.baselines.torch_module import TorchModuleBaseline
from quantattn.forecasters.baselines.windows import windowed_information

__all__ = [
    "BASELINES",
    "BUILT_IN",
    "Baseline",
    "BaselineForecaster",
    "BaselineTraits",
    "EstimatorBaseline",
    "EventSequences",
    "EventsLogisticBaseline",
    "EventsRidgeBaseline",
    "EwmaBaseline",
    "GarchBaseline",
    "GradientBoostingBaseline",
    "GruBaseline",
    "HarBaseline",
    "Inputs",
    "MeanBaseline",
    "RidgeBaseline",
    "SampleTable",
    "SoftmaxWindowBaseline",
    "TargetKind",
    "TorchModuleBaseline",
    "baseline_traits",
    "fit_baseline",
    "make_baseline",
    "register_baseline",
    "register_estimator",
    "register_torch_module",
    "unregister_baseline",
    "windowed_information",
]
