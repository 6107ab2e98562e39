"""A drawing that stands alone: shown in a notebook, saved to a file, and independent of the report's page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from quantattn.errors import UsageError
from quantattn.files import write_text
from quantattn.report.figures import svg
from quantattn.report.formatting import visible_text

# Every selector begins with the plot's own class, for a style sheet inside a drawing reaches the whole page.
_STYLE = """
.quantattn-plot text { font: 12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
 fill: #17202a; }
.quantattn-plot .strong { font-size: 14px; font-weight: 600; }
.quantattn-plot .tick { fill: #55616e; }
.quantattn-plot .mid { text-anchor: middle; }
.quantattn-plot .paper { fill: #ffffff; }
.quantattn-plot .grid { fill: none; stroke: #e6ebf0; }
.quantattn-plot .axis { fill: none; stroke: #55616e; }
.quantattn-plot .span-train { fill: #c3cfdb; }
.quantattn-plot .span-validation { fill: #8399b0; }
.quantattn-plot .span-test { fill: #26394d; }
.quantattn-plot .span-purged { fill: #c2185b; }
.quantattn-plot .span-embargo { fill: #f0a330; }
"""


@dataclass(frozen=True, repr=False)
class Plot:
    """One drawing as SVG text, with its style inside and no scripts.

    A notebook shows it when it is the last value of a cell.

    Attributes
    ----------
    title : str
        What it shows.
    alt : str
        What it says, for readers who do not see it.
    svg : str
        The whole drawing, ``<svg …>`` to ``</svg>``.
    """

    title: str
    alt: str
    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            A name that ends in ``.svg``, or in ``.html`` for a page of its own.

        Returns
        -------
        Path
            The file written.

        Raises
        ------
        UsageError
            If the name ends in anything else.
        """
        target = Path(path)
        kind = target.suffix.lower()
        if kind == ".svg":
            write_text(target, f'<?xml version="1.0" encoding="UTF-8"?>\n{self.svg}\n')
        elif kind == ".html":
            head = svg.tag("title", self.title)
            page = f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">{head}</head>\n'
            write_text(target, f"{page}<body>\n{self.svg}\n</body>\n</html>\n")
        else:
            raise UsageError(f"path={str(path)!r} ends neither in .svg nor in .html; name the file so")
        return target

    def _repr_html_(self) -> str:
        """Give the drawing to a notebook."""
        return self.svg

    def __repr__(self) -> str:
        """Say what it shows."""
        return f"Plot({self.title!r}, {len(self.svg):,} characters of SVG)"


def standalone(content: Markup, width: float, height: float, *, title: str, alt: str) -> Plot:
    """Put a frame, a white ground and the style around the content of a drawing.

    Parameters
    ----------
    content : Markup
        What was painted.
    width, height : float
        Size in CSS pixels.
    title : str
        What it shows.
    alt : str
        What it says.

    Returns
    -------
    Plot
    """
    ground = svg.tag("rect", x=0, y=0, width=width, height=height, class_="paper")
    drawing = svg.tag(
        "svg",
        svg.tag("style", Markup(_STYLE)),
        ground,
        content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {svg.coordinate(width)} {svg.coordinate(height)}",
        width=svg.coordinate(width),
        height=svg.coordinate(height),
        role="img",
        aria_label=alt,
        class_="quantattn-plot",
        style="max-width: 100%; height: auto",
    )
    return Plot(visible_text(title), visible_text(alt), str(drawing))
