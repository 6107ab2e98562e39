"""What a state of fixed width forgets: recall of pairs seen in a history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.denominator import Denominator
from quantattn.attention.estimates import (
    Estimate,
    check_confidence,
    check_whole,
    check_wholes,
    proportion_estimate,
    table,
)
from quantattn.attention.features import FeatureMap
from quantattn.attention.features.precise import in_float64
from quantattn.attention.features.registry import build_feature_map, check_map
from quantattn.attention.linear import linear_attention
from quantattn.attention.softmax import softmax_attention
from quantattn.errors import FeatureMapError

SHARPNESS = (16.0, 8.0, 4.0, 2.0, 1.0)
"""What every kind of attention may choose from; of equals the first. The softmax logit of a key with itself
is the square of its sharpness: 1 reads about evenly, 16 reads the right key alone."""

_FLOOR = Denominator.floor(1e-30)


@dataclass(frozen=True)
class RecallRow:
    """Recall of one kind of attention, at one width and one length of history.

    Attributes
    ----------
    attention : str
        ``"softmax"`` or the name of the feature map.
    width : int
        Width ``d`` of queries and keys.
    features : int or None
        Width ``r`` of the features; None for softmax.
    length : int
        Pairs of key and value in the history.
    state : int
        Numbers that a live system keeps: ``r * (d_v + 1)``, or ``length * (d + d_v)`` for softmax's cache.
    sharpness : float
        How long queries and keys are: the softmax logit of a key with itself is its square. Chosen from 1, 2,
        4, 8 and 16 (:data:`SHARPNESS`) by recall on as many other histories, so that a map is not blamed for
        a length that does not suit it.
    recall : Estimate
        Share of all keys of the history whose value is read back, over histories, with Wilson's interval.
    """

    attention: str
    width: int
    features: int | None
    length: int
    state: int
    sharpness: float
    recall: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain numbers and text."""
        return {**vars(self), "recall": self.recall.to_dict()}

    def to_row(self) -> dict[str, Any]:
        """Return the row flat: the interval as ``recall_low`` and ``recall_high``."""
        return {**vars(self), **self.recall.columns("recall")}


@dataclass(frozen=True)
class RecallReport:
    """What :func:`recall_report` found.

    Attributes
    ----------
    rows : tuple of RecallRow
        One for each kind of attention, width and length.
    values : int
        Number of different values; guessing recalls one in that many.
    seeds : int
        Histories for each row.
    confidence : float
        Level of the intervals, over histories.
    """

    rows: tuple[RecallRow, ...]
    values: int
    seeds: int
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain numbers and text."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "values": self.values,
            "seeds": self.seeds,
            "confidence": self.confidence,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each row, such as for a data frame."""
        whole = {"values": self.values, "seeds": self.seeds, "confidence": self.confidence}
        return [{**row.to_row(), **whole} for row in self.rows]

    def __str__(self) -> str:
        """Return the report as a table, with the names of the attributes of :class:`RecallRow`."""
        head = ("attention", "width", "features", "length", "state", "sharpness", "recall")
        rows = [
            (
                row.attention,
                str(row.width),
                "-" if row.features is None else str(row.features),
                str(row.length),
                str(row.state),
                f"{row.sharpness:g}",
                str(row.recall),
            )
            for row in self.rows
        ]
        shown = table(head, rows, [(row.width, row.length) for row in self.rows])
        return (
            f"Share of pairs read back, {self.seeds} histories of random keys each "
            f"[{self.confidence:.0%} interval]; guessing gives {1 / self.values:.3g};\n"
            "length: pairs in a history; state: numbers that a live system keeps; sharpness: of queries and\n"
            f"keys, chosen from {', '.join(f'{s:g}' for s in SHARPNESS)} on other histories\n\n{shown}"
        )


def recall_report(
    feature_maps: str | FeatureMap | Sequence[str | FeatureMap] = ("elu1", "dpfp", "taylor2", "favor"),
    *,
    lengths: Sequence[int] = (16, 64, 256),
    widths: Sequence[int] = (16, 32),
    values: int = 32,
    seeds: int = 8,
    confidence: float = 0.95,
) -> RecallReport:
    """Measure multi-query associative recall by length of history and size of state.

    A history writes `length` pairs: keys in random directions, values drawn from `values` orthogonal codes.
    Every key is then asked for once, and recalled where the right code stands out. Nothing is trained:
    queries equal keys, and each kind of attention may choose how long both are, from the sharpnesses 1, 2, 4,
    8 and 16, by its recall on `seeds` other histories. Trained keys can be placed better than random ones,
    but no map recalls more independent pairs than it has features.

    Parameters
    ----------
    feature_maps : str, FeatureMap or sequence of them, default ("elu1", "dpfp", "taylor2", "favor")
        Map or maps to compare; softmax is always there. One built for a width needs that width alone.
    lengths : sequence of int, default (16, 64, 256)
        Pairs in a history.
    widths : sequence of int, default (16, 32)
        Widths of queries and keys, and so sizes of the state.
    values : int, default 32
        Number of different values, and their width; at least 2.
    seeds : int, default 8
        Histories for each row, at least 2.
    confidence : float, default 0.95
        Level of the intervals.

    Returns
    -------
    RecallReport

    Raises
    ------
    ShapeError
        For numbers out of range.
    FeatureMapError
        For an unknown map.

    Notes
    -----
    The task is that of Arora et al. (2023), "Zoology: Measuring and Improving Recall in Efficient Language
    Models".
    """
    check_confidence(confidence)
    check_whole(values, "values", 2)
    check_whole(seeds, "seeds", 2)
    lengths, widths = check_wholes(lengths, "lengths"), check_wholes(widths, "widths")
    chosen = _chosen(feature_maps)
    rows = []
    for width in widths:
        kinds: list[FeatureMap | None] = [None, *(_build(one, width) for one in chosen)]
        for length in lengths:
            trial = _Histories(length, width, values, first_seed=seeds, count=seeds)
            histories = _Histories(length, width, values, first_seed=0, count=seeds)
            for kind in kinds:
                sharpness = max(SHARPNESS, key=lambda s: math.fsum(trial.recall(kind, s)))
                rows.append(
                    RecallRow(
                        attention="softmax" if kind is None else kind.name,
                        width=width,
                        features=None if kind is None else kind.width(width),
                        length=length,
                        state=length * (width + values) if kind is None else kind.width(width) * (values + 1),
                        sharpness=sharpness,
                        recall=proportion_estimate(histories.recall(kind, sharpness), length, confidence),
                    )
                )
    return RecallReport(tuple(rows), values, seeds, confidence)


def _chosen(feature_maps: Any) -> tuple[str | FeatureMap, ...]:
    one = isinstance(feature_maps, str | FeatureMap)
    several = isinstance(feature_maps, Iterable) and not isinstance(feature_maps, bytes | Mapping)
    if not one and not several:
        raise FeatureMapError(
            f"feature_maps: expected names, maps or a list of them, got {feature_maps!r}; build a map with "
            "build_feature_map()."
        )
    return (feature_maps,) if one else tuple(feature_maps)


def _build(chosen: str | FeatureMap, width: int) -> FeatureMap:
    if isinstance(chosen, FeatureMap):
        return in_float64(check_map(chosen))
    if chosen == "softmax":
        raise FeatureMapError("feature_maps: 'softmax' is no map, and always in the report; leave it out.")
    try:
        return in_float64(build_feature_map(chosen, width))
    except FeatureMapError as error:
        raise FeatureMapError(str(error).replace("feature_map:", "feature_maps:", 1)) from error


class _Histories:
    """Random pairs of keys and values, one history for each row of a batch."""

    def __init__(self, length: int, width: int, values: int, *, first_seed: int, count: int) -> None:
        keys, codes = [], []
        for seed in range(first_seed, first_seed + count):
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.randn(length, width, generator=generator, dtype=torch.float64)
            keys.append(drawn / drawn.norm(dim=-1, keepdim=True))
            codes.append(torch.randint(values, (length,), generator=generator))
        self._keys = torch.stack(keys)[:, None]
        self._codes = torch.stack(codes)
        self._values = torch.nn.functional.one_hot(self._codes, values).double()[:, None]
        self._counts = torch.full((count, length), length)

    @torch.no_grad()
    def recall(self, feature_map: FeatureMap | None, sharpness: float) -> list[float]:
        """Return the share of keys of each history whose value is read back."""
        # Logits are scaled by 1 / sqrt(d); this makes the logit of a key with itself sharpness squared.
        key = self._keys * sharpness * self._keys.shape[-1] ** 0.25
        options: dict[str, Any] = {"visible_counts": self._counts}
        read: Tensor
        if feature_map is None:
            read = softmax_attention(key, key, self._values, **options)
        else:
            options |= {"feature_map": feature_map, "denominator": _FLOOR}
            read = linear_attention(key, key, self._values, **options).output
        right = read[:, 0].argmax(-1) == self._codes
        shares: list[float] = right.double().mean(-1).tolist()
        return shares
