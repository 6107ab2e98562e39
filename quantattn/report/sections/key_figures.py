"""The strip of figures that a reader takes away."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.report import formatting
from quantattn.report.formatting import number_column
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import Latency, Percentiles
from quantattn.report.verdicts import badge

_TWINS = ("linear", "softmax")


@dataclass(frozen=True)
class KeyFigure:
    """One figure of the strip: label, value, a quieter line, and a class of ours."""

    label: str
    value: str
    note: str = ""
    css: str = ""


def key_figures(run: RunResults, styles: ModelStyles) -> tuple[KeyFigure, ...]:
    """Give what there is of: R² of the twins and the best baseline, times, the audit's verdict."""
    figures = _quality(run, styles)
    if run.latency is not None:
        figures += [
            figure for figure in (_training_ratio(run.latency), _read_latency(run.latency, styles)) if figure
        ]
    verdict = badge(run.audit.verdict)
    passed = sum(check.verdict == "PASS" for check in run.audit.checks)
    figures.append(
        KeyFigure(
            "Leakage audit",
            f"{verdict.symbol} {verdict.word}",
            f"{passed} of {formatting.plural(len(run.audit.checks), 'check')} passed",
            f"verdict {verdict.css}",
        )
    )
    return tuple(figures)


def _quality(run: RunResults, styles: ModelStyles) -> list[KeyFigure]:
    entries = {entry.model: entry for entry in run.metrics.models}
    names = [name for name in _TWINS if name in entries]
    best = _best_baseline(run, styles)
    known = [(name, entries[name].estimate("r2_oos")) for name in (*names, *([best] if best else []))]
    column = number_column(
        (e.value for _, e in known),
        (e.high - e.low for _, e in known if e.low is not None and e.high is not None),
        plain_from=0,
    )
    figures = [
        KeyFigure(
            f"R² {styles.label(name)}",
            column.with_unit(estimate.value),
            column.range_text(estimate.low, estimate.high),
            styles[name].css,
        )
        for name, estimate in known
    ]
    if run.metrics.target.kind != "variance" and "linear" in entries:
        hits = entries["linear"].estimate("hit_rate")
        if hits.value is not None:
            low, high = (None if end is None else 100 * end for end in (hits.low, hits.high))
            spread = formatting.interval(low, high, 1)
            figures.append(
                KeyFigure(
                    f"Hit rate {styles.label('linear')}",
                    formatting.percent(hits.value),
                    f"{spread}{formatting.NARROW_SPACE}%" if spread else "",
                    styles["linear"].css,
                )
            )
    return figures


def _best_baseline(run: RunResults, styles: ModelStyles) -> str | None:
    """Give the baseline with the highest R², the first in reading order among equals."""
    known = {
        entry.model: value
        for entry in run.metrics.models
        if entry.model not in _TWINS and (value := entry.estimate("r2_oos").value) is not None
    }
    return min(known, key=lambda name: (-known[name], styles.rank(name)), default=None)


def _training_ratio(latency: Latency) -> KeyFigure | None:
    """Compare total training seconds over the folds and seeds that both twins trained."""
    times: dict[str, dict[tuple[int, int], float]] = {"linear": {}, "softmax": {}}
    for run in latency.training:
        if run.model in times and run.seconds is not None:
            times[run.model][run.fold, run.seed] = run.seconds
    shared = sorted(times["linear"].keys() & times["softmax"].keys())
    linear, softmax = (sum(times[name][key] for key in shared) for name in ("linear", "softmax"))
    if not linear or not softmax:
        return None
    return KeyFigure(
        "Training time, softmax ÷ linear",
        f"{formatting.significant(softmax / linear, 2)}×",
        f"{formatting.seconds(softmax)} against {formatting.seconds(linear)}",
    )


def _read_latency(latency: Latency, styles: ModelStyles) -> KeyFigure | None:
    """Give the median read of the linear model: in the backtest, else at the longest history measured."""
    measured = {entry.model: entry.read_us for entry in latency.backtest}
    where = "in the backtest"
    if not _median(measured, "linear") and latency.curve:
        longest = max(point.history for point in latency.curve)
        measured = {point.model: point.read_us for point in latency.curve if point.history == longest}
        where = f"at {formatting.count(longest)} events"
    linear, softmax = _median(measured, "linear"), _median(measured, "softmax")
    if linear is None:
        return None
    note = f"median {where}"
    if softmax is not None:
        note += f"; softmax {formatting.microseconds(softmax)}"
    return KeyFigure(
        "Read latency, linear attention", formatting.microseconds(linear), note, styles["linear"].css
    )


def _median(measured: dict[str, Percentiles], model: str) -> float | None:
    return measured[model].p50 if model in measured else None
