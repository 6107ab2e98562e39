"""Interval plot of the paired loss differences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel
from quantattn.report.figures.figure import Canvas, Figure, draw
from quantattn.report.figures.marks import arrow, marker, whisker
from quantattn.report.figures.scales import Scale, number_ticks, padded
from quantattn.report.formatting import NumberColumn
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import PairedComparison
from quantattn.report.verdicts import comparison_words

_FAR = 6.0


def pairwise_figure(
    pairs: Sequence[PairedComparison], styles: ModelStyles, loss: str, level: float
) -> Figure | None:
    """Draw each pair's mean loss difference with its interval against zero.

    Parameters
    ----------
    pairs : sequence of PairedComparison
        The comparisons, in the order of the rows.
    styles : ModelStyles
        How models are drawn; a row has the colour of the model compared against.
    loss : str
        The loss's name.
    level : float
        The intervals' confidence level.

    Returns
    -------
    Figure or None
        None where no pair has a difference.
    """
    drawn = [pair for pair in pairs if pair.mean_difference is not None]
    if not drawn:
        return None
    domain = _domain(drawn)
    one = styles.phrase(drawn[0].model) if len({pair.model for pair in drawn}) == 1 else ""
    first = one or "the model named first"
    beyond = any(not domain[0] <= pair.mean_difference <= domain[1] for pair in drawn if pair.mean_difference)
    ahead = sum(1 for pair in drawn if pair.verdict == f"{pair.model} better")
    return draw(
        "pairwise",
        lambda canvas: _paint(canvas, drawn, styles, domain, loss, one),
        title=formatting.sentence(f"{one} against the others") if one else "Mean difference in loss",
        caption=(
            f"Dots are mean differences in {loss} over forecast times, bars their "
            f"{formatting.percent(level, 0)} intervals. Left of zero {first} is better."
            + (" An arrow stands for a difference far beyond the axis." if beyond else "")
        ),
        alt=(
            f"Intervals of the paired differences in {loss}: {first} is better in {ahead} of "
            f"{formatting.plural(len(drawn), 'comparison')}. "
            + "; ".join(pair_words(pair, styles) for pair in drawn)
            + "."
        ),
    )


def pair_words(pair: PairedComparison, styles: ModelStyles) -> str:
    """Give one comparison as a sentence without its full stop."""
    return (
        f"{styles.label(pair.model)} against {styles.label(pair.against)}: {comparison_words(pair, styles)}"
    )


def _reach(pair: PairedComparison) -> float:
    known = [abs(v) for v in (pair.mean_difference, pair.low, pair.high) if v is not None]
    return max(known)


def _domain(pairs: Sequence[PairedComparison]) -> tuple[float, float]:
    """Hold all pairs but those that would squeeze the others flat."""
    typical = median(_reach(pair) for pair in pairs)
    near = [pair for pair in pairs if _reach(pair) <= _FAR * typical] or list(pairs)
    values = [v for p in near for v in (p.mean_difference, p.low, p.high) if v is not None]
    return padded([0.0, *values], 0.08)


def _paint(
    canvas: Canvas,
    pairs: Sequence[PairedComparison],
    styles: ModelStyles,
    domain: tuple[float, float],
    loss: str,
    one: str,
) -> tuple[Markup, float]:
    step = 46.0 if canvas.narrow else (28.0 if one else 36.0)
    left = 14.0 if canvas.narrow else 200.0
    right = 14.0 if canvas.narrow else 196.0
    panel = Panel(left, 24, canvas.width - left - right, step * len(pairs))
    scale = panel.x_scale(*domain)
    ticks, column = number_ticks(*domain, 4 if canvas.narrow else 6)
    title = f"Difference in {loss}" + (f" ({column.unit})" if column.unit else "")
    zero = scale(0.0)
    parts = [
        panel.columns(scale, ticks),
        svg.line(zero, panel.top, zero, panel.bottom, "zero"),
        panel.x_title(svg.fitted(title, panel.width)),
        *_directions(panel, zero, one),
    ]
    for i, pair in enumerate(pairs):
        parts.append(_row(canvas, panel, scale, pair, styles, panel.top + i * step, step, column, one))
    return svg.group(parts), panel.bottom + 40


def _directions(panel: Panel, zero: float, one: str) -> list[Markup]:
    """Say which side is whose, where there is room for the words."""
    parts = []
    for words, room, css in (
        (f"← {one or 'first'} better", zero - panel.left, "tick end"),
        (f"{'other' if one else 'second'} better →", panel.right - zero, "tick"),
    ):
        if svg.text_width(words) + 8 <= room:
            parts.append(svg.text(zero + (-8 if css != "tick" else 8), 14, words, css))
    return parts


def _row(
    canvas: Canvas,
    panel: Panel,
    scale: Scale,
    pair: PairedComparison,
    styles: ModelStyles,
    top: float,
    step: float,
    column: NumberColumn,
    one: str,
) -> Markup:
    style = styles[pair.against]
    verdict = comparison_words(pair, styles)
    first = styles.label(pair.model)
    y = top + (31.0 if canvas.narrow else step / 2)
    if canvas.narrow:
        words = f"against {style.label}" if one else f"{first} against {style.label}"
        room = canvas.width - 28 - svg.text_width(f"  {verdict}", 12)
        label = svg.tag("tspan", svg.fitted(words, max(room, 120), 13), class_="strong")
        quiet = svg.tag("tspan", f"  {verdict}", class_="quiet")
        parts = [svg.tag("text", label, quiet, x=14, y=top + 17, class_="label halo")]
    else:
        rival = svg.fitted(f"against {style.label}", panel.left - 12)
        parts = [svg.text(panel.right + 16, y + 4, svg.fitted(verdict, 178), "label")]
        if one:
            parts.append(svg.text(0, y + 4, rival, "label"))
        else:
            parts.append(svg.text(0, y - 2, svg.fitted(first, panel.left - 12), "label"))
            parts.append(svg.text(0, y + 12, rival, "tick"))
    if pair.mean_difference is None:
        return svg.group(parts)
    finer = NumberColumn(column.exponent, min(column.decimals + 2, 6))
    spread = finer.range_text(pair.low, pair.high, signed=True)
    note = (
        f"{finer.text(pair.mean_difference, signed=True)}"
        + (f" ({spread})" if spread else "")
        + f": {verdict}"
    )
    if not scale.holds(pair.mean_difference):
        leftward = pair.mean_difference < scale.low
        edge = panel.left + 8 if leftward else panel.right - 8
        value = finer.text(pair.mean_difference, signed=True)
        parts.append(arrow(style, edge, y, leftward=leftward, note=note))
        parts.append(
            svg.text(edge + (9 if leftward else -9), y + 4, value, "tick" if leftward else "tick end")
        )
        return svg.group(parts)
    if pair.low is not None and pair.high is not None:
        parts.append(whisker(style, scale.clamped(pair.low), scale.clamped(pair.high), y))
    parts.append(marker(style, scale(pair.mean_difference), y, 5, note))
    return svg.group(parts)
