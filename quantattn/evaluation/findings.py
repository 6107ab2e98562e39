"""The three findings that matter, as sentences with figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quantattn.evaluation.comparisons import NO_DIFFERENCE
from quantattn.evaluation.metrics import BENCHMARK

_REFERENCE: Final = "linear"
_TWIN: Final = "softmax"
_STRONG_BASELINE: Final = "har"

_NAMES: Final[Mapping[str, str]] = {
    "linear": "linear attention",
    "softmax": "softmax attention",
    "har": "HAR",
    "mean": "the historical mean",
    "ewma": "EWMA",
    "ridge": "ridge regression",
    "gradient_boosting": "gradient boosting",
}


def findings(
    metrics: Mapping[str, Any], comparisons: Mapping[str, Any], latency: Mapping[str, Any] | None = None
) -> list[str]:
    """Say in three sentences or so what an evaluation found.

    Parameters
    ----------
    metrics : mapping
        The content of ``metrics.json``.
    comparisons : mapping
        The content of ``comparisons.json``.
    latency : mapping, optional
        The content of ``latency.json``.

    Returns
    -------
    list of str
        Three entries: whether linear attention forecasts as well as softmax attention, how both stand against
        the baselines, and how fast each is when a forecast is due.
    """
    return [
        _twin_finding(metrics, comparisons),
        _baseline_finding(metrics, comparisons),
        _speed_finding(latency or {}),
    ]


def _twin_finding(metrics: Mapping[str, Any], comparisons: Mapping[str, Any]) -> str:
    pair = _pair(comparisons, _REFERENCE, _TWIN)
    if pair is None:
        return "Linear and softmax attention were not both run, so the study does not compare them."
    alpha = comparisons["alpha"]
    loss = _metric(metrics, _TWIN, "mse")
    size = _size(pair["mean_difference"], loss)
    if pair["p_value"] is None:
        return (
            f"Linear against softmax attention: no test is possible ({pair['reason']}); the mean squared "
            f"error of linear attention is {size}."
        )
    evidence = f"mean squared error {size}{_interval(pair, loss, alpha)}, {_p(pair['p_value'])}"
    margin = comparisons.get("non_inferiority")
    if pair["verdict"] == f"{_REFERENCE} better":
        return f"Linear attention forecasts better than softmax attention: {evidence}."
    if pair["verdict"] == f"{_TWIN} better":
        against_margin = _margin(margin, loss)
        return f"Linear attention forecasts worse than softmax attention: {evidence}; {against_margin}."
    return (
        f"Linear attention against softmax attention: {NO_DIFFERENCE} ({evidence}); {_margin(margin, loss)}."
    )


def _margin(test: Mapping[str, Any] | None, loss: float | None) -> str:
    """Say what the test against the margin shows."""
    if test is None:
        return "non-inferiority was not tested"
    share = _percent(test["margin"], loss)
    if test["p_value"] is None:
        return f"non-inferiority could not be tested ({test['reason']})"
    if test["equivalent"]:
        return f"the two are equivalent within the declared margin of {share} ({_p(test['p_value'])})"
    if test["non_inferior"]:
        return f"it is not worse by the declared margin of {share} ({_p(test['p_value'])})"
    return (
        f"that it is not worse by the declared margin of {share} is not shown ({_p(test['p_value'])}): it "
        f"may be up to {_percent(test['upper'], loss)} worse"
    )


def _baseline_finding(metrics: Mapping[str, Any], comparisons: Mapping[str, Any]) -> str:
    models = [one["model"] for one in metrics["models"]]
    twins = [name for name in (_REFERENCE, _TWIN) if name in models]
    others = [name for name in models if name not in twins]
    if not twins or not others:
        return "No baseline was run beside the attention models, so their forecasts stand against nothing."
    best = _best(metrics, others)
    # The strong classic is always named, and so is whatever is hardest to beat.
    baselines = [name for name in (_STRONG_BASELINE,) if name in others and name != best] + [best]
    r2 = [_r2(metrics, name) for name in (*twins, *(name for name in baselines if name != BENCHMARK))]
    shown = [text for text in r2 if text]
    lead = f"Out-of-sample R² against the historical mean: {', '.join(shown)}. " if shown else ""
    clauses = [_against(metrics, comparisons, twins[0], baseline, best=best) for baseline in baselines]
    return f"{lead}{_sentence('; '.join(clauses))}."


def _against(
    metrics: Mapping[str, Any], comparisons: Mapping[str, Any], model: str, baseline: str, *, best: str
) -> str:
    pair = _pair(comparisons, model, baseline)
    rival = f"{_name(baseline)}, the best baseline" if baseline == best else _name(baseline)
    if pair is None:
        return f"{_name(model)} was not compared with {rival}"
    loss = _metric(metrics, baseline, "mse")
    size = _size(pair["mean_difference"], loss)
    if pair["p_value"] is None:
        return f"{_name(model)} against {rival}: no test is possible ({pair['reason']})"
    said = {f"{model} better": "better than", f"{baseline} better": "worse than"}.get(pair["verdict"])
    if said is None:
        return f"{_name(model)} against {rival}: {NO_DIFFERENCE} (error {size}, {_p(pair['p_value'])})"
    return f"{_name(model)} is {said} {rival} (error {size}, {_p(pair['p_value'])})"


def _speed_finding(latency: Mapping[str, Any]) -> str:
    clauses = [
        text
        for text in (_backtest_speed(latency), _curve_speed(latency), _training_speed(latency))
        if text is not None
    ]
    if not clauses:
        return "Latency was not measured."
    return f"{_sentence('; '.join(clauses))}."


def _backtest_speed(latency: Mapping[str, Any]) -> str | None:
    reads = {row["model"]: row["read_us"] for row in latency.get("backtest") or [] if _was_timed(row)}
    shown = [
        f"{_time(reads[model]['p50'])} with {_name(model)} (p99 {_time(reads[model]['p99'])})"
        for model in (_REFERENCE, _TWIN)
        if model in reads
    ]
    if not shown:
        return None
    text = f"when a forecast was due in the backtest, the median read took {' and '.join(shown)}"
    if len(shown) == 2:
        text += _ratio(reads[_REFERENCE]["p50"], reads[_TWIN]["p50"])
    return text


def _curve_speed(latency: Mapping[str, Any]) -> str | None:
    reads = {
        (row["model"], row["history"]): row["read_us"]["p50"]
        for row in latency.get("curve") or []
        if _was_timed(row)
    }
    both = [history for model, history in reads if model == _REFERENCE and (_TWIN, history) in reads]
    if not both:
        return None
    longest = max(both)
    linear, softmax = reads[_REFERENCE, longest], reads[_TWIN, longest]
    text = (
        f"at {longest:,} events of history a read takes {_time(linear)} with linear and {_time(softmax)} "
        f"with softmax attention{_ratio(linear, softmax)}"
    )
    crossover = latency.get("crossover_history")
    if crossover is not None and crossover > min(both):
        text += f"; linear attention is the faster one from {crossover:,} events on"
    return text


def _training_speed(latency: Mapping[str, Any]) -> str | None:
    seconds: dict[str, float] = {}
    for row in latency.get("training") or []:
        if row.get("seconds") is not None:
            seconds[row["model"]] = seconds.get(row["model"], 0.0) + row["seconds"]
    linear, softmax = seconds.get(_REFERENCE), seconds.get(_TWIN)
    if not linear or not softmax:
        return None
    return (
        f"training took {linear:.3g} s with linear and {softmax:.3g} s with softmax attention"
        f"{_ratio(linear, softmax)}"
    )


def _was_timed(row: Mapping[str, Any]) -> bool:
    return (row.get("read_us") or {}).get("p50") is not None


def _ratio(linear: float, softmax: float) -> str:
    """Say which of two times is the shorter one, and by how much."""
    if linear <= 0.0 or softmax <= 0.0:
        return ""
    if max(linear, softmax) / min(linear, softmax) < 1.05:
        return ", no difference to speak of"
    faster, times = (_REFERENCE, softmax / linear) if linear < softmax else (_TWIN, linear / softmax)
    return f": {faster} is {times:.1f} times as fast"


def _pair(comparisons: Mapping[str, Any], model: str, against: str) -> dict[str, Any] | None:
    """Give the comparison of two models, turned round where it was made the other way."""
    for row in comparisons["pairwise"]:
        if (row["model"], row["against"]) == (model, against):
            return dict(row)
        if (row["model"], row["against"]) == (against, model):
            turned = dict(row) | {"model": model, "against": against}
            turned["mean_difference"] = -row["mean_difference"]
            turned["low"] = None if row["high"] is None else -row["high"]
            turned["high"] = None if row["low"] is None else -row["low"]
            return turned
    return None


def _metric(metrics: Mapping[str, Any], model: str, name: str) -> float | None:
    for one in metrics["models"]:
        if one["model"] == model:
            value = one["metrics"][name]["value"]
            return None if value is None else float(value)
    return None


def _best(metrics: Mapping[str, Any], models: Iterable[str]) -> str:
    return min(models, key=lambda name: (_metric(metrics, name, "mse") or 0.0, name))


def _r2(metrics: Mapping[str, Any], model: str) -> str | None:
    for one in metrics["models"]:
        if one["model"] == model:
            found = one["metrics"]["r2_oos"]
            if found["value"] is None:
                return None
            bounds = "" if found["low"] is None else f" ({found['low']:.3f} to {found['high']:.3f})"
            return f"{_name(model)} {found['value']:.3f}{bounds}"
    return None


def _name(model: str) -> str:
    return _NAMES.get(model, model)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _percent(value: float, whole: float | None) -> str:
    return f"{value:.3g} in units of the loss" if not whole else f"{100 * value / whole:.2g} %"


def _size(difference: float, loss: float | None) -> str:
    """Say how much higher or lower a loss is."""
    if difference == 0.0:
        return "exactly the same"
    word = "lower" if difference < 0.0 else "higher"
    return f"{_percent(abs(difference), loss)} {word}"


def _interval(pair: Mapping[str, Any], loss: float | None, alpha: float) -> str:
    if pair["low"] is None or not loss:
        return ""
    low, high = (100 * pair[name] / loss for name in ("low", "high"))
    return f", {100 * (1 - alpha):g} % interval {low:+.2f} % to {high:+.2f} %"


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _time(microseconds: float) -> str:
    if microseconds < 1000.0:
        return f"{microseconds:.3g} µs"
    return f"{microseconds / 1000.0:.3g} ms"
