"""How a key/value cache grows, and that it never forgets."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from quantattn.errors import StateError, UsageError
from quantattn.forecasters import CachePolicy, NetworkStream
from tests.forecasters.sequences import EVENT_WIDTH, QUERY_WIDTH, START, random_network, small_config

EVENT, QUERY = np.ones(EVENT_WIDTH, np.float32), np.ones(QUERY_WIDTH, np.float32)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"initial": 0}, "initial=0"),
        ({"growth": 1.0}, r"growth=1\.0"),
        ({"growth": float("nan")}, "growth=nan"),
        ({"growth": float("inf")}, "growth=inf"),
        ({"limit": 0}, "limit=0"),
    ],
)
def test_impossible_policies(values: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        CachePolicy(**values)


def test_a_policy_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        CachePolicy().limit = 3  # type: ignore[misc]


def test_capacities() -> None:
    policy = CachePolicy(10, 1.5, 40)
    assert policy.capacity(1) == 10
    assert policy.capacity(12) == 12
    assert policy.capacity(11, 10) == 15
    assert policy.capacity(16, 15) == 23  # 22.5 rounded up
    assert policy.capacity(30, 10) == 30
    assert policy.capacity(31, 30) == 40  # no room for what the limit forbids
    assert CachePolicy(1, 1.0001).capacity(2, 1) == 2


@pytest.mark.parametrize(
    "policy", [CachePolicy(1, 1.01), CachePolicy(1, 2.0), CachePolicy(5000), CachePolicy(15)]
)
def test_growth_changes_no_bit(policy: CachePolicy) -> None:
    network = random_network(small_config("softmax"))
    usual, other = NetworkStream(network), NetworkStream(network, cache=policy)
    tokens = np.random.default_rng(0).standard_normal((1200, EVENT_WIDTH)).astype(np.float32)
    for stream in (usual, other):
        for number in range(40):
            stream.write("A", tokens[number], START + number)
        stream.write_sequence("A", tokens[40:], START + np.arange(40, 1200))
    assert usual.read("A", QUERY, START + 9999) == other.read("A", QUERY, START + 9999)
    assert usual.state_bytes("A") == other.state_bytes("A")
    for name, array in usual.memory("A").items():
        assert array.tobytes() == other.memory("A")[name].tobytes()


def test_no_event_beyond_the_limit_is_written() -> None:
    stream = NetworkStream(random_network(small_config("softmax")), cache=CachePolicy(2, 2.0, 3))
    stream.write_sequence("A", np.tile(EVENT, (2, 1)), np.array([START, START]))
    before = stream.memory("A")
    refusal = r"entity 'A' would have \d events, .* may hold 3; raise the limit"
    with pytest.raises(StateError, match=refusal):
        stream.write_sequence("A", np.tile(EVENT, (2, 1)), np.array([START, START]))
    stream.write("B", EVENT, START)
    assert all(np.array_equal(array, before[name]) for name, array in stream.memory("A").items())
    stream.write("A", EVENT, START)  # the third
    for call in (
        lambda: stream.write("A", EVENT, START),
        lambda: stream.write_each(["B", "A"], np.tile(EVENT, (2, 1)), START),
        lambda: NetworkStream(random_network(small_config("softmax")), cache=CachePolicy(limit=2)).restore(
            "A", stream.memory("A")
        ),
    ):
        with pytest.raises(StateError, match=refusal.replace("3", r"\d")):
            call()
    assert stream.count("A") == 3
    assert stream.count("B") == 1  # none of the two was written
    assert np.isfinite(stream.read("A", QUERY, START + 1)).all()


def test_a_state_needs_no_limit() -> None:
    stream = NetworkStream(random_network(small_config()), cache=CachePolicy(limit=1))
    stream.write_sequence("A", np.tile(EVENT, (5, 1)), np.full(5, START))
    assert stream.count("A") == 5
