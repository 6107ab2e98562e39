"""Forecast against outcome, one panel per model, with the mean outcome in bins of the forecast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from markupsafe import Markup

from quantattn.report import formatting
from quantattn.report.figures import svg
from quantattn.report.figures.axes import Panel, label_room
from quantattn.report.figures.figure import Canvas, Figure, draw
from quantattn.report.figures.scales import number_ticks, padded
from quantattn.report.formatting import number_column
from quantattn.report.model_styles import ModelStyle, ModelStyles
from quantattn.report.schema import Target
from quantattn.report.tables import Cell, Column, Table

_MOST_POINTS = 900
_BINS = 10
_LEAST_PER_BIN = 20
_TITLE = "Forecast against outcome"

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Cloud:
    """One model's points (thinned), its bin means (of all points) and how many points there were."""

    style: ModelStyle
    x: _Floats
    y: _Floats
    bins: tuple[tuple[float, float], ...]
    total: int


def scatter_figure(forecasts: pl.DataFrame, target: Target, styles: ModelStyles) -> Figure | None:
    """Draw outcomes over forecasts, thinned by a fixed stride.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The forecasts table. With several seeds, the lowest is drawn.
    target : Target
        What was forecast.
    styles : ModelStyles
        How models are drawn.

    Returns
    -------
    Figure or None
        None where no forecast has an outcome.
    """
    clouds = [c for style in styles.ordered if (c := _cloud(forecasts, style)) is not None]
    if not clouds:
        return None
    x_domain, y_domain = _domains(clouds, target)
    biggest = max(cloud.total for cloud in clouds)
    return draw(
        "scatter",
        lambda canvas: _paint(canvas, clouds, x_domain, y_domain, target),
        title=_TITLE,
        caption=(
            "Dots are single forecasts"
            + (f" (an even sample of the {formatting.count(biggest)})" if biggest > _MOST_POINTS else "")
            + ". The joined points are mean outcomes in up to ten equally filled bins of the forecast; "
            "on the diagonal, forecasts are right on average."
        ),
        alt=(
            f"Scatter of outcome over forecast of {target.name} for "
            f"{formatting.words([cloud.style.label for cloud in clouds])}, with mean outcomes by forecast "
            "bin; the bins' figures are in the table below."
        ),
        table=_table(clouds),
    )


def _cloud(forecasts: pl.DataFrame, style: ModelStyle) -> _Cloud | None:
    own = forecasts.filter(
        (pl.col("model") == style.name) & pl.col("y_pred").is_finite() & pl.col("y_true").is_finite()
    )
    own = own.filter(pl.col("seed") == pl.col("seed").min()).sort("forecast_time", "entity", "fold")
    if own.is_empty():
        return None
    x = own["y_pred"].to_numpy().astype(np.float64)
    y = own["y_true"].to_numpy().astype(np.float64)
    # Evenly spaced rows of the time-ordered table: the same ones on every machine.
    kept = np.unique(np.linspace(0, x.size - 1, min(x.size, _MOST_POINTS)).round().astype(np.int64))
    return _Cloud(style, x[kept], y[kept], _bin_means(x, y), int(x.size))


def _bin_means(x: _Floats, y: _Floats) -> tuple[tuple[float, float], ...]:
    order = np.argsort(x, kind="stable")
    bins = min(_BINS, x.size // _LEAST_PER_BIN)
    if bins < 2 or x[order[0]] == x[order[-1]]:
        return ()
    return tuple((float(x[p].mean()), float(y[p].mean())) for p in np.array_split(order, bins))


def _domains(clouds: list[_Cloud], target: Target) -> tuple[tuple[float, float], tuple[float, float]]:
    """Give the axes: equal ones for a variance, else each its own (return forecasts are far narrower)."""
    x = np.concatenate([cloud.x for cloud in clouds])
    y = np.concatenate([cloud.y for cloud in clouds])
    x_ends = np.quantile(x, [0.001, 0.999]).tolist()
    y_ends = np.quantile(y, [0.001, 0.999]).tolist()
    if target.kind == "variance":
        both = padded([*x_ends, *y_ends], 0.04)
        return both, both
    return padded(x_ends, 0.04), padded(y_ends, 0.04)


def _paint(
    canvas: Canvas,
    clouds: list[_Cloud],
    x_domain: tuple[float, float],
    y_domain: tuple[float, float],
    target: Target,
) -> tuple[Markup, float]:
    columns = min(len(clouds), 2 if canvas.narrow else 3)
    axis = label_room(number_ticks(*y_domain, 4)[0]) + 14
    gap = 16.0
    limit = 420.0
    side = min((canvas.width - axis - 8 - gap * (columns - 1)) / columns, limit)
    height = side if target.kind == "variance" else min(side, 230.0)
    step = height + (44.0 if canvas.narrow else 48.0)
    rows = -(-len(clouds) // columns)
    parts = []
    for i, cloud in enumerate(clouds):
        panel = Panel(axis + (i % columns) * (side + gap), 26 + (i // columns) * step, side, height)
        last_in_column = i + columns >= len(clouds)
        parts.append(
            _panel(canvas, cloud, panel, x_domain, y_domain, first=i % columns == 0, last=last_in_column)
        )
    bottom = 26 + (rows - 1) * step + height
    middle = axis + (columns * side + gap * (columns - 1)) / 2
    x_words = f"Forecast of {target.name}"
    parts.append(svg.text(middle, bottom + 38, svg.fitted(x_words, canvas.width - 60), "axis-title mid"))
    parts.append(
        svg.text(
            0, 0, "Outcome", "axis-title mid", transform=f"translate(11 {26 + height / 2:.0f}) rotate(-90)"
        )
    )
    return svg.group(parts), bottom + 46


def _panel(
    canvas: Canvas,
    cloud: _Cloud,
    panel: Panel,
    x_domain: tuple[float, float],
    y_domain: tuple[float, float],
    *,
    first: bool,
    last: bool,
) -> Markup:
    x, y = panel.x_scale(*x_domain), panel.y_scale(*y_domain)
    x_ticks, _ = number_ticks(*x_domain, 3 if canvas.narrow else 4)
    y_ticks, _ = number_ticks(*y_domain, 4)
    inside = [
        (x(float(a)), y(float(b)))
        for a, b in zip(cloud.x, cloud.y, strict=True)
        if x.holds(float(a)) and y.holds(float(b))
    ]
    low, high = max(x.low, y.low), min(x.high, y.high)
    means = [(x.clamped(a), y.clamped(b)) for a, b in cloud.bins]
    parts = [
        svg.text(panel.left, panel.top - 9, svg.fitted(cloud.style.label, panel.width, 13), "label strong"),
        panel.columns(x, x_ticks, labels=last),
        panel.rows(y, y_ticks, labels=first),
        svg.tag("path", d=svg.dots(inside), class_=f"dots {cloud.style.css}"),
    ]
    if low < high:
        parts.append(svg.line(x(low), y(low), x(high), y(high), "diagonal"))
    if means:
        parts.append(svg.tag("path", d=svg.polyline(means), class_="bin-line"))
        parts.extend(
            svg.tag(
                "circle",
                svg.tooltip(
                    f"forecast {formatting.significant(a)}, mean outcome {formatting.significant(b)}"
                ),
                cx=p,
                cy=q,
                r=3.2 if canvas.narrow else 4.0,
                class_=f"bin {cloud.style.css}",
            )
            for (a, b), (p, q) in zip(cloud.bins, means, strict=True)
        )
    return svg.group(parts)


def _table(clouds: list[_Cloud]) -> Table | None:
    binned = [cloud for cloud in clouds if cloud.bins]
    if not binned:
        return None
    column = number_column((v for cloud in binned for pair in cloud.bins for v in pair), plain_from=0.1)
    rows = []
    for i in range(max(len(cloud.bins) for cloud in binned)):
        cells = [Cell(f"Bin {i + 1}")]
        for cloud in binned:
            forecast, outcome = cloud.bins[i] if i < len(cloud.bins) else (None, None)
            note = "" if forecast is None else f"forecast {column.text(forecast)}"
            cells.append(Cell(column.text(outcome), note))
        rows.append(tuple(cells))
    heads = (Column("Forecast bin", numeric=False), *(Column(cloud.style.label) for cloud in binned))
    unit = f" ({column.unit})" if column.unit else ""
    return Table(f"Mean outcome in equally filled bins of the forecast{unit}", heads, tuple(rows))
