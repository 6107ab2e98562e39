"""The answer of a study in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantattn.evaluation.findings import (
    best_by_mse,
    decimal,
    duration,
    model_phrase,
    paired,
    small_difference,
)
from quantattn.evaluation.metrics import BENCHMARK

_TWINS = ("linear", "softmax")

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
    clauses = [_quality(metrics, models, comparisons, target), *_warnings(metrics, models, comparisons)]
    speed = _read_ratio(latency)
    if speed is not None:
        clauses.append(speed)
    clauses.append(_AUDITS[audit["verdict"]])
    return "; ".join(clauses) + "."


def _quality(
    metrics: Mapping[str, Any], models: Mapping[str, Any], comparisons: Mapping[str, Any], target: str
) -> str:
    if not any(name in models for name in _TWINS):
        return _no_attention(metrics, models, target)
    if "linear" not in models or "softmax" not in models:
        names = ", ".join(models)
        return f"For the {target} this study compares {names}, not linear with softmax attention"
    linear, softmax = ((models[name].get("r2_oos") or {}).get("value") for name in _TWINS)
    shown = ""
    if linear is not None and softmax is not None:
        shown = f" (out-of-sample R² {decimal(linear)} against {decimal(softmax)})"
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
    for winner, word in (("linear", "better"), ("softmax", "worse")):
        if pair["verdict"] == f"{winner} better":
            little = small_difference(margin, worse=winner == "softmax")
            return f"Linear attention forecasts the {target} {word} than its softmax twin{little}{shown}"
    if margin.get("non_inferior"):
        return f"Linear attention forecasts the {target} no worse than its softmax twin{shown}"
    found = f"No difference was found between linear and softmax attention on the {target}{shown}"
    if not margin:
        return found
    return f"{found}, and the data do not show that linear is within the declared margin"


def _no_attention(metrics: Mapping[str, Any], models: Mapping[str, Any], target: str) -> str:
    best = best_by_mse(metrics, models)
    found = f"For the {target} no attention model was run, only {', '.join(map(model_phrase, models))}"
    if best is None or len(models) == 1:
        return found
    return f"{found}; {model_phrase(best)} has the lowest mean squared error"


def _warnings(
    metrics: Mapping[str, Any], models: Mapping[str, Any], comparisons: Mapping[str, Any]
) -> list[str]:
    """Say which baseline outdoes the twins: beating each other is worth nothing then."""
    twins = [name for name in _TWINS if name in models]
    best = best_by_mse(metrics, [name for name in models if name not in _TWINS])
    beaten = [name for name in twins if best is not None and _is_beaten(comparisons, name, best)]
    behind = [name for name in twins if _is_behind_the_mean(models[name])]
    # Of two sentences on the historical mean, only the one that says more.
    if best == BENCHMARK and behind and len(behind) > len(beaten):
        beaten = []
    elif best == BENCHMARK and beaten:
        behind = []
    said = []
    if best is not None and twins and twins[0] in beaten:
        rivals = "both" if len(beaten) == 2 else beaten[0]
        said.append(f"but {model_phrase(best)} forecasts better than {rivals}")
    if len(behind) == 2:
        said.append("neither beats the historical mean")
    elif behind:
        said.append(f"{behind[0]} does not beat the historical mean")
    return said


def _is_beaten(comparisons: Mapping[str, Any], model: str, baseline: str) -> bool:
    pair = paired(comparisons, model, baseline)
    return pair is not None and pair["p_value"] is not None and pair["verdict"] == f"{baseline} better"


def _is_behind_the_mean(metrics: Mapping[str, Any]) -> bool:
    value = (metrics.get("r2_oos") or {}).get("value")
    return value is not None and value <= 0


def _read_ratio(latency: Mapping[str, Any]) -> str | None:
    """Compare the median times to read a forecast in the backtest."""
    reads = {}
    for row in latency.get("backtest") or []:
        median = (row.get("read_us") or {}).get("p50")
        if row["model"] in _TWINS and median:
            reads[row["model"]] = median
    if len(reads) < 2:
        return None
    faster, slower = sorted(reads, key=lambda model: reads[model])
    ratio = reads[slower] / reads[faster]
    times = f"({duration(reads[faster], 2)} against {duration(reads[slower], 2)})"
    if ratio < NOTABLE:
        return f"a forecast due is read equally fast {times}"
    return f"a forecast due is read {decimal(ratio, 1)} times as fast with {model_phrase(faster)} {times}"
