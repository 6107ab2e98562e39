"""What the training benchmark found, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from quantattn.bench.figures import without_nan
from quantattn.bench.targets import Target
from quantattn.bench.timing import Ratio, Timing
from quantattn.bench.training_child import ChildRun

ABOUT_STEP = (
    "A step is all that training does with one sequence: tokens merged, forwards, squared error, "
    "backwards, gradient clipped, AdamW. Four of five tokens are events, every fifth is a forecast. An epoch "
    "is ten such sequences."
)
ABOUT_WINDOWS = (
    "The usual way: each forecast reads a window of its own, the last 1,000 events before it, with the "
    "softmax twin. Measured on steps of 16 forecasts; a sequence has as many windows as forecasts, so its "
    "figure is the time of one forecast times their number. It is another information set: what lies before "
    "the window is not seen."
)

UNITS = {
    "milliseconds": "median wall time of one step",
    "low_milliseconds, high_milliseconds": "lower and upper quartile of that",
    "least_milliseconds": "the fastest step",
    "cpu_milliseconds": "median processor time of a step, all threads together; null if not measured",
    "calls": "steps measured",
    "width, heads, layers": "of the network; the feed-forward part is twice as wide",
    "tokens": "tokens of the sequence of one step, events and forecasts",
    "forecasts": "forecasts among them",
    "tokens_per_forecast": "tokens over forecasts",
    "tokens_per_second": "tokens over the median wall time of a step; higher is faster",
    "seconds_per_epoch": "ten steps",
    "step": ABOUT_STEP,
    "ratio": "one median over another; low and high from opposite quartiles",
    "low, high": "spread of the figure beside them; of an exponent, one standard error",
    "times_twin": "time of the softmax twin over that of the linear forecaster; higher is faster",
    "windows": ABOUT_WINDOWS,
    "window": "events of a window",
    "milliseconds_per_forecast": "median wall time of a step of windows over its forecasts",
    "times_windows": "time of a window per forecast over that of the linear forecaster; higher is faster",
    "exponent, standard_error": "slope of log wall time over log tokens by least squares, and its error",
    "seconds": "wall time of one step in a process of its own",
    "peak_bytes": "most resident memory of a fresh process that takes one step, libraries included",
    "before_bytes": "the same before that step",
    "targets": "what this project aimed at with 2 threads, in the unit of the figure; empty if quick",
    "target, found": "the bound that was aimed at, and the median found, which decides",
    "memory_gib": "memory of the machine in units of 2 ** 30 bytes",
}
"""Meaning and unit of every figure of the JSON."""

SEQUENCES = 10
"""Sequences of an epoch."""


@dataclass(frozen=True)
class Speed:
    """How fast one forecaster trains on sequences of one length.

    Attributes
    ----------
    step : Timing
        One step.
    tokens_per_second : float
        Tokens over the median time of a step.
    seconds_per_epoch : float
        Of ten sequences.
    """

    step: Timing
    tokens_per_second: float
    seconds_per_epoch: float


def speed_of(step: Timing, tokens: int) -> Speed:
    """Return what a step's time means for a length."""
    return Speed(step, 1e3 * tokens / step.milliseconds, 1e-3 * SEQUENCES * step.milliseconds)


@dataclass(frozen=True)
class Windows:
    """The usual way: a window of events for each forecast.

    Attributes
    ----------
    window : int
        Events of each.
    step : Timing
        One step of several forecasts.
    milliseconds_per_forecast : float
        Median time of a step over its forecasts.
    """

    window: int
    step: Timing
    milliseconds_per_forecast: float


@dataclass(frozen=True)
class TrainingPoint:
    """One width and length.

    Attributes
    ----------
    width, tokens, forecasts : int
        Of the network and the sequence.
    linear, softmax : Speed
        The forecaster and its twin.
    times_twin : Ratio
        Time of the twin over that of the linear forecaster.
    times_windows : Ratio or None
        Time of a window for each forecast over that of the linear forecaster; None where the sequence is
        shorter than a window.
    """

    width: int
    tokens: int
    forecasts: int
    linear: Speed
    softmax: Speed
    times_twin: Ratio
    times_windows: Ratio | None


@dataclass(frozen=True)
class Growth:
    """How the time of a step grows with the length.

    Attributes
    ----------
    width : int
        Of the network.
    attention : str
        ``"linear"`` or ``"softmax"``.
    exponent, standard_error : float
        Slope of log wall time over log tokens; the error is NaN for two lengths.
    """

    width: int
    attention: str
    exponent: float
    standard_error: float


@dataclass(frozen=True)
class PeakMemory:
    """Peak memory of a step in a process of its own.

    Attributes
    ----------
    width, tokens : int
        Of the network and the sequence.
    attention : str
        ``"linear"`` or ``"softmax"``.
    run : ChildRun
        What it took.
    """

    width: int
    tokens: int
    attention: str
    run: ChildRun


@dataclass(frozen=True)
class TrainingBench:
    """Result of :func:`.bench_training`.

    Attributes
    ----------
    machine : dict
        Processor, cores, memory, versions.
    threads : int
        Threads that torch and the compiled backend used.
    quick : bool
        Whether it was a quick run, of which no verdicts are given.
    shape : dict
        Heads and layers, and tokens per forecast.
    points : tuple of TrainingPoint
        By width and rising length.
    windows : dict of int to Windows
        The usual way, by width.
    growth : tuple of Growth
        By width and attention.
    memory : tuple of PeakMemory
        By attention and rising length.
    targets : tuple of Target
        What was aimed at, with verdicts; empty after a quick run.
    """

    machine: dict[str, Any]
    threads: int
    quick: bool
    shape: dict[str, int]
    points: tuple[TrainingPoint, ...]
    windows: dict[int, Windows]
    growth: tuple[Growth, ...]
    memory: tuple[PeakMemory, ...]
    targets: tuple[Target, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, text, lists and dicts; ``units`` says what is what."""
        plain: dict[str, Any] = without_nan(asdict(self))
        windows = {str(width): value for width, value in plain["windows"].items()}
        return {"units": UNITS, **plain, "windows": windows}
