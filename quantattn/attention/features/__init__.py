"""Feature maps, one kind to a file, and their registry.

cosFormer's reweighting (Qin et al., 2022) is left out. Its weight ``cos(pi / 2 * (i - j) / M)`` factors over
positions, but needs a declared length ``M`` beyond which weights turn negative, and it counts rows where this
package measures time: a history cut or thinned out would be weighted differently. Decay from half-lives
forgets by elapsed time and composes with every map.
"""

from __future__ import annotations

from quantattn.attention.features.base import FeatureMap, QueryFeatures
from quantattn.attention.features.dpfp import Dpfp
from quantattn.attention.features.elementwise import Elu1, Identity, Relu, SquaredRelu
from quantattn.attention.features.favor import Favor
from quantattn.attention.features.hedgehog import Hedgehog
from quantattn.attention.features.registry import (
    build_feature_map,
    feature_map_names,
    register_feature_map,
    resolve_feature_map,
)
from quantattn.attention.features.taylor import Taylor2

__all__ = [
    "Dpfp",
    "Elu1",
    "Favor",
    "FeatureMap",
    "Hedgehog",
    "Identity",
    "QueryFeatures",
    "Relu",
    "SquaredRelu",
    "Taylor2",
    "build_feature_map",
    "feature_map_names",
    "register_feature_map",
    "resolve_feature_map",
]
