"""Forecast quality: the table with intervals, by fold and by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quantattn.report import formatting
from quantattn.report.figures import Figure, fold_quality_figure
from quantattn.report.formatting import NumberColumn, number_column
from quantattn.report.loading import RunResults
from quantattn.report.metric_words import MetricWords, in_reading_order
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import Estimate, Metrics, ModelConfidenceSet, ModelMetrics
from quantattn.report.study_text import study_setting
from quantattn.report.tables import Cell, Column, Table


@dataclass(frozen=True)
class Quality:
    """The section on forecast quality.

    Attributes
    ----------
    table : Table
        Models by metrics.
    meanings : tuple of (str, str)
        What each metric means.
    confidence_set : str
        One sentence on the model confidence set; empty where there is none.
    figure : Figure or None
        R² by fold.
    seeds : Table or None
        R² and MSE by seed, where some model has several.
    """

    table: Table
    meanings: tuple[tuple[str, str], ...]
    confidence_set: str
    figure: Figure | None
    seeds: Table | None


def quality_section(run: RunResults, styles: ModelStyles) -> Quality:
    """Shape the section on forecast quality."""
    metrics = run.metrics
    shown = _shown_metrics(metrics)
    mcs = run.comparisons.model_confidence_set
    return Quality(
        table=_table(metrics, shown, styles, mcs, _nominal(run)),
        meanings=tuple((words.label, words.meaning) for words in shown if words.meaning),
        confidence_set=_confidence_set(mcs, styles),
        figure=fold_quality_figure(metrics, styles),
        seeds=_seed_table(metrics, styles),
    )


def _nominal(run: RunResults) -> str:
    """Give the share of outcomes that the study's forecast intervals are meant to hold, where it is known."""
    level = study_setting(run.study_text, "training", "interval")
    if not isinstance(level, float) or not 0 < level < 1:
        return ""
    return f"{formatting.significant(100 * level).rstrip('0').rstrip('.')}{formatting.NARROW_SPACE}%"


def _shown_metrics(metrics: Metrics) -> list[MetricWords]:
    """Leave out what is undefined for every model."""
    defined = {
        name
        for entry in metrics.models
        for name, estimate in entry.metrics.items()
        if estimate is not None and estimate.value is not None
    }
    return in_reading_order(defined)


def _in_order(metrics: Metrics, styles: ModelStyles) -> list[ModelMetrics]:
    return sorted(metrics.models, key=lambda entry: styles.rank(entry.model))


def _table(
    metrics: Metrics,
    shown: Sequence[MetricWords],
    styles: ModelStyles,
    mcs: ModelConfidenceSet | None,
    nominal: str,
) -> Table:
    entries = _in_order(metrics, styles)
    columns = [Column("Model", numeric=False)]
    rows: list[list[Cell]] = [
        [Cell(styles.label(entry.model), css=f"model {styles[entry.model].css}")] for entry in entries
    ]
    for words in shown:
        estimates = [entry.estimate(words.name) for entry in entries]
        written = _column(estimates, words)
        best = _best(estimates, words, written)
        note = "%" if words.unit == "percent" else written.unit
        if words.name == "coverage" and nominal:
            note = f"{note}, nominal {nominal}"
        columns.append(Column(words.label, note=note))
        for row, estimate in zip(rows, estimates, strict=True):
            row.append(_cell(estimate, words, written, best))
    if mcs is not None:
        for row, entry in zip(rows, entries, strict=True):
            row[0] = replace(row[0], note=_set_note(mcs, entry.model))
    caption = (
        "Quality of the test forecasts, pooled over all folds"
        + (f", with {formatting.percent(metrics.confidence, 0)} intervals" if _has_intervals(metrics) else "")
        + ". The best figures of a column are marked ★; they need not differ significantly from the next."
    )
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows))


def _has_intervals(metrics: Metrics) -> bool:
    return any(e is not None and e.low is not None for m in metrics.models for e in m.metrics.values())


def _column(estimates: Sequence[Estimate], words: MetricWords) -> NumberColumn:
    if words.unit == "percent":
        return NumberColumn(-2, 1)
    widths = (e.high - e.low for e in estimates if e.low is not None and e.high is not None)
    column = number_column((e.value for e in estimates), widths, plain_from=_plain_from(words))
    return NumberColumn(column.exponent, max(column.decimals, 2))


def _plain_from(words: MetricWords) -> float:
    """Losses have the target's unit and may be small; the other metrics are near one and stay plain."""
    return 0.1 if words.better == "lower" else 0.0


def _best(estimates: Sequence[Estimate], words: MetricWords, written: NumberColumn) -> str | None:
    """Give the best figure of a column as it is written, where one is better than another."""
    values = [e.value for e in estimates if e.value is not None]
    if words.better is None or len(set(values)) < 2:
        return None
    return written.text(max(values) if words.better == "higher" else min(values))


def _cell(estimate: Estimate, words: MetricWords, written: NumberColumn, best: str | None) -> Cell:
    if words.unit == "p":
        return Cell(formatting.p_value(estimate.value))
    text = written.text(estimate.value)
    # The benchmark's own R² is zero by definition: no interval stands beside it.
    spread = "" if estimate.low == estimate.high else written.range_text(estimate.low, estimate.high)
    return Cell(text, spread, best=best is not None and text == best)


def _set_note(mcs: ModelConfidenceSet, model: str) -> str:
    p = mcs.p_values.get(model)
    return (
        f"{'in' if model in mcs.included else 'not in'} MCS, p{formatting.SPACE}{formatting.p_value(p)}"
        if p
        else ""
    )


def _confidence_set(mcs: ModelConfidenceSet | None, styles: ModelStyles) -> str:
    if mcs is None or not mcs.included:
        return ""
    if mcs.reason:
        return f"The model confidence set could not be computed: {mcs.reason}."
    included = sorted(set(mcs.included), key=styles.rank)
    names = [styles.phrase(name) for name in included]
    level = formatting.percent(1 - mcs.size, 0)
    verb = "is the only model" if len(names) == 1 else "are"
    if len(included) == len(styles.ordered):
        return f"All models are in the {level} model confidence set (MCS): none can be ruled out as the best."
    return formatting.sentence(
        f"{formatting.words(names)} {verb} in the {level} model confidence set (MCS); "
        "the others are ruled out as the best."
    )


def _seed_table(metrics: Metrics, styles: ModelStyles) -> Table | None:
    several = [entry for entry in _in_order(metrics, styles) if len(entry.by_seed) > 1]
    if not several:
        return None
    names = {name for entry in several for seed in entry.by_seed for name in seed.metrics}
    shown = in_reading_order(names & {"r2_oos", "mse", "ic", "hit_rate"})
    columns = [Column("Model", numeric=False), Column("Seed")]
    written = {}
    for words in shown:
        values = [seed.metrics.get(words.name) for entry in several for seed in entry.by_seed]
        spread = [v for v in values if v is not None and math.isfinite(v)]
        column = (
            NumberColumn(-2, 1)
            if words.unit == "percent"
            else number_column(spread, plain_from=_plain_from(words))
        )
        written[words.name] = column
        columns.append(Column(words.label, note="%" if words.unit == "percent" else column.unit))
    rows = [
        (
            Cell(styles.label(entry.model), css=f"model {styles[entry.model].css}"),
            Cell(str(seed.seed)),
            *(Cell(written[words.name].text(seed.metrics.get(words.name))) for words in shown),
        )
        for entry in several
        for seed in entry.by_seed
    ]
    return Table("The same models trained with several seeds", tuple(columns), tuple(rows))
