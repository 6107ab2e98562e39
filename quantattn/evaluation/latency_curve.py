"""Latency of one more event and one more forecast of a network against the length of the history, measured.

This is the network's step alone, tokens in and raw numbers out: the part of a live call that differs between
the twins. The whole call, from the raw event to the forecast, is timed where the test forecasts are made; see
:mod:`~quantattn.evaluation.latency`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quantattn.errors import EvaluationError
from quantattn.evaluation.latency import percentiles
from quantattn.forecasters import EntityTokens, FittedForecaster, NetworkStream

ENTITY = "measured"


DAY = 86_400_000_000_000
LONGEST = 200 * 365 * DAY
"""A repeated history spans at most this long, so that its clock stays within the range of nanoseconds."""


def _endless(tokens: EntityTokens, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Repeat an entity's events, their clock going on from 1970, to `length` events."""
    repeats = -(-length // len(tokens.events))
    gaps = np.tile(np.diff(tokens.event_times, prepend=tokens.event_times[:1] - DAY), repeats)[:length]
    gaps[0] = 0
    # A long history of sparse events runs on a faster clock; the cost of a step does not depend on it.
    faster = 1 + int(sum(gaps.tolist()) // LONGEST)
    return np.tile(tokens.events, (repeats, 1))[:length], np.cumsum(gaps // faster)


def _measure(
    forecaster: FittedForecaster, tokens: EntityTokens, history: int, repeats: int
) -> dict[str, Any]:
    events, times = _endless(tokens, history + 2 * repeats)
    stream: NetworkStream = forecaster.network_stream()
    stream.warm_up()
    started = time.perf_counter()
    stream.write_sequence(ENTITY, events[:history], times[:history])
    cold = time.perf_counter() - started
    updates, reads = [], []
    query = tokens.queries[-1]
    for number in range(2 * repeats):
        at = history + number
        began = time.perf_counter()
        stream.write(ENTITY, events[at], int(times[at]))
        between = time.perf_counter()
        stream.read(ENTITY, query, int(times[at]) + 1)
        ended = time.perf_counter()
        # The first half warms caches and branch predictors.
        if number >= repeats:
            updates.append((between - began) * 1e6)
            reads.append((ended - between) * 1e6)
    return {
        "history": history,
        "update_us": percentiles(updates),
        "read_us": percentiles(reads),
        "cold_start_ms": cold * 1e3,
        "state_bytes": stream.state_bytes(ENTITY),
        "n": repeats,
    }


def latency_curve(
    forecasters: Mapping[str, FittedForecaster],
    tokens: EntityTokens,
    *,
    histories: Sequence[int],
    repeats: int,
    on_point: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure update, read and cold start of each forecaster at each history length.

    One entity, one thread, one event or forecast a call, warmed up; the same events for each forecaster.
    Histories longer than the entity's own repeat it. The cold start writes the encoded history from the
    first event. Encoding an event and assembling as-of features come before both and are not included.

    Parameters
    ----------
    forecasters : mapping of str to FittedForecaster
        By model name.
    tokens : EntityTokens
        An entity's events and at least one query.
    histories : sequence of int
        History lengths in events.
    repeats : int
        Timed updates and reads at each length, after as many untimed ones.
    on_point : callable, optional
        Called after each measured point.

    Returns
    -------
    list of dict
        The ``curve`` of ``latency.json``.

    Raises
    ------
    EvaluationError
        If there is no event or no query, or `histories` or `repeats` hold less than 1.
    """
    if not len(tokens.events) or not len(tokens.queries):
        raise EvaluationError(
            f"{tokens.entity!r} has {len(tokens.events)} events and {len(tokens.queries)} forecasts; latency "
            "needs one of each, so give another entity"
        )
    if min(histories, default=1) < 1 or repeats < 1:
        raise EvaluationError(
            f"histories={list(histories)}, repeats={repeats}: give lengths and repeats from 1"
        )
    curve = []
    for history in histories:
        for model, forecaster in forecasters.items():
            curve.append({"model": model, **_measure(forecaster, tokens, history, repeats)})
            if on_point is not None:
                on_point()
    return curve


def crossover_history(
    curve: Sequence[Mapping[str, Any]], fast: str = "linear", slow: str = "softmax"
) -> int | None:
    """Give the history length from which `fast` is the faster of the two, by median update plus read.

    Parameters
    ----------
    curve : sequence of mapping
        What :func:`latency_curve` gave.
    fast, slow : str
        Model names.

    Returns
    -------
    int or None
        Interpolated between measured lengths on logarithmic axes; the shortest length measured where
        `fast` leads from there on; None where it does not lead at the longest, or one was not measured.
    """

    def totals(model: str) -> dict[int, float]:
        return {
            int(point["history"]): float(point["update_us"]["p50"] + point["read_us"]["p50"])
            for point in curve
            if point["model"] == model and point["update_us"] and point["read_us"]
        }

    one, other = totals(fast), totals(slow)
    lengths = sorted(set(one) & set(other))
    if not lengths or one[lengths[-1]] >= other[lengths[-1]]:
        return None
    behind = [n for n in lengths if one[n] >= other[n]]
    if not behind:
        return lengths[0]
    left = behind[-1]
    right = lengths[lengths.index(left) + 1]
    gap_left, gap_right = math.log(one[left] / other[left]), math.log(one[right] / other[right])
    share = gap_left / (gap_left - gap_right)
    return round(left * math.pow(right / left, share))
