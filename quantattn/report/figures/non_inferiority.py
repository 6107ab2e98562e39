"""The non-inferiority interval against its margin."""

from __future__ import annotations

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel
from quantattn.report.figures.figure import Canvas, Figure, draw
from quantattn.report.figures.marks import marker, whisker
from quantattn.report.figures.scales import number_ticks, padded
from quantattn.report.formatting import NumberColumn, number_column
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import NonInferiority
from quantattn.report.verdicts import non_inferiority_words

_MINUS_MARGIN = f"{formatting.MINUS}margin"
_PLUS_MARGIN = "+margin"


def non_inferiority_figure(
    test: NonInferiority, styles: ModelStyles, loss: str, alpha: float
) -> Figure | None:
    """Draw the loss difference and its interval between the two margins.

    Parameters
    ----------
    test : NonInferiority
        The test's result.
    styles : ModelStyles
        How models are drawn.
    loss : str
        The loss's name.
    alpha : float
        Level of each one-sided test; the interval holds ``1 - 2 * alpha``.

    Returns
    -------
    Figure or None
        None where the difference is undefined.
    """
    if test.difference is None:
        return None
    column = figures_column(test)
    spread = column.range_text(test.lower, test.upper, signed=True) or "not defined"
    alt = (
        f"{non_inferiority_words(test, styles)} Difference {column.text(test.difference, signed=True)}, "
        f"interval {spread}, margin {column.with_unit(test.margin)}."
    )
    return draw(
        "non-inferiority",
        lambda canvas: _paint(canvas, test, styles, loss, column),
        title="Non-inferiority: the interval against its margin",
        caption=(
            "Not inferior when the whole interval ends left of +margin; equivalent when it lies inside the "
            f"band. The interval holds {formatting.percent(1 - 2 * alpha, 0)}: two one-sided tests at "
            f"{formatting.percent(alpha, 0)} each."
        ),
        alt=alt,
    )


def figures_column(test: NonInferiority) -> NumberColumn:
    """Give the way in which the figures of the test are written."""
    values = [test.difference, test.lower, test.upper, test.margin]
    width = None if test.lower is None or test.upper is None else test.upper - test.lower
    return number_column(values, [width], most_decimals=6)


def _paint(
    canvas: Canvas, test: NonInferiority, styles: ModelStyles, loss: str, column: NumberColumn
) -> tuple[Markup, float]:
    difference = test.difference or 0.0
    margin = abs(test.margin)
    known = [v for v in (difference, test.lower, test.upper, margin, -margin) if v is not None]
    panel = Panel(16, 46, canvas.width - 32, 62)
    scale = panel.x_scale(*padded(known, 0.14))
    ticks, axis = number_ticks(scale.low, scale.high, 4 if canvas.narrow else 7)
    style = styles[test.model]
    first, second = styles.phrase(test.model), styles.phrase(test.against)
    inside = svg.tag(
        "rect",
        x=scale(-margin),
        y=panel.top,
        width=scale(margin) - scale(-margin),
        height=panel.height,
        class_="margin-band",
    )
    parts = [
        inside,
        panel.columns(scale, ticks),
        panel.base(),
        svg.line(scale(0), panel.top, scale(0), panel.bottom, "zero"),
    ]
    for value, sign in ((-margin, _MINUS_MARGIN), (margin, _PLUS_MARGIN)):
        parts.append(svg.line(scale(value), panel.top - 8, scale(value), panel.bottom, "margin-line"))
        parts.append(svg.text(scale(value), panel.top - 14, sign, "label strong mid"))
    half = panel.width / 2 - 8
    parts.append(svg.text(panel.left, 14, svg.fitted(f"← {first} better", half), "tick"))
    parts.append(svg.text(panel.right, 14, svg.fitted(f"{second} better →", half), "tick end"))
    y = panel.top + panel.height / 2
    if test.lower is not None and test.upper is not None:
        parts.append(whisker(style, scale(test.lower), scale(test.upper), y))
    note = f"{column.text(difference, signed=True)}"
    parts.append(marker(style, scale(difference), y, 6, note))
    parts.append(svg.text(scale(difference), y - 13, note, "label strong mid halo"))
    names = "" if canvas.narrow else f", {first} less {second}"
    title = f"Difference in {loss}{names}" + (f" ({axis.unit})" if axis.unit else "")
    parts.append(panel.x_title(svg.fitted(title, panel.width)))
    return svg.group(parts), panel.bottom + 46
