"""A finished plot: one drawing for wide screens, one for narrow ones, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from quantattn.report.figures import svg
from quantattn.report.figures.marks import marker
from quantattn.report.model_styles import ModelStyle
from quantattn.report.tables import Table

WIDE = 900
"""Width of the drawing for wide screens, in CSS pixels."""

NARROW = 358
"""Width of the drawing for a phone of 390 pixels."""


@dataclass(frozen=True)
class Canvas:
    """What a painter is given.

    Attributes
    ----------
    width : float
        The drawing's width.
    narrow : bool
        Whether it is the one for narrow screens.
    """

    width: float
    narrow: bool


@dataclass(frozen=True)
class LegendItem:
    """One entry of a legend: a swatch of ours and a label."""

    swatch: Markup
    label: str


@dataclass(frozen=True)
class Figure:
    """A plot, ready for the template.

    Attributes
    ----------
    identifier : str
        The id of its element on the page.
    title : str
        What the plot shows, in a few words.
    caption : str
        How to read it.
    alt : str
        What it says, for readers who do not see it.
    wide, narrow : Markup
        The drawings, as SVG.
    legend : tuple of LegendItem
    table : Table or None
        The figures behind the plot.
    """

    identifier: str
    title: str
    caption: str
    alt: str
    wide: Markup
    narrow: Markup
    legend: tuple[LegendItem, ...] = ()
    table: Table | None = None


Painter = Callable[[Canvas], tuple[Markup, float]]
"""Paints on a canvas; gives the content and the height that it took."""


def draw(
    identifier: str,
    paint: Painter,
    *,
    title: str,
    caption: str,
    alt: str,
    legend: tuple[LegendItem, ...] = (),
    table: Table | None = None,
) -> Figure:
    """Paint a plot at both widths."""
    drawings = []
    for width, narrow in ((WIDE, False), (NARROW, True)):
        canvas = Canvas(float(width), narrow)
        content, height = paint(canvas)
        drawings.append(
            svg.tag(
                "svg",
                content,
                viewBox=f"0 0 {width} {svg.coordinate(height)}",
                role="img",
                aria_label=alt,
                class_="narrow" if narrow else "wide",
            )
        )
    return Figure(identifier, title, caption, alt, drawings[0], drawings[1], legend, table)


def model_swatch(style: ModelStyle, *, with_line: bool = False) -> Markup:
    """Give the legend's picture of a model."""
    width = 30 if with_line else 16
    parts = []
    if with_line:
        parts.append(
            svg.tag("path", d=f"M1 8H{width - 1}", class_=f"line {style.css}", stroke_dasharray=style.dash)
        )
    parts.append(marker(style, width / 2, 8))
    return svg.tag(
        "svg", *parts, viewBox=f"0 0 {width} 16", width=width, height=16, aria_hidden="true", class_="swatch"
    )


def box_swatch(css: str) -> Markup:
    """Give the legend's picture of a span."""
    box = svg.tag("rect", x=1, y=3, width=22, height=10, class_=css)
    return svg.tag("svg", box, viewBox="0 0 24 16", width=24, height=16, aria_hidden="true", class_="swatch")


def line_swatch(css: str) -> Markup:
    """Give the legend's picture of an upright line."""
    upright = svg.line(6, 1, 6, 15, css)
    return svg.tag(
        "svg", upright, viewBox="0 0 12 16", width=12, height=16, aria_hidden="true", class_="swatch"
    )


def model_legend(styles: tuple[ModelStyle, ...], *, with_line: bool = False) -> tuple[LegendItem, ...]:
    """Give the legend of the models drawn."""
    return tuple(LegendItem(model_swatch(style, with_line=with_line), style.label) for style in styles)
