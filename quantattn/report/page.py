"""Puts the sections together into one HTML file that opens offline."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from quantattn.files import write_text
from quantattn.report.figures import scatter_figure, timeline_figure
from quantattn.report.formatting import visible_text
from quantattn.report.loading import load_run
from quantattn.report.model_styles import ModelStyles
from quantattn.report.sections import (
    answer_section,
    audit_section,
    comparison_section,
    fold_table,
    information_section,
    key_figures,
    provenance_section,
    quality_section,
    speed_section,
)

REPORT_NAME = "report.html"
"""The name of the report inside a run directory."""


def render_report(run_directory: str | Path) -> str:
    """Render the report of a finished run.

    The page is one HTML document without scripts: inline style, static SVG plots, no outside reference,
    and a content security policy that forbids any. The same files give the same text, byte for byte.

    Parameters
    ----------
    run_directory : str or Path
        A run directory with ``findings.json``, ``metrics.json``, ``comparisons.json``, ``audit.json``,
        ``manifest.json``, ``study.yaml``, ``forecasts.parquet`` and, where latency was measured,
        ``latency.json``.

    Returns
    -------
    str
        The HTML text.

    Raises
    ------
    CheckpointError
        If a file is missing, unreadable, breaks its schema or belongs to another run.
    """
    run = load_run(Path(run_directory))
    styles = ModelStyles(entry.model for entry in run.metrics.models)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            style=_style(),
            answer=answer_section(run, styles),
            key_figures=key_figures(run, styles),
            quality=quality_section(run, styles),
            comparison=comparison_section(run, styles),
            scatter=scatter_figure(run.forecasts, run.metrics.target, styles),
            speed=speed_section(run, styles),
            timeline=timeline_figure(run.manifest.folds),
            fold_table=fold_table(run.manifest.folds),
            information=information_section(run, styles),
            audit=audit_section(run),
            provenance=provenance_section(run),
        )
    )


def write_report(run_directory: str | Path) -> Path:
    """Render the report of a finished run into the run directory, whole or not at all.

    Parameters
    ----------
    run_directory : str or Path
        A run directory, as for `render_report`.

    Returns
    -------
    Path
        The file ``report.html`` inside it.

    Raises
    ------
    CheckpointError
        If a file is missing, unreadable, breaks its schema or belongs to another run.
    """
    path = Path(run_directory) / REPORT_NAME
    write_text(path, render_report(Path(run_directory)))
    return path


def _shown(value: Any) -> Any:
    """Make control characters of untrusted text visible before it is escaped."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible_text(value)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("quantattn.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _style() -> Markup:
    """Give the style sheet; it is ours, holds no data, and is the only text put in unescaped."""
    return Markup(files("quantattn.report").joinpath("style.css").read_text(encoding="utf-8"))
