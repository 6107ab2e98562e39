"""What an entity's memory does: many writes are one by one, reads leave it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantattn.forecasters.streaming import PackedNetwork, pack
from quantattn.forecasters.streaming.states import EntityState, LinearState, SoftmaxState

from ..sequences import EVENT_WIDTH, QUERY_WIDTH, random_network, small_config

HEADS = 2


def packed(attention: Any, **options: Any) -> PackedNetwork:
    return pack(random_network(small_config(attention, **options)))


def inputs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    tokens = generator.standard_normal((n, EVENT_WIDTH)).astype(np.float32)
    steps = 10 ** generator.uniform(-3, 1.6, (n, HEADS))
    steps[generator.random(n) < 0.2] = 0.0
    return tokens, np.minimum(steps, 32.0)


def started(state: EntityState) -> EntityState:
    assert state.write(np.zeros(EVENT_WIDTH, np.float32), np.zeros(HEADS), is_start=True) == 0
    return state


def linear(**options: Any) -> EntityState:
    return started(LinearState(packed("linear", **options)))


def softmax(capacity: int = 1024, **options: Any) -> EntityState:
    return started(SoftmaxState(packed("softmax", **options), capacity))


def read(state: EntityState, seed: int = 9) -> float:
    token = np.random.default_rng(seed).standard_normal(QUERY_WIDTH).astype(np.float32)
    out = np.zeros(1, np.float32)
    assert state.read(token, out) == 0
    return float(out[0])


def memory(state: EntityState) -> bytes:
    """All that a state remembers."""
    if isinstance(state, LinearState):
        return state._state.tobytes()
    assert isinstance(state, SoftmaxState)
    count = state._count
    return b"".join(
        part[..., :count].tobytes() for part in (state._keys, state._values, state._clock)
    ) + bytes(str(count), "ascii")


BUILDERS = {
    "linear": linear,
    "softmax": softmax,
    "softmax that grows": lambda **options: softmax(2, **options),
    "softmax from nothing": lambda **options: softmax(0, **options),
}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("cuts", [[0], [0, 1], [0, 3, 4, 40], [0, 66], [0, 20, 21, 64]])
def test_many_writes_are_one_by_one(kind: str, cuts: list[int], layers: int) -> None:
    tokens, steps = inputs(67)
    one_by_one = BUILDERS[kind](layers=layers)
    for token, step in zip(tokens, steps, strict=True):
        assert one_by_one.write(token, step, is_start=False) == 0
    at_once = BUILDERS[kind](layers=layers)
    for start, stop in zip(cuts, [*cuts[1:], 67], strict=True):
        assert at_once.write_many(tokens[start:stop], steps[start:stop]) == 0
    assert memory(one_by_one) == memory(at_once)
    assert read(one_by_one) == read(at_once)
    assert one_by_one.nbytes == at_once.nbytes


def test_growth_changes_no_bit() -> None:
    tokens, steps = inputs(200)
    small, large = softmax(1), softmax(4096)
    for state in (small, large):
        state.write_many(tokens[:100], steps[:100])
    assert read(small) == read(large)
    for token, step in zip(tokens[100:], steps[100:], strict=True):
        small.write(token, step, is_start=False)
        large.write(token, step, is_start=False)
        assert read(small) == read(large)
    assert memory(small) == memory(large)


@pytest.mark.parametrize("kind", BUILDERS)
def test_reads_change_nothing(kind: str) -> None:
    tokens, steps = inputs(30)
    quiet, watched = BUILDERS[kind](), BUILDERS[kind]()
    for place, (token, step) in enumerate(zip(tokens, steps, strict=True)):
        before = memory(watched)
        first = read(watched, place)
        read(watched, place + 100)
        assert read(watched, place) == first
        assert memory(watched) == before
        quiet.write(token, step, is_start=False)
        watched.write(token, step, is_start=False)
    assert memory(quiet) == memory(watched)
    assert read(quiet) == read(watched)


def test_writing_nothing() -> None:
    for state in (linear(), softmax()):
        before = memory(state)
        assert state.write_many(*inputs(0)) == 0
        assert memory(state) == before


def test_bytes() -> None:
    tokens, steps = inputs(10)
    flat, growing = linear(), softmax()
    # Per layer and head of two each: features 4, values 4 and a column of ones, in float32.
    assert flat.nbytes == 2 * 2 * 4 * 5 * 4
    # Per event: keys and values of 2 layers, 2 heads and width 4 in float32, and a float64 clock per head.
    per_event = 2 * 2 * 2 * 4 * 4 + 2 * 8
    assert growing.nbytes == per_event
    for state in (flat, growing):
        state.write_many(tokens, steps)
    assert flat.nbytes == 2 * 2 * 4 * 5 * 4
    assert growing.nbytes == 11 * per_event


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_counted(kind: str, value: float, layers: int) -> None:
    """One bad event is noticed when it is read: by a later block at once, and by every forecast."""
    tokens, steps = inputs(5)
    tokens[3, 1] = value
    state = BUILDERS[kind](layers=layers)
    assert state.write_many(tokens[:3], steps[:3]) == 0
    bad = state.write(tokens[3], steps[3], is_start=False)
    assert (bad > 0) == (layers > 1)
    out = np.zeros(1, np.float32)
    token = np.ones(QUERY_WIDTH, np.float32)
    assert state.read(token, out) > 0
    fine = BUILDERS[kind](layers=layers)
    fine.write_many(tokens[:3], steps[:3])
    assert fine.read(token, out) == 0
    assert fine.read(token * np.float32(value), out) > 0
    assert fine.read(token, out) == 0
