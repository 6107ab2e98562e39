"""One name, colour class, marker and dash per model, the same in every plot and table.

Colours follow the Okabe-Ito palette, darkened where a mark on white needs it. Colour never stands
alone: markers and dashes differ too. CSS classes come from this file only, never from a model's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelStyle:
    """How a model is named and drawn.

    Attributes
    ----------
    name : str
        The name in the tables (untrusted text).
    label : str
        The name as a heading.
    phrase : str
        The name inside a sentence.
    css : str
        The class that sets the colour.
    marker : str
        Shape: circle, diamond, square, triangle, cross, wedge.
    dash : str or None
        SVG dash pattern of lines; None is solid.
    """

    name: str
    label: str
    phrase: str
    css: str
    marker: str
    dash: str | None


_KNOWN = (
    ModelStyle("linear", "Linear attention", "linear attention", "m-linear", "circle", None),
    ModelStyle("softmax", "Softmax attention", "softmax attention", "m-softmax", "diamond", "7 3"),
    ModelStyle("har", "HAR regression", "HAR", "m-har", "square", "2 3"),
    ModelStyle("ridge", "Ridge regression", "ridge regression", "m-ridge", "circle", "6 2"),
    ModelStyle(
        "gradient_boosting",
        "Gradient boosting",
        "gradient boosting",
        "m-gradient-boosting",
        "wedge",
        "9 3 2 3",
    ),
    ModelStyle("ewma", "EWMA", "EWMA", "m-ewma", "triangle", "5 2 2 2"),
    ModelStyle("garch", "GARCH(1,1)", "GARCH(1,1)", "m-other-2", "diamond", "8 2 2 2"),
    ModelStyle(
        "events_ridge", "Ridge on events", "ridge regression on events", "m-other-2", "square", "4 2 1 2"
    ),
    ModelStyle(
        "events_logistic",
        "Logistic regression on events",
        "logistic regression on events",
        "m-other-2",
        "triangle",
        "3 3 1 3",
    ),
    ModelStyle("gru", "GRU", "the GRU", "m-other-3", "wedge", "10 3"),
    ModelStyle(
        "softmax_window",
        "Softmax, last W events",
        "softmax attention over the last W events",
        "m-other-3",
        "cross",
        "6 2 1 2 1 2",
    ),
    ModelStyle("mean", "Historical mean", "the historical mean", "m-mean", "cross", "1 3"),
)
_ENSEMBLE = "-ensemble"
_ENSEMBLE_MARKERS = {
    "circle": "wedge",
    "diamond": "triangle",
    "square": "cross",
    "triangle": "diamond",
    "cross": "square",
    "wedge": "circle",
}
_OTHER_CLASSES = ("m-other-2", "m-other-3")
_OTHER_MARKERS = ("circle", "square", "triangle", "diamond", "wedge", "cross")
_OTHER_DASHES = (None, "6 2", "3 2")


def _ensemble(member: ModelStyle) -> ModelStyle:
    """Give the style of the mean over a model's seeds: its colour, with another marker and dash."""
    return ModelStyle(
        member.name + _ENSEMBLE,
        f"{member.label}, mean over seeds",
        f"the mean over seeds of {member.phrase}",
        member.css,
        _ENSEMBLE_MARKERS[member.marker],
        "12 3" if member.dash is None else f"12 3 {member.dash}",
    )


class ModelStyles:
    """The styles of the models of one study, in reading order: twins, baselines, means over seeds.

    Parameters
    ----------
    names : iterable of str
        The models of the study. Models without a style of their own follow in alphabetical order.
    """

    def __init__(self, names: Iterable[str]) -> None:
        given = set(names)
        styles = [style for style in _KNOWN if style.name in given]
        styles += [_ensemble(style) for style in _KNOWN if style.name + _ENSEMBLE in given]
        others = sorted(given - {style.name for style in styles})
        for i, name in enumerate(others):
            styles.append(
                ModelStyle(
                    name,
                    name,
                    name,
                    _OTHER_CLASSES[i % len(_OTHER_CLASSES)],
                    _OTHER_MARKERS[i % len(_OTHER_MARKERS)],
                    _OTHER_DASHES[i % len(_OTHER_DASHES)],
                )
            )
        self.ordered: tuple[ModelStyle, ...] = tuple(styles)
        self._by_name = {style.name: style for style in styles}

    def __getitem__(self, name: str) -> ModelStyle:
        """Give the style of a model; one that is not of the study is drawn in neutral grey."""
        return self._by_name.get(name) or ModelStyle(name, name, name, "m-other-1", "circle", None)

    def __contains__(self, name: object) -> bool:
        """Say whether a model is one of the study's."""
        return name in self._by_name

    def rank(self, name: str) -> tuple[int, str]:
        """Give the sort key that puts models in reading order."""
        for i, style in enumerate(self.ordered):
            if style.name == name:
                return i, name
        return len(self.ordered), name

    def label(self, name: str) -> str:
        """Give a model's name as a heading."""
        return self[name].label

    def phrase(self, name: str) -> str:
        """Give a model's name inside a sentence."""
        return self[name].phrase
