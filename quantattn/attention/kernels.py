"""How far a feature map is from softmax's kernel."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from quantattn.attention.backends.base import Visibility
from quantattn.attention.estimates import (
    bias_estimate,
    check_confidence,
    check_wholes,
    mean_estimate,
)
from quantattn.attention.features import Favor, FeatureMap, resolve_feature_map
from quantattn.attention.features.precise import in_float64
from quantattn.attention.features.registry import check_map
from quantattn.attention.kernels_report import KernelReport, KernelRow
from quantattn.attention.validation import check_inputs, check_visibility
from quantattn.errors import FeatureMapError, ShapeError

__all__ = ["KernelReport", "KernelRow", "kernel_report"]

MapFactory = Callable[[int, int], FeatureMap]
"""Builds a map from its number of features and a seed."""


def kernel_report(
    feature_map: str | FeatureMap | MapFactory,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Sequence[int] = (16, 64, 256),
    seeds: int = 16,
    visibility: Visibility = "inclusive",
    scale: float | None = None,
    confidence: float = 0.95,
) -> KernelReport:
    """Measure how far the causal reads of a map are from softmax's, in float64, over explicit pairs.

    Parameters
    ----------
    feature_map : str, FeatureMap or callable
        ``"favor"`` compares orthogonal with independent draws at every number of `features`, over `seeds`. A
        callable ``(features, seed) -> FeatureMap`` is swept in the same way. Any other name, or a map, is one
        row.
    query, key, value : Tensor
        ``(B, H, T, .)``. Work and memory grow as ``seeds * T ** 2``; a few hundred rows tell enough.
    features : sequence of int, default (16, 64, 256)
        Numbers of features of a swept map.
    seeds : int, default 16
        Draws of a swept map, at least 3.
    visibility : {"inclusive", "strict"}, default "inclusive"
        Whether a read sees its own key. Reads that see nothing are left out.
    scale : float, optional
        Factor of the logits; ``1 / sqrt(d)`` where not given.
    confidence : float, default 0.95
        Level of the intervals.

    Returns
    -------
    KernelReport

    Raises
    ------
    ShapeError
        For inputs that do not belong together or are not finite, too few seeds, or options out of range.
    FeatureMapError
        For an unknown map, or one that fails.

    Notes
    -----
    That an unbiased estimate of the kernel gives a biased ratio, and the variance of orthogonal draws, are
    from Choromanski et al. (2021), "Rethinking Attention with Performers".
    """
    check_visibility(visibility)
    check_inputs(query, key, value, same_length=True)
    check_confidence(confidence)
    query, key, value = (x.detach().double() for x in (query, key, value))
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not bool(torch.isfinite(tensor).all()):
            raise ShapeError(f"{name}: is not finite; leave such rows out of a comparison.")
    first = 0 if visibility == "inclusive" else 1
    reads = query.shape[0] * query.shape[1] * max(query.shape[2] - first, 0)
    if reads == 0:
        raise ShapeError(f"query: nothing is read at shape {tuple(query.shape)} under {visibility!r}.")
    d = query.shape[-1]
    scale = d**-0.5 if scale is None else _checked_scale(scale)
    truth = _Truth(query, key, value, visibility, scale)
    rows = [
        _row(name, maps, truth, confidence) for name, maps in _sweep(feature_map, d, features, seeds, scale)
    ]
    return KernelReport(tuple(rows), reads, scale, confidence)


def _sweep(
    feature_map: str | FeatureMap | MapFactory, d: int, features: Sequence[int], seeds: int, scale: float
) -> list[tuple[str, list[FeatureMap]]]:
    """Return the name of every row with its maps, one for each draw."""
    if isinstance(feature_map, FeatureMap) or (isinstance(feature_map, str) and feature_map != Favor.name):
        map_ = resolve_feature_map(feature_map)
        return [(map_.name, [map_])]
    if isinstance(feature_map, type) or not (isinstance(feature_map, str) or callable(feature_map)):
        raise FeatureMapError(
            f"feature_map: expected a name, a map or a function (features, seed) -> FeatureMap, got "
            f"{feature_map!r}; build a map with build_feature_map()."
        )
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 3:
        raise ShapeError(f"seeds: expected at least 3 draws for an interval, got {seeds!r}.")
    counts = check_wholes(features, "features")
    if isinstance(feature_map, str):
        return [
            (f"favor, {kind}", [Favor(d, count, kind=kind, seed=seed, scale=scale) for seed in range(seeds)])
            for count in counts
            for kind in ("orthogonal", "iid")
        ]
    swept = [[_made(feature_map, count, seed) for seed in range(seeds)] for count in counts]
    return [(maps[0].name, maps) for maps in swept]


def _made(factory: MapFactory, features: int, seed: int) -> FeatureMap:
    try:
        made: object = factory(features, seed)
    except FeatureMapError:
        raise
    except Exception as error:
        raise FeatureMapError(
            f"feature_map: the factory failed with {type(error).__name__}: {error}; it is called as "
            f"factory({features}, {seed}), with a number of features and a seed."
        ) from error
    if not isinstance(made, FeatureMap):
        raise FeatureMapError(f"feature_map: the factory returned {type(made).__name__}, not a FeatureMap.")
    return check_map(made)


def _checked_scale(scale: float) -> float:
    number = isinstance(scale, numbers.Real) and not isinstance(scale, bool)
    if not (number and math.isfinite(scale) and scale > 0):
        raise ShapeError(f"scale: expected a positive finite number, got {scale!r}; leave it out.")
    return float(scale)


class _Truth:
    """Softmax's weights and outputs, one row of the batch at a time."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, scale: float
    ) -> None:
        self.query, self.key, self.value, self.scale = query, key, value, scale
        self.first = 0 if visibility == "inclusive" else 1
        length = query.shape[2]
        self.visible = torch.ones(length, length, dtype=torch.bool, device=query.device).tril(-self.first)

    def weights(self, row: int) -> tuple[Tensor, Tensor]:
        """Return softmax's weights ``(H, T, T)`` and the log denominators ``(H, T, 1)``."""
        logits = (self.query[row] * self.scale) @ self.key[row].mT
        logits = logits.masked_fill(~self.visible, -math.inf)[:, self.first :]
        total = logits.logsumexp(-1, keepdim=True)
        return (logits - total).exp(), total

    @torch.no_grad()
    def similarities(self, map_: FeatureMap, row: int, total: Tensor) -> Tensor:
        """Return a map's similarities in units of softmax's denominators, ``(H, T, T)``."""
        part = slice(row, row + 1)
        try:
            query = map_.map_query(self.query[part])
            pairs = (query.features @ map_.map_key(self.key[part]).mT)[0]
        except FeatureMapError:
            raise
        except Exception as error:
            raise FeatureMapError(
                f"feature_map: {map_.name!r} failed on {tuple(self.query[part].shape)} in float64: {error}; "
                "a map computes in the dtype of its input."
            ) from error
        log_scale = torch.zeros_like(pairs[..., :1])
        if query.log_scale is not None:
            log_scale = query.log_scale[0][..., None]
        pairs = torch.where(self.visible, pairs, 0.0)[:, self.first :]
        scaled: Tensor = pairs * (log_scale[:, self.first :] - total).exp()
        return scaled


def _row(name: str, maps: list[FeatureMap], truth: _Truth, confidence: float) -> KernelRow:
    count = len(maps)
    kernel_gram = torch.zeros(count, count, dtype=torch.float64)
    output_gram = torch.zeros_like(kernel_gram)
    distance = torch.zeros(count, dtype=torch.float64)
    kernel_size = output_size = 0.0
    maps = [in_float64(map_) for map_ in maps]
    reads, unusable, least = 0, 0, math.inf
    for row in range(truth.query.shape[0]):
        weight, total = truth.weights(row)
        value = truth.value[row]
        output = weight @ value
        kernel_size += float(weight.square().sum())
        output_size += float(output.square().sum())
        kernel_errors, output_errors = [], []
        for n, map_ in enumerate(maps):
            pairs = truth.similarities(map_, row, total)
            below = pairs.sum(-1, keepdim=True)
            usable = below > 0
            normalised = torch.where(usable, pairs / torch.where(usable, below, 1.0), 0.0)
            kernel_errors.append((pairs - weight).flatten())
            output_errors.append((normalised @ value - output).flatten())
            distance[n] += 0.5 * float((normalised - weight).abs().sum())
            unusable += int((~usable).sum())
            reads += usable.numel()
            least = min(least, float(pairs[:, truth.visible[truth.first :]].min()))
        kernel_gram += _gram(kernel_errors)
        output_gram += _gram(output_errors)
    kernel_gram /= kernel_size
    output_gram /= max(output_size, math.ulp(0.0))
    direct = maps[0].approximates_softmax
    per_map = reads / count
    return KernelRow(
        feature_map=name,
        features=maps[0].width(truth.query.shape[-1]),
        seeds=count,
        kernel_error=mean_estimate(kernel_gram.diagonal().sqrt().tolist(), confidence) if direct else None,
        kernel_bias=bias_estimate(kernel_gram, confidence) if direct and count > 1 else None,
        weight_error=mean_estimate((distance / per_map).tolist(), confidence, highest=1.0),
        ratio_bias=bias_estimate(output_gram, confidence) if count > 1 else None,
        output_error=mean_estimate(output_gram.diagonal().sqrt().tolist(), confidence),
        least_similarity=least,
        unusable=unusable / reads,
        signed_features=maps[0].signed_features,
    )


def _gram(errors: list[Tensor]) -> Tensor:
    stacked = torch.stack(errors)
    return (stacked @ stacked.mT).cpu()
