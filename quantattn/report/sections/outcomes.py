"""Folds, forecasts against outcomes and information sets: what was tested on what."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from quantattn.report import formatting
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import FoldSpan
from quantattn.report.tables import Cell, Column, Table
from quantattn.report.verdicts import Badge, badge


@dataclass(frozen=True)
class InformationSets:
    """The information-set check.

    Attributes
    ----------
    verdict : Badge or None
        The audit's verdict on it; None where the audit has no such check.
    summary : str
        The check's summary.
    table : Table
        What each model saw, as the forecasts table records it.
    """

    verdict: Badge | None
    summary: str
    table: Table


def fold_table(folds: tuple[FoldSpan, ...]) -> Table | None:
    """Give the spans and row counts of the folds; None where there are none."""
    if not folds:
        return None
    heads = (
        Column("Fold", numeric=False),
        Column("Train", numeric=False),
        Column("Validation", numeric=False),
        Column("Fit time", numeric=False),
        Column("Test", numeric=False),
        Column("Purged rows"),
    )
    rows = tuple(
        (
            Cell(f"Fold {formatting.ordinal(fold.fold)}"),
            _span_cell(fold.train_start, fold.train_end, fold.n_train),
            _span_cell(fold.validation_start, fold.validation_end, fold.n_validation),
            Cell(formatting.instant(fold.fit_time)),
            _span_cell(fold.test_start, fold.test_end, fold.n_test),
            Cell(
                formatting.count(sum(p.n_rows for p in fold.purged)),
                ", ".join(f"{formatting.count(p.n_rows)} {p.side}" for p in fold.purged),
            ),
        )
        for fold in folds
    )
    return Table("Spans of forecast times and counts of rows by fold", heads, rows)


def _span_cell(start: int | None, end: int | None, n_rows: int) -> Cell:
    if start is None or end is None:
        return Cell("no validation")
    return Cell(f"{formatting.date(start)} to {formatting.date(end)}", formatting.plural(n_rows, "row"))


def information_section(run: RunResults, styles: ModelStyles) -> InformationSets:
    """Shape the information-set check."""
    check = next((c for c in run.audit.checks if c.name == "information_sets"), None)
    return InformationSets(
        verdict=badge(check.verdict) if check else None,
        summary=formatting.people_folds(check.summary)
        if check
        else "The audit of this run has no check of the information sets.",
        table=_information_table(run, styles),
    )


def _information_table(run: RunResults, styles: ModelStyles) -> Table:
    reference = run.comparisons.reference
    if reference not in styles:
        reference = styles.ordered[0].name
    key = ["entity", "forecast_time"]
    seen = run.forecasts.select("model", *key, "info_hash", "n_visible", "max_available_at").unique()
    own = seen.filter(pl.col("model") == reference).select(*key, pl.col("info_hash").alias("reference_hash"))
    shared = seen.join(own, on=key, how="left", nulls_equal=True, maintain_order="left")
    rows = []
    for style in styles.ordered:
        part = shared.filter(pl.col("model") == style.name)
        lead = (part["forecast_time"] - part["max_available_at"]).drop_nulls()
        equal = int((part["info_hash"] == part["reference_hash"]).fill_null(False).sum())
        rows.append(
            (
                Cell(style.label, css=f"model {style.css}"),
                Cell(formatting.count(part.height)),
                Cell(f"{formatting.count(equal)} of {formatting.count(part.height)}"),
                Cell(formatting.count(_integer(part["n_visible"].min()))),
                Cell(formatting.count(_integer(part["n_visible"].quantile(0.5, "lower")))),
                Cell(formatting.count(_integer(part["n_visible"].max()))),
                Cell(formatting.elapsed(_integer(lead.cast(pl.Int64).min()))),
            )
        )
    heads = (
        Column("Model", numeric=False),
        Column("Information sets"),
        Column(f"Same as {styles.label(reference)}"),
        Column("Fewest visible events"),
        Column("Median"),
        Column("Most"),
        Column("Shortest gap"),
    )
    caption = (
        "What each model saw, one information set per entity and forecast time. "
        "The shortest gap is the least time between a forecast and the newest event that it saw."
    )
    return Table(caption, heads, tuple(rows))


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
