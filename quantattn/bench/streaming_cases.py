"""Networks, tokens and histories for the streaming benchmark, all from fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from quantattn.bench.training_steps import EVENT_WIDTH, HEADS, LAYERS, QUERY_WIDTH
from quantattn.forecasters.config import Attention, NetworkConfig
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.tokens import Floats, Integers

SECOND = 10**9
_LONGEST_GAP = 120
"""Seconds; ten million events then span twenty years."""


def random_network(
    attention: Attention, width: int, event_width: int = EVENT_WIDTH, query_width: int = QUERY_WIDTH
) -> AttentionNetwork:
    """Return a network with drawn weights, the head's too, which are zero before training."""
    config = NetworkConfig(
        attention=attention, width=width, heads=HEADS, layers=LAYERS, feed_forward=2 * width
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(7)
        network = AttentionNetwork(config, event_width, query_width).eval()
        for drawn in (network.start, network.head.weight, network.direct.weight):
            drawn.normal_(0.0, 0.3)
    return network


@dataclass(frozen=True)
class Tokens:
    """A stretch of random events and a query behind each of them.

    Attributes
    ----------
    events : ndarray of float32, shape (n, event_width)
    queries : ndarray of float32, shape (n, query_width)
    gaps : ndarray of int64, shape (n,)
        Nanoseconds before each event.
    """

    events: Floats
    queries: Floats
    gaps: Integers

    def times(self, after: int) -> Integers:
        """Return the instants of the events, beginning behind an instant."""
        return after + np.cumsum(self.gaps)


def random_tokens(number: int, seed: int = 7) -> Tokens:
    """Return so many tokens; a minute lies between two events on average."""
    generator = np.random.default_rng(seed)
    return Tokens(
        generator.standard_normal((number, EVENT_WIDTH), np.float32),
        generator.standard_normal((number, QUERY_WIDTH), np.float32),
        generator.integers(1, _LONGEST_GAP, number) * SECOND,
    )


def pieces(number: int, size: int, after: int = 0) -> Iterator[tuple[Floats, Integers]]:
    """Give a long history in pieces of tokens and times, so that it is never in memory as a whole."""
    for seed, first in enumerate(range(0, number, size)):
        drawn = random_tokens(min(size, number - first), seed)
        times = drawn.times(after)
        after = int(times[-1])
        yield drawn.events, times
