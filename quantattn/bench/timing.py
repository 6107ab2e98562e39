"""Medians and quartiles of calls that take turns, so that what slows the machine down slows all of them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from quantattn.bench.peers import Peer

LEAST_CALLS = 5
"""A median of fewer calls than that is not shown."""


@dataclass(frozen=True)
class Timing:
    """Time of one call.

    Attributes
    ----------
    milliseconds : float
        Median by the clock on the wall.
    low_milliseconds, high_milliseconds : float
        Lower and upper quartile.
    least_milliseconds : float
        The fastest call.
    cpu_milliseconds : float
        Median of the processor time of the whole process, all threads together.
    calls : int
        Calls measured.
    """

    milliseconds: float
    low_milliseconds: float
    high_milliseconds: float
    least_milliseconds: float
    cpu_milliseconds: float
    calls: int


@dataclass(frozen=True)
class Ratio:
    """One figure over another.

    Attributes
    ----------
    ratio : float
        Median over median.
    low, high : float
        Lower quartile over upper quartile, and upper over lower: the spread of both together.
    """

    ratio: float
    low: float
    high: float

    def times(self, factor: float) -> Ratio:
        """Return the ratio and its spread multiplied by a number without spread."""
        return Ratio(self.ratio * factor, self.low * factor, self.high * factor)


def over(above: Timing, below: Timing) -> Ratio:
    """Return the wall time of one call over that of another."""
    return Ratio(
        above.milliseconds / below.milliseconds,
        above.low_milliseconds / below.high_milliseconds,
        above.high_milliseconds / below.low_milliseconds,
    )


def over_floor(above: Timing, floor_milliseconds: float) -> Ratio:
    """Return the wall time of a call over a time that has no spread."""
    times = above.milliseconds, above.low_milliseconds, above.high_milliseconds
    return Ratio(*(time / floor_milliseconds for time in times))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def take_turns(
    calls: Mapping[str, Callable[[], object]], *, seconds: float, least: int = LEAST_CALLS, most: int = 200
) -> dict[str, Timing]:
    """Time calls in turn, after one call of each that does not count.

    Parameters
    ----------
    calls : mapping of str to callable
        What to time.
    seconds : float
        Time for each of them; whoever has used it up sits out, after `least` measured calls.
    least, most : int, default 5 and 200
        Fewest and most measured calls of each.
    """
    for call in calls.values():
        call()
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(most):
        going = [name for name, times in wall.items() if len(times) < least or sum(times) < seconds]
        if not going:
            break
        for name in going:
            begin, used = time.perf_counter(), time.process_time()
            calls[name]()
            wall[name].append(time.perf_counter() - begin)
            cpu[name].append(time.process_time() - used)
    return {name: _timing(wall[name], cpu[name]) for name in calls}


def _timing(wall: Sequence[float], cpu: Sequence[float]) -> Timing:
    low, middle, high = quartiles(wall)
    return Timing(
        1e3 * middle, 1e3 * low, 1e3 * high, 1e3 * min(wall), 1e3 * statistics.median(cpu), len(wall)
    )


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Give torch so many threads, None for as many as it has, and its own number again behind it."""
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)


def training_step(peer: Peer, shape: Sequence[int]) -> Callable[[], object]:
    """Return a call that reads forwards and pulls a gradient back, on its own random float32 inputs."""
    generator = torch.Generator().manual_seed(7)
    query, key, value, grad = (torch.randn(*shape, generator=generator) for _ in range(4))
    inputs = [x.requires_grad_() for x in (query, key, value)]

    def step() -> object:
        return torch.autograd.grad(peer(*inputs), inputs, grad)

    return step


def growth_exponent(lengths: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return the slope of log time over log length by least squares, and its standard error.

    The error is that of points which scatter about a line; where the curve bends, it grows with the bend.
    """
    xs, ys = [math.log(n) for n in lengths], [math.log(t) for t in times]
    slope, intercept = statistics.linear_regression(xs, ys)
    if len(xs) < 3:
        return slope, math.nan
    left = sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    middle = statistics.fmean(xs)
    return slope, math.sqrt(left / (len(xs) - 2) / sum((x - middle) ** 2 for x in xs))


def crossing(lengths: Sequence[int], ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return the length from which on we take no longer, between measured lengths on a log scale.

    The first measured length if that holds from there on, None if it does not hold at the last.
    """
    ahead = [math.log(b / a) for a, b in zip(ours, theirs, strict=True)]
    behind = [at for at, gain in enumerate(ahead) if gain < 0]
    if not behind:
        return float(lengths[0])
    at = behind[-1]
    if at == len(lengths) - 1:
        return None
    part = -ahead[at] / (ahead[at + 1] - ahead[at])
    return math.exp(math.log(lengths[at]) + part * math.log(lengths[at + 1] / lengths[at]))
