"""The streaming path against float64, the batch path, its own company and a disordered caller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import ClockError, DenominatorError, ShapeError
from quantattn.forecasters import AttentionNetwork, EntityTokens, NetworkStream, catch_up, merge, replay
from quantattn.forecasters.config import Attention
from tests.forecasters.oracle import naive_forecasts
from tests.forecasters.sequences import (
    DAY,
    EVENT_WIDTH,
    QUERY_WIDTH,
    START,
    in_float64,
    panel,
    random_network,
    random_tokens,
    small_config,
)

BOTH: list[Attention] = ["linear", "softmax"]
EVENT = np.ones(EVENT_WIDTH, np.float32)
QUERY = np.ones(QUERY_WIDTH, np.float32)


def stream_of(attention: Attention, **options: Any) -> NetworkStream:
    return NetworkStream(random_network(small_config(attention, **options)))


def read(stream: NetworkStream, entity: str, token: np.ndarray, at: int) -> float:
    """The one number of a plain head."""
    return float(stream.read(entity, token, at)[0])


def live(stream: NetworkStream, tokens: EntityTokens) -> list[float]:
    """Events and forecasts in the order of the clock, as a live caller would send them."""
    moments = [(int(at), 1, k) for k, at in enumerate(tokens.event_times)]
    moments += [(int(at), 0, i) for i, at in enumerate(tokens.query_times)]
    forecasts = {}
    for at, is_event, number in sorted(moments):
        if is_event:
            stream.write(tokens.entity, tokens.events[number], at)
        else:
            forecasts[number] = read(stream, tokens.entity, tokens.queries[number], at)
    return [forecasts[number] for number in range(len(tokens.queries))]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("attention", BOTH)
def test_forecasts_agree_with_the_naive_oracle(attention: Attention, layers: int) -> None:
    network = random_network(small_config(attention, layers=layers), seed=layers)
    for tokens in panel(3, events=35, queries=8):
        expected = naive_forecasts(network, tokens)
        assert live(NetworkStream(network), tokens) == pytest.approx(expected, abs=2e-5)


def errors(network: AttentionNetwork, tokens: EntityTokens) -> tuple[float, float]:
    """Worst errors of the streaming and of the batch path against the same network in float64."""
    batch = merge([tokens], network.config.half_lives)
    with torch.inference_mode():
        exact = in_float64(network)(batch.to(torch.float64))[0].numpy()
        batched = network(batch)[0].double().numpy()
    streamed = np.array(live(NetworkStream(network), tokens))
    assert np.abs(exact).max() > 0.5
    return float(np.abs(streamed - exact).max()), float(np.abs(batched - exact).max())


@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize("sizes", [{}, {"width": 32, "heads": 4, "half_lives": (7.0, 30.0, 91.0, None)}])
def test_batch_and_streaming_path_agree(attention: Attention, sizes: dict[str, Any]) -> None:
    """Tolerance: both are float32, so streaming may err four times as far from float64 as the batch does.

    Weights are of order one here, as after training, and so are the forecasts: 1e-5 is eighty times the
    rounding of a single one.
    """
    pairs = [
        errors(random_network(small_config(attention, **sizes), seed=seed), random_tokens(400, 60, seed=seed))
        for seed in range(4)
    ]
    streamed, batched = (max(column) for column in zip(*pairs, strict=True))
    assert batched < 1e-5
    assert streamed < 4 * batched


@pytest.mark.parametrize("attention", BOTH)
def test_long_silences(attention: Attention) -> None:
    """Gaps of years, centuries of half-lives, and then an event a nanosecond later."""
    network = random_network(small_config(attention, half_lives=(0.01, 1.0)))
    moments = np.cumsum([0, 1, 400 * DAY, 1, DAY // 50, 9000 * DAY, 0, 5])
    tokens = random_tokens(8, 0)
    tokens = EntityTokens(
        "A",
        tokens.events,
        START + moments,
        random_tokens(0, 8).queries,
        START + moments + 1,
        np.array([sum(1 for e in moments if e < q + 1) for q in moments]),
        np.arange(8),
    )
    assert live(NetworkStream(network), tokens) == pytest.approx(naive_forecasts(network, tokens), abs=2e-5)


@pytest.mark.parametrize("attention", BOTH)
def test_many_updates_are_one_by_one(attention: Attention) -> None:
    tokens = random_tokens(1500, 1)  # beyond the first capacity of a cache
    one, many = stream_of(attention), stream_of(attention)
    for token, at in zip(tokens.events, tokens.event_times.tolist(), strict=True):
        one.write("A", token, at)
    for part in np.array_split(np.arange(1500), [1, 2, 700, 700, 1490]):
        many.write_sequence("A", tokens.events[part], tokens.event_times[part])
    at = int(tokens.event_times[-1]) + 1
    assert read(one, "A", QUERY, at) == read(many, "A", QUERY, at)
    assert one.state_bytes("A") == many.state_bytes("A")
    more = random_tokens(5, 0, seed=8)
    for token, moment in zip(more.events, range(at, at + 5), strict=True):
        one.write("A", token, moment)
        many.write("A", token, moment)
        assert read(one, "A", QUERY, at + 9) == read(many, "A", QUERY, at + 9)


@pytest.mark.parametrize("attention", BOTH)
def test_company_and_order_of_entities_change_no_bit(attention: Attention) -> None:
    network = random_network(small_config(attention))
    sequences = panel(3, events=50, queries=12)
    alone = {tokens.entity: live(NetworkStream(network), tokens) for tokens in sequences}
    steps = [
        (tokens, int(at), is_event, number)
        for tokens in sequences
        for times, is_event in ((tokens.event_times, 1), (tokens.query_times, 0))
        for number, at in enumerate(times)
    ]
    orders = {
        "by the clock": sorted(steps, key=lambda step: step[1:3]),
        "one entity after the other": sorted(steps, key=lambda step: (step[0].entity, *step[1:3])),
        "backwards through the entities": sorted(
            steps, key=lambda step: (-ord(step[0].entity[-1]), *step[1:3])
        ),
    }
    generator = np.random.default_rng(4)
    shuffled: list[Any] = []
    queues = {
        tokens.entity: [step for step in orders["by the clock"] if step[0] is tokens] for tokens in sequences
    }
    while any(queues.values()):
        name = str(generator.choice([name for name, queue in queues.items() if queue]))
        shuffled.append(queues[name].pop(0))
    orders["at random"] = shuffled
    for order in orders.values():
        stream = NetworkStream(network)
        found: dict[str, list[float]] = {tokens.entity: [] for tokens in sequences}
        for tokens, at, is_event, number in order:
            if is_event:
                stream.write(tokens.entity, tokens.events[number], at)
            else:
                found[tokens.entity].append(read(stream, tokens.entity, tokens.queries[number], at))
        assert found == alone


@pytest.mark.parametrize("attention", BOTH)
def test_reads_change_nothing(attention: Attention) -> None:
    network = random_network(small_config(attention))
    tokens = random_tokens(40, 10)
    quiet = live(NetworkStream(network), tokens)
    stream = NetworkStream(network)
    for query in range(10):
        end = int(tokens.counts[query])
        for event in range(int(tokens.counts[query - 1]) if query else 0, end):
            at = int(tokens.event_times[event])
            read(stream, "A", -QUERY, at + 10**18)  # far ahead: the time of a read leaves no trace
            stream.write("A", tokens.events[event], at)
            read(stream, "A", QUERY, at + 1)
        at = int(tokens.query_times[query])
        first = read(stream, "A", tokens.queries[query], at)
        assert first == read(stream, "A", tokens.queries[query], at) == quiet[query]


def test_an_entity_without_events_reads_the_start_token() -> None:
    for attention in BOTH:
        network = random_network(small_config(attention))
        blind = random_tokens(0, 1)
        stream = NetworkStream(network)
        stream.write("other", EVENT, START)
        found = read(stream, "A", blind.queries[0], int(blind.query_times[0]))
        assert found == pytest.approx(naive_forecasts(network, blind)[0], abs=1e-6)


@pytest.mark.parametrize("attention", BOTH)
def test_threads_change_no_bit(attention: Attention) -> None:
    network = random_network(small_config(attention))
    sequences = panel(8, events=300, queries=4)

    def finish(stream: NetworkStream, written: list[int]) -> list[list[float]]:
        return [
            replay(stream, tokens, count).forecasts.tolist()
            for tokens, count in zip(sequences, written, strict=True)
        ]

    serial = NetworkStream(network)
    expected = finish(serial, [catch_up(serial, tokens) for tokens in sequences])
    for threads in (1, 2, 8):
        pooled = NetworkStream(network)
        with ThreadPoolExecutor(threads) as pool:
            written = list(pool.map(lambda tokens, stream=pooled: catch_up(stream, tokens), sequences))
        assert finish(pooled, written) == expected


# --- the order of the clock -------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", BOTH)
def test_a_forecast_at_an_events_instant_is_refused(attention: Attention) -> None:
    stream = stream_of(attention)
    before = read(stream, "A", QUERY, START)
    stream.write("A", EVENT, START)
    for late in (START, START - 1):
        with pytest.raises(ClockError, match=r"forecast of 'A' at 20.*only strictly after.*forecast before"):
            read(stream, "A", QUERY, late)
    assert read(stream, "A", QUERY, START + 1) != before
    # Another entity has a clock of its own.
    assert read(stream, "B", QUERY, START) == before


@pytest.mark.parametrize("attention", BOTH)
def test_an_event_before_the_last_is_refused(attention: Attention) -> None:
    stream, same = stream_of(attention), stream_of(attention)
    for each in (stream, same):
        each.write("A", EVENT, START)
        each.write("A", 2 * EVENT, START)  # a tie is in order
    with pytest.raises(ClockError, match=r"event of 'A' available at 2020-01-01T23.*canonical order"):
        stream.write("A", EVENT, START - 1)
    assert read(stream, "A", QUERY, START + 1) == read(same, "A", QUERY, START + 1)


@pytest.mark.parametrize(
    "times", [[START - 1, START + 1], [START, START + 5, START + 4], [START + 1, START + 1, START]]
)
@pytest.mark.parametrize("attention", BOTH)
def test_events_out_of_order_are_refused_whole(attention: Attention, times: list[int]) -> None:
    stream, same = stream_of(attention), stream_of(attention)
    for each in (stream, same):
        each.write("A", EVENT, START)
    with pytest.raises(ClockError, match="canonical order"):
        stream.write_sequence("A", np.tile(EVENT, (len(times), 1)), np.array(times))
    # None of them was written, and the clock stands where it stood.
    assert read(stream, "A", QUERY, START + 1) == read(same, "A", QUERY, START + 1)
    stream.write("A", EVENT, START)


@pytest.mark.parametrize(
    "token",
    [
        np.ones(EVENT_WIDTH + 1, np.float32),
        np.ones(EVENT_WIDTH - 1, np.float32),
        np.ones((1, EVENT_WIDTH), np.float32),
        np.ones(EVENT_WIDTH, np.float64),
    ],
)
def test_an_event_of_another_shape_is_refused(token: np.ndarray) -> None:
    stream = stream_of("linear")
    with pytest.raises(ShapeError, match=r"event token of shape .* expected float32 \(3,\)"):
        stream.write("A", token, START)
    with pytest.raises(ShapeError, match=r"event tokens of shape .* expected float32 \(2, 3\)"):
        stream.write_sequence("A", np.stack([token, token]), np.array([START, START]))


def test_as_many_times_as_events() -> None:
    with pytest.raises(ShapeError, match=r"expected float32 \(2, 3\)"):
        stream_of("linear").write_sequence(
            "A", np.ones((3, EVENT_WIDTH), np.float32), np.array([START, START])
        )


@pytest.mark.parametrize(
    "token", [np.ones(QUERY_WIDTH + 1, np.float32), np.ones(EVENT_WIDTH, np.float32), np.ones(QUERY_WIDTH)]
)
def test_a_query_of_another_shape_is_refused(token: np.ndarray) -> None:
    with pytest.raises(ShapeError, match=r"query token of shape .* expected float32 \(4,\)"):
        stream_of("softmax").read("A", token, START)


def test_no_events_is_no_change() -> None:
    stream = stream_of("linear")
    stream.write_sequence("A", np.zeros((0, EVENT_WIDTH), np.float32), np.array([], np.int64))
    assert read(stream, "A", QUERY, 0) == read(stream_of("linear"), "A", QUERY, 0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("attention", BOTH)
def test_what_is_not_finite_is_an_error_and_never_a_forecast(
    attention: Attention, value: float, layers: int
) -> None:
    stream = stream_of(attention, layers=layers)
    stream.write("A", EVENT, START)
    with pytest.raises(DenominatorError, match=r"'A' at 2020-01-03T00:00:00Z .*check the token"):
        read(stream, "A", np.where(np.arange(QUERY_WIDTH) == 1, value, QUERY).astype(np.float32), START + DAY)
    fine = read(stream, "A", QUERY, START + DAY)
    assert np.isfinite(fine)
    bad = np.where(np.arange(EVENT_WIDTH) == 1, value, EVENT).astype(np.float32)
    with pytest.raises(DenominatorError, match="replay the entity from the beginning"):
        stream.write_sequence("A", np.stack([EVENT, bad, EVENT]), np.array([START, START, START + 1]))
        read(stream, "A", QUERY, START + DAY)
    with pytest.raises(DenominatorError):
        read(stream, "A", QUERY, START + DAY)
    assert np.isfinite(read(stream, "B", QUERY, START + DAY))


@pytest.mark.parametrize("attention", BOTH)
def test_weights_that_are_not_finite(attention: Attention) -> None:
    network = random_network(small_config(attention))
    with torch.no_grad():
        network.start[0] = float("nan")
    with pytest.raises(DenominatorError, match="the start token"):
        NetworkStream(network).read("A", QUERY, START)


@pytest.mark.parametrize("attention", BOTH)
def test_warming_up_leaves_no_trace(attention: Attention) -> None:
    warm, cold = stream_of(attention), stream_of(attention)
    warm.warm_up()
    for stream in (warm, cold):
        stream.write("A", EVENT, START)
    assert read(warm, "A", QUERY, START + 1) == read(cold, "A", QUERY, START + 1)


def test_what_a_network_learns_later_is_not_streamed() -> None:
    network = random_network(small_config("linear"))
    stream = NetworkStream(network)
    before = read(stream, "A", QUERY, START)
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
    assert read(stream, "A", QUERY, START) == before


def test_bytes_of_the_twins() -> None:
    linear, softmax = stream_of("linear"), stream_of("softmax")
    sizes = []
    for _ in range(3):
        for stream in (linear, softmax):
            stream.write("A", EVENT, START)
        sizes.append((linear.state_bytes("A"), softmax.state_bytes("A")))
    assert len({size for size, _ in sizes}) == 1
    growth = np.diff([size for _, size in sizes])
    assert growth[0] == growth[1] > 0
