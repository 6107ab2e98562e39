"""A few lines that write SVG: every attribute and text is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from quantattn.report.formatting import visible_text

Attribute = str | float | int | None
Point = tuple[float, float]


def coordinate(value: float) -> str:
    """Give a coordinate with at most one decimal, so that files stay small and equal."""
    text = f"{value:.1f}"
    if text.endswith(".0"):
        text = text[:-2]
    return "0" if text == "-0" else text


def tag(name: str, *children: str, **attributes: Attribute) -> Markup:
    """Give an SVG element.

    Parameters
    ----------
    name : str
        The element's name; ours, never taken from data.
    *children : str
        Content: `Markup` stands as it is, plain text is escaped.
    **attributes : str, float, int or None
        Attributes; None leaves one out. ``class_`` gives ``class``, an underscore a hyphen.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        label = key.rstrip("_").replace("_", "-") if key != "viewBox" else key
        text = coordinate(value) if isinstance(value, float) else str(value)
        parts.append(f' {label}="{escape(visible_text(text))}"')
    if not children:
        return Markup("".join(parts) + "/>")
    inner = "".join(
        child if isinstance(child, Markup) else str(escape(visible_text(child))) for child in children
    )
    return Markup(f"{''.join(parts)}>{inner}</{name}>")


def group(children: Iterable[Markup], **attributes: Attribute) -> Markup:
    """Give a ``<g>`` around elements; nothing when there are none."""
    inner = Markup("").join(children)
    return tag("g", inner, **attributes) if inner else Markup("")


def line(x1: float, y1: float, x2: float, y2: float, css: str, **attributes: Attribute) -> Markup:
    """Give a straight line."""
    return tag("path", d=polyline([(x1, y1), (x2, y2)]), class_=css, **attributes)


def text(x: float, y: float, content: str, css: str, **attributes: Attribute) -> Markup:
    """Give a text whose base line starts (or, by class, ends or is centred) at a point."""
    return tag("text", content, x=float(x), y=float(y), class_=css, **attributes)


def tooltip(content: str) -> Markup:
    """Give the ``<title>`` that a browser shows when the pointer rests on a mark."""
    return tag("title", content)


def polyline(points: Sequence[Point]) -> str:
    """Give the path data of an open line through points."""
    if not points:
        return ""
    body = "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)
    return f"M{body}"


def polygon(points: Sequence[Point]) -> str:
    """Give the path data of a closed area."""
    return f"{polyline(points)}Z" if points else ""


def dots(points: Sequence[Point]) -> str:
    """Give the path data of many dots (zero-length strokes with round ends): one element for all."""
    return "".join(f"M{coordinate(x)} {coordinate(y)}h0" for x, y in points)


def text_width(content: str, size: float = 12.0) -> float:
    """Estimate the width of a text in a sans-serif face, a little generously."""
    narrow = sum(content.count(c) for c in "iljtf.,:;'|! ")
    return size * (0.6 * (len(content) - narrow) + 0.34 * narrow)


def fitted(content: str, width: float, size: float = 12.0) -> str:
    """Shorten a text with an ellipsis so that it fits a width."""
    if text_width(content, size) <= width:
        return content
    kept = content
    while kept and text_width(kept + "…", size) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…"
