"""The float64 shadow against the naive oracle, torch in float64, and memories that are not its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import ClockError, StateError
from quantattn.forecasters import AttentionNetwork, EntityTokens, HeadConfig, merge
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.health.shadow import Shadow
from quantattn.forecasters.streaming.network.stream import NetworkStream
from tests.forecasters.oracle import naive_forecasts
from tests.forecasters.sequences import (
    DAY,
    EVENT_WIDTH,
    QUERY_WIDTH,
    START,
    in_float64,
    random_network,
    random_tokens,
    small_config,
)

BOTH: list[Attention] = ["linear", "softmax"]
EVENT = np.ones(EVENT_WIDTH, np.float32)
QUERY = np.ones(QUERY_WIDTH, np.float32)
HEADS = [
    HeadConfig(),
    HeadConfig("gaussian", ("a", "b")),
    HeadConfig("quantile", ("a",), (0.1, 0.5, 0.9)),
    HeadConfig("direction"),
]


def followed(network: AttentionNetwork, tokens: EntityTokens) -> np.ndarray:
    """What a shadow says at every query, events written in the order of the clock; shape (m, outputs)."""
    shadow = Shadow(network)
    shadow.add(tokens.entity)
    answers, written = [], 0
    for query, count in zip(tokens.queries, tokens.counts.tolist(), strict=True):
        while written < count:
            shadow.write(tokens.entity, tokens.events[written], int(tokens.event_times[written]))
            written += 1
        answers.append(shadow.read(tokens.entity, query))
    return np.array(answers)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("attention", BOTH)
def test_agrees_with_the_naive_oracle(attention: Attention, layers: int) -> None:
    """Both are float64 and share no code: what differs is the order of sums."""
    network = random_network(small_config(attention, layers=layers), seed=layers)
    for seed in range(3):
        tokens = random_tokens(30, 8, seed=seed)
        assert followed(network, tokens)[:, 0] == pytest.approx(naive_forecasts(network, tokens), abs=1e-11)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
@pytest.mark.parametrize("attention", BOTH)
def test_all_numbers_of_every_head(attention: Attention, head: HeadConfig) -> None:
    """Without half-lives: the batch path rounds decays to float32. The oracle above knows them exactly."""
    sizes: dict[str, Any] = {"width": 12, "heads": 3, "half_lives": (None, None, None)}
    network = random_network(small_config(attention, head=head, **sizes))
    tokens = random_tokens(150, 30)  # beyond the first capacity of the cache
    with torch.inference_mode():
        batch = merge([tokens], network.config.half_lives).to(torch.float64)
        expected = in_float64(network).raw(batch)[0].numpy()
    found = followed(network, tokens)
    assert found.shape == (30, head.outputs)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("attention", BOTH)
def test_centuries_of_silence(attention: Attention) -> None:
    """Gaps of years, thousands of half-lives, then an event a nanosecond later: decay is capped, not lost."""
    network = random_network(small_config(attention, half_lives=(0.01, 1.0)))
    moments = np.cumsum([0, 1, 400 * DAY, 1, DAY // 50, 9000 * DAY, 0, 5])
    tokens = random_tokens(8, 8)
    tokens = EntityTokens(
        "A",
        tokens.events,
        START + moments,
        tokens.queries,
        START + moments + 1,
        np.array([sum(1 for e in moments if e < q + 1) for q in moments]),
        np.arange(8),
    )
    assert followed(network, tokens)[:, 0] == pytest.approx(naive_forecasts(network, tokens), abs=1e-11)


@pytest.mark.parametrize("attention", BOTH)
def test_before_the_first_event_the_start_token_is_read(attention: Attention) -> None:
    network = random_network(small_config(attention))
    blind = random_tokens(0, 2)
    assert followed(network, blind)[:, 0] == pytest.approx(naive_forecasts(network, blind), abs=1e-12)


@pytest.mark.parametrize("attention", BOTH)
def test_twins_know_nothing_of_each_other(attention: Attention) -> None:
    network = random_network(small_config(attention))
    shadow, alone = Shadow(network), Shadow(network)
    for entity in ("A", "B"):
        shadow.add(entity)
    alone.add("A")
    for step in range(80):
        shadow.write("B", -EVENT * step, START + step)
        for each in (shadow, alone):
            each.write("A", EVENT * (step % 3), START + 7 * step)
    assert shadow.entities == ("A", "B") and "A" in shadow and "C" not in shadow
    assert shadow.read("A", QUERY).tolist() == alone.read("A", QUERY).tolist()
    assert shadow.read("B", QUERY).tolist() != alone.read("A", QUERY).tolist()


@pytest.mark.parametrize("attention", BOTH)
def test_a_fork_goes_its_own_way(attention: Attention) -> None:
    network = random_network(small_config(attention))
    shadow = Shadow(network)
    shadow.add("A")
    for step in range(70):
        shadow.write("A", EVENT * step, START + step)
    shadow.add("B", like="A")
    same = shadow.read("A", QUERY).tolist()
    assert shadow.read("B", QUERY).tolist() == same
    shadow.write("B", -EVENT, START + 70)
    assert shadow.read("A", QUERY).tolist() == same
    assert shadow.read("B", QUERY).tolist() != same
    shadow.write("A", -EVENT, START + 70)
    assert shadow.read("A", QUERY).tolist() == shadow.read("B", QUERY).tolist()


@pytest.mark.parametrize("attention", BOTH)
def test_reads_change_nothing(attention: Attention) -> None:
    shadow = Shadow(random_network(small_config(attention)))
    shadow.add("A")
    shadow.write("A", EVENT, START)
    before = shadow.memory("A")
    first = shadow.read("A", QUERY).tolist()
    shadow.read("A", -9 * QUERY)
    assert shadow.read("A", QUERY).tolist() == first
    after = shadow.memory("A")
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("cut", [0, 1, 64, 65, 128, 150])
@pytest.mark.parametrize("attention", BOTH)
def test_a_memory_goes_on_bit_for_bit(attention: Attention, cut: int) -> None:
    """Cuts at the border of the cache's capacity too: 64 tokens, the start token among them."""
    network = random_network(small_config(attention))
    tokens = random_tokens(150, 1)
    whole, first, second = Shadow(network), Shadow(network), Shadow(network)
    for shadow in (whole, first):
        shadow.add("A")
    for place, (token, at) in enumerate(zip(tokens.events, tokens.event_times.tolist(), strict=True)):
        whole.write("A", token, at)
        if place < cut:
            first.write("A", token, at)
    kept = first.memory("A")
    second.restore("A", kept)
    for array in kept.values():  # the memory was copied, whatever becomes of the arrays
        array[...] = 0
    for token, at in zip(tokens.events[cut:], tokens.event_times[cut:].tolist(), strict=True):
        second.write("A", token, at)
    assert second.read("A", QUERY).tolist() == whole.read("A", QUERY).tolist()
    ours, theirs = second.memory("A"), whole.memory("A")
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes()


def test_the_clock_does_not_go_back() -> None:
    shadow = Shadow(random_network(small_config()))
    shadow.add("A")
    shadow.write("A", EVENT, START)
    shadow.write("A", EVENT, START)  # a tie is in order
    before = shadow.read("A", QUERY).tolist()
    with pytest.raises(
        ClockError, match=r"'A' available at 2020-01-01T23.*after one available at 2020-01-02T00"
    ):
        shadow.write("A", EVENT, START - 1)
    assert shadow.read("A", QUERY).tolist() == before


def test_strangers_are_refused() -> None:
    shadow = Shadow(random_network(small_config()))
    shadow.add("A")
    with pytest.raises(StateError, match="'A' has a shadow already"):
        shadow.add("A")
    with pytest.raises(StateError, match=r"'B' has no shadow; those with one are \['A'\]"):
        shadow.add("C", like="B")
    assert shadow.entities == ("A",)
    for call in (lambda: shadow.write("B", EVENT, START), lambda: shadow.read("B", QUERY)):
        with pytest.raises(StateError, match="'B' has no shadow"):
            call()
    with pytest.raises(StateError, match=r"event token of shape \(4,\), expected \(3,\)"):
        shadow.write("A", QUERY, START)
    with pytest.raises(StateError, match=r"query token of shape \(3,\), expected \(4,\)"):
        shadow.read("A", EVENT)


def damaged(memory: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**memory, name: value}


@pytest.mark.parametrize("attention", BOTH)
def test_foreign_memories_are_refused_and_nothing_changes(attention: Attention) -> None:
    shadow = Shadow(random_network(small_config(attention)))
    shadow.add("A")
    for step in range(3):
        shadow.write("A", EVENT, START + step)
    memory, before = shadow.memory("A"), shadow.read("A", QUERY).tolist()
    main = "state" if attention == "linear" else "keys"
    infinite = memory[main].copy()
    infinite.flat[3] = np.inf
    bad = [
        (damaged(memory, main, memory[main].astype(np.float32)), "float32"),
        (damaged(memory, main, memory[main][..., :-1]), "of shape"),
        (damaged(memory, main, infinite), "not finite"),
        (damaged(memory, "extra", memory[main]), "holds .*extra"),
        ({name: array for name, array in memory.items() if name != main}, "expected .*" + main),
        (damaged(memory, "events", np.array([-1])), "do not go together"),
        (damaged(memory, "events", np.array([3], np.int32)), "do not go together"),
        (damaged(memory, "last_event", np.zeros(0, np.int64)), "do not go together"),
        (damaged(memory, "last_event", np.zeros(2, np.int64)), "do not go together"),
    ]
    if attention == "softmax":
        bad += [
            (damaged(memory, "events", np.array([4])), "of shape"),
            (damaged(memory, "clock", memory["clock"][:, 1:]), "of shape"),
        ]
    for arrays, message in bad:
        with pytest.raises(StateError, match=message):
            shadow.restore("A", arrays)
        assert shadow.read("A", QUERY).tolist() == before
    other: Attention = "softmax" if attention == "linear" else "linear"
    with pytest.raises(StateError, match="expected"):
        Shadow(random_network(small_config(other))).restore("A", memory)


@pytest.mark.parametrize("events", [0, 1, 90])
@pytest.mark.parametrize("attention", BOTH)
def test_a_float32_memory_is_adopted(attention: Attention, events: int) -> None:
    """From the memory of a stream the twin starts with its rounding, and goes on in float64."""
    network = random_network(small_config(attention))
    tokens = random_tokens(events + 20, 1)
    stream, shadow, exact = NetworkStream(network), Shadow(network), Shadow(network)
    stream.add("A")
    stream.write_sequence("A", tokens.events[:events], tokens.event_times[:events])
    shadow.adopt("A", stream.memory("A"))
    assert shadow.events("A") == events
    exact.add("A")
    for place, (token, at) in enumerate(zip(tokens.events, tokens.event_times.tolist(), strict=True)):
        exact.write("A", token, at)
        if place >= events:
            shadow.write("A", token, at)
    assert shadow.read("A", QUERY) == pytest.approx(exact.read("A", QUERY), abs=1e-5)
    other: Attention = "softmax" if attention == "linear" else "linear"
    with pytest.raises(StateError, match="it is of another network"):
        Shadow(random_network(small_config(other))).adopt("A", stream.memory("A"))
    with pytest.raises(StateError, match="this network's is"):
        Shadow(random_network(small_config(attention, layers=3))).adopt("A", stream.memory("A"))
