"""The plots of the report, one file each: static SVG without scripts; and the one that stands alone."""

from __future__ import annotations

from quantattn.report.figures.cumulative import cumulative_figure
from quantattn.report.figures.figure import Figure
from quantattn.report.figures.fold_quality import fold_quality_figure
from quantattn.report.figures.latency import latency_figure
from quantattn.report.figures.non_inferiority import non_inferiority_figure
from quantattn.report.figures.pairwise import pairwise_figure
from quantattn.report.figures.plot import Plot
from quantattn.report.figures.scatter import scatter_figure
from quantattn.report.figures.spans import plot_folds
from quantattn.report.figures.timeline import timeline_figure

__all__ = [
    "Figure",
    "Plot",
    "cumulative_figure",
    "fold_quality_figure",
    "latency_figure",
    "non_inferiority_figure",
    "pairwise_figure",
    "plot_folds",
    "scatter_figure",
    "timeline_figure",
]
