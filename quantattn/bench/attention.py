"""How fast a causal linear read is, forwards and backwards, beside other ways to do it."""

from __future__ import annotations

import os

import torch

from quantattn.attention import linear_attention
from quantattn.bench import attention_targets as aims
from quantattn.bench.attention_floor import COPY, MATMUL, copy_step, floor_of, matmul_step
from quantattn.bench.attention_recorded import beside_recorded_kernel
from quantattn.bench.attention_results import (
    AttentionBench,
    Crossover,
    LengthResult,
    Memory,
    Scaling,
    ScalingPoint,
)
from quantattn.bench.attention_targets import may_judge_growth
from quantattn.bench.machine import describe_machine, extra_memory
from quantattn.bench.peers import AUTO, SDPA, missing_peers, peers
from quantattn.bench.targets import Target, judge
from quantattn.bench.timing import (
    LEAST_CALLS,
    Timing,
    crossing,
    growth_exponent,
    over,
    over_floor,
    quartiles,
    take_turns,
    torch_threads,
    training_step,
)
from quantattn.errors import UsageError

__all__ = ["AttentionBench", "bench_attention"]

BATCH, HEADS, WIDTH = 4, 4, 32
LENGTHS = (256, 1024, 4096)
LONG = tuple(1024 * 2**power for power in range(9))
"""Lengths of the scaling run, 1k to 256k, on one batch row of two heads."""
LONG_BATCH, LONG_HEADS = 1, 2
MEMORY_LENGTH = 16384
CROSSING_WIDTHS = (32, 64, 128)
_MOST_PER_PROCESSOR = 8
CROSSING_LENGTHS = (16, 32, 64, 128, 256, 512, 1024)


def bench_attention(*, quick: bool = False, threads: int | None = None) -> AttentionBench:
    """Time causal attention in float32 with elu + 1 features, forwards and backwards.

    Every time is a median of five calls at least, with quartiles. One comparison is with a record: the C++
    kernel of :mod:`.attention_recorded` was measured on another machine and does not run here.

    Parameters
    ----------
    quick : bool, default False
        Fewer calls, no length above 1024 in the comparison, none above 16k in the scaling run; no verdicts.
    threads : int, optional
        Threads for torch and the compiled backend; torch's own number if not given.

    Raises
    ------
    UsageError
        If `threads` is not a whole number from 1 to eight for each processor.
    """
    check_threads(threads)
    with torch_threads(threads), torch.enable_grad():
        lengths = tuple(
            _compare(length, seconds=0.4 if quick else 0.8) for length in (LENGTHS[:2] if quick else LENGTHS)
        )
        scaling = _scaling(LONG[:5] if quick else LONG, seconds=0.1 if quick else 0.6)
        memory = _memory(MEMORY_LENGTH)
        crossover = {width: _crossover(width, seconds=0.02 if quick else 0.1) for width in CROSSING_WIDTHS}
        used = torch.get_num_threads()
    return AttentionBench(
        describe_machine(),
        used,
        quick,
        {"batch": BATCH, "heads": HEADS, "width": WIDTH},
        lengths,
        missing_peers(),
        scaling,
        memory,
        crossover,
        () if quick else _targets(lengths, scaling, memory),
    )


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that a system may not give, or that only get into each other's way.

    Raises
    ------
    UsageError
        Quoting what came and the most that goes.
    """
    most = _MOST_PER_PROCESSOR * (os.cpu_count() or 1)
    whole = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (whole and 1 <= threads <= most):
        raise UsageError(
            f"--threads: expected a whole number from 1 to {most}, {_MOST_PER_PROCESSOR} for each processor, "
            f"got {threads!r}; leave it out for torch's own number"
        )


def _compare(length: int, *, seconds: float) -> LengthResult:
    shape = (BATCH, HEADS, length, WIDTH)
    every = peers()
    calls = {name: training_step(peer, shape) for name, peer in every.items()}
    found = take_turns({**calls, COPY: copy_step(shape), MATMUL: matmul_step()}, seconds=seconds)
    times = {name: over(found[SDPA], found[name]) for name in every}
    probe = torch.zeros(1, 1, length, WIDTH)
    picked = linear_attention(probe, probe, probe).health.backend
    return LengthResult(
        length,
        picked,
        {name: found[name] for name in every},
        times,
        beside_recorded_kernel(length, times[AUTO]),
        floor_of(shape, found, AUTO),
    )


def _scaling(lengths: tuple[int, ...], *, seconds: float) -> Scaling:
    points = []
    for length in lengths:
        shape = (LONG_BATCH, LONG_HEADS, length, WIDTH)
        calls = {AUTO: training_step(peers()[AUTO], shape), COPY: copy_step(shape)}
        found = take_turns(calls, seconds=seconds, most=50)
        points.append(_point(length, found[AUTO], found[COPY].least_milliseconds))
    wall = growth_exponent(lengths, [point.step.milliseconds for point in points])
    cpu = growth_exponent(lengths, [point.step.cpu_milliseconds for point in points])
    return Scaling(LONG_BATCH, LONG_HEADS, WIDTH, tuple(points), *wall, *cpu)


def _point(length: int, step: Timing, copy: float) -> ScalingPoint:
    scale = 1e6 / length
    return ScalingPoint(
        length, step, copy, scale * step.milliseconds, scale * step.cpu_milliseconds, over_floor(step, copy)
    )


def _memory(length: int) -> Memory:
    query, key, value = (torch.randn(BATCH, HEADS, length, WIDTH) for _ in range(3))
    both = 4 * query.numel() * query.element_size()
    seen = []
    with torch.no_grad():
        for _ in range(LEAST_CALLS):
            extra = extra_memory(lambda: linear_attention(query, key, value).output)
            if extra is None:
                return Memory(length, both, None, None, None, None, 0)
            seen.append(extra)
    low, middle, high = quartiles(seen)
    return Memory(length, both, middle, low, high, middle / both, len(seen))


def _crossover(width: int, *, seconds: float) -> Crossover:
    ours, theirs = [], []
    every = peers()
    for length in CROSSING_LENGTHS:
        shape = (BATCH, HEADS, length, width)
        found = take_turns({n: training_step(every[n], shape) for n in (AUTO, SDPA)}, seconds=seconds)
        ours.append(found[AUTO])
        theirs.append(found[SDPA])
    return Crossover(
        _crossing([x.milliseconds for x in ours], [x.milliseconds for x in theirs]),
        _crossing([x.low_milliseconds for x in ours], [x.high_milliseconds for x in theirs]),
        _crossing([x.high_milliseconds for x in ours], [x.low_milliseconds for x in theirs]),
    )


def _crossing(ours: list[float], theirs: list[float]) -> float | None:
    return crossing(CROSSING_LENGTHS, ours, theirs)


def _targets(lengths: tuple[LengthResult, ...], scaling: Scaling, memory: Memory) -> tuple[Target, ...]:
    made = []
    for result in lengths:
        times = result.times_sdpa[AUTO]
        name = f"times SDPA at {result.length}"
        least = aims.TARGET_SDPA[result.length]
        made.append(judge(name, "at least", least, times.ratio, (times.low, times.high)))
    for result in lengths:
        times = result.recorded_kernel.times_faster
        name = f"times the C++ kernel at {result.length}, recorded elsewhere"
        spread = (times.low, times.high)
        made.append(judge(name, "at least", aims.TARGET_KERNEL, times.ratio, spread, measured_here=False))
    if may_judge_growth(tuple(point.length for point in scaling.points)):
        spread = (scaling.exponent - scaling.standard_error, scaling.exponent + scaling.standard_error)
        made.append(
            judge("exponent of growth, wall time", "at most", aims.TARGET_EXPONENT, scaling.exponent, spread)
        )
    both = memory.inputs_and_outputs_bytes
    low, high = (None if size is None else size / both for size in (memory.low_bytes, memory.high_bytes))
    name = "memory beyond inputs and outputs, over them"
    made.append(judge(name, "at most", aims.TARGET_MEMORY, memory.share, (low, high)))
    return tuple(made)
