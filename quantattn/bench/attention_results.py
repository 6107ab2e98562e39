"""What the attention benchmark found, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from quantattn.bench.attention_floor import ABOUT_FLOOR, Floor
from quantattn.bench.attention_recorded import ABOUT_KERNEL, RecordedKernel
from quantattn.bench.targets import Target
from quantattn.bench.timing import Ratio, Timing

UNITS = {
    "milliseconds": "median wall time of one forward and backward pass",
    "low_milliseconds, high_milliseconds": "lower and upper quartile of that",
    "least_milliseconds": "the fastest call",
    "cpu_milliseconds": "median processor time of a call, all threads together",
    "calls": "calls measured",
    "batch, heads, width": "shape of the inputs beside the length; values and features are as wide",
    "length": "positions: keys, and as many queries",
    "ratio": "one median over another, or over a floor; low and high from opposite quartiles",
    "low, high": "spread of the figure beside them, in its unit; of an exponent, one standard error",
    "times_sdpa": "time of SDPA over the peer's in this run; higher is faster",
    "recorded_kernel": ABOUT_KERNEL,
    "recorded_kernel_milliseconds, recorded_sdpa_milliseconds": "recorded on another machine, not here",
    "times_faster": "recorded kernel over auto, both as ratios to SDPA; higher is faster for auto",
    "floor": ABOUT_FLOOR,
    "multiply_adds": "multiply-adds of one forward and backward pass at least; two operations each",
    "matmul_gflop_per_second": "10 ** 9 operations per second of a matrix product, fastest call",
    "operations_milliseconds": "time of the multiply-adds at that rate",
    "copy_milliseconds": "time to copy the bytes that a pass is given and returns, fastest call",
    "times_operations, times_copy": "time of auto over these floors; lower is faster, 1 is the floor",
    "nanoseconds_per_token": "wall time over length; a token is one position with all its heads",
    "cpu_nanoseconds_per_token": "processor time over length",
    "exponent, standard_error": "slope of log wall time over log length by least squares, and its error",
    "cpu_exponent, cpu_standard_error": "the same for processor time",
    "inputs_and_outputs_bytes": "query, key, value and output of a forward pass",
    "beyond_bytes, low_bytes, high_bytes": "peak of resident memory beyond them: median and quartiles",
    "share": "beyond_bytes over inputs_and_outputs_bytes",
    "crossover": "by width: length from which on auto takes no longer than SDPA; null: none measured",
    "targets": "what this project aimed at with 2 threads, in the unit of the figure; empty if quick",
    "target, found": "the bound that was aimed at, and the median found, which decides",
    "memory_gib": "memory of the machine in units of 2 ** 30 bytes",
}
"""Meaning and unit of every figure of the JSON."""


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
        Time of a forward and a backward pass, by name.
    times_sdpa : dict of str to Ratio
        Time of SDPA over the peer's: how many times faster than softmax it is.
    recorded_kernel : RecordedKernel
        ``"auto"`` beside a kernel that was measured elsewhere.
    floor : Floor
        ``"auto"`` beside what a step needs at least.
    """

    length: int
    backend: str
    peers: dict[str, Timing]
    times_sdpa: dict[str, Ratio]
    recorded_kernel: RecordedKernel
    floor: Floor


@dataclass(frozen=True)
class ScalingPoint:
    """One length of the scaling run.

    Attributes
    ----------
    length : int
        Keys and queries.
    step : Timing
        Time of a training step of ``"auto"``.
    copy_milliseconds : float
        Least time to copy the bytes that a step is given and returns.
    nanoseconds_per_token, cpu_nanoseconds_per_token : float
        Wall and processor time of the step over the length.
    times_copy : Ratio
        The step's time over the copy's.
    """

    length: int
    step: Timing
    copy_milliseconds: float
    nanoseconds_per_token: float
    cpu_nanoseconds_per_token: float
    times_copy: Ratio


@dataclass(frozen=True)
class Scaling:
    """How the time of ``"auto"`` grows with the length.

    Attributes
    ----------
    batch, heads, width : int
        Shape beside the length.
    points : tuple of ScalingPoint
        By rising length.
    exponent, standard_error : float
        Slope of log wall time over log length.
    cpu_exponent, cpu_standard_error : float
        The same for processor time.
    """

    batch: int
    heads: int
    width: int
    points: tuple[ScalingPoint, ...]
    exponent: float
    standard_error: float
    cpu_exponent: float
    cpu_standard_error: float


@dataclass(frozen=True)
class Memory:
    """Memory of a forward pass; None where the system does not tell.

    Attributes
    ----------
    length : int
        In the shape of the comparison.
    inputs_and_outputs_bytes : int
        Query, key, value and output.
    beyond_bytes, low_bytes, high_bytes : float or None
        Median and quartiles of the peak beyond them.
    share : float or None
        ``beyond_bytes`` over ``inputs_and_outputs_bytes``.
    calls : int
        Calls measured.
    """

    length: int
    inputs_and_outputs_bytes: int
    beyond_bytes: float | None
    low_bytes: float | None
    high_bytes: float | None
    share: float | None
    calls: int


@dataclass(frozen=True)
class Crossover:
    """The length from which on ``"auto"`` takes no longer than SDPA; None if it takes longer at the last.

    Attributes
    ----------
    length : float or None
        From medians, to the nearest that an interpolation between powers of two gives.
    low, high : float or None
        From opposite quartiles.
    """

    length: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AttentionBench:
    """Result of :func:`.bench_attention`.

    Attributes
    ----------
    machine : dict
        Processor, cores, memory, versions.
    threads : int
        Threads that torch and the compiled backend used.
    quick : bool
        Whether it was a quick run, of which no verdicts are given.
    shape : dict
        Batch, heads and width of the comparison by length.
    lengths : tuple of LengthResult
        The comparison by length.
    not_installed : dict of str to str
        Peers that were left out, and how to get them.
    scaling : Scaling
        Growth with the length.
    memory : Memory
        Memory of a forward pass.
    crossover : dict of int to Crossover
        By width.
    targets : tuple of Target
        What was aimed at, with verdicts; empty after a quick run.
    """

    machine: dict[str, Any]
    threads: int
    quick: bool
    shape: dict[str, int]
    lengths: tuple[LengthResult, ...]
    not_installed: dict[str, str]
    scaling: Scaling
    memory: Memory
    crossover: dict[int, Crossover]
    targets: tuple[Target, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, text, lists and dicts; ``units`` says what is what."""
        crossover = {str(width): asdict(at) for width, at in self.crossover.items()}
        return {"units": UNITS, **asdict(self), "crossover": crossover}
