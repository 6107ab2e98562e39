"""Paired comparisons: the table, the intervals, non-inferiority and the running difference."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.report import formatting
from quantattn.report.figures import (
    Figure,
    cumulative_figure,
    non_inferiority_figure,
    pairwise_figure,
)
from quantattn.report.figures.non_inferiority import figures_column
from quantattn.report.formatting import number_column
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import Comparisons, NonInferiority, PairedComparison
from quantattn.report.tables import Cell, Column, Table
from quantattn.report.verdicts import comparison_words, non_inferiority_words


@dataclass(frozen=True)
class Comparison:
    """The section on paired comparisons.

    Attributes
    ----------
    table : Table or None
        One row per pair; None where nothing was compared.
    figure : Figure or None
        The intervals.
    non_inferiority : str
        The outcome in one sentence; says so where there was no test.
    non_inferiority_facts : tuple of (str, str)
        Margin, rule, difference, interval, p-value.
    non_inferiority_figure : Figure or None
    cumulative : Figure or None
    """

    table: Table | None
    figure: Figure | None
    non_inferiority: str
    non_inferiority_facts: tuple[tuple[str, str], ...]
    non_inferiority_figure: Figure | None
    cumulative: Figure | None


def comparison_section(run: RunResults, styles: ModelStyles) -> Comparison:
    """Shape the section on paired comparisons."""
    comparisons = run.comparisons
    pairs = sorted(comparisons.pairwise, key=lambda p: (styles.rank(p.model), styles.rank(p.against)))
    test = comparisons.non_inferiority
    return Comparison(
        table=_table(comparisons, pairs, styles) if pairs else None,
        figure=pairwise_figure(pairs, styles, comparisons.loss, 1 - comparisons.alpha),
        non_inferiority=(
            non_inferiority_words(test, styles) if test else "No non-inferiority test was made in this study."
        ),
        non_inferiority_facts=_facts(test, comparisons.loss) if test else (),
        non_inferiority_figure=(
            non_inferiority_figure(test, styles, comparisons.loss, comparisons.alpha) if test else None
        ),
        cumulative=cumulative_figure(comparisons, run.manifest.folds, styles),
    )


def _table(comparisons: Comparisons, pairs: list[PairedComparison], styles: ModelStyles) -> Table:
    widths = [p.high - p.low for p in pairs if p.low is not None and p.high is not None]
    # The tightest interval decides: it is the one that the reader looks at closely.
    column = number_column((p.mean_difference for p in pairs), [min(widths, default=None)], most_decimals=5)
    heads = (
        Column("Comparison", numeric=False),
        Column("Verdict", numeric=False),
        Column("Mean difference", note=column.unit),
        Column("DM statistic"),
        Column("p value"),
        Column("Forecast times"),
        Column("HAC lags"),
    )
    rows = tuple(
        (
            Cell(
                f"{styles.label(p.model)} against {styles.label(p.against)}",
                css=f"model {styles[p.against].css}",
            ),
            Cell(comparison_words(p.verdict, p.model, p.against, styles)),
            Cell(column.text(p.mean_difference, signed=True), column.range_text(p.low, p.high, signed=True)),
            Cell(formatting.number(p.dm_statistic, 2)),
            Cell(formatting.p_value(p.p_value)),
            Cell(formatting.count(p.n)),
            Cell(formatting.count(p.hac_lags)),
        )
        for p in pairs
    )
    caption = (
        f"Paired differences in {comparisons.loss}, averaged over entities at each forecast time "
        f"(Diebold–Mariano with a HAC variance, level {formatting.percent(comparisons.alpha, 0)}). "
        "Negative: the model named first is better."
    )
    return Table(caption, heads, rows)


def _facts(test: NonInferiority, loss: str) -> tuple[tuple[str, str], ...]:
    column = figures_column(test)
    spread = column.range_text(test.lower, test.upper, signed=True)
    facts = [
        ("Margin", f"{column.with_unit(test.margin)} in {loss}: {test.margin_rule}"),
        ("Difference", column.with_unit(test.difference, signed=True)),
    ]
    if spread:
        facts.append(("Interval", f"{spread}{formatting.SPACE + column.unit if column.unit else ''}"))
    facts.append(("p value", formatting.p_value(test.p_value)))
    return tuple(facts)
