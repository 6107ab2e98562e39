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
from quantattn.report.formatting import NumberColumn, number_column
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
    figure : Figure or None
        The intervals of the reference's comparisons.
    table : Table or None
        The reference's comparisons; None where nothing was compared.
    others : Table or None
        The comparisons of the other models among each other.
    non_inferiority : str
        The outcome in one sentence; says so where there was no test.
    non_inferiority_facts : tuple of (str, str)
        Margin, rule, difference, interval, p-value.
    non_inferiority_figure : Figure or None
    cumulative : Figure or None
    """

    figure: Figure | None
    table: Table | None
    others: Table | None
    non_inferiority: str
    non_inferiority_facts: tuple[tuple[str, str], ...]
    non_inferiority_figure: Figure | None
    cumulative: Figure | None


def comparison_section(run: RunResults, styles: ModelStyles) -> Comparison:
    """Shape the section on paired comparisons."""
    comparisons = run.comparisons
    pairs = sorted(comparisons.pairwise, key=lambda p: (styles.rank(p.model), styles.rank(p.against)))
    own = [pair for pair in pairs if pair.model == comparisons.reference] or pairs
    others = [pair for pair in pairs if pair not in own]
    test = comparisons.non_inferiority
    return Comparison(
        figure=pairwise_figure(own, styles, comparisons.loss, 1 - comparisons.alpha),
        table=_table(_caption(comparisons), own, styles) if own else None,
        others=_table("The other pairs, compared in the same way", others, styles) if others else None,
        non_inferiority=(
            non_inferiority_words(test, styles) if test else "No non-inferiority test was made in this study."
        ),
        non_inferiority_facts=_facts(test, comparisons.loss) if test else (),
        non_inferiority_figure=(
            non_inferiority_figure(test, styles, comparisons.loss, comparisons.alpha) if test else None
        ),
        cumulative=cumulative_figure(comparisons, run.manifest.folds, styles),
    )


def _caption(comparisons: Comparisons) -> str:
    return (
        f"Paired differences in {comparisons.loss}, averaged over entities at each forecast time "
        f"(Diebold–Mariano with a HAC variance, level {formatting.percent(comparisons.alpha, 0)}). "
        "Negative: the model named first is better."
    )


def _table(caption: str, pairs: list[PairedComparison], styles: ModelStyles) -> Table:
    widths = [p.high - p.low for p in pairs if p.low is not None and p.high is not None]
    # The tightest interval decides: it is the one that the reader looks at closely.
    column = number_column((p.mean_difference for p in pairs), [min(widths, default=None)], most_decimals=5)
    one = len({pair.model for pair in pairs}) == 1
    several_seeds = any(len(pair.by_seed) > 1 for pair in pairs)
    heads = [
        Column(f"{styles.label(pairs[0].model)} against" if one else "Comparison", numeric=False),
        Column("Verdict", numeric=False),
        Column("Mean difference", note=column.unit),
        Column("DM statistic"),
        Column("p value"),
        Column("Forecast times"),
        Column("HAC lags"),
    ]
    if several_seeds:
        heads.insert(3, Column("By seed", note=column.unit))
    rows = []
    for pair in pairs:
        rival = styles.label(pair.against)
        cells = [
            Cell(rival if one else f"{styles.label(pair.model)} against {rival}", css=_css(pair, styles)),
            Cell(comparison_words(pair, styles), pair.reason or ""),
            Cell(
                column.text(pair.mean_difference, signed=True),
                column.range_text(pair.low, pair.high, signed=True),
            ),
            Cell(formatting.number(pair.dm_statistic, 2)),
            Cell(formatting.p_value(pair.p_value)),
            Cell(formatting.count(pair.n)),
            Cell(formatting.count(pair.hac_lags)),
        ]
        if several_seeds:
            cells.insert(3, Cell(_seed_range(pair, column)))
        rows.append(tuple(cells))
    return Table(caption, tuple(heads), tuple(rows))


def _css(pair: PairedComparison, styles: ModelStyles) -> str:
    return f"model {styles[pair.against].css}"


def _seed_range(pair: PairedComparison, column: NumberColumn) -> str:
    """Give the least and the largest mean difference over seeds."""
    known = [seed.mean_difference for seed in pair.by_seed if seed.mean_difference is not None]
    if len(known) < 2:
        return formatting.MISSING
    return column.range_text(min(known), max(known), signed=True)


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
