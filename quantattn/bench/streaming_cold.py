"""Cold start: from a raw history to the first forecast."""

from __future__ import annotations

import time

import numpy as np
import polars as pl

from quantattn.bench.streaming_calls import ENTITY
from quantattn.bench.streaming_cases import random_network
from quantattn.bench.streaming_histories import lengthened
from quantattn.bench.streaming_raw import fitted_encoders, raw_events
from quantattn.bench.streaming_results import ColdStart
from quantattn.encoders import EventEncoder
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.tokens import Floats, Integers, event_tokens
from quantattn.pit.timestamps import nanoseconds_of

PIECES = 8
"""Places along the history between which a cost that grows is summed."""
_PIECE = 64
"""Events written at each of them."""


def cold_start(attention: Attention, width: int, events: int, *, patience: float) -> ColdStart:
    """Encode a raw history of one entity, write it, and read the first forecast.

    Parameters
    ----------
    attention : {"linear", "softmax"}
        Whose.
    width : int
        Of the network.
    events : int
        Of the history.
    patience : float
        Seconds; if the twin would take longer, its writes are measured in pieces.
    """
    encoders = fitted_encoders()
    frame = raw_events(events)
    encoder = encoders.events
    network = random_network(attention, width, encoder.width_ + 1, len(encoders.queries.columns_) + 3)
    warm = NetworkStream(network)
    warm.write_sequence(ENTITY, *_encoded(encoder, frame[:_PIECE]))
    query = np.zeros(network.query_width, np.float32)

    began = time.perf_counter()
    tokens, times = _encoded(encoder, frame)
    encoding = time.perf_counter() - began
    if attention == "softmax":
        writing = _in_pieces(network, tokens, times)
        if writing > patience:
            return ColdStart(attention, events, encoding + writing, PIECES + 1)
    began = time.perf_counter()
    stream = NetworkStream(network)
    stream.write_sequence(ENTITY, tokens, times)
    stream.read(ENTITY, query, int(times[-1]) + 1)
    return ColdStart(attention, events, encoding + time.perf_counter() - began, 0)


def _encoded(encoder: EventEncoder, frame: pl.DataFrame) -> tuple[Floats, Integers]:
    times = nanoseconds_of(frame["available_at"])
    return event_tokens(encoder.transform(frame), times), times


def _in_pieces(network: AttentionNetwork, tokens: Floats, times: Integers) -> float:
    """Return the seconds that all writes take, from pieces along them."""
    places = np.linspace(0, len(times) - _PIECE, PIECES + 1).astype(int) if len(times) > _PIECE else [0]
    stream = NetworkStream(network)
    stream.write_sequence(ENTITY, tokens[:_PIECE], times[:_PIECE])
    memory, costs = stream.memory(ENTITY), []
    for place in places:
        stream.restore(ENTITY, lengthened(memory, max(int(place), _PIECE)))
        at = times[_PIECE - 1] + np.arange(1, _PIECE + 2)
        # The first finds the cache too small and makes room, which happens a few times in all.
        stream.write_sequence(ENTITY, tokens[:1], at[:1])
        began = time.perf_counter()
        stream.write_sequence(ENTITY, tokens[:_PIECE], at[1:][: len(tokens)])
        costs.append((time.perf_counter() - began) / min(_PIECE, len(tokens)))
    return float(np.trapezoid(costs, places)) + _PIECE * costs[-1]
