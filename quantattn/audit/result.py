"""What a leakage check says: a verdict, its coverage and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["PASS", "FAIL", "NOT EXERCISED"]


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Parameters
    ----------
    name : str
        Short name, the same in every report.
    title : str
        The question that the check answers.
    verdict : {"PASS", "FAIL", "NOT EXERCISED"}
        NOT EXERCISED where there was nothing to check.
    summary : str
        One sentence with the figures.
    coverage : dict of str to float
        Shares (0 to 1) of what was looked at.
    evidence : dict
        JSON values that a reviewer can verify.
    """

    name: str
    title: str
    verdict: Verdict
    summary: str
    coverage: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give the result as JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "verdict": self.verdict,
            "summary": self.summary,
            "coverage": self.coverage,
            "evidence": self.evidence,
        }


def overall_verdict(checks: Sequence[CheckResult]) -> str:
    """Give the verdict of a report: FAIL if any check failed, PASS only if every check passed.

    Parameters
    ----------
    checks : sequence of CheckResult
        The checks.

    Returns
    -------
    str
        ``"PASS"``, ``"FAIL"`` or ``"INCOMPLETE"``.
    """
    verdicts = {check.verdict for check in checks}
    if "FAIL" in verdicts:
        return "FAIL"
    return "PASS" if verdicts == {"PASS"} else "INCOMPLETE"


def audit_table(checks: Sequence[CheckResult]) -> dict[str, Any]:
    """Give the content of ``audit.json``."""
    return {"verdict": overall_verdict(checks), "checks": [check.to_dict() for check in checks]}
