from __future__ import annotations

from typing import Any

import pytest

from quantattn.study.headline import headline

TARGET = "log realised variance of the next 5 sessions"
PASS = "every leakage check passes."


def _metrics(**r2: float | None) -> dict[str, Any]:
    return {
        "target": {"description": TARGET},
        "models": [{"model": name, "metrics": {"r2_oos": {"value": value}}} for name, value in r2.items()],
    }


def _comparisons(
    verdict: str, *, p_value: float | None = 0.2, margin: bool | None = None, turned: bool = False
) -> dict[str, Any]:
    names = ("softmax", "linear") if turned else ("linear", "softmax")
    return {
        "pairwise": [
            {"model": "linear", "against": "mean", "verdict": "linear better", "p_value": 0.001},
            {"model": names[0], "against": names[1], "verdict": verdict, "p_value": p_value},
        ],
        "non_inferiority": None if margin is None else {"non_inferior": margin},
    }


def _reads(**medians: float | None) -> dict[str, Any]:
    return {
        "backtest": [{"model": name, "read_us": {"p50": median}} for name, median in medians.items()],
        "training": [{"model": "linear", "seconds": 2.0}, {"model": "softmax", "seconds": 14.0}],
    }


def _say(
    comparisons: dict[str, Any],
    *,
    metrics: dict[str, Any] | None = None,
    latency: dict[str, Any] | None = None,
    audit: str = "PASS",
) -> str:
    twins = _metrics(linear=0.4831, softmax=0.4756, mean=0.0)
    return headline(metrics or twins, comparisons, latency or {}, {"verdict": audit})


R2 = " (out-of-sample R² 0.483 against 0.476)"


@pytest.mark.parametrize(
    ("verdict", "margin", "expected"),
    [
        ("linear better", None, f"Linear attention forecasts the {TARGET} better than its softmax twin{R2}"),
        ("linear better", True, f"Linear attention forecasts the {TARGET} better than its softmax twin{R2}"),
        ("softmax better", None, f"Linear attention forecasts the {TARGET} worse than its softmax twin{R2}"),
        ("softmax better", False, f"Linear attention forecasts the {TARGET} worse than its softmax twin{R2}"),
        (
            "softmax better",
            True,
            f"Linear attention forecasts the {TARGET} worse than its softmax twin, by less than the declared "
            f"margin{R2}",
        ),
        (
            "no difference found",
            True,
            f"Linear attention forecasts the {TARGET} no worse than its softmax twin{R2}",
        ),
        (
            "no difference found",
            False,
            f"No difference was found between linear and softmax attention on the {TARGET}{R2}, and the data "
            "do not show that linear is within the declared margin",
        ),
        (
            "no difference found",
            None,
            f"No difference was found between linear and softmax attention on the {TARGET}{R2}",
        ),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_every_outcome_has_its_sentence(
    verdict: str, margin: bool | None, expected: str, turned: bool
) -> None:
    p_value = 0.2 if verdict == "no difference found" else 0.01
    said = _say(_comparisons(verdict, p_value=p_value, margin=margin, turned=turned))
    assert said == f"{expected}; {PASS}"


def test_what_could_not_be_tested_is_not_told_as_no_difference() -> None:
    said = _say(_comparisons("no difference found", p_value=None, margin=False))
    assert said == (
        f"For the {TARGET} linear and softmax attention could not be tested against each other{R2}; {PASS}"
    )


def test_a_twin_that_the_historical_mean_outdoes_is_no_success() -> None:
    better = _comparisons("linear better", p_value=0.01)
    both = _say(better, metrics=_metrics(linear=-0.0141, softmax=-0.018))
    assert "(out-of-sample R² −0.014 against −0.018); neither beats the historical mean; " in both
    equal = _say(better, metrics=_metrics(linear=0.0, softmax=-0.1))
    assert "; neither beats the historical mean; " in equal
    one = _say(better, metrics=_metrics(linear=0.1, softmax=-0.1))
    assert "; softmax does not beat the historical mean; " in one
    assert "mean" not in _say(better)


def test_an_undefined_r2_is_left_out() -> None:
    metrics = _metrics(linear=None, softmax=0.1)
    said = _say(_comparisons("linear better", p_value=0.01), metrics=metrics)
    assert said == f"Linear attention forecasts the {TARGET} better than its softmax twin; {PASS}"


@pytest.mark.parametrize("models", [("linear", "mean"), ("softmax", "har")])
def test_without_a_twin_the_models_are_named(models: tuple[str, ...]) -> None:
    metrics = _metrics(**dict.fromkeys(models, 0.1))
    said = _say({"pairwise": [], "non_inferiority": None}, metrics=metrics)
    assert said == (
        f"For the {TARGET} this study compares {', '.join(models)}, not linear with softmax attention; {PASS}"
    )


def test_without_attention_models_that_is_said() -> None:
    metrics = _metrics(mean=0.0, har=0.3)
    none = {"pairwise": [], "non_inferiority": None}
    start = f"For the {TARGET} no attention model was run, only the historical mean, HAR"
    assert _say(none, metrics=metrics) == f"{start}; {PASS}"
    _with_mse(metrics, mean=1.0, har=0.7)
    assert _say(none, metrics=metrics) == f"{start}; HAR has the lowest mean squared error; {PASS}"


def test_a_better_that_is_equivalent_is_told_as_small() -> None:
    comparisons = _comparisons("linear better", p_value=0.01)
    comparisons["non_inferiority"] = {"non_inferior": True, "equivalent": True}
    assert _say(comparisons) == (
        f"Linear attention forecasts the {TARGET} better than its softmax twin, by less than the declared "
        f"margin{R2}; {PASS}"
    )


def _with_mse(metrics: dict[str, Any], **mse: float) -> dict[str, Any]:
    for one in metrics["models"]:
        one["metrics"]["mse"] = {"value": mse[one["model"]]}
    return metrics


def _against(baseline: str, linear: str, softmax: str, p_value: float | None = 0.01) -> dict[str, Any]:
    comparisons = _comparisons("linear better", p_value=0.01)
    comparisons["pairwise"] = [row for row in comparisons["pairwise"] if row["against"] != "mean"]
    # One of them the other way round, as a run may write it.
    comparisons["pairwise"] += [
        {"model": "linear", "against": baseline, "verdict": linear, "p_value": p_value},
        {"model": baseline, "against": "softmax", "verdict": softmax, "p_value": p_value},
    ]
    return comparisons


@pytest.mark.parametrize(
    ("linear", "softmax", "p_value", "clause"),
    [
        ("ridge better", "ridge better", 0.01, "; but ridge regression forecasts better than both"),
        (
            "ridge better",
            "no difference found",
            0.01,
            "; but ridge regression forecasts better than linear",
        ),
        ("no difference found", "ridge better", 0.01, ""),
        ("linear better", "softmax better", 0.01, ""),
        ("ridge better", "ridge better", None, ""),
    ],
)
def test_a_better_baseline_is_named(linear: str, softmax: str, p_value: float | None, clause: str) -> None:
    metrics = _with_mse(
        _metrics(linear=0.4831, softmax=0.4756, ridge=0.5, har=0.49, mean=0.0),
        linear=0.52,
        softmax=0.53,
        ridge=0.5,
        har=0.51,
        mean=1.0,
    )
    said = _say(_against("ridge", linear, softmax, p_value), metrics=metrics)
    twins = f"Linear attention forecasts the {TARGET} better than its softmax twin{R2}"
    assert said == f"{twins}{clause}; {PASS}"


@pytest.mark.parametrize(
    ("r2", "linear", "softmax", "clause"),
    [
        ((-0.1, -0.2), "mean better", "mean better", "but the historical mean forecasts better than both"),
        ((-0.1, -0.2), "mean better", "no difference found", "neither beats the historical mean"),
        ((-0.1, -0.2), "no difference found", "no difference found", "neither beats the historical mean"),
    ],
)
def test_the_historical_mean_is_named_once(
    r2: tuple[float, float], linear: str, softmax: str, clause: str
) -> None:
    metrics = _with_mse(_metrics(linear=r2[0], softmax=r2[1], mean=0.0), linear=1.1, softmax=1.2, mean=1.0)
    said = _say(_against("mean", linear, softmax), metrics=metrics)
    assert said.count("historical mean") == 1
    assert f"; {clause}; {PASS}" in said


@pytest.mark.parametrize(
    ("medians", "clause"),
    [
        (
            {"linear": 8.08, "softmax": 120.4},
            "a forecast due is read 14.9 times as fast with linear attention (8.1 µs against 120 µs); ",
        ),
        (
            {"linear": 5000.0, "softmax": 2000.0},
            "a forecast due is read 2.5 times as fast with softmax attention (2 ms against 5 ms); ",
        ),
        ({"linear": 8.1, "softmax": 8.0}, "a forecast due is read equally fast (8 µs against 8.1 µs); "),
        ({"linear": None, "softmax": 5.0}, ""),
        ({"linear": 2.0}, ""),
        ({}, ""),
    ],
)
def test_reads_are_compared_where_both_were_timed(medians: dict[str, float | None], clause: str) -> None:
    said = _say(_comparisons("no difference found", margin=True), latency=_reads(**medians))
    assert said == (
        f"Linear attention forecasts the {TARGET} no worse than its softmax twin{R2}; {clause}{PASS}"
    )


@pytest.mark.parametrize(
    ("verdict", "clause"),
    [
        ("PASS", "every leakage check passes"),
        ("FAIL", "but a leakage check FAILS, so no figure here can be trusted"),
        ("INCOMPLETE", "not every leakage check could be exercised"),
    ],
)
def test_the_audit_has_the_last_word(verdict: str, clause: str) -> None:
    assert _say(_comparisons("linear better", p_value=0.01), audit=verdict).endswith(f"; {clause}.")
