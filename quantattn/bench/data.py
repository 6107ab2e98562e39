"""How fast, and in how much memory, a dataset finds what every forecast could see, beside asof joins."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from quantattn.bench.data_memory import Memory, measure_memory
from quantattn.bench.data_peers import (
    DUCKDB,
    PANDAS,
    POLARS,
    Way,
    differing,
    duckdb_way,
    ours,
    pandas_way,
    polars_way,
)
from quantattn.bench.data_tables import (
    FEATURES,
    Size,
    dataset_of,
    event_pieces,
    forecasts_of,
    held_in_memory,
)
from quantattn.bench.machine import describe_machine
from quantattn.bench.targets import Target, judge
from quantattn.bench.timing import growth_exponent
from quantattn.errors import UsageError
from quantattn.pit import EventLog
from quantattn.pit.events.storage import write_batches

OURS = "quantattn .samples"
OWN = "quantattn .samples, own events alone"

FULL = Size(10_000_000)
QUICK = Size(500_000, times=100)
GROWTH = (1_000_000, 3_000_000, 10_000_000)
QUICK_GROWTH = (100_000, 300_000, 1_000_000)
_GROWTH_TIMES = 20
"""Forecast times of the runs that show growth: few, so that the events are what is counted."""

_SMALL = Size(1_000, 5, 10)
_SLOW = 4.0
"""Seconds beyond which a way is timed once."""

TARGET_RATIO = 3.0
TARGET_MEMORY = 3.0
TARGET_EXPONENT = 1.1


@dataclass(frozen=True)
class JoinResult:
    """One way to find what each forecast could see.

    Attributes
    ----------
    name : str
        Whose.
    seconds : float or None
        The shortest of its runs; None if it is not installed.
    n : int
        Runs.
    ratio : float or None
        Its time over that of polars' join, of the same run of the benchmark.
    differing : int or None
        Forecasts whose last visible event of their own is another one than ``.samples`` counts up to; None
        where there is nothing to compare.
    """

    name: str
    seconds: float | None
    n: int
    ratio: float | None
    differing: int | None


@dataclass(frozen=True)
class DiskResult:
    """Events read from a file that was written for it.

    Attributes
    ----------
    events, forecasts : int
        How many.
    file_bytes : int
        Size of the file.
    write_seconds : float
        Time to make the events and write them.
    memory : Memory
        Of reading them; its input is the file.
    """

    events: int
    forecasts: int
    file_bytes: int
    write_seconds: float
    memory: Memory


@dataclass(frozen=True)
class DataBench:
    """Result of :func:`bench_data`.

    Attributes
    ----------
    machine : dict
        Processor, cores, memory, versions.
    threads : int
        Threads that polars and the dataset use.
    size : dict
        Events, entities, forecasts and bytes of the tables.
    joins : tuple of JoinResult
        The dataset and its peers.
    growth : dict
        Events, seconds and the exponent of growth of ``.samples``.
    memory : Memory
        Of a process that makes and reads the same tables.
    disk : DiskResult or None
        Of a file larger than that, if it was asked for.
    targets : tuple of Target
        What was aimed at; none in a quick run, in which fixed costs weigh too much.
    """

    machine: dict[str, Any]
    threads: int
    size: dict[str, int]
    joins: tuple[JoinResult, ...]
    growth: dict[str, Any]
    memory: Memory
    disk: DiskResult | None
    targets: tuple[Target, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, text, lists and dicts."""
        return asdict(self)


def bench_data(
    *, quick: bool = False, events_on_disk: int | None = None, seed: int = 0, folder: str | Path | None = None
) -> DataBench:
    """Make events and forecasts from a seed and time how long it takes to find what each forecast could see.

    Parameters
    ----------
    quick : bool, default False
        A twentieth of the events and fewer runs.
    events_on_disk : int, optional
        Also write so many events to a Parquet file, in pieces, and read them from it.
    seed : int
        Seed of the tables.
    folder : str or Path, optional
        Where a temporary folder for that file is made; the system's choice if not given.

    Raises
    ------
    UsageError
        If `events_on_disk` is not positive.
    """
    if events_on_disk is not None and events_on_disk < 1:
        raise UsageError(f"events_on_disk={events_on_disk} is no number of events; give one or more")
    size = QUICK if quick else FULL
    rounds = 3 if quick else 5
    log = held_in_memory(size, seed)
    log = EventLog(log.frame.rechunk(), log.features)
    held = log.frame.estimated_size()
    joins = _joins(log, size, rounds=rounds)
    growth = _growth(log, QUICK_GROWTH[:2] if quick else GROWTH, rounds=rounds)
    del log
    memory = measure_memory(size, seed=seed)
    disk = None if events_on_disk is None else _disk(Size(events_on_disk), seed, folder)
    return DataBench(
        describe_machine(),
        pl.thread_pool_size(),
        {
            "events": size.events,
            "entities": size.entities,
            "forecasts": size.forecasts,
            "event_bytes": int(held),
        },
        joins,
        growth,
        memory,
        disk,
        () if quick else _targets(joins, growth, memory),
    )


def _joins(log: EventLog, size: Size, *, rounds: int) -> tuple[JoinResult, ...]:
    _ = dataset_of(held_in_memory(_SMALL), _SMALL).samples  # compiles, or loads what was compiled
    events, forecasts = log.frame, forecasts_of(size)
    ways: dict[str, Way | None] = {
        OURS: ours(log, size, "entity+market"),
        OWN: ours(log, size, "entity"),
        POLARS: polars_way(events, forecasts),
        PANDAS: pandas_way(events, forecasts),
        DUCKDB: duckdb_way(events, forecasts),
    }
    there = {name: way for name, way in ways.items() if way is not None}
    seconds: dict[str, list[float]] = {name: [] for name in there}
    matched: dict[str, pl.Series] = {}
    for turn in range(rounds):
        for name, way in there.items():
            if turn and seconds[name][0] > _SLOW:
                continue
            call = way.prepare()
            begin = time.perf_counter()
            found = call()
            seconds[name].append(time.perf_counter() - begin)
            if turn == 0 and way.matches is not None:
                matched[name] = way.matches(found)
            del found
    beside = statistics.median(seconds[POLARS])
    expected = matched[OWN]
    return tuple(
        JoinResult(
            name,
            statistics.median(seconds[name]) if name in seconds else None,
            len(seconds.get(name, ())),
            statistics.median(seconds[name]) / beside if name in seconds else None,
            differing(expected, matched[name]) if name in matched and name != OWN else None,
        )
        for name in ways
    )


def _growth(log: EventLog, counts: tuple[int, ...], *, rounds: int) -> dict[str, Any]:
    times = []
    for count in counts:
        size = Size(count, times=_GROWTH_TIMES)
        part = EventLog(log.frame.head(count), log.features)
        spent = []
        for _ in range(rounds):
            dataset = dataset_of(part, size)
            begin = time.perf_counter()
            _ = dataset.samples
            spent.append(time.perf_counter() - begin)
        times.append(statistics.median(spent))
    return {"events": list(counts), "seconds": times, "exponent": growth_exponent(counts, times)[0]}


def _disk(size: Size, seed: int, folder: str | Path | None) -> DiskResult:
    with tempfile.TemporaryDirectory(prefix="quantattn-bench-", dir=folder) as made:
        path = Path(made) / "events.parquet"
        begin = time.perf_counter()
        write_batches(event_pieces(size, seed), FEATURES, path)
        written = time.perf_counter() - begin
        memory = measure_memory(size, seed=seed, path=path)
        return DiskResult(size.events, size.forecasts, path.stat().st_size, written, memory)


def _targets(joins: tuple[JoinResult, ...], growth: dict[str, Any], memory: Memory) -> tuple[Target, ...]:
    by_name = {join.name: join for join in joins}
    ratio, exponent = by_name[OURS].ratio, growth["exponent"]
    wrong = sum(join.differing or 0 for join in joins)
    nothing = (None, None)
    return (
        judge("time of .samples over that of one polars join_asof", "at most", TARGET_RATIO, ratio, nothing),
        judge("peak memory over the input's", "at most", TARGET_MEMORY, memory.share, nothing),
        judge("exponent of growth in events", "at most", TARGET_EXPONENT, exponent, nothing),
        judge("forecasts on which the joins disagree", "at most", 0.0, float(wrong), nothing),
    )
