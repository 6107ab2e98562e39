"""Verdicts in words; the symbols beside them never stand alone."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import AuditVerdict, CheckVerdict, NonInferiority


@dataclass(frozen=True)
class Badge:
    """A verdict as it is shown: symbol, word and class."""

    symbol: str
    word: str
    css: str


_BADGES = {
    "PASS": Badge("✓", "PASS", "pass"),
    "FAIL": Badge("✗", "FAIL", "fail"),
    "INCOMPLETE": Badge("○", "INCOMPLETE", "open"),
    "NOT EXERCISED": Badge("○", "NOT EXERCISED", "open"),
}


def badge(verdict: AuditVerdict | CheckVerdict) -> Badge:
    """Give the badge of an audit verdict or of one check's."""
    return _BADGES[verdict]


def comparison_words(verdict: str | None, model: str, against: str, styles: ModelStyles) -> str:
    """Give the verdict of a paired comparison with the models' names for people.

    A verdict that is none of the three known ones is given as it stands; null is "not testable".
    """
    if verdict is None:
        return "not testable"
    known = {
        "no difference found": "no difference found",
        f"{model} better": f"{styles.label(model)} better",
        f"{against} better": f"{styles.label(against)} better",
    }
    return known.get(verdict, verdict)


def non_inferiority_words(test: NonInferiority, styles: ModelStyles) -> str:
    """Give the outcome of the non-inferiority test as one sentence."""
    first, second = styles.label(test.model), styles.label(test.against)
    if test.difference is None:
        return f"Whether {first} is inferior to {second} could not be tested."
    if test.equivalent and test.non_inferior:
        return f"{first} is not inferior to {second}, and the two are equivalent within the margin."
    if test.non_inferior:
        return f"{first} is not inferior to {second} at the margin; equivalence is not shown."
    return f"Not shown: that {first} is no worse than {second} by more than the margin."
