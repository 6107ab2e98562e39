"""The marks of the models: a shape and a colour each, and lines with their dash."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from quantattn.report.figures import svg
from quantattn.report.figures.svg import Point, coordinate
from quantattn.report.model_styles import ModelStyle


def marker(style: ModelStyle, x: float, y: float, size: float = 4.5, note: str = "") -> Markup:
    """Give a model's marker, centred at a point; `note` shows when the pointer rests on it."""
    css = f"mark {style.css}"
    hint = (svg.tooltip(note),) if note else ()
    if style.marker == "circle":
        return svg.tag("circle", *hint, cx=float(x), cy=float(y), r=float(size), class_=css)
    if style.marker == "cross":
        arm = size * 0.85
        path = (
            f"M{coordinate(x - arm)} {coordinate(y - arm)}L{coordinate(x + arm)} {coordinate(y + arm)}"
            f"M{coordinate(x - arm)} {coordinate(y + arm)}L{coordinate(x + arm)} {coordinate(y - arm)}"
        )
        return svg.tag("path", *hint, d=path, class_=f"mark-open {style.css}")
    corners = _CORNERS[style.marker]
    points = [(x + size * dx, y + size * dy) for dx, dy in corners]
    return svg.tag("path", *hint, d=svg.polygon(points), class_=css)


_CORNERS: dict[str, tuple[Point, ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)),
    "triangle": ((0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    "wedge": ((0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
}


def model_line(style: ModelStyle, points: Sequence[Point], css: str = "line") -> Markup:
    """Give a model's line through points."""
    return svg.tag("path", d=svg.polyline(points), class_=f"{css} {style.css}", stroke_dasharray=style.dash)


def whisker(style: ModelStyle, low: float, high: float, y: float) -> Markup:
    """Give a horizontal interval with end caps."""
    path = (
        f"M{coordinate(low)} {coordinate(y)}H{coordinate(high)}"
        f"M{coordinate(low)} {coordinate(y - 4)}v8M{coordinate(high)} {coordinate(y - 4)}v8"
    )
    return svg.tag("path", d=path, class_=f"whisker {style.css}")


def arrow(style: ModelStyle, x: float, y: float, *, leftward: bool, note: str = "") -> Markup:
    """Give an arrow head at an edge, for a figure that lies beyond the axis."""
    tip = -7.0 if leftward else 7.0
    points = [(x + tip, y), (x, y - 4.5), (x, y + 4.5)]
    hint = (svg.tooltip(note),) if note else ()
    return svg.tag("path", *hint, d=svg.polygon(points), class_=f"mark {style.css}")
