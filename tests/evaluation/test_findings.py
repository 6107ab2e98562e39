"""The sentences: each case says what the figures say, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from quantattn.evaluation import findings


def metrics(**mse: float) -> dict[str, Any]:
    def figure(value: float | None) -> dict[str, Any]:
        return {
            "value": value,
            "low": None if value is None else value - 0.1,
            "high": None if value is None else value + 0.1,
        }

    mean = mse.get("mean")
    return {
        "models": [
            {
                "model": name,
                "metrics": {
                    "mse": figure(value),
                    "r2_oos": figure(None if mean is None else 1 - value / mean),
                },
            }
            for name, value in mse.items()
        ]
    }


def pair(
    model: str, against: str, difference: float, p_value: float | None, verdict: str, **more: Any
) -> dict[str, Any]:
    row = {
        "model": model,
        "against": against,
        "mean_difference": difference,
        "low": difference - 0.01,
        "high": difference + 0.01,
        "p_value": p_value,
        "verdict": verdict,
        "reason": None,
    }
    return row | more


def margin(**more: Any) -> dict[str, Any]:
    found = {
        "margin": 0.02,
        "upper": 0.015,
        "p_value": 0.01,
        "non_inferior": True,
        "equivalent": False,
        "reason": None,
    }
    return found | more


def comparisons(*pairs: dict[str, Any], non_inferiority: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"alpha": 0.05, "pairwise": list(pairs), "non_inferiority": non_inferiority}


NONE = "no difference found"


def test_no_difference_and_equivalent() -> None:
    told = findings(
        metrics(linear=0.99, softmax=1.0),
        comparisons(pair("linear", "softmax", -0.01, 0.3, NONE), non_inferiority=margin(equivalent=True)),
    )[0]
    assert told == (
        "Linear attention against softmax attention: no difference found (mean squared error 1 % lower, 95 % "
        "interval −2.00 % to 0.00 %, p = 0.300); the two are equivalent within the declared margin of 2 % "
        "(p = 0.010)."
    )


def test_no_difference_found_is_not_called_equality_when_non_inferiority_is_not_shown() -> None:
    told = findings(
        metrics(linear=1.03, softmax=1.0),
        comparisons(
            pair("linear", "softmax", 0.03, 0.2, NONE),
            non_inferiority=margin(p_value=0.6, upper=0.07, non_inferior=False),
        ),
    )[0]
    assert "no difference found" in told
    assert "that it is not worse by the declared margin of 2 % is not shown (p = 0.600)" in told
    assert "may be up to 7 % worse" in told
    assert "equivalent" not in told


def test_worse_is_called_worse_even_within_the_margin() -> None:
    told = findings(
        metrics(linear=1.01, softmax=1.0),
        comparisons(pair("linear", "softmax", 0.01, 0.02, "softmax better"), non_inferiority=margin()),
    )[0]
    assert told.startswith(
        "Linear attention forecasts worse than softmax attention, by less than the declared margin: mean "
        "squared error 1 % higher"
    )
    assert "not worse by the declared margin of 2 % (p = 0.010)" in told


def test_better_is_called_better() -> None:
    told = findings(
        metrics(linear=0.9, softmax=1.0),
        comparisons(pair("linear", "softmax", -0.1, 0.0001, "linear better"), non_inferiority=margin()),
    )[0]
    assert told.startswith(
        "Linear attention forecasts better than softmax attention: mean squared error 10 % lower"
    )
    assert told.endswith("p < 0.001; it is not worse by the declared margin of 2 % (p = 0.010).")


def test_a_better_that_is_equivalent_is_told_as_small() -> None:
    told = findings(
        metrics(linear=0.99, softmax=1.0),
        comparisons(
            pair("linear", "softmax", -0.01, 0.002, "linear better"), non_inferiority=margin(equivalent=True)
        ),
    )[0]
    assert told.startswith(
        "Linear attention forecasts better than softmax attention, by less than the declared margin: mean "
    )
    assert told.endswith("; the two are equivalent within the declared margin of 2 % (p = 0.010).")


@pytest.mark.parametrize(
    ("linear", "softmax", "said"), [([0], [0], " (one seed)."), ([0, 1, 2], [0, 1, 2], " (3 seeds).")]
)
def test_seeds_are_counted(linear: list[int], softmax: list[int], said: str) -> None:
    content = metrics(linear=0.99, softmax=1.0)
    for one, seeds in zip(content["models"], (linear, softmax), strict=True):
        one["seeds"] = seeds
    told = findings(content, comparisons(pair("linear", "softmax", -0.01, 0.3, NONE)))[0]
    assert told.endswith(said)


def test_small_ends_and_large_shares_can_be_read() -> None:
    row = pair("linear", "softmax", 0.0005, 0.02, "softmax better", low=0.00004, high=0.0009)
    told = findings(metrics(linear=1.0, softmax=1.0), comparisons(row))[0]
    assert "mean squared error 0.05 % higher, 95 % interval +0.004 % to +0.09 %" in told
    large = pair("linear", "softmax", 1.2, 0.001, "softmax better", low=1.1, high=13.0)
    told = findings(metrics(linear=2.2, softmax=1.0), comparisons(large))[0]
    assert "mean squared error 120 % higher, 95 % interval +110 % to +1,300 %" in told


def test_negative_r2_has_a_true_minus_sign() -> None:
    told = findings(metrics(linear=1.2, mean=1.0), comparisons())[1]
    assert told.startswith(
        "Out-of-sample R² against the historical mean: linear attention −0.200 (−0.300 to "
    )


def test_without_attention_models_that_is_said() -> None:
    told = findings(metrics(har=0.5, mean=1.0), comparisons())[1]
    assert told == (
        "Out-of-sample R² against the historical mean: HAR 0.500 (0.400 to 0.600). No attention model was "
        "run; of the baselines HAR has the lowest mean squared error."
    )
    assert findings(metrics(har=0.5), comparisons())[1] == "No attention model was run, only HAR."


def test_a_pair_reported_the_other_way_round_is_turned() -> None:
    told = findings(
        metrics(linear=0.9, softmax=1.0), comparisons(pair("softmax", "linear", 0.1, 0.001, "linear better"))
    )[0]
    assert (
        "better than softmax attention: mean squared error 10 % lower, 95 % interval −11.00 % to −9.00 %"
        in told
    )


def test_no_test_no_claim() -> None:
    few = "5 forecast times are too few"
    told = findings(
        metrics(linear=0.9, softmax=1.0),
        comparisons(
            pair("linear", "softmax", -0.1, None, NONE, low=None, high=None, reason=few),
            non_inferiority=margin(p_value=None, upper=None, non_inferior=False, reason=few),
        ),
    )[0]
    assert told.startswith(f"Linear against softmax attention: no test is possible ({few})")
    assert findings(metrics(linear=1.0), comparisons())[0].startswith(
        "Linear and softmax attention were not both run"
    )


def test_baselines() -> None:
    told = findings(
        metrics(linear=0.5, softmax=0.52, mean=1.0, har=0.55, ridge=0.48),
        comparisons(
            pair("linear", "har", -0.05, 0.2, NONE),
            pair("softmax", "har", -0.03, 0.2, NONE),
            pair("ridge", "linear", -0.02, 0.01, "ridge better"),
            pair("linear", "mean", -0.5, 0.0, "linear better"),
        ),
    )[1]
    assert told == (
        "Out-of-sample R² against the historical mean: linear attention 0.500 (0.400 to 0.600), softmax "
        "attention 0.480 (0.380 to 0.580), HAR 0.450 (0.350 to 0.550), ridge regression 0.520 (0.420 to "
        "0.620). Linear attention against HAR: no difference found (error 9.1 % lower, p = 0.200); linear "
        "attention is worse than ridge regression, the best baseline (error 4.2 % higher, p = 0.010)."
    )


def test_the_historical_mean_is_named_where_nothing_beats_it() -> None:
    told = findings(
        metrics(linear=1.2, mean=1.0, har=1.1),
        comparisons(
            pair("linear", "har", 0.1, 0.01, "har better"), pair("linear", "mean", 0.2, 0.0, "mean better")
        ),
    )[1]
    assert told.endswith(
        "Linear attention is worse than HAR (error 9.1 % higher, p = 0.010); linear attention is worse than "
        "the historical mean, the best baseline (error 20 % higher, p < 0.001)."
    )


def test_har_as_the_best_baseline_is_named_once() -> None:
    told = findings(
        metrics(linear=0.5, mean=1.0, har=0.48), comparisons(pair("linear", "har", 0.02, 0.01, "har better"))
    )[1]
    assert told.endswith(
        "Linear attention is worse than HAR, the best baseline (error 4.2 % higher, p = 0.010)."
    )


def test_other_baselines_or_none() -> None:
    told = findings(metrics(linear=0.5, other=0.55), comparisons(pair("linear", "other", -0.05, 0.4, NONE)))[
        1
    ]
    assert told == (
        "Linear attention against other, the best baseline: no difference found (error 9.1 % lower, p = "
        "0.400)."
    )
    assert "No baseline" in findings(metrics(linear=0.5), comparisons())[1]


def times(p50: float, p99: float) -> dict[str, float]:
    return {"p50": p50, "p95": p50, "p99": p99}


def test_speed() -> None:
    latency = {
        "backtest": [
            {"model": "linear", "n": 9, "update_us": times(5, 6), "read_us": times(85.04, 120)},
            {"model": "softmax", "n": 9, "update_us": times(5, 6), "read_us": times(170.08, 2400)},
        ],
        "curve": [
            {"model": "linear", "history": 128, "read_us": times(80, 90)},
            {"model": "softmax", "history": 128, "read_us": times(60, 90)},
            {"model": "linear", "history": 32768, "read_us": times(84, 90)},
            {"model": "softmax", "history": 32768, "read_us": times(2100, 3000)},
            {"model": "linear", "history": 65536, "read_us": times(84, 90)},
        ],
        "crossover_history": 1024,
        "training": [
            {"model": "linear", "fold": 0, "seconds": 10.0},
            {"model": "linear", "fold": 1, "seconds": 20.0},
            {"model": "softmax", "fold": 0, "seconds": 90.0},
        ],
    }
    told = findings(metrics(linear=1.0), comparisons(), latency)[2]
    assert told == (
        "When a forecast was due in the backtest, the median read took 85 µs with linear attention (p99 120 "
        "µs) and 170 µs with softmax attention (p99 2.4 ms): linear is 2.0 times as fast; at 32,768 events "
        "of history a read of the network alone takes 84 µs with linear and 2.1 ms with softmax attention: "
        "linear is 25.0 times as fast; linear attention is the faster one from 1,024 events on; training "
        "took 30 s with linear and 90 s with softmax attention: linear is 3.0 times as fast."
    )


@pytest.mark.parametrize(
    ("linear", "softmax", "said"),
    [(60.0, 30.0, "softmax is 2.0 times as fast"), (31.0, 30.0, "no difference to speak of")],
)
def test_speed_is_said_as_it_is(linear: float, softmax: float, said: str) -> None:
    latency = {
        "backtest": [
            {"model": "linear", "n": 1, "update_us": None, "read_us": times(linear, 1)},
            {"model": "softmax", "n": 1, "update_us": None, "read_us": times(softmax, 1)},
        ]
    }
    assert said in findings(metrics(linear=1.0), comparisons(), latency)[2]


def test_speed_not_measured() -> None:
    empty: dict[str, Any] = {"backtest": [], "curve": [], "training": [], "crossover_history": None}
    untimed = {"backtest": [{"model": "linear", "read_us": {"p50": None}}], "curve": [{"model": "linear"}]}
    for latency in (None, {}, empty, untimed):
        assert findings(metrics(linear=1.0), comparisons(), latency)[2] == "Latency was not measured."
