"""The answer of a study in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_AUDITS = {
    "PASS": "every leakage check passes",
    "FAIL": "but a leakage check FAILS, so no figure here can be trusted",
    "INCOMPLETE": "not every leakage check could be exercised",
}

NOTABLE = 1.05
"""Times nearer to each other than this are told as equal."""


def headline(
    metrics: Mapping[str, Any],
    comparisons: Mapping[str, Any],
    latency: Mapping[str, Any],
    audit: Mapping[str, Any],
) -> str:
    """Say what a study found: forecast quality, speed, audit.

    Parameters
    ----------
    metrics, comparisons, latency, audit : mapping
        The contents of the result files; `latency` may be empty.

    Returns
    -------
    str
        One sentence.
    """
    target = metrics["target"]["description"]
    models = {one["model"]: one["metrics"] for one in metrics["models"]}
    clauses = [_quality(models, comparisons, target), *_warnings(models)]
    speed = _training_ratio(latency)
    if speed is not None:
        clauses.append(speed)
    clauses.append(_AUDITS[audit["verdict"]])
    return "; ".join(clauses) + "."


def _quality(models: Mapping[str, Any], comparisons: Mapping[str, Any], target: str) -> str:
    if "linear" not in models or "softmax" not in models:
        names = ", ".join(models)
        return f"For the {target} this study compares {names}, not linear with softmax attention"
    figures = [(models[name].get("r2_oos") or {}).get("value") for name in ("linear", "softmax")]
    shown = ""
    if None not in figures:
        shown = f" (out-of-sample R² {figures[0]:.3f} against {figures[1]:.3f})"
    pair = next(
        (
            row
            for row in comparisons["pairwise"]
            if {row["model"], row["against"]} == {"linear", "softmax"} and row["p_value"] is not None
        ),
        None,
    )
    margin = comparisons.get("non_inferiority") or {}
    if pair is None:
        return f"For the {target} linear and softmax attention could not be tested against each other{shown}"
    if pair["verdict"] == "linear better":
        return f"Linear attention forecasts the {target} better than its softmax twin{shown}"
    if pair["verdict"] == "softmax better":
        tail = ", though within the declared margin" if margin.get("non_inferior") else ""
        return f"Linear attention forecasts the {target} worse than its softmax twin{shown}{tail}"
    if margin.get("non_inferior"):
        return f"Linear attention forecasts the {target} no worse than its softmax twin{shown}"
    found = f"No difference was found between linear and softmax attention on the {target}{shown}"
    if not margin:
        return found
    return f"{found}, and the data do not show that linear is within the declared margin"


def _warnings(models: Mapping[str, Any]) -> list[str]:
    """Say which of the twins the historical mean outdoes: beating each other is worth nothing then."""
    values = {
        name: (models[name].get("r2_oos") or {}).get("value")
        for name in ("linear", "softmax")
        if name in models
    }
    behind = [name for name, value in values.items() if value is not None and value <= 0]
    if not behind:
        return []
    if len(behind) == 2:
        return ["neither beats the historical mean"]
    return [f"{behind[0]} does not beat the historical mean"]


def _training_ratio(latency: Mapping[str, Any]) -> str | None:
    seconds = {"linear": 0.0, "softmax": 0.0}
    for row in latency.get("training") or []:
        if row["model"] in seconds:
            seconds[row["model"]] += row["seconds"] or 0.0
    if not seconds["linear"] or not seconds["softmax"]:
        return None
    faster, slower = sorted(seconds, key=lambda model: seconds[model])
    ratio = seconds[slower] / seconds[faster]
    if ratio < NOTABLE:
        return "both trained equally fast"
    return f"{faster} trained {ratio:.1f} times as fast"
