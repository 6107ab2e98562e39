"""What the streaming benchmark found, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from quantattn.bench.figures import without_nan
from quantattn.bench.streaming_calls import Latency
from quantattn.bench.streaming_floor import ABOUT_FLOOR, Floor
from quantattn.bench.targets import Target
from quantattn.bench.timing import Timing

ABOUT_STEPS = (
    "Single calls from Python, one entity, one thread, tokens made before: an event is written, then a "
    "forecast read, so that each finds the cache as the other left it. Models take turns by blocks; a "
    "block begins at the stated history, makes it a tenth longer at most, and its first half is not "
    "measured. The garbage collector is off."
)
ABOUT_EAGER = (
    "eager torch: the same network and weights in plain torch operations, written by hand, memory "
    "carried, no gradients, tokens already tensors; its forecasts agree with ours before anything is "
    "timed. Its softmax reads a key/value cache with scaled_dot_product_attention. That cache holds "
    "random keys, and the cache of our twin repeats its first events at the longest histories: what a "
    "step costs depends on how many there are."
)
ABOUT_RAW = (
    "Raw: events as they arrive, with a name, kind, times, figures and, where said, a headline never seen"
    " before; checked, ordered, encoded and written by StreamingForecaster. A forecast assembles its as-"
    "of features, its information set's name and its interval too."
)
ABOUT_COLD = (
    "From nothing to the first forecast: raw events in memory as an event log, encoded and written for "
    "one entity. Where pieces are said, the twin's writes, whose cost grows with the history, were timed "
    "in pieces along it and summed between them by the trapezoid rule."
)

UNITS = {
    "p50, p95, p99": "percentiles of the wall time of single calls in microseconds",
    "calls": "calls measured",
    "clock": "what the clock measures of nothing, part of every single call above",
    "width, heads, layers": "of the network; the feed-forward part is twice as wide",
    "event_width, query_width": "of the tokens",
    "history": "events of the entity written before",
    "steps": ABOUT_STEPS,
    "state_bytes": "bytes of one entity's memory; of a floor, those of it that a step touches",
    "difference, spread": "largest difference of eager forecasts from ours, and their own deviation",
    "update, read, write": "of a step, its latency; of a ratio, what it is the ratio of",
    "times_eager": "p50 of eager torch over ours at the same history; higher is faster",
    "times_softmax": "p50 of the softmax twin, update plus read, over that of the linear forecaster",
    "crossover": "history from which on the linear forecaster takes no longer than the twin; null if none",
    "growth": "largest p50 over smallest, of the linear forecaster over its histories; 1 is constant",
    "events": "events (or forecasts) of one measured run",
    "per_second, low, high": "events (or forecasts) per second at the median run, and at its quartiles; of a "
    "target, the spread of the figure beside them",
    "milliseconds": "median wall time of one run",
    "low_milliseconds, high_milliseconds": "lower and upper quartile of that",
    "least_milliseconds": "the fastest run",
    "cpu_milliseconds": "median processor time of a run",
    "batch_entities": "entities that a batched call writes one event each of",
    "times_single": "rate of batched calls over that of single calls to the same entities in turn",
    "weight_bytes": "bytes of weights that a step touches",
    "gigabytes_per_second, floor_microseconds, step_microseconds, times_floor": ABOUT_FLOOR,
    "ratio": "one median over another; low and high from opposite quartiles",
    "raw": ABOUT_RAW,
    "cold_start": ABOUT_COLD,
    "seconds": "wall time of a cold start",
    "pieces": "pieces of the history that were timed; 0 where the whole was",
    "targets": "what this project aimed at with one thread, in the unit of the figure; empty if quick",
    "target, found": "the bound that was aimed at, and the figure found, which decides",
    "memory_gib": "memory of the machine in units of 2 ** 30 bytes",
}
"""Meaning and unit of every figure of the JSON."""


@dataclass(frozen=True)
class StepResult:
    """One model at one length of history.

    Attributes
    ----------
    model : str
        ``"linear"``, ``"softmax"``, ``"eager linear"`` or ``"eager softmax"``.
    width, history : int
        Of the network; events before.
    update, read : Latency
        One event, one forecast.
    state_bytes : int or None
        Of our own models.
    """

    model: str
    width: int
    history: int
    update: Latency
    read: Latency
    state_bytes: int | None


@dataclass(frozen=True)
class Agreement:
    """How far eager forecasts are from ours.

    Attributes
    ----------
    model : str
        The attention.
    width : int
        Of the network.
    difference, spread : float
        Largest absolute difference, and standard deviation of our forecasts; in units of the scaled target.
    """

    model: str
    width: int
    difference: float
    spread: float


@dataclass(frozen=True)
class EagerRatio:
    """p50 of eager torch over ours.

    Attributes
    ----------
    model : str
        The attention.
    width, history : int
        Of the network; events before.
    update, read : float
        Of one event, of one forecast.
    """

    model: str
    width: int
    history: int
    update: float
    read: float


@dataclass(frozen=True)
class Rate:
    """Events or forecasts per second.

    Attributes
    ----------
    name : str
        How they are made.
    events : int
        Of one run.
    per_second, low, high : float
        At the median run and at its quartiles.
    run : Timing
        One run.
    """

    name: str
    events: int
    per_second: float
    low: float
    high: float
    run: Timing


def rate_of(name: str, events: int, run: Timing) -> Rate:
    """Return the rate at which a run of so many events went."""
    middle, low, high = (
        1e3 * events / time for time in (run.milliseconds, run.high_milliseconds, run.low_milliseconds)
    )
    return Rate(name, events, middle, low, high, run)


@dataclass(frozen=True)
class ColdStart:
    """Time from a raw history to the first forecast.

    Attributes
    ----------
    model : str
        The attention.
    events : int
        Of the history.
    seconds : float
        Encoding and writing.
    pieces : int
        Pieces of the history that were timed; 0 where the whole was.
    """

    model: str
    events: int
    seconds: float
    pieces: int


@dataclass(frozen=True)
class StreamingBench:
    """Result of :func:`.bench_streaming`.

    Attributes
    ----------
    machine : dict
        Processor, cores, memory, versions.
    threads : int
        One.
    quick : bool
        Whether it was a quick run, of which no verdicts are given.
    shape : dict
        Heads, layers and widths of the tokens.
    clock : Latency
        What the clock measures of nothing.
    agreement : tuple of Agreement
        Of eager torch with ours.
    steps : tuple of StepResult
        By width, history and model.
    times_eager : tuple of EagerRatio
        Eager torch over ours, of the same attention.
    times_softmax : dict of int to float
        Of the first width, by history.
    crossover : float or None
        Between measured histories on a log scale.
    growth : dict of str to float
        ``"update"`` and ``"read"``.
    batch_entities : int
        Of the batched calls.
    rates : tuple of Rate
        On encoded tokens.
    times_single : dict of str to float
        ``"write"`` and ``"read"``: batched over single.
    floors : tuple of Floor
        By width and step.
    raw : tuple of Rate
        On raw events.
    cold_start : tuple of ColdStart
        By attention.
    targets : tuple of Target
        What was aimed at, with verdicts; empty after a quick run.
    """

    machine: dict[str, Any]
    threads: int
    quick: bool
    shape: dict[str, int]
    clock: Latency
    agreement: tuple[Agreement, ...]
    steps: tuple[StepResult, ...]
    times_eager: tuple[EagerRatio, ...]
    times_softmax: dict[int, float]
    crossover: float | None
    growth: dict[str, float]
    batch_entities: int
    rates: tuple[Rate, ...]
    times_single: dict[str, float]
    floors: tuple[Floor, ...]
    raw: tuple[Rate, ...]
    cold_start: tuple[ColdStart, ...]
    targets: tuple[Target, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, text, lists and dicts; ``units`` says what is what."""
        plain: dict[str, Any] = without_nan(asdict(self))
        by_history = {str(history): ratio for history, ratio in plain["times_softmax"].items()}
        return {"units": UNITS, **plain, "times_softmax": by_history}
