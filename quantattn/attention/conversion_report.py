"""What a conversion says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from quantattn.attention.denominator import Denominator
from quantattn.attention.estimates import table


@dataclass(frozen=True)
class LayerDrift:
    """How far one converted layer is from the layer that it replaces.

    Attributes
    ----------
    layer : str
        Name of the layer in the model, the first where it has several; empty where the model is the layer.
    own : float
        Size of the output's difference over the size of the softmax output, both layers fed with what the
        softmax model feeds them.
    compounded : float
        The same with both models run from their inputs, so with the drift of earlier layers.
    worst : float
        Largest difference of one token under `own`, over the root mean square size of a token.
    calls : int
        How often the model calls the layer; the figures are over all of its calls.
    """

    layer: str
    own: float
    compounded: float
    worst: float
    calls: int


@dataclass(frozen=True)
class Conversion:
    """A converted model and its drift before any fine-tuning.

    Attributes
    ----------
    model : torch.nn.Module
        A copy of the softmax model with linear attention, ready to be trained; the original is untouched.
        Its layers are those of the copy, switched: classes, hooks and attributes stay.
    layers : tuple of LayerDrift
        Drift of every converted layer, in the order in which the model holds them.
    output : float or None
        Size of the difference of the models' outputs over the size of the softmax model's; None where the
        output is not one tensor.
    feature_map : str
        Name of the map.
    denominator : Denominator
        The policy of every converted layer.
    """

    model: nn.Module
    layers: tuple[LayerDrift, ...]
    output: float | None
    feature_map: str
    denominator: Denominator

    def to_dict(self) -> dict[str, Any]:
        """Return the report, without the model, as plain numbers and text."""
        return {
            "layers": [dict(vars(layer)) for layer in self.layers],
            "output": self.output,
            "feature_map": self.feature_map,
            "denominator": self.denominator.to_dict(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each layer, such as for a data frame."""
        whole = {
            "model_output": self.output,
            "feature_map": self.feature_map,
            "denominator": str(self.denominator),
        }
        return [{**vars(layer), **whole} for layer in self.layers]

    def __str__(self) -> str:
        """Return the report as a table, with the names of the attributes of :class:`LayerDrift`."""
        head = ("layer", "own", "compounded", "worst", "calls")
        rows = [
            (
                drift.layer or "(model)",
                f"{drift.own:.3g}",
                f"{drift.compounded:.3g}",
                f"{drift.worst:.3g}",
                str(drift.calls),
            )
            for drift in self.layers
        ]
        whole = "" if self.output is None else f"\n\nDrift of the model's output: {self.output:.3g}"
        return (
            f"Converted to linear attention, {self.feature_map}, {self.denominator}. It is another "
            "function than the softmax\nmodel; this is how far apart they are on the inputs given, before "
            "fine-tuning, relative to softmax.\nown: of the layer, fed as in the softmax model; compounded: "
            "with the drift of earlier layers; worst: of one\n"
            f"token, under own; calls: in one run of the model\n\n{table(head, rows)}{whole}"
        )
