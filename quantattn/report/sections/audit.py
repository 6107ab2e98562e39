"""Audit verdicts with their coverage and evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quantattn.report import formatting
from quantattn.report.loading import RunResults
from quantattn.report.schema import AuditCheck
from quantattn.report.tables import Cell, Column, Table
from quantattn.report.verdicts import Badge, badge

_MOST_ITEMS = 12
_MOST_DEPTH = 4


@dataclass(frozen=True)
class Coverage:
    """One bar of coverage: its label, its share in words, and its length in whole percent."""

    label: str
    text: str
    length: int


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence: a text, or a table, or further pieces."""

    label: str
    text: str = ""
    table: Table | None = None
    parts: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Check:
    """One check as it is shown."""

    title: str
    summary: str
    verdict: Badge
    coverage: tuple[Coverage, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class AuditView:
    """The section on the audit: the verdict, a sentence on it, and the checks, failures first."""

    verdict: Badge
    sentence: str
    checks: tuple[Check, ...]


def audit_section(run: RunResults) -> AuditView:
    """Shape the section on the audit."""
    checks = run.audit.checks
    return AuditView(badge(run.audit.verdict), _sentence(checks), tuple(_check(check) for check in checks))


def _sentence(checks: Sequence[AuditCheck]) -> str:
    if not checks:
        return "No check was made."
    failed = [f"“{check.title}”" for check in checks if check.verdict == "FAIL"]
    skipped = [f"“{check.title}”" for check in checks if check.verdict == "NOT EXERCISED"]
    if not failed and not skipped:
        return (
            f"All {formatting.plural(len(checks), 'check')} passed."
            if len(checks) > 1
            else "The check passed."
        )
    parts = []
    if failed:
        parts.append(f"Failed: {formatting.words(failed)}.")
    if skipped:
        parts.append(
            f"Not exercised: {formatting.words(skipped)}. "
            "With anything unexercised, an audit cannot say PASS."
        )
    return " ".join(parts)


def _check(check: AuditCheck) -> Check:
    return Check(
        title=formatting.people_folds(check.title),
        summary=formatting.people_folds(check.summary),
        verdict=badge(check.verdict),
        coverage=tuple(
            Coverage(label_words(label), formatting.share(value), _length(value))
            for label, value in check.coverage.items()
        ),
        evidence=_evidence(check.evidence, 1),
    )


def _length(share: float | None) -> int:
    return 0 if share is None else min(100, max(0, int(share * 100)))


def label_words(key: str) -> str:
    """Give a key such as "max_difference" as words."""
    return formatting.people_folds(key.replace("_", " "))


def _evidence(mapping: Mapping[str, Any], depth: int) -> tuple[Evidence, ...]:
    items = list(mapping.items())
    shown = [_piece(label_words(str(key)), value, depth) for key, value in items[:_MOST_ITEMS]]
    if len(items) > _MOST_ITEMS:
        shown.append(Evidence("further", f"{len(items) - _MOST_ITEMS} more in audit.json"))
    return tuple(shown)


def _piece(label: str, value: Any, depth: int) -> Evidence:
    if isinstance(value, Mapping):
        if not value:
            return Evidence(label, "none")
        if depth >= _MOST_DEPTH:
            return Evidence(label, f"{len(value)} entries in audit.json")
        return Evidence(label, parts=_evidence(value, depth + 1))
    if isinstance(value, list):
        return _list(label, value)
    return Evidence(label, _leaf(value, label))


def _list(label: str, values: list[Any]) -> Evidence:
    if not values:
        return Evidence(label, "none")
    more = len(values) - _MOST_ITEMS
    if all(isinstance(value, Mapping) for value in values):
        keys = list(dict.fromkeys(key for value in values for key in value))
        rows = tuple(
            tuple(Cell(_leaf(value.get(key), key)) for key in keys) for value in values[:_MOST_ITEMS]
        )
        caption = label + (f" (the first {_MOST_ITEMS} of {len(values)})" if more > 0 else "")
        heads = tuple(Column(label_words(str(key)), numeric=_numeric(values, key)) for key in keys)
        return Evidence(label, table=Table(caption, heads, rows))
    text = ", ".join(_leaf(value) for value in values[:_MOST_ITEMS])
    return Evidence(label, text + (f" and {more} more" if more > 0 else ""))


def _numeric(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(isinstance(row.get(key), int | float) and not isinstance(row.get(key), bool) for row in rows)


def _leaf(value: Any, key: str = "") -> str:
    """Give a value inside a list: a leaf in words, a list as words, a mapping as its pairs."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{label_words(str(k))} {_leaf(v, str(k))}" for k, v in list(value.items())[:_MOST_ITEMS]
        )
    if isinstance(value, list):
        shown = ", ".join(_leaf(v) for v in value[:_MOST_ITEMS])
        return shown + (f" and {len(value) - _MOST_ITEMS} more" if len(value) > _MOST_ITEMS else "")
    if key == "fold" and isinstance(value, int) and not isinstance(value, bool):
        return formatting.ordinal(value)
    return formatting.people_folds(formatting.plain(value))
