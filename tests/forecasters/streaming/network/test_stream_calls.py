"""Every call that writes or reads gives an entity the same bits, and they are those of plain torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.forecasters import AttentionNetwork, CachePolicy, NetworkStream
from quantattn.forecasters.config import Attention
from quantattn.forecasters.heads import HeadConfig
from tests.forecasters.sequences import DAY, EVENT_WIDTH, QUERY_WIDTH, START, random_network, small_config
from tests.forecasters.streaming.network.plain import PlainStream

BOTH: list[Attention] = ["linear", "softmax"]
NAMES = ("A", "B", "C", "D")

SIZES: dict[str, dict[str, Any]] = {
    "small": {},
    "one of each": {"width": 1, "heads": 1, "layers": 1, "feed_forward": 1, "half_lives": (2.0,)},
    "odd": {"width": 15, "heads": 3, "layers": 3, "feed_forward": 17, "half_lives": (1.0, None, 9.0)},
    "heads across vectors": {"width": 36, "heads": 3, "feed_forward": 33, "half_lives": (1.0, 3.0, None)},
    "one wide head": {"width": 24, "heads": 1, "feed_forward": 16, "half_lives": (4.0,)},
    "many heads": {"width": 40, "heads": 20, "feed_forward": 65, "half_lives": (1.0,) * 19 + (None,)},
    "whole vectors": {"width": 64, "heads": 4, "feed_forward": 128, "half_lives": (7.0, 30.0, 91.0, None)},
    "several numbers": {"head": HeadConfig("gaussian", ("a", "b", "c", "d", "e", "f", "g", "h", "i"))},
}


def network_of(attention: Attention, sizes: str) -> AttentionNetwork:
    return random_network(small_config(attention, **SIZES[sizes]), seed=5)


def memory_bytes(stream: NetworkStream, entity: str) -> bytes:
    return b"".join(name.encode() + x.tobytes() for name, x in sorted(stream.memory(entity).items()))


def history(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gaps = (10 ** generator.uniform(-4, 1.5, n) * DAY).astype(np.int64)
    gaps[generator.random(n) < 0.2] = 0
    return generator.standard_normal((n, EVENT_WIDTH)).astype(np.float32), START + np.cumsum(gaps)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("attention", BOTH)
def test_one_a_sequence_and_each_are_the_same_bits(attention: Attention, sizes: str) -> None:
    network = network_of(attention, sizes)
    n = 37  # neither a multiple of the rows that share weights nor of those in a tile
    names = [f"E{number}" for number in range(n)]
    histories = [history(20, seed) for seed in range(n)]
    single, sequence, each = (NetworkStream(network) for _ in range(3))
    for name, (tokens, times) in zip(names, histories, strict=True):
        for token, at in zip(tokens, times.tolist(), strict=True):
            single.write(name, token, at)
        sequence.write_sequence(name, tokens[:3], times[:3])
        sequence.write_sequence(name, tokens[3:], times[3:])
    for step in range(20):
        tokens = np.stack([tokens[step] for tokens, _ in histories])
        each.write_each(names, tokens, np.array([times[step] for _, times in histories]))
    queries = np.random.default_rng(1).standard_normal((n, QUERY_WIDTH)).astype(np.float32)
    at = np.array([int(times[-1]) + 1 for _, times in histories])
    together = each.read_each(names, queries, at)
    assert together.shape == (n, network.outputs)
    assert together.dtype == np.float32
    for place, name in enumerate(names):
        assert memory_bytes(single, name) == memory_bytes(sequence, name) == memory_bytes(each, name)
        alone = single.read(name, queries[place], int(at[place]))
        assert alone.tobytes() == together[place].tobytes()
        assert alone.tobytes() == sequence.read(name, queries[place], int(at[place])).tobytes()
    # A part of the company, in another order, and one entity several times.
    chosen = np.array([30, 2, 2, 17, 0, 2])
    some = each.read_each([names[place] for place in chosen], queries[chosen], at[chosen])
    assert some.tobytes() == together[chosen].tobytes()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("attention", BOTH)
def test_forecasts_are_those_of_plain_torch(attention: Attention, sizes: str) -> None:
    network = network_of(attention, sizes)
    stream, plain = NetworkStream(network), PlainStream(network)
    tokens, times = history(60, 3)
    query = np.random.default_rng(2).standard_normal(QUERY_WIDTH).astype(np.float32)
    largest = 0.0
    for token, at in zip(tokens, times.tolist(), strict=True):
        stream.write("A", token, at)
        plain.write("A", token, at)
        expected = plain.read("A", query)
        assert stream.read("A", query, at + 1) == pytest.approx(expected, abs=3e-5)
        largest = max(largest, float(np.abs(expected).max()))
    assert largest > 0.1


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["write", "sequence", "each", "read", "read each", "memory"]),
        st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
        st.integers(0, 2**32 - 1),
    ),
    max_size=12,
)


@pytest.mark.parametrize("attention", BOTH)
@settings(max_examples=60, deadline=None)
@given(calls=CALLS)
def test_any_interleaving_gives_the_same_bits(attention: Attention, calls: list[Any]) -> None:
    network = NETWORKS[attention]
    mixed, alone = NetworkStream(network, cache=CachePolicy(1, 1.5)), NetworkStream(network)
    clock = dict.fromkeys(NAMES, START)
    for call, chosen, seed in calls:
        names = [NAMES[place] for place in chosen]
        tokens, times = history(len(names), seed)
        if call == "write":
            clock[names[0]] += int(times[0] - START)
            mixed.write(names[0], tokens[0], clock[names[0]])
            alone.write(names[0], tokens[0], clock[names[0]])
        elif call == "sequence":
            moments = clock[names[0]] + times - START
            clock[names[0]] = int(moments[-1])
            mixed.write_sequence(names[0], tokens, moments)
            for token, at in zip(tokens, moments.tolist(), strict=True):
                alone.write(names[0], token, at)
        elif call == "each":
            moments = np.array([clock[name] + int(times[k]) - START for k, name in enumerate(names)])
            clock.update(zip(names, moments.tolist(), strict=True))
            mixed.write_each(names, tokens, moments)
            for name, token, at in zip(names, tokens, moments.tolist(), strict=True):
                alone.write(name, token, at)
        elif call == "memory":
            if names[0] in mixed.entities:
                mixed.restore(names[0], mixed.memory(names[0]))
        else:
            queries = (
                np.random.default_rng(seed).standard_normal((len(names), QUERY_WIDTH)).astype(np.float32)
            )
            at = [clock[name] + 1 for name in names]
            found = (
                mixed.read_each(names, queries, np.array(at))
                if call == "read each"
                else np.stack([mixed.read(*each) for each in zip(names, queries, at, strict=True)])
            )
            expected = [alone.read(*each) for each in zip(names, queries, at, strict=True)]
            assert found.tobytes() == np.stack(expected).tobytes()
    for name in mixed.entities:
        assert memory_bytes(mixed, name) == memory_bytes(alone, name)
        assert mixed.count(name) == alone.count(name)
        assert mixed.last_event(name) == alone.last_event(name)


NETWORKS = {attention: network_of(attention, "odd") for attention in BOTH}


def operations(attention: Attention, n: int, seed: int) -> tuple[int, float]:
    """Make random calls on a stream and on plain torch; give the reads made and the largest forecast."""
    network = NETWORKS[attention]
    stream, plain = NetworkStream(network, cache=CachePolicy(3, 1.2)), PlainStream(network)
    generator = np.random.default_rng(seed)
    names, made = [f"E{number}" for number in range(8)], 0
    clock = dict.fromkeys(names, START)
    largest, reads = 0.0, 0
    for _ in range(n):
        kind = generator.choice(["write", "sequence", "each", "read", "read each", "fork"], p=PARTS)
        chosen = generator.choice(names, generator.integers(1, 4), replace=False).tolist()
        if kind in ("write", "sequence"):
            size = 1 if kind == "write" else int(generator.integers(0, 4))
            tokens, times = history(size, int(generator.integers(2**31)))
            times = clock[chosen[0]] + times - START
            if kind == "write":
                stream.write(chosen[0], tokens[0], int(times[0]))
            else:
                stream.write_sequence(chosen[0], tokens, times)
            for token, at in zip(tokens, times.tolist(), strict=True):
                plain.write(chosen[0], token, at)
                clock[chosen[0]] = at
        elif kind == "each":
            tokens, _ = history(len(chosen), int(generator.integers(2**31)))
            at = max(clock[name] for name in chosen)
            stream.write_each(chosen, tokens, at)
            for name, token in zip(chosen, tokens, strict=True):
                plain.write(name, token, at)
                clock[name] = at
        elif kind == "fork":
            known = [name for name in chosen if name in stream.entities]
            if known:
                made += 1
                # A fork takes the place of an entity whose history has become long.
                name, names[made % 8] = f"F{made}", f"F{made}"
                clock[name] = clock[known[0]]
                stream.add(name, like=known[0])
                plain.add(name, like=known[0])
                if plain.memories[name].count > 60:
                    names[made % 8] = f"N{made}"
                    clock[f"N{made}"] = START
        else:
            queries = generator.standard_normal((len(chosen), QUERY_WIDTH)).astype(np.float32)
            at = max(clock[name] for name in chosen) + 1
            found = (
                stream.read_each(chosen, queries, at)
                if kind == "read each"
                else stream.read(chosen[0], queries[0], at)[None]
            )
            for row, name, query in zip(found, chosen, queries, strict=False):
                expected = plain.read(name, query)
                assert row == pytest.approx(expected, abs=5e-5)
                largest, reads = max(largest, float(np.abs(expected).max())), reads + 1
    return reads, largest


PARTS = [0.3, 0.1, 0.1, 0.3, 0.15, 0.05]


@pytest.mark.parametrize("attention", BOTH)
def test_random_operations(attention: Attention) -> None:
    reads, largest = operations(attention, 300, 1)
    assert reads > 100
    assert largest > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("attention", BOTH)
def test_ten_thousand_random_operations(attention: Attention) -> None:
    reads, largest = operations(attention, 10_000, 2)
    assert reads > 4_000
    assert largest > 0.5
