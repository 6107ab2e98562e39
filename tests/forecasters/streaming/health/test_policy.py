"""Limits of health: what is refused as a limit, where a breach begins, what it does, and what it leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import DenominatorError, StateError, UsageError
from quantattn.forecasters import AttentionNetwork, HeadConfig
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.health.monitor import HealthMonitor
from quantattn.forecasters.streaming.health.policy import EntityHealth, HealthPolicy, HealthReport, beyond
from quantattn.forecasters.streaming.health.shadow import Shadow
from quantattn.forecasters.streaming.network.stream import NetworkStream
from tests.forecasters.sequences import (
    EVENT_WIDTH,
    QUERY_WIDTH,
    START,
    random_network,
    random_tokens,
    small_config,
)

BOTH: list[Attention] = ["linear", "softmax"]
EVENT = np.ones(EVENT_WIDTH, np.float32)
QUERY = np.ones(QUERY_WIDTH, np.float32)


# --- the policy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["least_denominator", "largest_state_norm", "largest_drift"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1", [1.0]])
def test_a_limit_is_a_positive_finite_number(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name}=.*positive, finite number"):
        HealthPolicy(**{name: value, "shadow": ("A",)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_breach": "warn"}, "on_breach='warn' is not known; use 'raise' or 'flag'"),
        ({"shadow": "AAPL"}, "shadow='AAPL'; give a tuple of entities"),
        ({"shadow": ["A"]}, "give a tuple of entities"),
        ({"shadow": ("A", "")}, "give a tuple of entities"),
        ({"shadow": ("A", None)}, "give a tuple of entities"),
        ({"shadow": ("A", "B", "A")}, "holds an entity twice"),
        ({"largest_drift": 1e-3}, "without a shadow to measure it by"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        HealthPolicy(**options)


def test_no_limits_by_default() -> None:
    monitor = HealthMonitor(random_network(small_config()), HealthPolicy())
    assert not monitor.checks and monitor.shadow is None and monitor.memory() == {}
    for options in ({"least_denominator": 1}, {"largest_state_norm": 2.5}, {"shadow": ("A",)}):
        assert HealthMonitor(random_network(small_config()), HealthPolicy(**options)).checks


LIMITED = HealthPolicy(least_denominator=0.5, largest_state_norm=10.0, largest_drift=0.25, shadow=("A",))


@pytest.mark.parametrize(
    ("least", "norm", "drift", "expected"),
    [
        (0.5, 10.0, 0.25, []),  # at a limit is within it
        (None, None, None, []),
        (math.nextafter(0.5, 0), 10.0, 0.25, ["least_denominator"]),
        (0.5, math.nextafter(10, 11), 0.25, ["largest_state_norm"]),
        (0.5, 10.0, math.nextafter(0.25, 1), ["largest_drift"]),
        (math.nan, math.nan, math.nan, ["least_denominator", "largest_state_norm", "largest_drift"]),
        (-1.0, math.inf, math.inf, ["least_denominator", "largest_state_norm", "largest_drift"]),
        (math.inf, 0.0, 0.0, []),
    ],
)
def test_where_a_breach_begins(
    least: float | None, norm: float | None, drift: float | None, expected: list[str]
) -> None:
    assert list(beyond(LIMITED, least, norm, drift)) == expected
    assert beyond(HealthPolicy(), least, norm, drift) == {}


def test_a_breach_says_figure_and_limit() -> None:
    assert beyond(LIMITED, 1.25e-7, 123456.5, 3.0) == {
        "least_denominator": "the least denominator 1.25e-07 is below least_denominator=0.5",
        "largest_state_norm": "the state norm 123456 is above largest_state_norm=10",
        "largest_drift": "the drift 3 from float64 is above largest_drift=0.25",
    }


# --- the monitor ------------------------------------------------------------------------------------------


class Followed:
    """A stream and its monitor, told of everything."""

    def __init__(self, network: AttentionNetwork, policy: HealthPolicy, template: str | None = None) -> None:
        self.stream = NetworkStream(network)
        self.monitor = HealthMonitor(network, policy, template=template)

    def add(self, name: str, like: str | None = None) -> None:
        self.stream.add(name, like)
        self.monitor.added(name, like)

    def write(self, name: str, token: np.ndarray, at: int) -> None:
        self.stream.write(name, token, at)
        self.monitor.wrote(name, token, at)

    def write_each(self, names: list[str], tokens: np.ndarray, at: Any) -> None:
        self.stream.write_each(names, tokens, at)
        self.monitor.wrote_each(names, tokens, at)

    def write_sequence(self, name: str, tokens: np.ndarray, at: np.ndarray) -> None:
        self.stream.write_sequence(name, tokens, at)
        self.monitor.wrote_sequence(name, tokens, at)

    def read(self, name: str, token: np.ndarray, at: int, **options: Any) -> tuple[list[float], str | None]:
        raw = self.stream.read(name, token, at)
        return raw.tolist(), self.monitor.check(self.stream, name, token, at, raw, **options)


def fed(network: AttentionNetwork, policy: HealthPolicy, events: int = 30) -> Followed:
    """A stream that was followed over some events of A, one by one."""
    followed = Followed(network, policy)
    tokens = random_tokens(events, 0)
    for token, at in zip(tokens.events, tokens.event_times.tolist(), strict=True):
        followed.write("A", token, at)
    return followed


LATER = START + 10**18


def figures(attention: Attention = "linear") -> tuple[float, float, float]:
    """Least denominator, state norm and drift of the usual stream after one read."""
    followed = fed(random_network(small_config(attention)), HealthPolicy(shadow=("A",)))
    followed.read("A", QUERY, LATER)
    row = followed.monitor.report(followed.stream).rows[0]
    assert 0 < row.drift < 1e-5
    return row.least_denominator, row.state_norm, row.drift


CASES = [
    ("least_denominator", DenominatorError, "below least_denominator"),
    ("largest_state_norm", StateError, "above largest_state_norm"),
    ("largest_drift", StateError, "above largest_drift"),
]


@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize(("name", "error", "said"), CASES)
def test_a_breach_raises_or_flags(attention: Attention, name: str, error: type[Exception], said: str) -> None:
    """Limits at the very figure are kept; a hair inside of it they are not."""
    network = random_network(small_config(attention))
    figure = dict(zip([case[0] for case in CASES], figures(attention), strict=True))[name]
    tight = figure * (1 + 1e-9) if name == "least_denominator" else figure * (1 - 1e-9)
    shadow = ("A", "XYZ")
    calm = fed(network, HealthPolicy(**{name: figure}, shadow=shadow))  # type: ignore[arg-type]
    expected, flag = calm.read("A", QUERY, LATER)
    assert flag is None and calm.monitor.report(calm.stream).healthy

    flagged = fed(network, HealthPolicy(**{name: tight}, on_breach="flag", shadow=shadow))
    raw, flag = flagged.read("A", QUERY, LATER)
    assert raw == expected and flag is not None and said in flag
    report = flagged.monitor.report(flagged.stream)
    assert not report.healthy and report.breaches == {"A": (flag,)}

    strict = fed(network, HealthPolicy(**{name: tight}, shadow=shadow))  # type: ignore[arg-type]
    before = strict.stream.memory("A")
    with pytest.raises(error, match=rf"forecast of 'A' at 2051-.*{said}.*nothing was changed"):
        strict.read("A", QUERY, LATER)
    with pytest.raises(error, match="forecast of 'XYZ' at"):
        strict.read("A", QUERY, LATER, entity="XYZ")
    # Nothing is spoiled: the memory is there, can be read, and goes on.
    after = strict.stream.memory("A")
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert strict.stream.read("A", QUERY, LATER).tolist() == expected
    strict.write("A", EVENT, LATER)
    calm.write("A", EVENT, LATER)
    assert (
        strict.stream.read("A", QUERY, LATER + 1).tolist() == calm.stream.read("A", QUERY, LATER + 1).tolist()
    )


def test_entities_within_the_limits_are_not_touched_by_another() -> None:
    network = random_network(small_config())
    norm = figures()[1]
    followed = Followed(network, HealthPolicy(largest_state_norm=norm * 2, on_breach="flag"))
    tokens = random_tokens(30, 0)
    followed.write_sequence("A", tokens.events, tokens.event_times)
    followed.write_sequence("B", 100 * tokens.events, tokens.event_times)
    for batch in range(8):
        followed.write_sequence("B", tokens.events, tokens.event_times[-1] + 30 * batch + np.arange(30))
    assert followed.read("A", QUERY, LATER)[1] is None
    assert "state norm" in str(followed.read("B", QUERY, LATER)[1])
    assert list(followed.monitor.report(followed.stream).breaches) == ["B"]


def test_several_breaches_are_one_message() -> None:
    policy = HealthPolicy(1e9, 1e-9, 1e-12, shadow=("A",))
    with pytest.raises(
        DenominatorError, match=r"least denominator .*; the state norm .*; the drift .*; nothing"
    ):
        fed(random_network(small_config()), policy).read("A", QUERY, LATER)


@pytest.mark.parametrize("attention", BOTH)
def test_drift_is_the_largest_difference_of_any_output(attention: Attention) -> None:
    head = HeadConfig("quantile", ("a", "b"), (0.1, 0.5, 0.9))
    network = random_network(small_config(attention, head=head))
    followed = fed(network, HealthPolicy(shadow=("A",)))
    exact = Shadow(network)
    exact.add("A")
    tokens = random_tokens(30, 0)
    for token, at in zip(tokens.events, tokens.event_times.tolist(), strict=True):
        exact.write("A", token, at)
    largest = 0.0
    for factor in (1.0, -3.0, 0.1):
        query = np.float32(factor) * QUERY
        raw, _ = followed.read("A", query, LATER)
        largest = max(largest, float(np.abs(np.array(raw) - exact.read("A", query)).max()))
        assert followed.monitor.report(followed.stream).rows[0].drift == largest > 0


def test_a_wrong_stream_drifts() -> None:
    """The control: where the stream is off by a known amount, the drift says by how much."""
    followed = fed(random_network(small_config()), HealthPolicy(largest_drift=0.124, shadow=("A",)))
    raw = followed.stream.read("A", QUERY, LATER)
    monitor, stream = followed.monitor, followed.stream
    assert monitor.check(stream, "A", QUERY, LATER, raw) is None
    with pytest.raises(StateError, match=r"the drift 0.125\d* from float64"):
        monitor.check(stream, "A", QUERY, LATER, raw + np.float32(0.125))
    with pytest.raises(StateError, match="the drift inf from float64"):
        monitor.check(stream, "A", QUERY, LATER, raw * np.float32(np.nan))
    assert monitor.report(stream).rows[0].drift == math.inf  # and does not go away
    monitor.check(stream, "A", QUERY, LATER, raw)
    assert monitor.report(stream).rows[0].drift == math.inf


@pytest.mark.parametrize("attention", BOTH)
def test_every_way_of_writing_keeps_the_shadow_in_step(attention: Attention) -> None:
    network = random_network(small_config(attention))
    tokens = random_tokens(24, 0)
    times = tokens.event_times
    policy = HealthPolicy(shadow=("A", "B"))
    ways = [Followed(network, policy) for _ in range(3)]
    for place in range(24):
        ways[0].write("B", tokens.events[place], int(times[place]))
        ways[0].write("A", tokens.events[place], int(times[place]))
        both = np.stack([tokens.events[place]] * 3)
        at: Any = int(times[place]) if place % 2 else np.full(3, times[place])
        ways[1].write_each(["C", "A", "B"], both, at)
    ways[2].write_sequence("B", tokens.events, times)
    ways[2].write_sequence("A", tokens.events[:9], times[:9])
    ways[2].write_sequence("A", tokens.events[9:], times[9:])
    shadows = [way.monitor.shadow for way in ways]
    answers = {tuple(shadow.read(entity, QUERY).tolist()) for shadow in shadows if shadow for entity in "AB"}
    assert len(answers) == 1
    assert all(shadow and set(shadow.entities) == {"A", "B"} for shadow in shadows)
    for way in ways:
        way.read("A", QUERY, LATER)
        assert way.monitor.report(way.stream, {"A": "A"}).rows[0].drift < 1e-5


def test_copies_of_a_template_are_shadowed() -> None:
    network = random_network(small_config())
    followed = Followed(network, HealthPolicy(shadow=("A",), largest_drift=1e-5), template="*")
    followed.add("*")
    for step in range(5):
        followed.write("*", EVENT * np.float32(step), START + step)
    followed.add("A", like="*")
    followed.add("B", like="*")
    followed.write_each(["*", "A", "B"], np.stack([EVENT] * 3), START + 9)
    shadow = followed.monitor.shadow
    assert shadow is not None and shadow.entities == ("*", "A")
    assert followed.read("A", QUERY, LATER)[1] is None
    # Who reads the template is measured against its shadow, if the policy names him.
    assert followed.read("*", QUERY, LATER, entity="Q")[1] is None
    assert list(followed.monitor.drifts) == ["A"]
    other = Followed(
        network, HealthPolicy(shadow=("A",), largest_drift=1e-30, on_breach="flag"), template="*"
    )
    other.add("*")
    other.write("*", EVENT, START)
    assert "from float64" in str(other.read("*", QUERY, LATER, entity="A")[1])
    assert other.read("*", QUERY, LATER, entity="Q")[1] is None
    report = other.monitor.report(other.stream, {"A": "*", "Q": "*"})
    assert report.rows[0].drift > 0 and math.isnan(report.rows[1].drift)


def test_an_untold_write_does_not_go_unnoticed() -> None:
    followed = fed(random_network(small_config()), HealthPolicy(shadow=("A",)), events=4)
    followed.stream.write("A", EVENT, LATER)
    with pytest.raises(StateError, match=r"shadow of 'A' holds 4 events and its memory 5"):
        followed.read("A", QUERY, LATER + 1)


# --- going on ---------------------------------------------------------------------------------------------


def leasts_of(followed: Followed) -> dict[str, float]:
    return {name: followed.monitor.least(followed.stream, name) for name in followed.stream.entities}


def test_denominators_of_reads_are_not_forgotten() -> None:
    """A stream keeps what its writes met; what reads met before a snapshot is for the monitor to know."""
    network = random_network(small_config(layers=1))  # whose writes read nothing
    first, second = fed(network, HealthPolicy()), Followed(network, HealthPolicy(least_denominator=1e9))
    first.read("A", QUERY, LATER)
    met = first.monitor.least(first.stream, "A")
    assert 0 < met < 1e9
    second.stream.restore("A", first.stream.memory("A"))
    assert second.monitor.least(second.stream, "A") == math.inf
    second.monitor.restore(second.stream, {}, leasts_of(first), {})
    assert second.monitor.least(second.stream, "A") == met
    assert not second.monitor.report(second.stream).healthy


@pytest.mark.parametrize("attention", BOTH)
def test_a_monitor_goes_on_where_it_was_kept(attention: Attention) -> None:
    network = random_network(small_config(attention))
    policy = HealthPolicy(shadow=("A", "Z"), largest_drift=1.0)
    first, tokens = fed(network, policy), random_tokens(20, 0, seed=5)
    first.read("A", QUERY, LATER)
    kept, second = first.monitor.memory(), Followed(network, policy)
    second.stream.restore("A", first.stream.memory("A"))
    second.monitor.restore(second.stream, kept, leasts_of(first), first.monitor.drifts)
    for followed in (first, second):
        followed.write_sequence("A", tokens.events, LATER + np.arange(20))
        followed.read("A", -QUERY, LATER + 99)
    ours, theirs = second.monitor.memory(), first.monitor.memory()
    assert list(ours) == list(theirs) == ["A"]
    for name in ours["A"]:
        assert ours["A"][name].tobytes() == theirs["A"][name].tobytes()
    assert first.monitor.report(first.stream).rows == second.monitor.report(second.stream).rows


def test_a_shadow_that_was_not_kept_begins_at_the_memory() -> None:
    network = random_network(small_config())
    first = fed(network, HealthPolicy())
    second = Followed(network, HealthPolicy(shadow=("A",)))
    second.stream.restore("A", first.stream.memory("A"))
    second.monitor.restore(second.stream, {}, {}, {})
    second.write("A", EVENT, LATER)
    second.read("A", QUERY, LATER + 1)
    assert second.monitor.report(second.stream).rows[0].drift < 1e-5
    # And one that is not asked for is dropped.
    third = Followed(network, HealthPolicy())
    third.stream.restore("A", second.stream.memory("A"))
    third.monitor.restore(third.stream, second.monitor.memory(), {}, second.monitor.drifts)
    assert third.monitor.memory() == {} and third.monitor.drifts == {}


def test_a_foreign_shadow_is_refused_whole() -> None:
    network = random_network(small_config())
    first = fed(network, HealthPolicy(shadow=("A",)))
    kept = first.monitor.memory()
    other = fed(network, HealthPolicy(shadow=("A",)), events=7)
    before = other.monitor.memory()
    without = {"A": {name: array for name, array in kept["A"].items() if name != "state"}}
    for memories, message in [(kept, "holds 30 events and its memory 7"), (without, "expected .*state")]:
        with pytest.raises(StateError, match=message):
            other.monitor.restore(other.stream, memories, {}, {})
        after = other.monitor.memory()
        assert all(np.array_equal(before["A"][name], after["A"][name]) for name in before["A"])
        assert other.read("A", QUERY, LATER)[1] is None
        before = other.monitor.memory()


# --- the report -------------------------------------------------------------------------------------------


def test_the_report_measures_every_entity() -> None:
    network = random_network(small_config())
    followed = Followed(network, HealthPolicy(shadow=("A",)))
    followed.write("A", EVENT, START)
    followed.write("B", EVENT, START + 5)
    followed.add("C")
    report = followed.monitor.report(followed.stream)
    assert [(row.entity, row.events) for row in report.rows] == [("A", 1), ("B", 1), ("C", 0)]
    assert report.as_of == START + 5
    assert all(row.non_finite == 0 and row.state_norm > 0 and math.isnan(row.drift) for row in report.rows)
    followed.read("A", QUERY, LATER)
    followed.read("B", QUERY, LATER)
    drifts = [row.drift for row in followed.monitor.report(followed.stream).rows]
    assert drifts[0] >= 0 and math.isnan(drifts[1])
    renamed = followed.monitor.report(followed.stream, {"one": "B", "two": "B"})
    assert [(row.entity, row.events) for row in renamed.rows] == [("one", 1), ("two", 1)]
    assert followed.monitor.report(followed.stream, {}) == HealthReport((), followed.monitor.policy, None)
    assert followed.monitor.report(NetworkStream(network)).as_of is None


def test_a_spoiled_memory_is_reported_without_a_limit() -> None:
    followed = Followed(random_network(small_config()), HealthPolicy())
    bad = EVENT.copy()
    bad[0] = np.nan
    with pytest.raises(DenominatorError):
        followed.write("A", bad, START)
    row = followed.monitor.report(followed.stream).rows[0]
    assert row.non_finite > 0 and not followed.monitor.report(followed.stream).healthy
    assert row.breaches == (f"{row.non_finite} numbers of the memory are not finite",)


def test_the_report_as_a_frame() -> None:
    rows = (
        EntityHealth("A", 3, 0.5, 2.0, 0, math.nan, ()),
        EntityHealth("B", 0, math.inf, 1.0, 2, 0.25, ("one", "two")),
    )
    report = HealthReport(rows, HealthPolicy(), START)
    assert not report.healthy and report.breaches == {"B": ("one", "two")}
    expected = pl.DataFrame(
        {
            "entity": ["A", "B"],
            "events": [3, 0],
            "least_denominator": [0.5, math.inf],
            "state_norm": [2.0, 1.0],
            "non_finite": [0, 2],
            "drift": [math.nan, 0.25],
            "breaches": ["", "one; two"],
        }
    )
    assert report.frame().equals(expected)
    assert HealthReport((), HealthPolicy(), None).frame().schema == expected.schema
