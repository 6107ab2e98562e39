"""The report of a run: one self-contained HTML page made from the result files, without computing anew."""

from __future__ import annotations

from quantattn.report.figures import Plot, plot_folds
from quantattn.report.page import REPORT_NAME, render_report, write_report

__all__ = ["REPORT_NAME", "Plot", "plot_folds", "render_report", "write_report"]
