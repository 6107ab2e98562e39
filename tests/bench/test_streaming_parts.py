"""The parts of the streaming benchmark: peers, histories, floors and the loop that times calls."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.bench import streaming_agreement, streaming_cold, streaming_raw
from quantattn.bench.streaming_agreement import agreement
from quantattn.bench.streaming_calls import Contestant, Effort, clock_overhead, latency_of, time_steps
from quantattn.bench.streaming_cases import pieces, random_network, random_tokens
from quantattn.bench.streaming_cold import cold_start
from quantattn.bench.streaming_eager import EagerLinear, EagerSoftmax
from quantattn.bench.streaming_floor import floors, step_bytes, sum_often
from quantattn.bench.streaming_histories import (
    eager_softmax,
    lengthened,
    linear_memories,
    ours,
    softmax_memories,
)
from quantattn.errors import QuantAttnError
from quantattn.forecasters import EntityTokens, NetworkStream, merge
from quantattn.forecasters.config import Attention

BOTH: tuple[Attention, ...] = ("linear", "softmax")


@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize("width", [4, 32])
def test_eager_torch_agrees_with_the_stream(attention: Attention, width: int) -> None:
    found = agreement(attention, width)
    assert (found.model, found.width) == (attention, width)
    assert found.spread > 0.1
    assert found.difference < 1e-5 * found.spread


@pytest.mark.parametrize("attention", BOTH)
def test_eager_torch_agrees_with_the_batch_path(attention: Attention) -> None:
    network, tokens = random_network(attention, 16), random_tokens(50)
    # A month between two events, so that decay matters.
    times = np.arange(50) * 30 * 86_400 * 10**9
    own = EntityTokens("A", tokens.events, times, tokens.queries, times + 1, np.arange(1, 51), np.arange(50))
    eager = EagerLinear(network) if attention == "linear" else EagerSoftmax(network, 51)
    with torch.inference_mode():
        expected = network(merge([own], network.config.half_lives))[0].numpy()
        found = []
        for event, query, at in zip(tokens.events, tokens.queries, times.tolist(), strict=True):
            eager.write("A", torch.from_numpy(event), at)
            found.append(float(eager.read("A", torch.from_numpy(query), at + 1)[0]))
    assert expected.std() > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * expected.std())


def test_another_network_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(EagerLinear):
        def read(self, entity: str, token: torch.Tensor, at: int) -> torch.Tensor:
            return super().read(entity, token, at) * 1.001

    monkeypatch.setattr(streaming_agreement, "EagerLinear", Other)
    with pytest.raises(
        QuantAttnError, match=r"eager torch \(linear, width 8\) is up to .* off our forecasts"
    ):
        agreement("linear", 8)


def test_pieces_are_one_history() -> None:
    parts = list(pieces(25, 10, after=7))
    assert [len(events) for events, _ in parts] == [10, 10, 5]
    times = np.concatenate([at for _, at in parts])
    assert times[0] > 7
    assert (np.diff(times) > 0).all()
    assert not np.array_equal(parts[0][0], parts[1][0])
    assert list(pieces(0, 10)) == []


@pytest.mark.parametrize("attention", BOTH)
def test_a_memory_is_that_of_the_history(attention: Attention, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantattn.bench.streaming_histories.PIECE", 8)
    network = random_network(attention, 8)
    if attention == "linear":
        found = linear_memories(network, [20, 5])
    else:
        found = softmax_memories(network, [20, 5], longest_written=100)
    stream = NetworkStream(network)
    stream.add("A")
    for history in (5, 20):
        assert int(found[history]["count"][0]) == history
        stream.restore("A", found[history])
        assert stream.count("A") == history
    # The first five events are those of one piece.
    own = NetworkStream(network)
    ((events, times),) = pieces(5, 8)
    own.write_sequence("A", events, times)
    for name, values in own.memory("A").items():
        np.testing.assert_array_equal(found[5][name], values)


def test_a_longer_cache_repeats_its_events() -> None:
    network = random_network("softmax", 8)
    found = softmax_memories(network, [4, 10], longest_written=4)
    stream = NetworkStream(network)
    stream.restore("A", found[10])
    assert stream.count("A") == 10
    first = softmax_memories(network, [4], longest_written=4)[4]
    assert first["keys"].shape[-2] == 5
    keys = found[10]["keys"]
    np.testing.assert_array_equal(keys[..., :5, :], first["keys"])
    # Eleven tokens with the start: five, and six more out of the same five.
    seen = {row.tobytes() for row in np.moveaxis(first["keys"], -2, 0)}
    assert {row.tobytes() for row in np.moveaxis(keys, -2, 0)} == seen
    assert (np.diff(found[10]["clock"], axis=-1) >= 0).all()
    assert lengthened(first, 4) is first
    # One event more changes the memory as it should.
    token = random_tokens(1)
    stream.write("A", token.events[0], int(found[10]["last_event"][0]) + 1)
    assert stream.count("A") == 11


def test_contestants_begin_at_their_history() -> None:
    network, tokens = random_network("softmax", 8), random_tokens(30)
    memory = softmax_memories(network, [12], longest_written=12)[12]
    stream = NetworkStream(network)
    each = ours(stream, 12, memory)
    for _ in range(2):
        last = each.rewind()
        assert (stream.count("A"), stream.last_event("A")) == (12, last)
        stream.write("A", tokens.events[0], last + 1)
        assert stream.count("A") == 13
    eager = EagerSoftmax(network, 40)
    rewind = eager_softmax(eager, 12)
    with torch.inference_mode():
        for _ in range(2):
            last = rewind()
            assert (eager.count, eager.last_event) == (12, last)
            eager.write("A", torch.from_numpy(tokens.events[0]), last + 1)
            assert eager.count == 13
            assert torch.isfinite(eager.read("A", torch.from_numpy(tokens.queries[0]), last + 2)).all()


class Recorder:
    """Notes the calls; a call takes what the false clock says."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, int]] = []
        self.last = 0

    def write(self, entity: str, token: Any, available_at: int) -> None:
        assert available_at > self.last
        self.last = available_at
        self.calls.append(("write", token, available_at))

    def read(self, entity: str, token: Any, at: int) -> None:
        assert at > self.last
        self.calls.append(("read", token, at))


def test_the_loop_alternates_and_measures_the_second_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    rewinds = []
    ticks = iter(range(10**9))
    # Of three looks at the clock around a pair, the second comes 2 us, the third 5 us after the one before.
    step = (100_000, 2_000, 5_000)
    now = [0]

    def clock() -> int:
        now[0] += step[next(ticks) % 3]
        return now[0]

    monkeypatch.setattr(time, "perf_counter_ns", clock)

    def rewind() -> int:
        recorder.last = 500
        rewinds.append(len(recorder.calls))
        return 500

    contestant = Contestant(recorder, 400, rewind, lambda row: float(row[0]))
    tokens = random_tokens(100)
    found = time_steps({"one": contestant}, tokens, Effort(45, 40, 1e9))
    update, read = found["one"]
    assert (update.p50, update.p99, read.p50, read.p99) == (2.0, 2.0, 5.0, 5.0)
    # A tenth of 400 makes blocks of 40, 20 of them measured: three for 45. Ten pairs came before.
    assert (update.calls, read.calls) == (60, 60)
    assert rewinds == [0, 20, 100, 180]
    assert [name for name, _, _ in recorder.calls[:4]] == ["write", "read", "write", "read"]
    assert recorder.calls[0][1] == float(tokens.events[0, 0])
    assert recorder.calls[1][1] == float(tokens.queries[0, 0])
    assert recorder.calls[0][2] == 500 + int(tokens.gaps[0])
    assert recorder.calls[1][2] == recorder.calls[0][2] + 1


def test_who_is_slow_takes_short_turns_and_sits_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0] / 1e9)

    class Costly(Recorder):
        def __init__(self, nanoseconds: int) -> None:
            super().__init__()
            self.nanoseconds = nanoseconds

        def read(self, entity: str, token: Any, at: int) -> None:
            super().read(entity, token, at)
            now[0] += self.nanoseconds

        def back(self) -> int:
            self.last = 0
            return 0

    fast, slow = Costly(1_000), Costly(1_000_000)
    found = time_steps(
        {"fast": Contestant(fast, 10_000, fast.back), "slow": Contestant(slow, 10_000, slow.back)},
        random_tokens(100),
        Effort(400, 100, 0.061),
    )
    # Blocks of 100, eight of them; and of 15 milliseconds, a quarter of the 61, until these are over.
    assert (found["fast"][0].calls, len(fast.calls)) == (400, 2 * (10 + 8 * 100))
    assert (found["slow"][0].calls, len(slow.calls)) == (5 * 8, 2 * (10 + 5 * 15))
    assert (found["fast"][1].p99, found["slow"][1].p50) == (1.0, 1000.0)


def test_percentiles_and_the_clock() -> None:
    found = latency_of([1000 * value for value in range(1, 102)])
    assert (found.p50, found.p95, found.p99, found.calls) == (51.0, 96.0, 100.0, 101)
    was = gc.isenabled()
    clock = clock_overhead(50)
    assert clock.calls == 50
    assert 0 <= clock.p50 <= clock.p99
    assert gc.isenabled() == was


def test_bytes_of_a_step_by_hand() -> None:
    # Width 4, four heads of one number, two layers, feed-forward 8; events of 40, queries of 12, one output.
    network = random_network("linear", 4)
    norm, mix, forward = 8, 5 * 4, 5 * 8 + 9 * 4
    state = 4 * 2 * 4 * 1 * 2
    update = 41 * 4 + (norm + 5 * 12 + mix + norm + forward) + (norm + 5 * 8)
    assert step_bytes(network, "update") == (4 * update, 2 * state)
    read = 13 * 4 + 12 + 2 * (norm + 5 * 4 + mix + norm + forward) + norm + 5
    assert step_bytes(network, "read") == (4 * read, state)


def test_no_step_touches_more_than_there_is() -> None:
    for width in (4, 32, 64):
        network = random_network("linear", width)
        every = 4 * sum(weight.numel() for weight in network.parameters())
        assert all(0 < step_bytes(network, step)[0] < every for step in ("update", "read"))


def test_a_floor() -> None:
    network = random_network("linear", 8)
    found = floors(network, calls=3, seconds=0.0)
    assert [(floor.step, floor.width) for floor in found] == [("update", 8), ("read", 8)]
    for floor in found:
        assert (floor.weight_bytes, floor.state_bytes) == step_bytes(network, floor.step)
        size = floor.weight_bytes + floor.state_bytes
        assert floor.floor_microseconds == pytest.approx(1e-3 * size / floor.gigabytes_per_second)
        assert floor.times_floor.ratio == pytest.approx(floor.step_microseconds / floor.floor_microseconds)
        assert floor.times_floor.low <= floor.times_floor.ratio <= floor.times_floor.high


def test_the_bytes_are_read_anew_each_time() -> None:
    x = np.arange(10, dtype=np.float32)
    # 45; half of it and 1 + 45; half of that and 2 + 45.
    assert [sum_often(x, times) for times in (1, 2, 3)] == [45.0, 68.5, 81.25]


def test_raw_events_have_headlines_of_their_own() -> None:
    frame = streaming_raw.raw_events(300)
    assert frame["text"].n_unique() == 300
    assert frame["entity"].unique().to_list() == ["E00000"]
    assert frame["available_at"].is_sorted()
    encoders = streaming_raw.fitted_encoders()
    assert np.isfinite(encoders.events.transform(frame)).all()
    plain = streaming_raw._plain(frame[:2], headline=False)
    assert [event["text"] for event in plain] == [None, None]
    assert isinstance(plain[0]["available_at"], int)


@pytest.mark.parametrize("attention", BOTH)
def test_a_cold_start(attention: Attention) -> None:
    found = cold_start(attention, 8, 300, patience=60.0)
    assert (found.model, found.events, found.pieces) == (attention, 300, 0)
    assert found.seconds > 0


def test_a_cold_start_from_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cold_start("softmax", 8, 1_000, patience=0.0)
    assert found.pieces == 9
    assert found.seconds > 0
    assert cold_start("linear", 8, 300, patience=0.0).pieces == 0
    # Writes that take a microsecond for each event before them: the sum of 0 to 999 in all.
    lengths = []

    def noted(memory: Any, history: int) -> Any:
        lengths.append(history)
        return lengthened(memory, history)

    monkeypatch.setattr("quantattn.bench.streaming_cold.lengthened", noted)
    ticks = iter(1e-6 * part for n in range(9) for part in (0.0, 64.0 * (117 * n)))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    network, tokens = random_network("softmax", 8), random_tokens(1_000)
    seconds = streaming_cold._in_pieces(network, tokens.events, tokens.times(0))
    assert lengths == [64, 117, 234, 351, 468, 585, 702, 819, 936]
    assert seconds == pytest.approx(1e-6 * (936**2 / 2 + 64 * 936))
