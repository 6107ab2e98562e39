"""The frame of a plot: grid lines, tick labels and titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from quantattn.report.figures import svg
from quantattn.report.figures.scales import Scale, Tick


def label_room(ticks: Iterable[Tick]) -> float:
    """Give the width that the labels of an upright axis need on its left."""
    return max((svg.text_width(tick.label) for tick in ticks), default=0.0) + 12


@dataclass(frozen=True)
class Panel:
    """The area of one plot inside a drawing.

    Attributes
    ----------
    left, top, width, height : float
        The area, in drawing units.
    """

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    def x_scale(self, low: float, high: float, *, logarithmic: bool = False) -> Scale:
        """Give a scale that runs from the left to the right edge."""
        return Scale(low, high, self.left, self.right, logarithmic)

    def y_scale(self, low: float, high: float, *, logarithmic: bool = False) -> Scale:
        """Give a scale that runs from the lower to the upper edge."""
        return Scale(low, high, self.bottom, self.top, logarithmic)

    def columns(
        self, scale: Scale, ticks: Sequence[Tick], *, labels: bool = True, grid: bool = True
    ) -> Markup:
        """Give vertical grid lines (or short ticks), and the labels that do not touch each other."""
        parts = []
        free = -1e9
        for tick in ticks:
            x = scale(tick.value)
            if grid:
                parts.append(svg.line(x, self.top, x, self.bottom, "grid"))
            else:
                parts.append(svg.line(x, self.bottom, x, self.bottom + 4, "axis"))
            if not (labels and tick.label):
                continue
            half = svg.text_width(tick.label, 12) / 2
            # A label at the drawing's left edge moves in rather than out of sight.
            middle = max(x, half)
            if middle - half >= free:
                parts.append(svg.text(middle, self.bottom + 17, tick.label, "tick mid"))
                free = middle + half + 6
        return svg.group(parts)

    def rows(self, scale: Scale, ticks: Sequence[Tick], *, labels: bool = True) -> Markup:
        """Give horizontal grid lines with their labels on the left."""
        parts = []
        for tick in ticks:
            y = scale(tick.value)
            parts.append(svg.line(self.left, y, self.right, y, "grid" if tick.label else "grid faint"))
            if labels and tick.label:
                parts.append(svg.text(self.left - 7, y + 4, tick.label, "tick end"))
        return svg.group(parts)

    def base(self) -> Markup:
        """Give the line along the lower edge."""
        return svg.line(self.left, self.bottom, self.right, self.bottom, "axis")

    def x_title(self, content: str, *, drop: float = 36) -> Markup:
        """Give the title of the horizontal axis."""
        return svg.text(self.left + self.width / 2, self.bottom + drop, content, "axis-title mid")
