"""Memories of given lengths of history, to begin a measurement from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from quantattn.bench.streaming_calls import ENTITY, Contestant
from quantattn.bench.streaming_cases import pieces
from quantattn.bench.streaming_eager import EagerSoftmax
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.network import AttentionNetwork

Memory = Mapping[str, np.ndarray]

PIECE = 100_000
"""Events of a long history that are in memory at a time."""
_EVENT_AXES = {"keys": -2, "values": -2, "clock": -1}
"""Along which axis of a softmax memory the events lie."""


def linear_memories(network: AttentionNetwork, histories: Iterable[int]) -> dict[int, Memory]:
    """Write one long history and return the memory as it was after each of the given numbers of events."""
    wanted = sorted(set(histories))
    stream, written, after = NetworkStream(network), 0, 0
    found: dict[int, Memory] = {}
    for history in wanted:
        for events, times in pieces(history - written, PIECE, after):
            stream.write_sequence(ENTITY, events, times)
        written, after = history, stream.last_event(ENTITY) or 0
        found[history] = stream.memory(ENTITY)
    return found


def softmax_memories(
    network: AttentionNetwork, histories: Iterable[int], *, longest_written: int
) -> dict[int, Memory]:
    """Return the twin's memory after each of the given numbers of events.

    Where they are more than `longest_written`, so many are written and repeated: what a step costs depends on
    how many keys there are, not on what they are.
    """
    wanted = sorted(set(histories))
    stream = NetworkStream(network)
    found: dict[int, Memory] = {}
    for history in wanted:
        missing = min(history, longest_written) - (stream.count(ENTITY) if stream.entities else 0)
        after = (stream.last_event(ENTITY) or 0) if stream.entities else 0
        for events, times in pieces(missing, PIECE, after):
            stream.write_sequence(ENTITY, events, times)
        found[history] = lengthened(stream.memory(ENTITY), history)
    return found


def lengthened(memory: Memory, history: int) -> Memory:
    """Repeat the events of a softmax memory until there are so many; the clock stays in order."""
    present = int(memory["count"][0]) + 1
    if history + 1 == present:
        return memory
    place = np.arange(history + 1) % present
    longer = dict(memory)
    longer["count"] = np.array([history], np.int64)
    for name, axis in _EVENT_AXES.items():
        longer[name] = np.take(memory[name], place, axis=axis)
    longer["clock"] = np.sort(longer["clock"], axis=_EVENT_AXES["clock"])
    return longer


def ours(stream: NetworkStream, history: int, memory: Memory) -> Contestant:
    """Return our stream at a history; each turn begins with the same memory."""
    last = int(memory["last_event"][0])

    def rewind() -> int:
        stream.restore(ENTITY, memory)
        return last

    return Contestant(stream, history, rewind)


def eager_softmax(stream: EagerSoftmax, history: int) -> Callable[[], int]:
    """Return what brings an eager cache to a history."""
    last = stream.last_event or 0

    def rewind() -> int:
        stream.fill(history, last)
        return last

    return rewind
