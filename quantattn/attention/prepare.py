"""From queries, keys and values to nonnegative features and values with their column of ones."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.features import FeatureMap, QueryFeatures
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
    log_scale: Tensor | None
    """``(B, H, Tq)`` float64: logarithm of what the map divided out of query features; None for one."""


def prepare(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, feature_map: FeatureMap
) -> Prepared:
    """Map to features, zero those of masked keys, append the column of ones.

    A non-finite row must reach the reads that see it and nothing else, forward and backward, whereas
    zero times NaN is NaN in a matrix product. So such rows are emptied before and after the map and marked;
    the reads that see one are made NaN afterwards.
    """
    poisoned = None
    if mask is not None and not feature_map.stays_finite:
        # What a masked key would overflow to must not reach the map's gradient either.
        key = emptied(key, ~mask[:, None])
    if not looks_finite(query, key, value):
        bad_query, bad_key = nonfinite_rows(query), nonfinite_rows(key, value)
        query, key, value = emptied(query, bad_query), emptied(key, bad_key), emptied(value, bad_key)
        poisoned = Poison(bad_query, bad_key)
    features, key_features = _map(feature_map, query, key, mask)
    if not (feature_map.stays_finite or _all_finite(features, key_features)):
        bad_query, bad_key = nonfinite_rows(features.features), nonfinite_rows(key_features)
        if features.log_scale is not None:
            bad_query |= ~torch.isfinite(features.log_scale.detach())
        # Mapped once more from emptied rows: an overflow has no gradient that a zero could cancel.
        query, key = emptied(query, bad_query), emptied(key, bad_key)
        features, key_features = _map(feature_map, query, key, mask)
        features = QueryFeatures(emptied(features.features, bad_query), features.log_scale)
        key_features = emptied(key_features, bad_key)
        if poisoned is not None:
            bad_query, bad_key = bad_query | poisoned.queries, bad_key | poisoned.keys
        poisoned = Poison(bad_query, bad_key)
    if poisoned is not None and mask is not None:
        poisoned = Poison(poisoned.queries, poisoned.keys & mask[:, None])
    return Prepared(
        features.features, key_features, pad(value, (0, 1), value=1.0), poisoned, features.log_scale
    )


def _map(
    feature_map: FeatureMap, query: Tensor, key: Tensor, mask: Tensor | None
) -> tuple[QueryFeatures, Tensor]:
    """Return checked features of queries and keys; those of masked keys are zero."""
    mapped = feature_map.map_query(query)
    _check_features(feature_map, mapped.features, query, "query")
    key_features = feature_map.map_key(key)
    _check_features(feature_map, key_features, key, "key", mask)
    if mask is not None:
        key_features = key_features * mask[:, None, :, None].to(key_features.dtype)
    if mapped.log_scale is not None:
        mapped = QueryFeatures(mapped.features, mapped.log_scale.double())
    return mapped, key_features


def _all_finite(mapped: QueryFeatures, key: Tensor) -> bool:
    scale = () if mapped.log_scale is None else (mapped.log_scale,)
    return looks_finite(mapped.features, key, *scale)


def _check_features(
    feature_map: FeatureMap, features: Tensor, x: Tensor, argument: str, mask: Tensor | None = None
) -> None:
    expected = (*x.shape[:-1], feature_map.width(x.shape[-1]))
    if tuple(features.shape) != expected:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} made shape {tuple(features.shape)} of {argument} "
            f"{tuple(x.shape)}, but its width() announces {expected}."
        )
    if not _needs_looking_at(feature_map) or not features.numel():
        return
    negative = features.detach() < 0
    if mask is not None:
        negative &= mask[:, None, :, None]
    if bool(negative.any()):
        batch, head, row, column = negative.nonzero()[0].tolist()
        raise FeatureMapError(
            f"{argument}: feature map {feature_map.name!r} gave "
            f"{float(features[batch, head, row, column]):g} at batch {batch}, head {head}, position {row}; "
            "similarities must be nonnegative. "
            "Make the input nonnegative, or use a map such as 'elu1'."
        )


def _needs_looking_at(feature_map: FeatureMap) -> bool:
    """Return whether the features may be negative, or only a stranger says that they are not."""
    if not feature_map.positive:
        return True
    own = type(feature_map).__module__.startswith("quantattn.attention.features.")
    return not (own or feature_map.signed_features)
