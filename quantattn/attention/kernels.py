"""How far a feature map is from softmax's kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.backends.base import Visibility
from quantattn.attention.estimates import (
    Estimate,
    bias_estimate,
    check_confidence,
    mean_estimate,
    table,
)
from quantattn.attention.features import Favor, FeatureMap, resolve_feature_map
from quantattn.attention.validation import check_inputs, check_visibility
from quantattn.errors import FeatureMapError, ShapeError

MapFactory = Callable[[int, int], FeatureMap]
"""Builds a map from its number of features and a seed."""


@dataclass(frozen=True)
class KernelRow:
    """Distance of one map, at one number of features, from softmax.

    Attributes
    ----------
    feature_map : str
        Name of the map, with the kind of its draws.
    features : int
        Width ``r``.
    seeds : int
        Number of draws; one for a single map, with or without randomness.
    kernel_error : Estimate or None
        Size of the similarities' error over the size of softmax's weights, both in units of softmax's
        denominators; None for a map that does not estimate the kernel itself.
    kernel_bias : Estimate or None
        Size of the mean over draws of that error. Zero within its interval for an unbiased kernel. None
        also where there is one draw.
    weight_error : Estimate
        Mean total variation distance between the normalised weights of a read and softmax's, from 0 to 1.
    ratio_bias : Estimate or None
        Size of the mean over draws of the output's error, over the size of softmax's output. An unbiased
        kernel does not make it zero, since a ratio's mean is not the ratio of means. None where there is one
        draw: all error of a map without randomness is bias, and a single draw cannot tell.
    output_error : Estimate
        Size of the output's error over the size of softmax's output.
    least_similarity : float
        Least similarity of all visible pairs, in units of softmax's denominators; negative where a map breaks
        its promise or rounds badly.
    unusable : float
        Share of reads whose denominator is not positive; their output is counted as zero. Under
        ``Denominator.raise_()`` each of them is an error.
    signed_features : bool
        Whether features may be negative, so that `least_similarity` is worth a look.
    """

    feature_map: str
    features: int
    seeds: int
    kernel_error: Estimate | None
    kernel_bias: Estimate | None
    weight_error: Estimate
    ratio_bias: Estimate | None
    output_error: Estimate
    least_similarity: float
    unusable: float
    signed_features: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain numbers and text."""
        said: dict[str, Any] = {}
        for name, value in vars(self).items():
            said[name] = value.to_dict() if isinstance(value, Estimate) else value
        return said

    def to_row(self) -> dict[str, Any]:
        """Return the row flat: intervals as columns that end in ``_low`` and ``_high``."""
        said: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name not in _ESTIMATES:
                said[name] = value
            elif value is None:
                said |= {name: None, f"{name}_low": None, f"{name}_high": None}
            else:
                said |= value.columns(name)
        return said


_ESTIMATES = ("kernel_error", "kernel_bias", "weight_error", "ratio_bias", "output_error")


@dataclass(frozen=True)
class KernelReport:
    """What :func:`kernel_report` found.

    Attributes
    ----------
    rows : tuple of KernelRow
        One for each map and number of features.
    reads : int
        Number of reads compared.
    scale : float
        Factor of the logits.
    confidence : float
        Level of the intervals, which are over draws; the inputs are taken as given.
    """

    rows: tuple[KernelRow, ...]
    reads: int
    scale: float
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain numbers and text."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "reads": self.reads,
            "scale": self.scale,
            "confidence": self.confidence,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each row, such as for a data frame."""
        whole = {"reads": self.reads, "scale": self.scale, "confidence": self.confidence}
        return [{**row.to_row(), **whole} for row in self.rows]

    def __str__(self) -> str:
        """Return the report as a table, with the names of the attributes of :class:`KernelRow`."""
        drawn = any(row.seeds > 1 for row in self.rows)
        signed = any(row.signed_features or row.least_similarity < 0 for row in self.rows)
        columns = [
            *(["feature_map", "features"] + ["seeds"] * drawn),
            *(name for name in _ESTIMATES if drawn or not name.endswith("_bias")),
            *(["unusable"] + ["least_similarity"] * signed),
        ]
        cells = [[_cell(getattr(row, name)) for name in columns] for row in self.rows]
        said = "sizes relative to softmax's own; unusable: share of reads whose denominator is not positive"
        if drawn:
            said += f";\n[{self.confidence:.0%} intervals over draws]; bias: of the mean over draws"
        else:
            said += ";\none map as it is, so without intervals"
        shown = table(columns, cells, [row.features for row in self.rows])
        return f"Distance from softmax over {self.reads} reads, in float64;\n{said}\n\n{shown}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


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
        For inputs that do not belong together or are not finite, or too few seeds.
    FeatureMapError
        For an unknown map.

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
    scale = d**-0.5 if scale is None else float(scale)
    if not (math.isfinite(scale) and scale > 0):
        raise ShapeError(f"scale: expected a positive finite number, got {scale}.")
    truth = _Truth(query, key, value, visibility, scale)
    rows = [
        _row(name, maps, truth, confidence) for name, maps in _sweep(feature_map, d, features, seeds, scale)
    ]
    return KernelReport(tuple(rows), reads, scale, confidence)


def _sweep(
    feature_map: str | FeatureMap | MapFactory, d: int, features: Sequence[int], seeds: int, scale: float
) -> list[tuple[str, list[FeatureMap]]]:
    """Return the name of every row with its maps, one for each draw."""
    if isinstance(feature_map, FeatureMap):
        return [(feature_map.name, [feature_map])]
    if isinstance(feature_map, str) and feature_map != Favor.name:
        map_ = resolve_feature_map(feature_map)
        return [(map_.name, [map_])]
    if not isinstance(seeds, int) or seeds < 3:
        raise ShapeError(f"seeds: expected at least 3 draws for an interval, got {seeds!r}.")
    if not features:
        raise ShapeError("features: expected at least one number of features, got none.")
    if not isinstance(feature_map, str):
        rows = []
        for count in features:
            maps = [feature_map(count, seed) for seed in range(seeds)]
            for made in maps:
                if not isinstance(made, FeatureMap):
                    raise FeatureMapError(
                        f"feature_map: the factory returned {type(made).__name__}, not a FeatureMap."
                    )
            rows.append((maps[0].name, maps))
        return rows
    return [
        (f"favor, {kind}", [Favor(d, count, kind=kind, seed=seed, scale=scale) for seed in range(seeds)])
        for count in features
        for kind in ("orthogonal", "iid")
    ]


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
        query = map_.map_query(self.query[part])
        pairs = (query.features @ map_.map_key(self.key[part]).mT)[0]
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
