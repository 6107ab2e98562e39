"""Causal linear attention and its softmax twin: exact, provable, usable on their own."""

from __future__ import annotations

from quantattn.attention.backends import backend_names
from quantattn.attention.clock import elapsed_decay, visible_before
from quantattn.attention.conversion import Conversion, LayerDrift, convert
from quantattn.attention.denominator import Denominator
from quantattn.attention.estimates import Estimate
from quantattn.attention.features import (
    Dpfp,
    Elu1,
    Favor,
    FeatureMap,
    Hedgehog,
    Identity,
    QueryFeatures,
    Relu,
    SquaredRelu,
    Taylor2,
    build_feature_map,
    feature_map_names,
    register_feature_map,
    resolve_feature_map,
)
from quantattn.attention.health import AttentionHealth
from quantattn.attention.kernels import KernelReport, KernelRow, kernel_report
from quantattn.attention.linear import LinearAttentionOutput, linear_attention
from quantattn.attention.module import CausalAttention
from quantattn.attention.recall import RecallReport, RecallRow, recall_report
from quantattn.attention.softmax import softmax_attention
from quantattn.attention.state import AttentionState

__all__ = [
    "AttentionHealth",
    "AttentionState",
    "CausalAttention",
    "Conversion",
    "Denominator",
    "Dpfp",
    "Elu1",
    "Estimate",
    "Favor",
    "FeatureMap",
    "Hedgehog",
    "Identity",
    "KernelReport",
    "KernelRow",
    "LayerDrift",
    "LinearAttentionOutput",
    "QueryFeatures",
    "RecallReport",
    "RecallRow",
    "Relu",
    "SquaredRelu",
    "Taylor2",
    "backend_names",
    "build_feature_map",
    "convert",
    "elapsed_decay",
    "feature_map_names",
    "kernel_report",
    "linear_attention",
    "recall_report",
    "register_feature_map",
    "resolve_feature_map",
    "softmax_attention",
    "visible_before",
]
