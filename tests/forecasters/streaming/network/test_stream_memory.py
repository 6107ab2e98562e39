"""Memories taken out, put back and copied: bit for bit, or refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from quantattn.errors import DenominatorError, StateError
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention
from tests.forecasters.sequences import EVENT_WIDTH, QUERY_WIDTH, START, random_network, small_config
from tests.forecasters.streaming.network.test_stream_calls import history, memory_bytes

BOTH: list[Attention] = ["linear", "softmax"]
EVENT = np.ones(EVENT_WIDTH, np.float32)
QUERY = np.ones(QUERY_WIDTH, np.float32)
LATER = START + 10**18


def stream_of(attention: Attention, **options: Any) -> NetworkStream:
    return NetworkStream(random_network(small_config(attention, **options)))


def written(attention: Attention, n: int = 20, **options: Any) -> NetworkStream:
    stream = stream_of(attention, **options)
    stream.write_sequence("A", *history(n))
    return stream


@pytest.mark.parametrize("n", [0, 1, 14, 15, 16, 40])
@pytest.mark.parametrize("attention", BOTH)
def test_what_is_put_back_goes_on_bit_for_bit(attention: Attention, n: int) -> None:
    first = stream_of(attention)
    first.add("A")
    first.write_sequence("A", *history(n))
    kept = first.memory("A")
    second = stream_of(attention)
    second.write("B", EVENT, START)
    second.write_sequence("C", *history(50, 8))
    for name in ("B", "C", "new"):
        second.restore(name, kept)
        assert memory_bytes(second, name) == memory_bytes(first, "A")
        assert (second.count(name), second.last_event(name)) == (first.count("A"), first.last_event("A"))
    later, times = history(30, 4)
    times = times + 10**17
    first.write_sequence("A", later, times)
    for token, at in zip(later, times.tolist(), strict=True):
        second.write_each(["B", "C", "new"], np.tile(token, (3, 1)), at)
    for name in ("B", "C", "new"):
        assert memory_bytes(second, name) == memory_bytes(first, "A")
        assert second.read(name, QUERY, LATER).tobytes() == first.read("A", QUERY, LATER).tobytes()
        assert second.state_bytes(name) == first.state_bytes("A")


@pytest.mark.parametrize("attention", BOTH)
def test_a_fork_is_what_had_written_the_same(attention: Attention) -> None:
    stream = written(attention)
    stream.read("A", QUERY, LATER)
    stream.add("B", like="A")
    assert memory_bytes(stream, "B") == memory_bytes(stream, "A")
    stream.write("A", EVENT, LATER)
    tokens, times = history(20)
    again = stream_of(attention)
    again.write_sequence("B", tokens, times)
    assert memory_bytes(stream, "B") == memory_bytes(again, "B")  # the other's event did not reach it
    for each in (stream, again):
        each.write("B", -EVENT, LATER)
    assert stream.read("B", QUERY, LATER + 1) == again.read("B", QUERY, LATER + 1)
    assert stream.entities == ("A", "B")


@pytest.mark.parametrize("attention", BOTH)
def test_entities_are_added_once_and_copied_from_what_there_is(attention: Attention) -> None:
    stream = stream_of(attention)
    stream.add("A")
    assert (stream.count("A"), stream.last_event("A"), stream.entities) == (0, None, ("A",))
    with pytest.raises(StateError, match=r"'A' has a memory already"):
        stream.add("A")
    with pytest.raises(StateError, match=r"'C' has no memory"):
        stream.add("B", like="C")
    assert stream.entities == ("A",)
    assert stream.read("A", QUERY, START).tobytes() == stream.read("new", QUERY, START).tobytes()
    assert stream.entities == ("A", "new")
    for ask in (
        stream.memory,
        stream.last_event,
        stream.count,
        stream.state_bytes,
        stream.state_norm,
        stream.non_finite,
        stream.least_denominator,
    ):
        with pytest.raises(StateError, match=r"'nobody' has no memory"):
            ask("nobody")


@pytest.mark.parametrize("attention", BOTH)
def test_reads_leave_no_trace_in_a_memory(attention: Attention) -> None:
    stream = written(attention)
    before = memory_bytes(stream, "A")
    for at in (LATER, LATER + 10**18):
        stream.read("A", 9 * QUERY, at)
        stream.read_each(["A", "A"], np.stack([QUERY, -QUERY]), at)
    with pytest.raises(DenominatorError):
        stream.read("A", QUERY * np.float32(np.nan), LATER)
    assert memory_bytes(stream, "A") == before


@pytest.mark.parametrize("attention", BOTH)
def test_what_is_taken_out_is_a_copy(attention: Attention) -> None:
    stream = written(attention, 15)  # with the start token a whole block of a cache
    before = memory_bytes(stream, "A")
    for array in stream.memory("A").values():
        array[...] = 7
    assert memory_bytes(stream, "A") == before
    kept = stream.memory("A")
    stream.restore("B", kept)
    for array in kept.values():
        array[...] = 7
    assert memory_bytes(stream, "B") == before


def test_a_stream_is_not_copied_with_its_addresses() -> None:
    stream = written("linear")
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="restore the memory of each entity"):
            make(stream)


def test_memory_in_numbers() -> None:
    """One head, one layer: S and z by hand from the weights."""
    network = random_network(small_config("linear", heads=1, layers=1, half_lives=(1.0,)))
    stream = NetworkStream(network)
    stream.write("A", EVENT, START)
    stream.write("A", -EVENT, START + 86_400 * 10**9)  # one half-life later
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}

    def written(hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
        normed = scaled * w["blocks.0.attention_norm.weight"] + w["blocks.0.attention_norm.bias"]
        y = w["blocks.0.projection.weight"] @ normed + w["blocks.0.projection.bias"]
        return np.where(y > 0, y + 1, np.exp(np.minimum(y, 0)))[8:16], y[16:]

    embedded = [w["event_embedding.weight"] @ x + w["event_embedding.bias"] for x in (EVENT, -EVENT)]
    s, z = np.zeros((8, 8)), np.zeros(8)
    for hidden, factor in zip([w["start"], *embedded], (1.0, 1.0, 0.5), strict=True):
        key, value = written(hidden)
        s, z = factor * s + np.outer(key, value), factor * z + key
    memory = stream.memory("A")
    assert memory["S"][0, 0] == pytest.approx(s, abs=1e-5)
    assert memory["z"][0, 0] == pytest.approx(z, abs=1e-5)
    assert memory["last_event"].tolist() == [START + 86_400 * 10**9]
    assert memory["count"].tolist() == [2]
    assert stream.state_norm("A") == pytest.approx(np.sqrt((s**2).sum() + (z**2).sum()), rel=1e-5)


def test_least_denominators() -> None:
    """Of one layer only reads meet one: the query's features against z."""
    stream = stream_of("linear", layers=1)
    stream.add("A")
    assert stream.least_denominator("A") == np.inf
    stream.read("A", QUERY, START)
    one = stream.least_denominator("A")
    assert 0 < one < np.inf
    stream.read_each(["A"], -QUERY[None], START)
    both = stream.least_denominator("A")
    assert both <= one
    assert stream.memory("A")["least_denominator"].tolist() == [np.inf]
    stream.add("B", like="A")
    assert stream.least_denominator("B") == np.inf
    # Of two layers writes meet them too, and what they met goes with the memory.
    deep = written("linear")
    assert deep.memory("A")["least_denominator"].tolist() == [deep.least_denominator("A")]
    deep.restore("B", deep.memory("A"))
    deep.add("C", like="A")
    assert deep.least_denominator("B") == deep.least_denominator("C") == deep.least_denominator("A") > 0
    assert written("softmax").least_denominator("A") >= 1.0


def without(name: str) -> Callable[[dict[str, np.ndarray]], object]:
    return lambda memory: memory.pop(name)


def put(name: str, value: Any) -> Callable[[dict[str, np.ndarray]], object]:
    return lambda memory: memory.update({name: value})


def spoil(name: str, value: float) -> Callable[[dict[str, np.ndarray]], object]:
    return lambda memory: memory[name].__setitem__((0,) * memory[name].ndim, value)


COMMON = [
    (without("count"), "expected"),
    (without("last_event"), "expected"),
    (put("other", np.zeros(1)), "'other'"),
    (put("count", np.array([20], np.int32)), "count of a memory .* int32"),
    (put("count", np.array(20)), r"count of a memory .* \(\)"),
    (put("count", [20]), "count of a memory of 'B' is list"),
    (put("count", np.array([-1])), "holds -1 events"),
    (put("least_denominator", np.array([0.0])), r"denominator 0\.0"),
    (put("least_denominator", np.array([np.nan])), "denominator nan"),
    (put("last_event", np.array([1.5])), "last_event of a memory .* float64"),
]
LINEAR = [
    (without("S"), "expected"),
    (lambda m: m.update(S=m["S"].astype(np.float64)), "S of a memory .* float64"),
    (lambda m: m.update(S=m["S"][:1]), "S of a memory"),
    (spoil("S", np.nan), "S of a memory of 'B' is not finite"),
    (spoil("z", np.inf), "z of a memory of 'B' is not finite"),
]
SOFTMAX = [
    (without("clock"), "expected"),
    (put("count", np.array([19])), "keys of a memory .* expected float32"),
    (put("count", np.array([2**62])), "keys of a memory .* expected float32"),
    (lambda m: m.update(values=m["values"][:, :, :-1]), "values of a memory"),
    (spoil("clock", np.nan), "clock of a memory of 'B' is not finite"),
    (spoil("keys", -np.inf), "keys of a memory of 'B' is not finite"),
]


@pytest.mark.parametrize(
    ("attention", "change", "match"),
    [
        *(("linear", *case) for case in COMMON + LINEAR),
        *(("softmax", *case) for case in COMMON + SOFTMAX),
    ],
)
def test_what_is_no_memory_is_refused_and_nothing_changed(
    attention: Attention, change: Callable[[dict[str, np.ndarray]], object], match: str
) -> None:
    stream = written(attention)
    stream.write("B", EVENT, START)
    before = memory_bytes(stream, "B")
    memory = stream.memory("A")
    change(memory)
    with pytest.raises(StateError, match=match):
        stream.restore("B", memory)
    assert memory_bytes(stream, "B") == before
    assert stream.count("B") == 1


def test_the_memory_of_another_network_is_refused() -> None:
    memory = written("linear").memory("A")
    for other in (stream_of("softmax"), stream_of("linear", width=16), stream_of("linear", layers=1)):
        with pytest.raises(StateError, match="another network"):
            other.restore("A", memory)
        assert other.entities == ()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("attention", BOTH)
def test_a_spoiled_memory_stays_spoiled(attention: Attention, layers: int) -> None:
    stream = written(attention, layers=layers)
    bad = EVENT.copy()
    bad[1] = np.nan
    other = np.tile(EVENT, (3, 1))
    other[1] = bad
    try:
        stream.write_each(["C", "B", "D"], other, START)
    except DenominatorError as error:
        assert layers > 1
        assert "'B' at 2020-01-02" in str(error)
    for name in ("C", "D"):  # beside it in the same call
        assert stream.read(name, QUERY, LATER).tobytes() == stream.read("C", QUERY, LATER).tobytes()
        assert stream.non_finite(name) == 0
    assert stream.non_finite("B") > 0
    for _ in range(3):
        with pytest.raises(DenominatorError, match="'B' at"):
            stream.read("B", QUERY, LATER)
        with pytest.raises(DenominatorError, match="'B' at"):
            stream.read_each(["C", "B"], np.stack([QUERY, QUERY]), LATER)
    for _ in range(3):
        try:
            stream.write("B", EVENT, LATER)
        except DenominatorError:
            assert layers > 1
    assert stream.count("B") == 4
    with pytest.raises(DenominatorError):
        stream.read("B", QUERY, LATER + 1)
    with pytest.raises(StateError, match="not finite"):
        stream.restore("E", stream.memory("B"))


@pytest.mark.parametrize("attention", BOTH)
def test_threads_that_add_and_write_their_own_entities(attention: Attention) -> None:
    network = random_network(small_config(attention))
    serial, shared = NetworkStream(network), NetworkStream(network)

    def work(stream: NetworkStream, worker: int) -> list[bytes]:
        found = []
        for number in range(12):
            name = f"{worker}-{number}"
            tokens, times = history(60, 100 * worker + number)
            stream.write_sequence(name, tokens[:40], times[:40])
            for token, at in zip(tokens[40:], times[40:].tolist(), strict=True):
                stream.write(name, token, at)
                found.append(stream.read(name, QUERY, at + 1).tobytes())
        return found

    expected = [work(serial, worker) for worker in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda worker: work(shared, worker), range(4))) == expected
    assert sorted(shared.entities) == sorted(serial.entities)
