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


def _training(**seconds: float | None) -> dict[str, Any]:
    # Two folds, each of which took half.
    return {
        "training": [
            {"model": name, "seconds": None if time is None else time / 2}
            for name, time in seconds.items()
            for _ in range(2)
        ]
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
            f"Linear attention forecasts the {TARGET} worse than its softmax twin{R2}, though within the "
            "declared margin",
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
    assert "(out-of-sample R² -0.014 against -0.018); neither beats the historical mean; " in both
    equal = _say(better, metrics=_metrics(linear=0.0, softmax=-0.1))
    assert "; neither beats the historical mean; " in equal
    one = _say(better, metrics=_metrics(linear=0.1, softmax=-0.1))
    assert "; softmax does not beat the historical mean; " in one
    assert "mean" not in _say(better)


def test_an_undefined_r2_is_left_out() -> None:
    metrics = _metrics(linear=None, softmax=0.1)
    said = _say(_comparisons("linear better", p_value=0.01), metrics=metrics)
    assert said == f"Linear attention forecasts the {TARGET} better than its softmax twin; {PASS}"


@pytest.mark.parametrize("models", [("linear", "mean"), ("softmax", "har"), ("mean", "har")])
def test_without_a_twin_the_models_are_named(models: tuple[str, ...]) -> None:
    metrics = _metrics(**dict.fromkeys(models, 0.1))
    said = _say({"pairwise": [], "non_inferiority": None}, metrics=metrics)
    assert said == (
        f"For the {TARGET} this study compares {', '.join(models)}, not linear with softmax attention; {PASS}"
    )


@pytest.mark.parametrize(
    ("seconds", "clause"),
    [
        ({"linear": 2.0, "softmax": 5.0}, "linear trained 2.5 times as fast; "),
        ({"linear": 5.0, "softmax": 2.0}, "softmax trained 2.5 times as fast; "),
        ({"linear": 5.0, "softmax": 5.1}, "both trained equally fast; "),
        ({"linear": 0.0, "softmax": 5.0}, ""),
        ({"linear": None, "softmax": 5.0}, ""),
        ({"linear": 2.0}, ""),
        ({}, ""),
    ],
)
def test_training_times_are_compared_where_both_were_measured(
    seconds: dict[str, float | None], clause: str
) -> None:
    said = _say(_comparisons("no difference found", margin=True), latency=_training(**seconds))
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
