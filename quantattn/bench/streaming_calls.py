"""How long single calls take: one event written, one forecast read, over and over."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from quantattn.bench.streaming_cases import Tokens
from quantattn.evaluation.latency import percentiles

_SHARE = 10
"""A block makes the history longer by one part in so many."""
_LEAST_BLOCK = 10
_TURNS = 4
"""A contestant too slow for the calls aimed at takes about so many turns."""


@dataclass(frozen=True)
class Latency:
    """Wall time of single calls in microseconds.

    Attributes
    ----------
    p50, p95, p99 : float
        Percentiles.
    calls : int
        Calls measured.
    """

    p50: float
    p95: float
    p99: float
    calls: int


def latency_of(nanoseconds: Sequence[int]) -> Latency:
    """Return the percentiles of measured times."""
    found = percentiles(np.asarray(nanoseconds) / 1e3) or dict.fromkeys(("p50", "p95", "p99"), float("nan"))
    return Latency(**found, calls=len(nanoseconds))


class Steps(Protocol):
    """What writes events and reads forecasts, one a call."""

    def write(self, entity: str, token: Any, available_at: int, /) -> object:
        """Write one event."""

    def read(self, entity: str, token: Any, at: int, /) -> object:
        """Read one forecast."""


@dataclass(frozen=True)
class Contestant:
    """Something to time at one length of history.

    Attributes
    ----------
    steps : Steps
        What is called, for entity ``"A"``.
    history : int
        Events written before.
    rewind : callable
        Brings the memory back to that history; returns the instant of its last event.
    token : callable
        Makes of one row of float32 what `steps` takes; outside the time measured.
    """

    steps: Steps
    history: int
    rewind: Callable[[], int]
    token: Callable[[np.ndarray], Any] = lambda row: row


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes
    ----------
    calls : int
        Measured updates, and as many reads, that are aimed at; as many more of each are not measured.
    block : int
        Most updates of one turn, the unmeasured ones included.
    seconds : float
        A contestant whose calls took longer than that sits out, after one block at least.
    """

    calls: int
    block: int
    seconds: float


ENTITY = "A"


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from running."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def time_steps(
    contestants: Mapping[str, Contestant], tokens: Tokens, effort: Effort
) -> dict[str, tuple[Latency, Latency]]:
    """Time updates and reads of several contestants, which take turns by blocks of calls.

    A block begins at the contestant's history and makes it longer by a tenth at most, or by ten events
    where that is less. Each event is followed by a forecast. The first half of a block is not measured: it
    warms caches and branch predictors.

    Parameters
    ----------
    contestants : mapping of str to Contestant
        What to time.
    tokens : Tokens
        At least as many as the longest block.
    effort : Effort
        How much.

    Returns
    -------
    dict of str to tuple of Latency
        Of updates and of reads.
    """
    made = {name: _prepared(each, tokens) for name, each in contestants.items()}
    found: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in contestants}
    spent = dict.fromkeys(contestants, 0.0)
    with no_collection():
        # A first block tells how many calls the time is enough for; it also compiles what is not.
        pairs = {
            name: _turn(each, *made[name], tokens, _LEAST_BLOCK)[2] / _LEAST_BLOCK
            for name, each in contestants.items()
        }
        while True:
            going = [
                name
                for name, (updates, _) in found.items()
                if len(updates) < effort.calls and (spent[name] < effort.seconds or not updates)
            ]
            if not going:
                break
            for name in going:
                each = contestants[name]
                affordable = int(effort.seconds / _TURNS / pairs[name])
                size = max(_LEAST_BLOCK, min(effort.block, each.history // _SHARE, affordable))
                updates, reads, seconds = _turn(each, *made[name], tokens, size)
                spent[name] += seconds
                pairs[name] = seconds / len(updates)
                found[name][0].extend(updates[len(updates) // 2 :])
                found[name][1].extend(reads[len(reads) // 2 :])
    return {name: (latency_of(updates), latency_of(reads)) for name, (updates, reads) in found.items()}


def _turn(
    each: Contestant, events: Sequence[Any], queries: Sequence[Any], tokens: Tokens, size: int
) -> tuple[list[int], list[int], float]:
    """Take a block of calls; give their times in nanoseconds and seconds of all together."""
    times = tokens.times(each.rewind())[:size].tolist()
    began = time.perf_counter()
    updates, reads = _block(each.steps, events, queries, times)
    return updates, reads, time.perf_counter() - began


def _prepared(each: Contestant, tokens: Tokens) -> tuple[list[Any], list[Any]]:
    return [each.token(row) for row in tokens.events], [each.token(row) for row in tokens.queries]


def _block(
    steps: Steps, events: Sequence[Any], queries: Sequence[Any], times: Sequence[int]
) -> tuple[list[int], list[int]]:
    clock, write, read = time.perf_counter_ns, steps.write, steps.read
    updates, reads = [], []
    for event, query, at in zip(events, queries, times, strict=False):
        after = at + 1
        began = clock()
        write(ENTITY, event, at)
        between = clock()
        read(ENTITY, query, after)
        ended = clock()
        updates.append(between - began)
        reads.append(ended - between)
    return updates, reads


def clock_overhead(calls: int) -> Latency:
    """Return what the clock itself measures of nothing: part of every time above."""
    clock = time.perf_counter_ns
    found = []
    with no_collection():
        for _ in range(2 * calls):
            began = clock()
            ended = clock()
            found.append(ended - began)
    return latency_of(found[calls:])
