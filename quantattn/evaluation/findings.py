"""The three findings that matter, as sentences with figures."""

from __future__ import annotations

import math
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
    pair = paired(comparisons, _REFERENCE, _TWIN)
    if pair is None:
        return "Linear and softmax attention were not both run, so the study does not compare them."
    return f"{_twin_sentence(metrics, comparisons, pair)}{_seeds(metrics)}."


def _twin_sentence(
    metrics: Mapping[str, Any], comparisons: Mapping[str, Any], pair: Mapping[str, Any]
) -> str:
    alpha = comparisons["alpha"]
    loss = _metric(metrics, _TWIN, "mse")
    size = _size(pair["mean_difference"], loss)
    if pair["p_value"] is None:
        return (
            f"Linear against softmax attention: no test is possible ({pair['reason']}); the mean squared "
            f"error of linear attention is {size}"
        )
    evidence = f"mean squared error {size}{_interval(pair, loss, alpha)}, {_p(pair['p_value'])}"
    test = comparisons.get("non_inferiority")
    against_margin = _margin(test, loss)
    for winner, word in ((_REFERENCE, "better"), (_TWIN, "worse")):
        if pair["verdict"] == f"{winner} better":
            little = small_difference(test, worse=winner == _TWIN)
            return (
                f"Linear attention forecasts {word} than softmax attention{little}: {evidence}; "
                f"{against_margin}"
            )
    return f"Linear attention against softmax attention: {NO_DIFFERENCE} ({evidence}); {against_margin}"


def small_difference(test: Mapping[str, Any] | None, *, worse: bool) -> str:
    """Qualify a difference that the test against the margin shows to be small; else give nothing.

    Parameters
    ----------
    test : mapping or None
        ``non_inferiority`` of ``comparisons.json``.
    worse : bool
        Whether linear attention is the worse one: then non-inferiority alone bounds the difference.

    Returns
    -------
    str
    """
    if test and (test.get("equivalent") or (worse and test.get("non_inferior"))):
        return ", by less than the declared margin"
    return ""


def _seeds(metrics: Mapping[str, Any]) -> str:
    """Say over how many seeds the twins were trained: one alone shows nothing of their spread."""
    counts = [len(one.get("seeds") or ()) for one in metrics["models"] if one["model"] in (_REFERENCE, _TWIN)]
    fewest = min(counts, default=0)
    if not fewest:
        return ""
    return " (one seed)" if fewest == 1 else f" ({fewest} seeds)"


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
    if not twins:
        return _no_attention(metrics, others)
    if not others:
        return "No baseline was run beside the attention models, so their forecasts stand against nothing."
    best = best_by_mse(metrics, others) or others[0]
    # The strong classic is always named, and so is whatever is hardest to beat.
    baselines = [name for name in (_STRONG_BASELINE,) if name in others and name != best] + [best]
    lead = _r2_lead(metrics, (*twins, *baselines))
    clauses = [_against(metrics, comparisons, twins[0], baseline, best=best) for baseline in baselines]
    return f"{lead}{_sentence('; '.join(clauses))}."


def _no_attention(metrics: Mapping[str, Any], models: list[str]) -> str:
    best = best_by_mse(metrics, models)
    lead = _r2_lead(metrics, models)
    if best is None or len(models) == 1:
        return f"{lead}No attention model was run, only {' and '.join(map(model_phrase, models))}."
    return (
        f"{lead}No attention model was run; of the baselines {model_phrase(best)} has the lowest mean "
        "squared error."
    )


def _r2_lead(metrics: Mapping[str, Any], models: Iterable[str]) -> str:
    shown = [text for name in models if name != BENCHMARK and (text := _r2(metrics, name))]
    return f"Out-of-sample R² against the historical mean: {', '.join(shown)}. " if shown else ""


def _against(
    metrics: Mapping[str, Any], comparisons: Mapping[str, Any], model: str, baseline: str, *, best: str
) -> str:
    pair = paired(comparisons, model, baseline)
    rival = f"{model_phrase(baseline)}, the best baseline" if baseline == best else model_phrase(baseline)
    if pair is None:
        return f"{model_phrase(model)} was not compared with {rival}"
    loss = _metric(metrics, baseline, "mse")
    size = _size(pair["mean_difference"], loss)
    if pair["p_value"] is None:
        return f"{model_phrase(model)} against {rival}: no test is possible ({pair['reason']})"
    said = {f"{model} better": "better than", f"{baseline} better": "worse than"}.get(pair["verdict"])
    if said is None:
        return f"{model_phrase(model)} against {rival}: {NO_DIFFERENCE} (error {size}, {_p(pair['p_value'])})"
    return f"{model_phrase(model)} is {said} {rival} (error {size}, {_p(pair['p_value'])})"


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
        f"{duration(reads[model]['p50'])} with {model_phrase(model)} (p99 {duration(reads[model]['p99'])})"
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
        f"at {longest:,} events of history a read of the network alone takes {duration(linear)} with linear "
        f"and {duration(softmax)} with softmax attention{_ratio(linear, softmax)}"
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
        f"training took {significant(linear, 3)} s with linear and {significant(softmax, 3)} s with softmax "
        f"attention{_ratio(linear, softmax)}"
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
    return f": {faster} is {times:,.1f} times as fast"


def paired(comparisons: Mapping[str, Any], model: str, against: str) -> dict[str, Any] | None:
    """Give the comparison of two models, turned round where it was made the other way."""
    for row in comparisons["pairwise"]:
        if (row["model"], row["against"]) == (model, against):
            return dict(row)
        if (row["model"], row["against"]) == (against, model):
            turned = dict(row) | {"model": model, "against": against}
            for name, source in (("mean_difference", "mean_difference"), ("low", "high"), ("high", "low")):
                value = row.get(source)
                turned[name] = None if value is None else -value
            return turned
    return None


def _metric(metrics: Mapping[str, Any], model: str, name: str) -> float | None:
    for one in metrics["models"]:
        if one["model"] == model:
            value = (one["metrics"].get(name) or {}).get("value")
            return None if value is None else float(value)
    return None


def best_by_mse(metrics: Mapping[str, Any], models: Iterable[str]) -> str | None:
    """Give the model with the lowest mean squared error; None where none is known."""
    known = {name: loss for name in models if (loss := _metric(metrics, name, "mse")) is not None}
    return min(known, key=lambda name: (known[name], name)) if known else None


def _r2(metrics: Mapping[str, Any], model: str) -> str | None:
    for one in metrics["models"]:
        if one["model"] == model:
            found = one["metrics"]["r2_oos"]
            if found["value"] is None:
                return None
            bounds = "" if found["low"] is None else f" ({decimal(found['low'])} to {decimal(found['high'])})"
            return f"{model_phrase(model)} {decimal(found['value'])}{bounds}"
    return None


def model_phrase(model: str) -> str:
    """Give a model's name inside a sentence."""
    return _NAMES.get(model, model)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def decimal(value: float, decimals: int = 3, *, signed: bool = False) -> str:
    """Give a number with a fixed count of decimals, a true minus sign and grouped thousands."""
    text = f"{abs(value):,.{decimals}f}"
    if not any(digit in "123456789" for digit in text):
        return text
    if value < 0:
        return f"\N{MINUS SIGN}{text}"
    return f"+{text}" if signed else text


def significant(value: float, digits: int, *, signed: bool = False) -> str:
    """Give a number to so many significant digits, never in powers of ten, without closing zeros."""
    if value == 0 or not math.isfinite(value):
        return decimal(value, 0)
    places = digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1])
    text = decimal(round(value, places), max(0, places), signed=signed)
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(microseconds: float, digits: int = 3) -> str:
    """Give a time in µs, ms or s."""
    for limit, factor, unit in ((999.5, 1.0, "µs"), (999.5e3, 1e3, "ms")):
        if microseconds < limit:
            return f"{significant(microseconds / factor, digits)} {unit}"
    return f"{significant(microseconds / 1e6, digits)} s"


def _percent(value: float, whole: float | None) -> str:
    return f"{value:.3g} in units of the loss" if not whole else f"{significant(100 * value / whole, 2)} %"


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
    return f", {100 * (1 - alpha):g} % interval {_end(low)} to {_end(high)}"


def _end(percent: float) -> str:
    """Give one end of an interval: two decimals, or what it takes not to read as nothing."""
    # Below a billionth it is rounding noise around zero.
    if 1e-9 < abs(percent) < 0.005:
        return f"{significant(percent, 1, signed=True)} %"
    return f"{decimal(percent, 2 if abs(percent) < 99.995 else 0, signed=True)} %"


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
