"""Medians of calls that take turns, so that what slows the machine down slows all of them down."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from quantattn.bench.peers import Peer


@dataclass(frozen=True)
class Timing:
    """Time of one call.

    Attributes
    ----------
    milliseconds : float
        Median.
    n : int
        Calls measured.
    """

    milliseconds: float
    n: int


def take_turns(
    calls: Mapping[str, Callable[[], object]], *, seconds: float, most: int = 200
) -> dict[str, Timing]:
    """Time calls in turn, after one call of each that does not count.

    Parameters
    ----------
    calls : mapping of str to callable
        What to time.
    seconds : float
        Time for each of them; whoever has used it up sits out, after one measured call at least.
    most : int, default 200
        Most rounds.
    """
    for call in calls.values():
        call()
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(most):
        going = [name for name, times in spent.items() if not times or sum(times) < seconds]
        if not going:
            break
        for name in going:
            begin = time.perf_counter()
            calls[name]()
            spent[name].append(time.perf_counter() - begin)
    return {name: Timing(1e3 * statistics.median(times), len(times)) for name, times in spent.items()}


def training_step(peer: Peer, shape: Sequence[int]) -> Callable[[], object]:
    """Return a call that reads forwards and pulls a gradient back, on its own random float32 inputs."""
    generator = torch.Generator().manual_seed(7)
    query, key, value, grad = (torch.randn(*shape, generator=generator) for _ in range(4))
    inputs = [x.requires_grad_() for x in (query, key, value)]

    def step() -> object:
        return torch.autograd.grad(peer(*inputs), inputs, grad)

    return step


def growth_exponent(lengths: Sequence[int], milliseconds: Sequence[float]) -> float:
    """Return the slope of log time over log length, by least squares."""
    xs, ys = [math.log(n) for n in lengths], [math.log(t) for t in milliseconds]
    return statistics.linear_regression(xs, ys).slope


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
