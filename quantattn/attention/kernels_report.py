"""What a comparison of a feature map with softmax's kernel says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quantattn.attention.estimates import Estimate, table


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
