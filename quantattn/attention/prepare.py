"""From queries, keys and values to nonnegative features and values with their column of ones."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.features import FeatureMap
from quantattn.attention.finite import emptied, looks_finite, nonfinite_rows
from quantattn.errors import FeatureMapError


class Poison(NamedTuple):
    """Rows that hold something non-finite."""

    queries: Tensor
    """``(B, H, Tq)`` bool."""
    keys: Tensor
    """``(B, H, T)`` bool; never True for a masked key."""


class Prepared(NamedTuple):
    """What a backend multiplies."""

    query: Tensor
    """``(B, H, Tq, r)`` features."""
    key: Tensor
    """``(B, H, T, r)`` features; zero where the key is masked."""
    value: Tensor
    """``(B, H, T, d_v + 1)``; the last column is ones."""
    poisoned: Poison | None
    """Rows that were emptied because they are not finite; None where there are none."""


def prepare(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, feature_map: FeatureMap
) -> Prepared:
    """Map to features, zero those of masked keys, append the column of ones.

    A non-finite row must reach the reads that see it and nothing else, forward and backward, whereas
    zero times NaN is NaN in a matrix product. So such rows are emptied before and after the map and marked;
    the reads that see one are made NaN afterwards.
    """
    poisoned = None
    if not looks_finite(query, key, value):
        bad_query, bad_key = nonfinite_rows(query), nonfinite_rows(key, value)
        query, key, value = emptied(query, bad_query), emptied(key, bad_key), emptied(value, bad_key)
        poisoned = Poison(bad_query, bad_key)
    query_features = _features(feature_map, query, "query")
    key_features = _features(feature_map, key, "key", mask)
    if not (feature_map.stays_finite or looks_finite(query_features, key_features)):
        bad_query, bad_key = nonfinite_rows(query_features), nonfinite_rows(key_features)
        query_features, key_features = emptied(query_features, bad_query), emptied(key_features, bad_key)
        if poisoned is not None:
            bad_query, bad_key = bad_query | poisoned.queries, bad_key | poisoned.keys
        poisoned = Poison(bad_query, bad_key)
    if poisoned is not None and mask is not None:
        poisoned = Poison(poisoned.queries, poisoned.keys & mask[:, None])
    return Prepared(query_features, key_features, pad(value, (0, 1), value=1.0), poisoned)


def _features(feature_map: FeatureMap, x: Tensor, argument: str, mask: Tensor | None = None) -> Tensor:
    features = feature_map(x)
    expected = (*x.shape[:-1], feature_map.width(x.shape[-1]))
    if tuple(features.shape) != expected:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} made shape {tuple(features.shape)} of {argument} "
            f"{tuple(x.shape)}, but its width() announces {expected}."
        )
    if mask is not None:
        features = features * mask[:, None, :, None].to(features.dtype)
    if not feature_map.positive and features.numel() and bool((features.detach() < 0).any()):
        batch, head, row, column = (features.detach() < 0).nonzero()[0].tolist()
        raise FeatureMapError(
            f"{argument}: feature map {feature_map.name!r} gave "
            f"{float(features[batch, head, row, column]):g} at batch {batch}, head {head}, position {row}; "
            "similarities must be nonnegative. "
            "Make the input nonnegative, or use a map such as 'elu1'."
        )
    return features
