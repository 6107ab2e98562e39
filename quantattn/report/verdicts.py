"""Verdicts in words; the symbols beside them never stand alone."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.report.formatting import sentence
from quantattn.report.model_styles import ModelStyles
from quantattn.report.schema import AuditVerdict, CheckVerdict, NonInferiority, PairedComparison


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


def comparison_words(pair: PairedComparison, styles: ModelStyles) -> str:
    """Give the verdict of a paired comparison with the models' names for people.

    Without a p-value no test was possible, whatever the verdict says; a verdict that is none of the three
    known ones is given as it stands.
    """
    if pair.verdict is None or pair.p_value is None:
        return "no test possible"
    known = {
        "no difference found": "no difference found",
        f"{pair.model} better": f"{styles.label(pair.model)} better",
        f"{pair.against} better": f"{styles.label(pair.against)} better",
    }
    return known.get(pair.verdict, pair.verdict)


def non_inferiority_words(test: NonInferiority, styles: ModelStyles) -> str:
    """Give the outcome of the non-inferiority test in words."""
    first, second = styles.phrase(test.model), styles.phrase(test.against)
    if test.difference is None or test.p_value is None:
        why = f": {test.reason}" if test.reason else ""
        return f"Whether {first} is inferior to {second} could not be tested{why}."
    if test.equivalent and test.non_inferior:
        return sentence(f"{first} is not inferior to {second}; the two are equivalent within the margin.")
    if test.non_inferior:
        return sentence(f"{first} is not inferior to {second} at the margin; equivalence is not shown.")
    return f"It is not shown that {first} is no worse than {second} by the margin."
