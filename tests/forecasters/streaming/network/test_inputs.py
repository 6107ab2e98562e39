"""What callers hand to a stream: other types, other shapes, other orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantattn.errors import ClockError, ShapeError, TimestampError, UsageError
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention
from tests.forecasters.sequences import EVENT_WIDTH, QUERY_WIDTH, START, random_network, small_config
from tests.forecasters.streaming.network.test_stream_calls import memory_bytes

BOTH: list[Attention] = ["linear", "softmax"]
EVENT = np.arange(EVENT_WIDTH, dtype=np.float32)
QUERY = np.arange(QUERY_WIDTH, dtype=np.float32)
NETWORK = random_network(small_config())


def frozen(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def strided(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, 2, axis=-1)[..., ::2]


def shifted(x: np.ndarray) -> np.ndarray:
    """The same numbers at an odd address."""
    room = np.zeros(x.nbytes + 1, np.uint8)
    inside = room[1:].view(np.float32).reshape(x.shape)
    inside[...] = x
    return inside


def mapped(x: np.ndarray) -> np.ndarray:
    return x.copy().view(np.memmap)


@pytest.mark.parametrize("lay", [frozen, strided, shifted, mapped, np.asfortranarray])
def test_where_numbers_lie_makes_no_difference(lay: Any) -> None:
    usual, other = NetworkStream(NETWORK), NetworkStream(NETWORK)
    pair, queries = np.stack([EVENT, -EVENT]), np.stack([QUERY, -QUERY])
    for stream, given in ((usual, np.copy), (other, lay)):
        stream.write("A", given(EVENT), START)
        stream.write_sequence("A", given(pair), np.array([START, START + 5]))
        stream.write_each(["A", "B"], given(pair), START + 6)
    assert memory_bytes(usual, "A") == memory_bytes(other, "A")
    assert usual.read("A", QUERY, START + 9) == other.read("A", lay(QUERY), START + 9)
    assert usual.read_each(["A", "B"], queries, START + 9).tobytes() == (
        other.read_each(["A", "B"], lay(queries), START + 9).tobytes()
    )


@pytest.mark.parametrize(
    "token",
    [
        EVENT.astype(np.float64), EVENT.astype(">f4"), EVENT.astype(np.int32), EVENT.tolist(), None, 3.0,
        EVENT[:-1], EVENT[None, None], np.float32(1),
    ],
)  # fmt: skip
def test_no_token_is_guessed_at(token: Any) -> None:
    stream = NetworkStream(NETWORK)
    with pytest.raises(ShapeError, match=r"event token of .* expected float32"):
        stream.write("A", token, START)
    with pytest.raises(ShapeError, match=r"query token of .* expected float32"):
        stream.read("A", token, START)
    for call in (stream.write_each, stream.read_each):
        with pytest.raises(ShapeError, match=r"tokens of .* expected float32"):
            call(["A"], token, START)
    with pytest.raises(ShapeError, match=r"event tokens of .* expected float32"):
        stream.write_sequence("A", token, np.array([START]))
    assert stream.entities == ()


@pytest.mark.parametrize("at", [START, np.int64(START), np.uint64(START), np.array(START)])
def test_whole_numbers_of_any_type_are_instants(at: Any) -> None:
    stream, same = NetworkStream(NETWORK), NetworkStream(NETWORK)
    for _ in range(2):
        stream.write("A", EVENT, at)
        same.write("A", EVENT, START)
    assert stream.last_event("A") == START
    stream.write_each(["A"], EVENT[None], at)
    same.write("A", EVENT, START)
    assert stream.read("A", QUERY, at + 1) == same.read("A", QUERY, START + 1)


@pytest.mark.parametrize(
    "at", [1.5, float(START), "2020-01-01", None, 2**63, -(2**63) - 1, np.datetime64(START, "ns"), [START]]
)
def test_what_is_no_instant_is_refused(at: Any) -> None:
    stream = NetworkStream(NETWORK)
    with pytest.raises(TimestampError, match=r"whole nanoseconds"):
        stream.write("A", EVENT, at)
    with pytest.raises(TimestampError, match=r"whole nanoseconds"):
        stream.read("A", QUERY, at)
    if not isinstance(at, list):
        for call, token in ((stream.write_each, EVENT), (stream.read_each, QUERY)):
            with pytest.raises(TimestampError, match=r"nanoseconds"):
                call(["A"], token[None], at)
    assert stream.entities == ()


def test_times_of_another_number_or_type() -> None:
    stream = NetworkStream(NETWORK)
    pair = np.stack([EVENT, EVENT])
    for times in ([START] * 3, [START]):
        with pytest.raises(ShapeError, match=r"instants of shape \(\d,\) for 2 tokens"):
            stream.write_each(["A", "B"], pair, np.array(times))
    with pytest.raises(ShapeError, match=r"expected float32"):
        stream.write_sequence("A", pair, np.array([START]))
    with pytest.raises(TimestampError, match=r"float64"):
        stream.write_sequence("A", pair, np.array([1.0, 2.0]))
    with pytest.raises(TimestampError, match=r"292 years"):
        stream.write_sequence("A", pair, np.array([2**63, 2**63], np.uint64))
    assert stream.entities == ()


def test_the_ends_of_time() -> None:
    """A gap of 584 years does not turn into one of minus some."""
    first, last = -(2**63), 2**63 - 1
    stream, far = NetworkStream(NETWORK), NetworkStream(NETWORK)
    for each, at in ((stream, first), (far, 0)):
        each.write("A", EVENT, at)
        each.write_each(["A"], -EVENT[None], last)
    # Both gaps are longer than the 32 half-lives that count.
    assert memory_bytes(stream, "A") == memory_bytes(far, "A")
    with pytest.raises(ClockError):
        stream.write("A", EVENT, first)
    with pytest.raises(ClockError):
        stream.write_sequence("A", EVENT[None], np.array([first]))
    with pytest.raises(ClockError):
        stream.read("A", QUERY, last)
    with pytest.raises(ClockError):
        stream.read_each(["A"], QUERY[None], last)


@pytest.mark.parametrize("attention", BOTH)
def test_every_boundary_of_the_clock(attention: Attention) -> None:
    stream = NetworkStream(random_network(small_config(attention)))
    pair, queries = np.stack([EVENT, EVENT]), np.stack([QUERY, QUERY])
    stream.write("A", EVENT, START)
    stream.write("B", EVENT, START + 2)
    for names in (["A", "B"], ["B", "A"]):
        with pytest.raises(ClockError, match=r"event of 'B' available at 2020-01-02T00:00:00\.000000001Z"):
            stream.write_each(names, pair, START + 1)
        with pytest.raises(ClockError, match=r"forecast of 'B' at 2020-01-02T00:00:00\.000000002Z"):
            stream.read_each(names, queries, START + 2)
    assert (stream.count("A"), stream.count("B")) == (1, 1)  # none was written
    stream.write_each(["A", "B"], pair, START + 2)  # a tie
    stream.write_sequence("A", pair, np.array([START + 2, START + 2]))
    stream.read_each(["A", "B"], queries, START + 3)
    with pytest.raises(ClockError, match=r"000000001Z comes after one available at .*000000002Z"):
        stream.write("A", EVENT, START + 1)
    assert (stream.count("A"), stream.count("B")) == (4, 2)


def test_one_event_of_each() -> None:
    stream = NetworkStream(NETWORK)
    with pytest.raises(UsageError, match=r"'B' is given twice.*write_sequence"):
        stream.write_each(["A", "B", "B"], np.zeros((3, EVENT_WIDTH), np.float32), START)
    assert stream.entities == ()
    stream.write_each([], np.zeros((0, EVENT_WIDTH), np.float32), START)
    stream.write_each(("A", "B"), np.zeros((2, EVENT_WIDTH), np.float32), START)
    assert stream.entities == ("A", "B")
    assert stream.read_each([], np.zeros((0, QUERY_WIDTH), np.float32), START).shape == (0, 1)


def test_entities_given_again_are_those_given_now() -> None:
    """A list that the caller changes in between is looked up anew."""
    stream, names = NetworkStream(NETWORK), ["A", "B"]
    pair = np.stack([EVENT, -EVENT])
    stream.write_each(names, pair, START)
    names.reverse()
    stream.write_each(names, pair, START)
    stream.write_each(names, pair, START)
    same = NetworkStream(NETWORK)
    for token in (EVENT, -EVENT, -EVENT):
        same.write("A", token, START)
    assert memory_bytes(stream, "A") == memory_bytes(same, "A")
