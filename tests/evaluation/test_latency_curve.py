from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantattn.encoders import EventEncoder, NumericScaler
from quantattn.errors import EvaluationError
from quantattn.evaluation import latency_curve as module
from quantattn.evaluation.latency_curve import crossover_history, latency_curve
from quantattn.forecasters import (
    AttentionNetwork,
    EntityTokens,
    FittedEncoders,
    FittedForecaster,
    NetworkConfig,
    NetworkStream,
    TargetScale,
)

DAY = 86_400_000_000_000
EVENT_WIDTH, QUERY_WIDTH = 5, 4


def _point(model: str, history: int, update: float | None, read: float | None) -> dict[str, Any]:
    return {
        "model": model,
        "history": history,
        "update_us": None if update is None else {"p50": update, "p95": 900.0, "p99": 999.0},
        "read_us": None if read is None else {"p50": read, "p95": 900.0, "p99": 999.0},
    }


def _curve(linear: dict[int, float], softmax: dict[int, float]) -> list[dict[str, Any]]:
    """Give a curve from the sums of median update and read, one third of each being the update."""
    points = [("linear", n, t) for n, t in linear.items()] + [("softmax", n, t) for n, t in softmax.items()]
    return [_point(model, n, total / 3, 2 * total / 3) for model, n, total in points]


class TestCrossover:
    def test_halfway_on_logarithmic_axes(self) -> None:
        # At 100 linear takes twice as long, at 10,000 half as long: they meet at 1,000.
        curve = _curve({100: 20.0, 10_000: 20.0}, {100: 10.0, 10_000: 40.0})
        assert crossover_history(curve) == 1_000

    def test_a_quarter_of_the_way(self) -> None:
        # The logarithm of the ratio goes from log 2 to -3 log 2, and is zero after a quarter of it.
        curve = _curve({100: 20.0, 1_600: 10.0}, {100: 10.0, 1_600: 80.0})
        assert crossover_history(curve) == 200

    def test_in_the_last_interval_in_which_it_changes(self) -> None:
        linear = {10: 5.0, 100: 20.0, 1_000: 20.0, 4_000: 20.0}
        softmax = {10: 10.0, 100: 10.0, 1_000: 10.0, 4_000: 40.0}
        # Ahead at 10 as well, but not from there on.
        assert crossover_history(_curve(linear, softmax)) == 2_000

    def test_ahead_everywhere_is_the_shortest_length(self) -> None:
        assert crossover_history(_curve({300: 1.0, 100: 1.0}, {100: 2.0, 300: 2.0})) == 100

    def test_equal_at_a_length_is_not_ahead_there(self) -> None:
        assert crossover_history(_curve({100: 5.0, 200: 5.0}, {100: 5.0, 200: 10.0})) == 100
        assert crossover_history(_curve({50: 5.0, 100: 5.0, 200: 5.0}, {50: 4.0, 100: 5.0, 200: 10.0})) == 100

    @pytest.mark.parametrize(
        ("linear", "softmax"),
        [
            ({100: 5.0, 200: 9.0}, {100: 10.0, 200: 8.0}),
            ({100: 5.0}, {100: 5.0}),
            ({100: 5.0}, {}),
            ({}, {100: 5.0}),
            ({}, {}),
            ({100: 5.0}, {200: 50.0}),
        ],
    )
    def test_none_where_it_does_not_lead_at_the_longest_or_was_not_measured(
        self, linear: dict[int, float], softmax: dict[int, float]
    ) -> None:
        assert crossover_history(_curve(linear, softmax)) is None

    def test_only_lengths_at_which_both_were_measured_count(self) -> None:
        curve = _curve({100: 20.0, 10_000: 20.0, 90_000: 1.0}, {50: 1.0, 100: 10.0, 10_000: 40.0})
        assert crossover_history(curve) == 1_000

    def test_a_point_without_timings_is_left_out(self) -> None:
        curve = _curve({100: 20.0, 10_000: 20.0}, {100: 10.0, 10_000: 40.0})
        curve += [_point("linear", 20_000, 1.0, None), _point("softmax", 20_000, None, 1.0)]
        assert crossover_history(curve) == 1_000

    def test_the_names_can_be_others(self) -> None:
        curve = _curve({100: 1.0}, {100: 2.0})
        assert crossover_history(curve, fast="softmax", slow="linear") is None
        assert crossover_history(curve, fast="linear", slow="softmax") == 100

    def test_the_median_counts_and_not_the_tail(self) -> None:
        curve = _curve({100: 1.0}, {100: 2.0})
        curve[0]["read_us"]["p99"] = 1e9
        assert crossover_history(curve) == 100


def _tokens(events: int = 7, gap: int = DAY, queries: int = 2) -> EntityTokens:
    rng = np.random.default_rng(0)
    times = np.int64(1_577_836_800_000_000_000) + np.arange(events, dtype=np.int64) * gap
    return EntityTokens(
        entity="A",
        events=rng.normal(size=(events, EVENT_WIDTH)).astype(np.float32),
        event_times=times,
        queries=rng.normal(size=(queries, QUERY_WIDTH)).astype(np.float32),
        query_times=np.full(queries, times[-1] + 1 if events else 1, dtype=np.int64),
        counts=np.full(queries, events, dtype=np.int64),
        rows=np.arange(queries, dtype=np.int64),
    )


def _forecaster(attention: Any) -> FittedForecaster:
    config = NetworkConfig(
        attention=attention, width=4, heads=1, layers=1, feed_forward=4, half_lives=(30.0,)
    )
    network = AttentionNetwork(config, EVENT_WIDTH, QUERY_WIDTH).eval()
    # The measurement encodes nothing, so unfitted encoders do.
    encoders = FittedEncoders(EventEncoder(), NumericScaler(), 0)
    return FittedForecaster(network, encoders, TargetScale(0.0, 1.0), (0.0, 0.0), 0, 0)


class TestCurve:
    def test_every_model_is_measured_at_every_length(self) -> None:
        steps: list[int] = []
        curve = latency_curve(
            {"linear": _forecaster("linear"), "softmax": _forecaster("softmax")},
            _tokens(),
            histories=(3, 40),
            repeats=4,
            on_point=lambda: steps.append(1),
        )
        assert [(point["model"], point["history"]) for point in curve] == [
            ("linear", 3),
            ("softmax", 3),
            ("linear", 40),
            ("softmax", 40),
        ]
        assert len(steps) == 4
        for point in curve:
            assert point["n"] == 4
            assert point["cold_start_ms"] > 0
            for timing in (point["update_us"], point["read_us"]):
                assert 0 < timing["p50"] <= timing["p95"] <= timing["p99"]

    def test_the_state_of_linear_attention_alone_does_not_grow(self) -> None:
        curve = latency_curve(
            {"linear": _forecaster("linear"), "softmax": _forecaster("softmax")},
            _tokens(),
            histories=(10, 4_000),
            repeats=1,
        )
        size = {(point["model"], point["history"]): point["state_bytes"] for point in curve}
        assert size["linear", 10] == size["linear", 4_000]
        assert size["softmax", 4_000] > 50 * size["softmax", 10]

    def test_as_many_steps_are_taken_untimed_as_timed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken: dict[str, list[Any]] = {"write": [], "read": [], "write_sequence": [], "warm_up": []}
        for name, calls in taken.items():
            original = getattr(NetworkStream, name)

            def spy(self: Any, *inputs: Any, original: Any = original, calls: Any = calls) -> Any:
                calls.append(inputs)
                return original(self, *inputs)

            monkeypatch.setattr(NetworkStream, name, spy)
        tokens = _tokens()
        latency_curve({"linear": _forecaster("linear")}, tokens, histories=(20,), repeats=5)
        assert len(taken["warm_up"]) == len(taken["write_sequence"]) == 1
        assert len(taken["write"]) == len(taken["read"]) == 10
        (_, cold, _), *_ = taken["write_sequence"]
        # The history is the entity's own, over and over, in its order.
        assert np.array_equal(cold, np.concatenate([tokens.events] * 3)[:20])
        assert np.array_equal(taken["write"][0][1], tokens.events[20 % 7])
        assert np.array_equal(taken["read"][0][1], tokens.queries[-1])

    @pytest.mark.parametrize("gap", [0, 1, DAY, 200 * DAY, 20_000 * DAY])
    def test_the_clock_of_a_repeated_history_neither_turns_back_nor_runs_out(self, gap: int) -> None:
        tokens = _tokens(events=5, gap=gap)
        events, times = module._endless(tokens, 30_000)
        assert (events.shape, times.shape) == ((30_000, EVENT_WIDTH), (30_000,))
        assert times[0] == 0
        assert np.diff(times).min() >= 0
        # Python's integers do not wrap round: what the steps add up to is where the clock stands.
        assert sum(np.diff(times).tolist()) == int(times[-1]) < 2**63

    def test_a_short_history_keeps_its_own_clock(self) -> None:
        _, times = module._endless(_tokens(events=3, gap=2 * DAY), 5)
        assert times.tolist() == [0, 2 * DAY, 4 * DAY, 5 * DAY, 7 * DAY]

    @pytest.mark.parametrize("gap", [0, 20_000 * DAY])
    def test_simultaneous_and_sparse_events_can_be_measured(self, gap: int) -> None:
        curve = latency_curve(
            {"linear": _forecaster("linear")}, _tokens(events=4, gap=gap), histories=(2_000,), repeats=2
        )
        assert curve[0]["n"] == 2

    @pytest.mark.parametrize(
        ("tokens", "histories", "repeats"),
        [
            (_tokens(events=0), (5,), 1),
            (_tokens(queries=0), (5,), 1),
            (_tokens(), (0, 5), 1),
            (_tokens(), (5,), 0),
        ],
    )
    def test_what_cannot_be_measured_is_refused(
        self, tokens: EntityTokens, histories: tuple[int, ...], repeats: int
    ) -> None:
        with pytest.raises(EvaluationError):
            latency_curve({"linear": _forecaster("linear")}, tokens, histories=histories, repeats=repeats)
