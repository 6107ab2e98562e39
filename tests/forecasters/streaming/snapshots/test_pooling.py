"""Memories put together and taken apart: equal and unequal shapes, none at all, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantattn.errors import CheckpointError
from quantattn.forecasters.streaming.snapshots._pooling import packed_json, pooled, separated, unpacked_json


def memory(events: int, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {
        "keys": generator.standard_normal((2, events, 3)).astype(np.float32),
        "clock": generator.standard_normal((2, events)),
        "count": np.array([events], np.int64),
        "last": np.arange(min(events, 1)),
        "scalar": np.array(seed, np.int32),
    }


def test_equal_shapes_are_stacked() -> None:
    memories = [memory(4, seed) for seed in range(3)]
    arrays = pooled("net", memories)
    assert {name: array.shape for name, array in arrays.items()} == {
        "net.keys": (3, 2, 4, 3),
        "net.clock": (3, 2, 4),
        "net.count": (3, 1),
        "net.last": (3, 1),
        "net.scalar": (3,),
    }
    assert arrays["net.clock"][1].tolist() == memories[1]["clock"].tolist()


def test_unequal_shapes_lie_end_to_end() -> None:
    memories = [memory(1, 0), memory(0, 1), memory(3, 2)]
    arrays = pooled("net", memories)
    assert arrays["net.keys.flat"].shape == (24,) and arrays["net.keys.flat"].dtype == np.float32
    assert arrays["net.keys.shapes"].tolist() == [[2, 1, 3], [2, 0, 3], [2, 3, 3]]
    assert arrays["net.last.flat"].tolist() == [0, 0] and arrays["net.last.shapes"].tolist() == [
        [1],
        [0],
        [1],
    ]


@given(sizes=st.lists(st.integers(0, 4), max_size=5))
def test_there_and_back(sizes: list[int]) -> None:
    memories = [memory(size, seed) for seed, size in enumerate(sizes)]
    arrays = {**pooled("net", memories), "network.other": np.zeros(3), "else": np.zeros(2)}
    found = separated("net", arrays, len(sizes))
    assert len(found) == len(sizes)
    for ours, theirs in zip(found, memories, strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape
            assert ours[name].tobytes() == theirs[name].tobytes()


def test_memories_of_two_kinds_are_not_pooled() -> None:
    first = memory(2, 0)
    for other in (
        {name: array for name, array in first.items() if name != "keys"},
        {**first, "more": np.zeros(1)},
        {**first, "keys": first["keys"].astype(np.float64)},
        {**first, "keys": first["keys"][0]},
    ):
        for memories in ([first, other], [other, first], [first, other, first]):
            with pytest.raises(CheckpointError, match="memories differ in"):
                pooled("net", memories)


def test_what_does_not_go_together_is_refused() -> None:
    ragged = pooled("net", [memory(1, 0), memory(2, 1)])
    plain = pooled("net", [memory(1, 0), memory(1, 1)])
    bad: list[tuple[dict[str, Any], int, str]] = [
        ({}, 1, "no arrays of 'net' for 1 memories"),
        (plain, 3, "is of 2 memories, expected 3"),
        (plain, 0, "is of 2 memories, expected 0"),
        (ragged, 1, "is of 2 memories, expected 1"),
        ({**plain, "net.keys": np.zeros(())}, 2, "'net.keys' is not whole"),
        ({**plain, "net.keys.flat": np.zeros(3)}, 2, "'net.keys' is not whole, or there twice"),
        ({**plain, "net.keys.shapes": ragged["net.keys.shapes"]}, 2, "not whole, or there twice"),
        ({name: a for name, a in ragged.items() if name != "net.keys.flat"}, 2, "'net.keys' is not whole"),
        ({name: a for name, a in ragged.items() if name != "net.keys.shapes"}, 2, "'net.keys' is not whole"),
        ({**ragged, "net.keys.flat": np.zeros(17, np.float32)}, 2, "has 17 numbers for shapes of 18"),
        ({**ragged, "net.keys.flat": np.zeros((18, 1))}, 2, "no shapes beside it"),
        ({**ragged, "net.keys.shapes": np.array([[2, 1, 3], [2, -2, 3]])}, 2, "no shapes beside it"),
        ({**ragged, "net.keys.shapes": ragged["net.keys.shapes"].astype(np.int32)}, 2, "no shapes beside it"),
        ({**ragged, "net.keys.shapes": np.array([[2**40, 2**40, 2], [2, 2, 3]])}, 2, "numbers for shapes of"),
    ]
    for arrays, count, message in bad:
        with pytest.raises(CheckpointError, match=message):
            separated("net", arrays, count)


def test_lists_as_bytes() -> None:
    value = [["é\ud800\n", 3, None], []]
    assert unpacked_json("ids", packed_json(value)) == value
    for array in (
        np.zeros(3, np.uint8),
        np.zeros(0, np.uint8),
        packed_json([1]).astype(np.int64),
        packed_json([1])[None],
        np.frombuffer(b"[" * 100_000, np.uint8),
    ):
        with pytest.raises(CheckpointError, match="'ids' is not the bytes of a JSON text"):
            unpacked_json("ids", array)
