"""Dot plot of out-of-sample R², pooled with its interval and for every fold."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel
from quantattn.report.figures.figure import Canvas, Figure, draw, model_legend
from quantattn.report.figures.marks import arrow, marker, whisker
from quantattn.report.figures.scales import Scale, number_ticks, padded
from quantattn.report.formatting import NumberColumn, number_column
from quantattn.report.model_styles import ModelStyle, ModelStyles
from quantattn.report.schema import Metrics
from quantattn.report.tables import Cell, Column, Table

_METRIC = "r2_oos"
_LEAST = -1.0
_TITLE = "Out-of-sample R², pooled and by fold"


@dataclass(frozen=True)
class _Dot:
    """One model's figure in one row, with its interval where there is one."""

    style: ModelStyle
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Row:
    """One row of the plot: the pooled figures or one fold's."""

    label: str
    note: str
    dots: tuple[_Dot, ...]


def fold_quality_figure(metrics: Metrics, styles: ModelStyles) -> Figure | None:
    """Draw R² by model and fold.

    Parameters
    ----------
    metrics : Metrics
        The pooled and by-fold metrics.
    styles : ModelStyles
        How models are drawn.

    Returns
    -------
    Figure or None
        None where no model has an R².
    """
    shown = [s for s in styles.ordered if s.name != "mean"] or list(styles.ordered)
    rows = _rows(metrics, shown)
    drawn = tuple(s for s in shown if any(dot.style == s for row in rows for dot in row.dots))
    if not drawn:
        return None
    values = [v for row in rows for dot in row.dots for v in (dot.value, dot.low, dot.high) if v is not None]
    column = number_column((d.value for r in rows for d in r.dots), _widths(rows))
    domain = _domain(values)
    pooled = "; ".join(f"{d.style.label} {column.text(d.value)}" for d in rows[0].dots)
    return draw(
        "by-fold",
        lambda canvas: _paint(canvas, rows, domain, column, len(drawn)),
        title=_TITLE,
        caption=(
            (
                f"Bars are {formatting.percent(metrics.confidence, 0)} intervals of the pooled figure. "
                if _widths(rows)
                else ""
            )
            + (
                "Right is better; the zero line is the historical mean, against which R² is measured."
                if domain[0] <= 0
                else "Right is better. The axis does not start at zero, which is the historical mean."
            )
        ),
        alt=f"Dot plot of out-of-sample R² by model and fold. All folds: {pooled}.",
        legend=model_legend(drawn),
        table=_table(rows, drawn, column),
    )


def _domain(values: list[float]) -> tuple[float, float]:
    """Hold zero only where the figures come near it: dots are read by position, not by length."""
    shown = [max(value, _LEAST) for value in values]
    near = min(shown) < 0.75 * (max(shown) - min(shown))
    return padded([0.0, *shown] if near else shown, 0.05)


def _rows(metrics: Metrics, shown: list[ModelStyle]) -> list[_Row]:
    entries = {entry.model: entry for entry in metrics.models}
    pooled = []
    for style in shown:
        estimate = entries[style.name].estimate(_METRIC)
        if estimate.value is not None:
            pooled.append(_Dot(style, estimate.value, estimate.low, estimate.high))
    rows = [_Row("All folds", "", tuple(pooled))]
    spans = {fold.fold: fold for entry in metrics.models for fold in entry.by_fold}
    for index in sorted(spans):
        dots = []
        for style in shown:
            for fold in entries[style.name].by_fold:
                value = fold.metrics.get(_METRIC)
                if fold.fold == index and value is not None:
                    dots.append(_Dot(style, value))
        start, end = formatting.month(spans[index].test_start), formatting.month(spans[index].test_end)
        rows.append(_Row(f"Fold {formatting.ordinal(index)}", f"{start} to {end}", tuple(dots)))
    return rows


def _widths(rows: list[_Row]) -> list[float]:
    return [d.high - d.low for r in rows for d in r.dots if d.low is not None and d.high is not None]


def _paint(
    canvas: Canvas, rows: list[_Row], domain: tuple[float, float], column: NumberColumn, models: int
) -> tuple[Markup, float]:
    lane = 8.0 if len(rows) <= 12 else 5.5
    head = 20.0 if canvas.narrow else 0.0
    step = max(models * lane + 12, 34.0) + head
    left = 8.0 if canvas.narrow else 176.0
    panel = Panel(left, 6, canvas.width - left - 12, step * len(rows))
    scale = panel.x_scale(*domain)
    ticks, _ = number_ticks(*domain, 4 if canvas.narrow else 7)
    parts = [
        svg.tag("rect", x=0, y=panel.top, width=canvas.width, height=float(step), class_="band"),
        panel.columns(scale, ticks),
    ]
    if scale.holds(0):
        parts.append(svg.line(scale(0), panel.top, scale(0), panel.bottom, "zero"))
    for i, row in enumerate(rows):
        top = panel.top + i * step
        if i:
            parts.append(svg.line(0, top, panel.right, top, "rule"))
        parts.append(_row_label(canvas, row, top, step))
        first = top + head + (step - head - (models - 1) * lane) / 2
        parts.extend(_dot(dot, scale, first + j * lane, column) for j, dot in enumerate(row.dots))
    return svg.group(parts), panel.bottom + 24


def _row_label(canvas: Canvas, row: _Row, top: float, step: float) -> Markup:
    if canvas.narrow:
        label = svg.tag("tspan", row.label, class_="strong")
        note = svg.tag("tspan", f"  {row.note}", class_="quiet")
        return svg.tag("text", label, note, x=8, y=top + 16, class_="label")
    middle = top + step / 2
    name = svg.text(8, middle + (4 if not row.note else -3), row.label, "label strong")
    return name + svg.text(8, middle + 13, row.note, "tick") if row.note else name


def _dot(dot: _Dot, scale: Scale, y: float, column: NumberColumn) -> Markup:
    spread = column.range_text(dot.low, dot.high)
    note = f"{dot.style.label}: {column.text(dot.value)}" + (f" ({spread})" if spread else "")
    if dot.value < scale.low:
        return arrow(dot.style, scale.start + 8, y, leftward=True, note=note)
    parts = []
    if dot.low is not None and dot.high is not None:
        parts.append(whisker(dot.style, scale.clamped(dot.low), scale.clamped(dot.high), y))
    parts.append(marker(dot.style, scale(dot.value), y, note=note))
    return svg.group(parts)


def _table(rows: list[_Row], drawn: tuple[ModelStyle, ...], column: NumberColumn) -> Table:
    body = []
    for row in rows:
        by_style = {dot.style.name: dot for dot in row.dots}
        cells = [Cell(row.label, row.note)]
        for style in drawn:
            dot = by_style.get(style.name)
            cells.append(
                Cell(column.text(dot.value), column.range_text(dot.low, dot.high))
                if dot
                else Cell(formatting.MISSING)
            )
        body.append(tuple(cells))
    heads = (Column("Test block", numeric=False), *(Column(style.label) for style in drawn))
    return Table(_TITLE, heads, tuple(body))
