"""The question and the answer: the page's head."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.report import formatting
from quantattn.report.loading import RunResults
from quantattn.report.model_styles import ModelStyles
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
    caveats : int
        How many caveats the provenance names.
    """

    study: str
    question: str
    headline: str
    findings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    verdict: Badge
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
    return Answer(
        study=metrics.study,
        question=_question(styles),
        headline=run.findings.headline,
        findings=run.findings.findings,
        facts=tuple(facts),
        verdict=badge(run.audit.verdict),
        caveats=len(run.manifest.caveats),
    )


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
