"""Events and forecasts per second on encoded tokens, one by one and many in a call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quantattn.bench.streaming_calls import ENTITY, no_collection
from quantattn.bench.streaming_cases import random_tokens
from quantattn.bench.streaming_results import Rate, rate_of
from quantattn.bench.streaming_targets import SINGLE
from quantattn.bench.timing import take_turns
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.network import AttentionNetwork


def token_rates(
    network: AttentionNetwork, *, events: int, entities: int, seconds: float
) -> tuple[tuple[Rate, ...], dict[str, float]]:
    """Time runs of writes and reads, which take turns.

    Parameters
    ----------
    network : AttentionNetwork
        Of linear attention.
    events : int
        Written in one run, one entity; of many entities as many steps as give no fewer.
    entities : int
        Of the batched calls.
    seconds : float
        For each kind of run.

    Returns
    -------
    rates : tuple of Rate
    times_single : dict of str to float
        Batched over single calls, ``"write"`` and ``"read"``.
    """
    one, many = NetworkStream(network), NetworkStream(network)
    names = [f"{place:05d}" for place in range(entities)]
    for stream, known in ((one, [ENTITY]), (many, names)):
        stream.warm_up()
        for name in known:
            stream.add(name)
    rounds = -(-events // entities)
    single, sequence = f"write, {entities:,} entities in turn", "write_sequence, one entity"
    batch, reads = f"write_each, {entities:,} entities", f"read, {entities:,} entities in turn"
    batched_reads = f"read_each, {entities:,} entities"
    calls = {
        SINGLE: (events, _one_by_one(one, events)),
        sequence: (events, _sequence(one, events)),
        single: (rounds * entities, _in_turn(many, names, rounds)),
        batch: (rounds * entities, _each(many, names, rounds)),
        reads: (rounds * entities, _reads_in_turn(many, names, rounds)),
        batched_reads: (rounds * entities, _reads_each(many, names, rounds)),
    }
    with no_collection():
        found = take_turns({name: call for name, (_, call) in calls.items()}, seconds=seconds)
    rates = {name: rate_of(name, calls[name][0], run) for name, run in found.items()}
    return tuple(rates.values()), {
        "write": rates[batch].per_second / rates[single].per_second,
        "read": rates[batched_reads].per_second / rates[reads].per_second,
    }


def _one_by_one(stream: NetworkStream, events: int) -> Callable[[], object]:
    tokens = random_tokens(events)
    rows = list(tokens.events)

    def run() -> None:
        write = stream.write
        for row, at in zip(rows, tokens.times(stream.last_event(ENTITY) or 0).tolist(), strict=True):
            write(ENTITY, row, at)

    return run


def _sequence(stream: NetworkStream, events: int) -> Callable[[], object]:
    tokens = random_tokens(events)
    return lambda: stream.write_sequence(ENTITY, tokens.events, tokens.times(stream.last_event(ENTITY) or 0))


def _in_turn(stream: NetworkStream, names: list[str], rounds: int) -> Callable[[], object]:
    tokens = random_tokens(max(len(names), rounds))
    rows = list(tokens.events[: len(names)])

    def run() -> None:
        write = stream.write
        for at in tokens.times(stream.last_event(names[-1]) or 0)[:rounds].tolist():
            for name, row in zip(names, rows, strict=True):
                write(name, row, at)

    return run


def _each(stream: NetworkStream, names: list[str], rounds: int) -> Callable[[], object]:
    tokens = random_tokens(max(len(names), rounds))
    rows = tokens.events[: len(names)]

    def run() -> None:
        for at in tokens.times(stream.last_event(names[-1]) or 0)[:rounds].tolist():
            stream.write_each(names, rows, at)

    return run


def _reads_in_turn(stream: NetworkStream, names: list[str], rounds: int) -> Callable[[], object]:
    rows = list(random_tokens(len(names)).queries)

    def run() -> None:
        read, at = stream.read, (stream.last_event(names[-1]) or 0) + 1
        for _ in range(rounds):
            for name, row in zip(names, rows, strict=True):
                read(name, row, at)

    return run


def _reads_each(stream: NetworkStream, names: list[str], rounds: int) -> Callable[[], object]:
    rows = np.ascontiguousarray(random_tokens(len(names)).queries)

    def run() -> None:
        at = (stream.last_event(names[-1]) or 0) + 1
        for _ in range(rounds):
            stream.read_each(names, rows, at)

    return run
