"""Estimators: the linear forecaster and its softmax twin behind scikit-learn's conventions."""

from quantattn.forecasters.estimators.forecaster import (
    AttentionForecaster,
    LinearAttentionForecaster,
    SoftmaxAttentionForecaster,
)
from quantattn.forecasters.estimators.not_fitted import NotFittedForecasterError
from quantattn.forecasters.estimators.parameters import ForecasterParameters
from quantattn.forecasters.estimators.sides import FoldLike

__all__ = [
    "AttentionForecaster",
    "FoldLike",
    "ForecasterParameters",
    "LinearAttentionForecaster",
    "NotFittedForecasterError",
    "SoftmaxAttentionForecaster",
]
