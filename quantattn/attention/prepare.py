"""From queries, keys and values to nonnegative features and values with their column of ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from quantattn.attention.features import FeatureMap, QueryFeatures
from quantattn.attention.finite import emptied, looks_finite, nonfinite_rows
from quantattn.errors import AttentionError, FeatureMapError


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
    if mask is not None:
        # What a masked key or value would overflow to must not reach a gradient either.
        key, value = emptied(key, ~mask[:, None]), emptied(value, ~mask[:, None])
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
    mapped = _called(feature_map, feature_map.map_query, query, "query")
    if not isinstance(mapped, QueryFeatures):
        raise FeatureMapError(
            f"feature_map: map_query of {feature_map.name!r} returned {type(mapped).__name__}; "
            "return QueryFeatures(features, log_scale)."
        )
    _check_features(feature_map, mapped.features, query, "query")
    _check_log_scale(feature_map, mapped.log_scale, query)
    key_features = _called(feature_map, feature_map.map_key, key, "key")
    _check_features(feature_map, key_features, key, "key", mask)
    if mask is not None:
        key_features = key_features * mask[:, None, :, None].to(key_features.dtype)
    if mapped.log_scale is not None:
        mapped = QueryFeatures(mapped.features, mapped.log_scale.double())
    return mapped, key_features


def _called(feature_map: FeatureMap, function: Callable[[Tensor], Any], x: Tensor, argument: str) -> Any:
    """Call a map, which may be a user's, and refuse what it does to its input."""
    before = None if x.is_inference() else x._version
    try:
        result = function(x)
    except (AttentionError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} failed on {argument} {tuple(x.shape)} in {x.dtype}: {error}; "
            "a map computes in the dtype of its input, as in x @ weight.to(x.dtype)."
        ) from error
    if before is not None and x._version != before:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} edits its input in place, which is the caller's {argument}; "
            "compute on a copy."
        )
    return result


def _check_log_scale(feature_map: FeatureMap, log_scale: Any, x: Tensor) -> None:
    if log_scale is None or (isinstance(log_scale, Tensor) and log_scale.shape == x.shape[:-1]):
        return
    shape = tuple(log_scale.shape) if isinstance(log_scale, Tensor) else type(log_scale).__name__
    raise FeatureMapError(
        f"feature_map: log_scale of {feature_map.name!r} is {shape}, not one number for each query "
        f"{tuple(x.shape[:-1])}; return QueryFeatures(features, None) if nothing is divided out."
    )


def _all_finite(mapped: QueryFeatures, key: Tensor) -> bool:
    scale = () if mapped.log_scale is None else (mapped.log_scale,)
    return looks_finite(mapped.features, key, *scale)


def _check_features(
    feature_map: FeatureMap, features: Tensor, x: Tensor, argument: str, mask: Tensor | None = None
) -> None:
    if not isinstance(features, Tensor):
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} made {type(features).__name__} of {argument}, not a tensor."
        )
    expected = (*x.shape[:-1], feature_map.width(x.shape[-1]))
    if features.dtype != x.dtype or features.device != x.device:
        raise FeatureMapError(
            f"feature_map: {feature_map.name!r} made {features.dtype} on {features.device} of {argument} in "
            f"{x.dtype} on {x.device}; compute in the dtype of the input and return that."
        )
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
