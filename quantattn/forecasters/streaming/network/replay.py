"""Replay of tokens through a network's stream, timed while it is made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quantattn.forecasters.streaming.network.stream import NetworkStream
from quantattn.forecasters.tokens import EntityTokens


@dataclass(frozen=True)
class Replay:
    """Forecasts and the latencies that they had.

    Parameters
    ----------
    rows : ndarray of int64, shape (m,)
        Rows of the samples frame.
    forecasts : ndarray of float64, shape (m,) or (m, outputs)
        In units of the scaled target; the raw numbers of a head that has more than one.
    update_us : ndarray of float64, shape (m,)
        Mean time to write one event, over the events since the forecast before; NaN where there were none.
    read_us : ndarray of float64, shape (m,)
        Time to read the forecast.
    """

    rows: npt.NDArray[np.int64]
    forecasts: npt.NDArray[np.float64]
    update_us: npt.NDArray[np.float64]
    read_us: npt.NDArray[np.float64]


def catch_up(stream: NetworkStream, tokens: EntityTokens) -> int:
    """Write what an entity's first query reads, up to its last event but one, untimed.

    Parameters
    ----------
    stream : NetworkStream
        Must not have seen the entity before.
    tokens : EntityTokens
        Events from the beginning of the history, and the queries wanted.

    Returns
    -------
    int
        How many events were written; at least one is left for :func:`replay` to time.
    """
    written = max(0, int(tokens.counts[0]) - 1) if len(tokens.counts) else 0
    stream.write_sequence(tokens.entity, tokens.events[:written], tokens.event_times[:written])
    return written


def replay_panel(stream: NetworkStream, sequences: Sequence[EntityTokens], written: Sequence[int]) -> Replay:
    """Replay several entities in the order of the clock, forecasting at every query.

    Before each forecast the entity's events that became visible since its last one are written. At equal
    forecast times entities come in the order given.

    Parameters
    ----------
    stream : NetworkStream
        Has seen the first `written` events of each entity and no more.
    sequences : sequence of EntityTokens
        Events from the beginning of the history, and the queries wanted; distinct entities.
    written : sequence of int
        What :func:`catch_up` gave for each; zeros where nothing was written.

    Returns
    -------
    Replay
        In the order of the replay. Microseconds are wall time of the calls that a live caller would make.
    """
    due = sorted(
        (int(at), place, query)
        for place, tokens in enumerate(sequences)
        for query, at in enumerate(tokens.query_times)
    )
    size = len(due)
    rows = np.empty(size, np.int64)
    several = stream.n_outputs > 1
    forecasts = np.empty((size, stream.n_outputs) if several else size)
    read_us = np.empty(size)
    update_us = np.full(size, np.nan)
    seen = list(written)
    clock = time.perf_counter
    for i, (at, place, query) in enumerate(due):
        tokens = sequences[place]
        first, count = seen[place], int(tokens.counts[query])
        if count > first:
            started = clock()
            for event in range(first, count):
                stream.write(tokens.entity, tokens.events[event], int(tokens.event_times[event]))
            update_us[i] = (clock() - started) * 1e6 / (count - first)
            seen[place] = count
        started = clock()
        read = stream.read(tokens.entity, tokens.queries[query], at)
        read_us[i] = (clock() - started) * 1e6
        forecasts[i] = read if several else read[0]
        rows[i] = tokens.rows[query]
    return Replay(rows, forecasts, update_us, read_us)


def replay(stream: NetworkStream, tokens: EntityTokens, written: int = 0) -> Replay:
    """Replay one entity: :func:`replay_panel` of a single sequence."""
    return replay_panel(stream, [tokens], [written])
