"""The question and the answer: the page's head."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from quantattn.report import formatting
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import EventCounts
from quantattn.report.study_text import study_setting
from quantattn.report.verdicts import Badge, badge


@dataclass(frozen=True)
class Answer:
    """What stands above everything else.

    Attributes
    ----------
    study, question, headline : str
    findings : tuple of str
    facts : tuple of (str, str)
        What was forecast, on what, when: label and text.
    verdict : Badge
        The audit's verdict.
    reduced : str
        Says that this is the reduced study; empty where it is not.
    caveats : int
        How many caveats the provenance names.
    """

    study: str
    question: str
    headline: str
    findings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    verdict: Badge
    reduced: str
    caveats: int


def answer_section(run: RunResults, styles: ModelStyles) -> Answer:
    """Shape the page's head."""
    metrics = run.metrics
    target = metrics.target
    words = target.description or target.name
    sessions = formatting.plural(target.horizon, "session")
    facts = [
        ("Target", words if str(target.horizon) in words else f"{words}, horizon {sessions}"),
        (
            "Forecasts",
            f"{formatting.count(metrics.n_rows)} per model: "
            f"{formatting.plural(metrics.n_forecast_times, 'forecast time')}, "
            f"{formatting.plural(metrics.n_entities, 'entity', 'entities')}",
        ),
        ("Test period", _span(metrics.first_forecast, metrics.last_forecast)),
        ("Models", formatting.words([style.label for style in styles.ordered])),
    ]
    refused = _refused(run.manifest.events)
    if refused:
        facts.append(("Refused", refused))
    return Answer(
        study=metrics.study,
        question=_question(styles),
        headline=formatting.bound(run.findings.headline),
        findings=tuple(formatting.bound(finding) for finding in run.findings.findings),
        facts=tuple(facts),
        verdict=badge(run.audit.verdict),
        reduced=_reduced(run) if run.manifest.quick else "",
        caveats=len(run.manifest.caveats),
    )


def _refused(events: EventCounts | None) -> str:
    """Say how many rows of events were refused, the commonest reason first; empty where none were."""
    counts = {reason: n for reason, n in (events.rejected if events else {}).items() if n > 0}
    if not counts:
        return ""
    reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
    why = ", ".join(f"{reason} {formatting.count(counts[reason])}" for reason in reasons)
    return f"{formatting.plural(sum(counts.values()), 'row')} of events refused ({why})"


def _reduced(run: RunResults) -> str:
    instruments = formatting.plural(run.metrics.n_entities, "instrument")
    start = study_setting(run.study_text, "data", "start")
    since = ""
    if isinstance(start, date):
        since = f" from {formatting.day(start)} on"
    elif run.manifest.folds:
        since = f" from {formatting.date(min(fold.train_start for fold in run.manifest.folds))} on"
    return f"Reduced study (--quick): {instruments}{since}; for a first look, not for conclusions"


def _span(first: int, last: int) -> str:
    return f"{formatting.date(first)} to {formatting.date(last)}" if last > first else formatting.date(first)


def _question(styles: ModelStyles) -> str:
    if "linear" in styles and "softmax" in styles:
        return (
            "On the same dated information, does a causal linear-attention forecaster over a long history "
            "forecast as well as its softmax twin, and how fast is each when a forecast is due?"
        )
    if "linear" in styles:
        return (
            "Does a causal linear-attention forecaster over a long history of dated information forecast "
            "better than plain baselines, and how fast is it when a forecast is due?"
        )
    return "On the same dated information, which of these models forecasts best?"
