"""Read and update latency against the length of the history, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel, label_room
from quantattn.report.figures.figure import Canvas, Figure, draw, model_legend
from quantattn.report.figures.marks import marker, model_line
from quantattn.report.figures.scales import Scale, Tick, decade_ticks, padded_log
from quantattn.report.model_styles import ModelStyle, ModelStyles
from quantattn.report.schema import Latency, LatencyPoint, Percentiles


@dataclass(frozen=True)
class _Curve:
    """One model's percentiles by history length; only points that a logarithmic axis can show."""

    style: ModelStyle
    points: tuple[tuple[int, Percentiles], ...]


@dataclass(frozen=True)
class _Plot:
    """One panel: what is timed, and the curves."""

    title: str
    curves: tuple[_Curve, ...]


def latency_figure(latency: Latency, styles: ModelStyles) -> Figure | None:
    """Draw p50 lines with bands up to p95 and p99, for reads and for updates.

    Parameters
    ----------
    latency : Latency
        Holds the curve over history lengths.
    styles : ModelStyles
        How models are drawn.

    Returns
    -------
    Figure or None
        None where no point can be drawn.
    """
    plots = [
        plot for title, pick in _PICKS if (plot := _Plot(title, _curves(latency.curve, pick, styles))).curves
    ]
    if not plots:
        return None
    drawn = tuple(
        s for s in _styles_of(latency, styles) if any(c.style == s for p in plots for c in p.curves)
    )
    crossover = latency.crossover_history
    if crossover is not None and crossover <= min(point.history for point in latency.curve):
        # Faster from the first length on: the curves do not cross where anything was measured.
        crossover = None
    return draw(
        "latency",
        lambda canvas: _paint(canvas, plots, crossover),
        title="Latency against history length",
        caption=(
            "The network alone: one encoded event, or one forecast, of one entity. Lines are medians (p50); "
            "the darker band reaches to p95, the lighter one to p99. Both axes are logarithmic."
        ),
        alt="Latency against the length of the history. " + " ".join(_summary(plot) for plot in plots),
        legend=model_legend(drawn, with_line=True),
    )


_PICKS: tuple[tuple[str, Callable[[LatencyPoint], Percentiles]], ...] = (
    ("Read: one forecast from the history", lambda point: point.read_us),
    ("Update: one more event", lambda point: point.update_us),
)


def _styles_of(latency: Latency, styles: ModelStyles) -> list[ModelStyle]:
    return [styles[name] for name in sorted({p.model for p in latency.curve}, key=styles.rank)]


def _curves(
    points: tuple[LatencyPoint, ...], pick: Callable[[LatencyPoint], Percentiles], styles: ModelStyles
) -> tuple[_Curve, ...]:
    by_model: dict[str, list[tuple[int, Percentiles]]] = {}
    for point in points:
        measured = pick(point)
        if point.history > 0 and measured.p50 is not None and measured.p50 > 0:
            by_model.setdefault(point.model, []).append((point.history, measured))
    return tuple(
        _Curve(styles[name], tuple(sorted(by_model[name], key=lambda item: item[0])))
        for name in sorted(by_model, key=styles.rank)
    )


def _summary(plot: _Plot) -> str:
    ends = []
    for curve in plot.curves:
        (short, first), (long, last) = curve.points[0], curve.points[-1]
        ends.append(
            f"{curve.style.label} {formatting.microseconds(first.p50)} at {formatting.count(short)} events"
            + (
                f" and {formatting.microseconds(last.p50)} at {formatting.count(long)}"
                if long > short
                else ""
            )
        )
    return f"{plot.title}: {'; '.join(ends)}."


def _paint(canvas: Canvas, plots: list[_Plot], crossover: int | None) -> tuple[Markup, float]:
    columns = 1 if canvas.narrow else len(plots)
    gap, height = 20.0, 250.0
    width = (canvas.width - gap * (columns - 1)) / columns
    step = height + 92
    levels = [v for p in plots for c in p.curves for _, q in c.points for v in (q.p50, q.p95, q.p99) if v]
    axis = label_room(decade_ticks(*padded_log(levels)))
    lengths = [float(length) for p in plots for c in p.curves for length, _ in c.points]
    parts = []
    for i, plot in enumerate(plots):
        left, top = (i % columns) * (width + gap), (i // columns) * step
        panel = Panel(left + axis, top + 30, width - axis - 24, height)
        x = panel.x_scale(*padded_log(lengths, 0.03), logarithmic=True)
        y = panel.y_scale(*padded_log(levels), logarithmic=True)
        parts.append(_panel(plot, panel, x, y, lengths, crossover if "Read" in plot.title else None))
    return svg.group(parts), -(-len(plots) // columns) * step - 20


def _panel(
    plot: _Plot, panel: Panel, x: Scale, y: Scale, lengths: list[float], crossover: int | None
) -> Markup:
    ticks = [Tick(v, formatting.count(v)) for v in sorted(set(lengths))]
    parts = [
        svg.text(panel.left, panel.top - 12, svg.fitted(plot.title, panel.width, 13), "label strong"),
        panel.rows(y, decade_ticks(y.low, y.high)),
        panel.columns(x, ticks),
        panel.base(),
        panel.x_title("Events in the history"),
    ]
    parts.extend(_band(curve, x, y) for curve in plot.curves)
    if crossover is not None and x.holds(crossover):
        at = x(crossover)
        parts.append(svg.line(at, panel.top, at, panel.bottom, "cursor"))
        end = at > panel.left + panel.width / 2
        words = f"crossover {formatting.count(crossover)}"
        parts.append(svg.text(at + (-6 if end else 6), panel.top + 13, words, "tick end" if end else "tick"))
    for curve in plot.curves:
        parts.append(model_line(curve.style, [(x(n), y(q.p50 or y.low)) for n, q in curve.points]))
        parts.extend(
            marker(curve.style, x(n), y(q.p50 or y.low), 4, _point_words(curve.style, n, q))
            for n, q in curve.points
        )
    return svg.group(parts)


def _point_words(style: ModelStyle, history: int, measured: Percentiles) -> str:
    parts = [
        f"{style.label}, {formatting.count(history)} events: p50 {formatting.microseconds(measured.p50)}"
    ]
    for name, value in (("p95", measured.p95), ("p99", measured.p99)):
        if value is not None:
            parts.append(f"{name} {formatting.microseconds(value)}")
    return ", ".join(parts)


def _band(curve: _Curve, x: Scale, y: Scale) -> Markup:
    parts = []
    for css, pick in (("band-99", _p99), ("band-95", _p95)):
        upper = [(x(n), y(value)) for n, q in curve.points if (value := pick(q)) is not None and value > 0]
        lower = [(x(n), y(q.p50 or y.low)) for n, q in curve.points if (pick(q) or 0) > 0]
        if len(upper) > 1:
            path = svg.polygon([*upper, *reversed(lower)])
            parts.append(svg.tag("path", d=path, class_=f"{css} {curve.style.css}"))
        elif upper:
            parts.append(svg.line(*upper[0], *lower[0], f"whisker {curve.style.css}"))
    return svg.group(parts)


def _p95(measured: Percentiles) -> float | None:
    return measured.p95


def _p99(measured: Percentiles) -> float | None:
    return measured.p99
