"""How fast a causal linear read is, forwards and backwards, beside other ways to do it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from quantattn.attention import linear_attention
from quantattn.bench.machine import describe_machine, extra_memory
from quantattn.bench.peers import AUTO, SDPA, peers
from quantattn.bench.timing import Timing, crossing, growth_exponent, take_turns, training_step

BATCH, HEADS, WIDTH = 4, 4, 32
LENGTHS = (256, 1024, 4096)
LONG = tuple(1024 * 4**power for power in range(5))
"""Lengths of the scaling run, 1k to 256k, on one batch row of two heads."""
CROSSING_WIDTHS = (32, 64, 128)
CROSSING_LENGTHS = (16, 32, 64, 128, 256, 512, 1024)

KERNEL = {256: (3.4, 2.7), 1024: (12.0, 26.0), 4096: (57.0, 297.0)}
"""Milliseconds of a C++ kernel that takes one token at a time, and of SDPA beside it on the same machine."""

TARGET_SDPA = {256: 1.0, 1024: 6.0, 4096: 20.0}
TARGET_KERNEL = 3.5
TARGET_EXPONENT = 1.05
TARGET_MEMORY = 0.15


@dataclass(frozen=True)
class LengthResult:
    """One length of the comparison.

    Attributes
    ----------
    length : int
        Keys and queries.
    backend : str
        What ``"auto"`` picked.
    peers : dict of str to Timing
        Median time of a forward and a backward pass, by name.
    times_sdpa : dict of str to float
        Time of SDPA over the peer's: how many times faster than softmax it is.
    times_kernel : float or None
        How many times faster ``"auto"`` is than the C++ kernel, both taken as ratios to the SDPA beside them.
    """

    length: int
    backend: str
    peers: dict[str, Timing]
    times_sdpa: dict[str, float]
    times_kernel: float | None


@dataclass(frozen=True)
class Target:
    """A figure that was aimed at, and what was found; None where it could not be measured."""

    name: str
    target: float
    found: float | None
    reached: bool | None


@dataclass(frozen=True)
class AttentionBench:
    """Result of :func:`bench_attention`.

    Attributes
    ----------
    machine : dict
        Processor, cores, memory, versions.
    threads : int
        Threads that torch and the compiled backend used.
    shape : dict
        Batch, heads and width of the comparison by length.
    lengths : tuple of LengthResult
        The comparison by length.
    scaling : dict
        Lengths, median milliseconds and the exponent of growth, of ``"auto"`` alone.
    memory : dict
        Bytes of inputs and outputs of a forward pass, bytes beyond them, and their share.
    crossover : dict of int to float or None
        By width: the length from which on ``"auto"`` takes no longer than SDPA, to the nearest that an
        interpolation between powers of two gives; None if it always takes longer.
    targets : tuple of Target
        What was aimed at.
    """

    machine: dict[str, Any]
    threads: int
    shape: dict[str, int]
    lengths: tuple[LengthResult, ...]
    scaling: dict[str, Any]
    memory: dict[str, Any]
    crossover: dict[int, float | None]
    targets: tuple[Target, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, text, lists and dicts."""
        return {**asdict(self), "crossover": {str(width): at for width, at in self.crossover.items()}}


def bench_attention(*, quick: bool = False, threads: int | None = None) -> AttentionBench:
    """Time causal attention in float32 with elu + 1 features, forwards and backwards.

    Parameters
    ----------
    quick : bool, default False
        Fewer repetitions, no length above 1024 in the comparison and none above 16k in the scaling run.
    threads : int, optional
        Threads for torch and the compiled backend; torch's own number if not given.
    """
    with _threads(threads), torch.enable_grad():
        lengths = tuple(
            _compare(length, seconds=0.5 if quick else 2.5) for length in (LENGTHS[:2] if quick else LENGTHS)
        )
        scaling = _scaling(LONG[:3] if quick else LONG, seconds=0.2 if quick else 1.0)
        memory = _memory(LONG[2])
        crossover = {width: _crossover(width, seconds=0.02 if quick else 0.15) for width in CROSSING_WIDTHS}
        used = torch.get_num_threads()
    return AttentionBench(
        describe_machine(),
        used,
        {"batch": BATCH, "heads": HEADS, "width": WIDTH},
        lengths,
        scaling,
        memory,
        crossover,
        _targets(lengths, scaling, memory),
    )


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)


def _compare(length: int, *, seconds: float) -> LengthResult:
    shape = (BATCH, HEADS, length, WIDTH)
    found = take_turns({name: training_step(peer, shape) for name, peer in peers().items()}, seconds=seconds)
    softmax = found[SDPA].milliseconds
    ratios = {name: softmax / timing.milliseconds for name, timing in found.items()}
    kernel, beside = KERNEL[length]
    probe = torch.zeros(1, 1, length, WIDTH)
    picked = linear_attention(probe, probe, probe).health.backend
    return LengthResult(length, picked, found, ratios, ratios[AUTO] / (beside / kernel))


def _scaling(lengths: tuple[int, ...], *, seconds: float) -> dict[str, Any]:
    times = []
    for length in lengths:
        call = training_step(peers()[AUTO], (1, 2, length, WIDTH))
        times.append(take_turns({AUTO: call}, seconds=seconds, most=20)[AUTO].milliseconds)
    return {
        "lengths": list(lengths),
        "milliseconds": times,
        "exponent": growth_exponent(lengths, times),
    }


def _memory(length: int) -> dict[str, Any]:
    query, key, value = (torch.randn(BATCH, HEADS, length, WIDTH) for _ in range(3))
    with torch.no_grad():
        extra = extra_memory(lambda: linear_attention(query, key, value).output)
    both = 4 * query.numel() * query.element_size()
    return {
        "length": length,
        "inputs_and_outputs": both,
        "beyond": extra,
        "share": None if extra is None else extra / both,
    }


def _crossover(width: int, *, seconds: float) -> float | None:
    ours, theirs = [], []
    every = peers()
    for length in CROSSING_LENGTHS:
        shape = (BATCH, HEADS, length, width)
        found = take_turns({n: training_step(every[n], shape) for n in (AUTO, SDPA)}, seconds=seconds)
        ours.append(found[AUTO].milliseconds)
        theirs.append(found[SDPA].milliseconds)
    return crossing(CROSSING_LENGTHS, ours, theirs)


def _targets(
    lengths: tuple[LengthResult, ...], scaling: dict[str, Any], memory: dict[str, Any]
) -> tuple[Target, ...]:
    made = []
    for result in lengths:
        ratio, least = result.times_sdpa[AUTO], TARGET_SDPA[result.length]
        made.append(Target(f"times SDPA at {result.length}", least, ratio, ratio >= least))
    for result in lengths:
        kernel = result.times_kernel
        reached = None if kernel is None else kernel >= TARGET_KERNEL
        made.append(Target(f"times the C++ kernel at {result.length}", TARGET_KERNEL, kernel, reached))
    exponent, share = scaling["exponent"], memory["share"]
    made.append(Target("exponent of growth", TARGET_EXPONENT, exponent, exponent <= TARGET_EXPONENT))
    reached = None if share is None else share < TARGET_MEMORY
    made.append(Target("memory beyond inputs and outputs", TARGET_MEMORY, share, reached))
    return tuple(made)
