"""Training steps to be timed: whole sequences, and one window for each forecast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from quantattn.forecasters import EntityTokens, NetworkConfig, TrainingConfig, merge
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.objectives import SQUARED
from quantattn.forecasters.supervision import Supervision
from quantattn.forecasters.training import make_optimizer, take_step

LAYERS, HEADS = 2, 4
EVENT_WIDTH, QUERY_WIDTH = 40, 12
"""Widths of the tokens, about those of the packaged study."""
TOKENS_PER_FORECAST = 5
"""One token in so many is a forecast, the others are events."""

_HOUR = 3600 * 10**9


def random_sequence(tokens: int) -> EntityTokens:
    """Return a sequence of so many tokens, a forecast after every fourth event, drawn from a fixed seed."""
    generator = np.random.default_rng(7)
    forecasts = tokens // TOKENS_PER_FORECAST
    events = tokens - forecasts
    times = np.cumsum(generator.integers(1, 12, events)) * _HOUR
    counts = np.arange(1, forecasts + 1) * (TOKENS_PER_FORECAST - 1)
    return EntityTokens(
        entity="A",
        events=generator.standard_normal((events, EVENT_WIDTH)).astype(np.float32),
        event_times=times,
        queries=generator.standard_normal((forecasts, QUERY_WIDTH)).astype(np.float32),
        query_times=times[counts - 1] + 1,
        counts=counts,
        rows=np.arange(forecasts),
    )


def windows(sequence: EntityTokens, window: int, number: int) -> list[EntityTokens]:
    """Return the last forecasts of a sequence, each as a sequence of its own with its last events alone."""
    made = []
    for place in range(len(sequence.rows) - number, len(sequence.rows)):
        stop = int(sequence.counts[place])
        first = max(0, stop - window)
        made.append(
            EntityTokens(
                entity=f"{place}",
                events=sequence.events[first:stop],
                event_times=sequence.event_times[first:stop],
                queries=sequence.queries[place : place + 1],
                query_times=sequence.query_times[place : place + 1],
                counts=np.array([stop - first]),
                rows=sequence.rows[place : place + 1],
            )
        )
    return made


def training_call(attention: Attention, width: int, sequences: list[EntityTokens]) -> Callable[[], object]:
    """Return a call that merges sequences and takes one step: forwards, backwards, clipping and optimiser."""
    config = NetworkConfig(
        attention=attention, width=width, heads=HEADS, layers=LAYERS, feed_forward=2 * width
    )
    training = TrainingConfig()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = AttentionNetwork(config, EVENT_WIDTH, QUERY_WIDTH).train()
    rows = 1 + max(int(own.rows.max()) for own in sequences)
    supervision = Supervision(SQUARED, torch.randn(rows, 1, generator=torch.Generator().manual_seed(7)))
    optimizer = make_optimizer(model, training)

    def step() -> object:
        batch = merge(sequences, config.half_lives)
        return take_step(model, batch, supervision, training, optimizer)

    return step
