"""The folds on a time line, and a close-up of the boundaries where rows are purged."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel
from quantattn.report.figures.figure import Canvas, Figure, LegendItem, box_swatch, draw, line_swatch
from quantattn.report.figures.scales import DAY, Scale, at_least_a_day, time_ticks
from quantattn.report.schema import FoldSpan

_LEAST_WIDTH = 4.0


def timeline_figure(folds: Sequence[FoldSpan]) -> Figure | None:
    """Draw train, validation, purged and test spans of every fold.

    Parameters
    ----------
    folds : sequence of FoldSpan
        The spans, as the manifest gives them.

    Returns
    -------
    Figure or None
        None where the manifest names no fold.
    """
    if not folds:
        return None
    low, high = at_least_a_day(min(fold.train_start for fold in folds), max(fold.test_end for fold in folds))
    legend = [LegendItem(box_swatch("span-train"), "Train")]
    if any(fold.validation_start is not None for fold in folds):
        legend.append(LegendItem(box_swatch("span-validation"), "Validation"))
    if any(fold.purged for fold in folds):
        legend.append(LegendItem(box_swatch("span-purged"), "Purged"))
    legend.append(LegendItem(box_swatch("span-test"), "Test"))
    if any(_boundaries(fold) for fold in folds[-1:]):
        legend.append(LegendItem(line_swatch("fit-line"), "Fit time (close-up)"))
    last = folds[-1]
    return draw(
        "folds",
        lambda canvas: _paint(canvas, folds, low, high),
        title="Folds on a time line",
        caption=(
            "Spans run from the first to the last forecast time of their rows."
            + (" Purged spans are drawn wide enough to be seen." if any(f.purged for f in folds) else "")
        ),
        alt=(
            f"Time line of {formatting.plural(len(folds), 'fold')} from {formatting.date(low)} to "
            f"{formatting.date(high)}. The last fold trains from {formatting.date(last.train_start)} to "
            f"{formatting.date(last.train_end)} and tests from {formatting.date(last.test_start)} to "
            f"{formatting.date(last.test_end)}."
        ),
        legend=tuple(legend),
    )


def _spans(fold: FoldSpan) -> list[tuple[str, str, int, int]]:
    """Give the spans as (class, words, start, end), the purged ones last so that they are on top."""
    spans = [("span-train", "train", fold.train_start, fold.train_end)]
    if fold.validation_start is not None and fold.validation_end is not None:
        spans.append(("span-validation", "validation", fold.validation_start, fold.validation_end))
    spans.append(("span-test", "test", fold.test_start, fold.test_end))
    spans.extend(
        ("span-purged", f"purged from {p.side}, {formatting.plural(p.n_rows, 'row')}", p.start, p.end)
        for p in fold.purged
    )
    return spans


def _bars(fold: FoldSpan, scale: Scale, y: float, height: float, least: float) -> Markup:
    parts = []
    for css, words, start, end in _spans(fold):
        left, right = scale.clamped(start), scale.clamped(end)
        if end < scale.low or start > scale.high:
            continue
        width = max(right - left, least if css == "span-purged" else 1.0)
        dates = f"{formatting.date(start)} to {formatting.date(end)}"
        note = f"Fold {formatting.ordinal(fold.fold)}, {words}: {dates}"
        # A widened purged span keeps its centre, so that it hides no more than it must.
        x = left - max(0.0, width - (right - left)) / 2
        parts.append(
            svg.tag("rect", svg.tooltip(note), x=x, y=y, width=width, height=float(height), rx=1, class_=css)
        )
    return svg.group(parts)


def _paint(canvas: Canvas, folds: Sequence[FoldSpan], low: int, high: int) -> tuple[Markup, float]:
    left = 52.0
    step = 30.0 if len(folds) <= 15 else 20.0
    bar = step - 12
    panel = Panel(left, 4, canvas.width - left - 12, step * len(folds))
    scale = panel.x_scale(float(low), float(high))
    parts = [
        panel.columns(scale, time_ticks(low, high, 5 if canvas.narrow else 9)),
        panel.base(),
    ]
    for i, fold in enumerate(folds):
        y = panel.top + i * step + 6
        parts.append(svg.text(0, y + bar / 2 + 4, f"Fold {formatting.ordinal(fold.fold)}", "label"))
        parts.append(_bars(fold, scale, y, bar, _LEAST_WIDTH))
    height = panel.bottom + 28
    closeup = _closeup(canvas, folds[-1], height)
    if closeup is None:
        return svg.group(parts), height
    parts.append(closeup[0])
    return svg.group(parts), closeup[1]


def _boundaries(fold: FoldSpan) -> list[tuple[str, int, int]]:
    """Give the boundaries of a fold that have purged rows, as (title, end of one side, start of the next)."""
    if not fold.purged:
        return []
    if fold.validation_start is None or fold.validation_end is None:
        return [("train to test", fold.train_end, fold.test_start)]
    return [
        ("train to validation", fold.train_end, fold.validation_start),
        ("validation to test", fold.validation_end, fold.test_start),
    ]


def _closeup(canvas: Canvas, fold: FoldSpan, top: float) -> tuple[Markup, float] | None:
    boundaries = _boundaries(fold)
    if not boundaries:
        return None
    columns = 1 if canvas.narrow else len(boundaries)
    gap = 36.0
    width = (canvas.width - 52 - 12 - gap * (columns - 1)) / columns
    parts = []
    for i, (title, end, start) in enumerate(boundaries):
        margin = max(2 * (start - end), 21 * DAY)
        panel = Panel(52 + (i % columns) * (width + gap), top + 34 + (i // columns) * 88, width, 30)
        scale = panel.x_scale(float(end - margin), float(start + margin))
        ticks = time_ticks(int(scale.low), int(scale.high), 4)
        parts += [
            svg.text(
                panel.left,
                panel.top - 8,
                f"Close-up of fold {formatting.ordinal(fold.fold)}: {title}",
                "label strong",
            ),
            panel.columns(scale, ticks),
            panel.base(),
            _bars(fold, scale, panel.top + 6, 18, _LEAST_WIDTH),
        ]
        if scale.holds(float(fold.fit_time)):
            at = scale(float(fold.fit_time))
            parts.append(svg.line(at, panel.top - 2, at, panel.bottom, "fit-line"))
    rows = -(-len(boundaries) // columns)
    return svg.group(parts), top + 34 + (rows - 1) * 88 + 30 + 24
