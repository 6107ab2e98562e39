from __future__ import annotations

import pytest

from quantattn.audit import CheckResult, Verdict, audit_table, overall_verdict
from quantattn.files import canonical_json


def _check(verdict: Verdict) -> CheckResult:
    return CheckResult("name", "Is it so?", verdict, "It is so.", {"rows": 0.5}, {"n": 3})


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "INCOMPLETE"),
        (["PASS"], "PASS"),
        (["PASS", "PASS"], "PASS"),
        (["NOT EXERCISED"], "INCOMPLETE"),
        (["PASS", "NOT EXERCISED"], "INCOMPLETE"),
        (["FAIL"], "FAIL"),
        (["PASS", "FAIL"], "FAIL"),
        (["NOT EXERCISED", "FAIL"], "FAIL"),
        (["FAIL", "PASS", "NOT EXERCISED"], "FAIL"),
    ],
)
def test_one_unexercised_check_keeps_the_whole_from_passing(verdicts: list[Verdict], expected: str) -> None:
    assert overall_verdict([_check(verdict) for verdict in verdicts]) == expected


def test_the_table_holds_the_verdict_and_every_check() -> None:
    table = audit_table([_check("PASS"), _check("FAIL")])
    assert table["verdict"] == "FAIL"
    assert table["checks"][0] == {
        "name": "name",
        "title": "Is it so?",
        "verdict": "PASS",
        "summary": "It is so.",
        "coverage": {"rows": 0.5},
        "evidence": {"n": 3},
    }
    assert [check["verdict"] for check in table["checks"]] == ["PASS", "FAIL"]
    assert canonical_json(table)
