"""The pooled memories: rows that never move, arrays in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantattn.forecasters.streaming import pack
from quantattn.forecasters.streaming.network.kernels.plan import CAPACITY, COUNT, LAST_EVENT, LEAST_WRITTEN
from quantattn.forecasters.streaming.network.states import LinearMemories, Memories, SoftmaxMemories
from tests.forecasters.sequences import random_network, small_config

SIZES: list[dict[str, Any]] = [
    {},
    {"width": 36, "heads": 3, "layers": 1, "half_lives": (None,) * 3},
    {"width": 32, "heads": 2},
    {"width": 1, "heads": 1, "half_lives": (None,)},
]


def memories(attention: Any, **sizes: Any) -> Memories:
    packed = pack(random_network(small_config(attention, **sizes)))
    return LinearMemories(packed) if attention == "linear" else SoftmaxMemories(packed)


def fill(pool: Memories, number: int, tokens: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    arrays = {
        name: generator.standard_normal(shape).astype(kind)
        for name, (shape, kind) in pool.shapes(tokens).items()
    }
    pool.make_room(number, tokens)
    pool.header(number)[COUNT] = tokens
    pool.fill(number, arrays)
    return arrays


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name]) for name in a
    )


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 100])
def test_what_is_put_in_comes_out(attention: Any, sizes: dict[str, Any], tokens: int) -> None:
    pool = memories(attention, **sizes)
    numbers = [pool.new() for _ in range(30)]
    kept = [fill(pool, number, tokens, number) for number in numbers]
    for number in numbers:
        assert same(pool.arrays(number), kept[number])
    pool.arrays(3)[next(iter(kept[3]))][...] = 0  # a copy
    assert same(pool.arrays(3), kept[3])
    pool.copy(7, 4)
    assert same(pool.arrays(7), kept[4])
    assert same(pool.arrays(4), kept[4])
    assert same(pool.arrays(8), kept[8])
    fill(pool, 4, tokens, 99)
    assert same(pool.arrays(7), kept[4])


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_rows_never_move(attention: Any) -> None:
    pool = memories(attention)
    addresses = [pool.address(pool.new()) for _ in range(3000)]
    assert addresses == [pool.address(number) for number in range(3000)]
    assert len(set(addresses)) == 3000
    assert all(address % 64 == 0 for address in addresses)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_copy_has_the_clock_and_what_writes_met(attention: Any) -> None:
    pool = memories(attention)
    one, other = pool.new(), pool.new()
    fill(pool, one, 5)
    pool.header(one)[[COUNT, LAST_EVENT, LEAST_WRITTEN]] = [5, 77, 88]
    pool.copy(other, one)
    assert pool.header(other)[[COUNT, LAST_EVENT, LEAST_WRITTEN]].tolist() == [5, 77, 88]
    assert pool.header(other)[CAPACITY] == pool.header(one)[CAPACITY]


def test_room_grows_in_whole_blocks_and_keeps_what_there_is() -> None:
    pool = memories("softmax")
    number = pool.new()
    kept = fill(pool, number, 21)
    assert pool.header(number)[CAPACITY] == 32
    pool.make_room(number, 10)
    assert pool.header(number)[CAPACITY] == 32
    pool.make_room(number, 33)
    assert pool.header(number)[CAPACITY] == 48
    assert same(pool.arrays(number), kept)


def test_bytes() -> None:
    flat, growing = memories("linear"), memories("softmax")
    numbers = [pool.new() for pool in (flat, growing)]
    # Per layer of two: 4 rows and one of denominators, of 8 columns padded to a vector of 16, in float32.
    assert flat.nbytes(numbers[0]) == 2 * (4 + 1) * 16 * 4
    # Per token: keys and values of 2 layers, 2 heads and width 4 in float32, and a float64 clock per head.
    for tokens in (1, 7, 40):
        for pool, number in zip((flat, growing), numbers, strict=True):
            fill(pool, number, tokens)
        assert growing.nbytes(numbers[1]) == tokens * (2 * 2 * 2 * 4 * 4 + 2 * 8)
        assert flat.nbytes(numbers[0]) == 2 * (4 + 1) * 16 * 4
