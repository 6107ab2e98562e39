"""Running loss differences over time, one small panel per rival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel, label_room
from quantattn.report.figures.figure import Canvas, Figure, draw
from quantattn.report.figures.scales import Scale, at_least_a_day, number_ticks, padded, time_ticks
from quantattn.report.formatting import NumberColumn, number_column
from quantattn.report.model_styles import ModelStyle, ModelStyles
from quantattn.report.schema import Comparisons, FoldSpan
from quantattn.report.tables import Cell, Column, Table

_MOST_POINTS = 500
_READOUTS = 40
_Y_TICKS = 4
_TITLE = "Cumulative loss difference"


@dataclass(frozen=True)
class _Series:
    """The running sum against one rival."""

    style: ModelStyle
    points: tuple[tuple[int, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


def cumulative_figure(
    comparisons: Comparisons, folds: Sequence[FoldSpan], styles: ModelStyles
) -> Figure | None:
    """Draw the running sum of loss(rival) less loss(reference) against every rival.

    Parameters
    ----------
    comparisons : Comparisons
        Holds the running sums.
    folds : sequence of FoldSpan
        Their test starts are marked.
    styles : ModelStyles
        How models are drawn.

    Returns
    -------
    Figure or None
        None where there are no running sums.
    """
    series = _series(comparisons, styles)
    if not series:
        return None
    reference = styles.phrase(comparisons.reference)
    starts = [fold.test_start for fold in folds]
    ends = "; ".join(f"against {s.style.label} {_end_text(s)}" for s in series)
    return draw(
        "cumulative",
        lambda canvas: _paint(canvas, series, starts),
        title=_TITLE,
        caption=(
            f"Running sum of the rival's {comparisons.loss} less that of {reference}. A rising line means "
            f"that {reference} is ahead in that period. Each panel has its own scale; thin lines mark the "
            "start of each test block."
        ),
        alt=(
            f"Cumulative difference in {comparisons.loss}, positive where {reference} is ahead. "
            f"At the end: {ends}."
        ),
        table=_table(series, starts),
    )


def _series(comparisons: Comparisons, styles: ModelStyles) -> list[_Series]:
    points: dict[str, list[tuple[int, float]]] = {}
    for point in comparisons.cumulative_loss_difference:
        if point.value is not None:
            points.setdefault(point.against, []).append((point.forecast_time, point.value))
    rivals = sorted(points, key=styles.rank)
    return [_Series(styles[name], thinned(sorted(points[name]), _MOST_POINTS)) for name in rivals]


def thinned(points: Sequence[tuple[int, float]], most: int) -> tuple[tuple[int, float], ...]:
    """Keep at most about `most` evenly spaced points, the first and the last among them."""
    stride = max(1, -(-len(points) // most))
    kept = list(points[::stride])
    if kept and kept[-1] != points[-1]:
        kept.append(points[-1])
    return tuple(kept)


def _end_text(series: _Series) -> str:
    return number_column([series.last]).with_unit(series.last, signed=True)


def _paint(canvas: Canvas, series: list[_Series], starts: list[int]) -> tuple[Markup, float]:
    columns = 1 if canvas.narrow or len(series) == 1 else 2
    gap, height, step = 36.0, 104.0, 162.0
    width = (canvas.width - gap * (columns - 1)) / columns
    axis = max(label_room(number_ticks(*_domain(one), _Y_TICKS)[0]) for one in series)
    parts = []
    for i, one in enumerate(series):
        left = (i % columns) * (width + gap)
        top = (i // columns) * step
        parts.append(_panel(canvas, one, starts, Panel(left + axis, top + 26, width - axis - 8, height)))
    return svg.group(parts), -(-len(series) // columns) * step + 4


def _domain(series: _Series) -> tuple[float, float]:
    return padded([0.0, *(value for _, value in series.points)], 0.08)


def _panel(canvas: Canvas, series: _Series, starts: list[int], panel: Panel) -> Markup:
    times = [t for t, _ in series.points]
    first, last = at_least_a_day(times[0], times[-1])
    x = panel.x_scale(float(first), float(last))
    y = panel.y_scale(*_domain(series))
    ticks, column = number_ticks(y.low, y.high, _Y_TICKS)
    line = [(x(t), y(v)) for t, v in series.points]
    area = [(line[0][0], y(0)), *line, (line[-1][0], y(0))]
    end = NumberColumn(column.exponent, column.decimals + 1).text(series.last, signed=True)
    label = f"against {series.style.label}" + (f" ({column.unit})" if column.unit else "")
    parts = [
        svg.text(panel.left, panel.top - 11, svg.fitted(label, panel.width - 74, 13), "label strong"),
        svg.text(panel.right, panel.top - 11, end, f"label strong end ink {series.style.css}"),
        panel.rows(y, ticks),
        panel.columns(x, time_ticks(first, last, 7), grid=False),
        *(svg.line(x(s), panel.top, x(s), panel.bottom, "fold-line") for s in starts if first < s <= last),
        svg.tag("path", d=svg.polygon(area), class_=f"area {series.style.css}"),
        svg.line(panel.left, y(0), panel.right, y(0), "zero"),
        svg.tag("path", d=svg.polyline(line), class_=f"line {series.style.css}"),
    ]
    if not canvas.narrow:
        parts.append(_readouts(series, x, y, panel))
    return svg.group(parts)


def _readouts(series: _Series, x: Scale, y: Scale, panel: Panel) -> Markup:
    """Give strips over the panel that show the nearest figure while the pointer is over them."""
    points = thinned(series.points, _READOUTS)
    column = number_column([v for _, v in series.points])
    parts = []
    for i, (moment, value) in enumerate(points):
        at = x(moment)
        before = (x(points[i - 1][0]) + at) / 2 if i else panel.left
        after = (x(points[i + 1][0]) + at) / 2 if i + 1 < len(points) else panel.right
        words = f"{formatting.date(moment)}: {column.with_unit(value, signed=True)}"
        half = svg.text_width(words, 12) / 2
        middle = min(max(at, panel.left + half), panel.right - half)
        parts.append(
            svg.group(
                [
                    svg.tag(
                        "rect", x=before, y=panel.top, width=max(after - before, 0.1), height=panel.height
                    ),
                    svg.line(at, panel.top, at, panel.bottom, "cursor"),
                    svg.tag("circle", cx=at, cy=y(value), r=3.5, class_=f"mark {series.style.css}"),
                    svg.text(middle, panel.bottom - 6, words, "label mid halo"),
                ],
                class_="readout",
            )
        )
    return svg.group(parts)


def _table(series: list[_Series], starts: list[int]) -> Table:
    """Give the running sums at the start of each test block and at the end."""
    last = max(s.points[-1][0] for s in series)
    moments = [*sorted(s for s in starts if s < last)[1:], last]
    rows = []
    for moment in moments:
        cells = [Cell(formatting.date(moment))]
        for one in series:
            known = [value for t, value in one.points if t <= moment]
            column = number_column([v for _, v in one.points])
            cells.append(Cell(column.with_unit(known[-1], signed=True) if known else formatting.MISSING))
        rows.append(tuple(cells))
    heads = (Column("Up to", numeric=False), *(Column(f"against {s.style.label}") for s in series))
    return Table(f"{_TITLE} at the end of each test block", heads, tuple(rows))
