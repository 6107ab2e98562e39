"""Causal linear attention and its softmax twin: exact, provable, usable on their own."""

from __future__ import annotations

from quantattn.attention.backends import backend_names
from quantattn.attention.denominator import Denominator
from quantattn.attention.features import (
    FeatureMap,
    feature_map_names,
    register_feature_map,
    resolve_feature_map,
)
from quantattn.attention.health import AttentionHealth
from quantattn.attention.linear import LinearAttentionOutput, linear_attention
from quantattn.attention.softmax import softmax_attention
from quantattn.attention.state import AttentionState

__all__ = [
    "AttentionHealth",
    "AttentionState",
    "Denominator",
    "FeatureMap",
    "LinearAttentionOutput",
    "backend_names",
    "feature_map_names",
    "linear_attention",
    "register_feature_map",
    "resolve_feature_map",
    "softmax_attention",
]
