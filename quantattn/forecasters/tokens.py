"""Event and query tokens of one entity: what a network reads, as plain arrays.

An event token is the encoded event and the time since the event before it. A query token is the
as-of features of its forecast, the season, and the time since the last visible event. Query tokens
never write, so the order of the two kinds is kept as a count: query i reads the first ``counts[i]``
events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quantattn.errors import ForecasterError
from quantattn.forecasters import _token_kernels as kernels
from quantattn.forecasters.config import DECAY_CAP
from quantattn.pit.timestamps import iso, visible_counts

Floats = npt.NDArray[np.float32]
Clock = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NANOSECONDS_PER_DAY = 86_400_000_000_000
ELAPSED_WIDTH = 1
SEASON_WIDTH = 2


@dataclass(frozen=True)
class EntityTokens:
    """The tokens of one entity in time order.

    Parameters
    ----------
    entity : str
        The entity.
    events : ndarray of float32, shape (n, event_width)
        Event tokens in canonical order.
    event_times : ndarray of int64, shape (n,)
        ``available_at`` in nanoseconds since the epoch, UTC.
    queries : ndarray of float32, shape (m, query_width)
        Query tokens by forecast time.
    query_times : ndarray of int64, shape (m,)
        ``forecast_time`` in nanoseconds since the epoch, UTC.
    counts : ndarray of int64, shape (m,)
        How many leading events each query reads.
    rows : ndarray of int64, shape (m,)
        Row of each query in the samples frame.
    """

    entity: str
    events: Floats
    event_times: Integers
    queries: Floats
    query_times: Integers
    counts: Integers
    rows: Integers

    def select(self, rows: Integers) -> EntityTokens:
        """Keep the queries of some samples, and the events up to the last that any of them reads.

        Parameters
        ----------
        rows : ndarray of int64
            Rows of the samples frame; those of other entities are ignored.

        Returns
        -------
        EntityTokens
        """
        keep = np.isin(self.rows, rows)
        end = int(self.counts[keep].max()) if keep.any() else 0
        return EntityTokens(
            entity=self.entity,
            events=self.events[:end],
            event_times=self.event_times[:end],
            queries=self.queries[keep],
            query_times=self.query_times[keep],
            counts=self.counts[keep],
            rows=self.rows[keep],
        )


def elapsed_days(times: Integers, previous: Integers) -> Clock:
    """Give the time from `previous` to `times` in days, exactly rounded from nanoseconds."""
    return (times - previous).astype(np.float64) / NANOSECONDS_PER_DAY


def elapsed_feature(days: Clock) -> Floats:
    """Encode an elapsed time: ``log(1 + hours) / 5``, near 1 for a week; shape (n, 1)."""
    encoded = np.empty((len(days), 1), np.float32)
    kernels.elapsed_rows(np.ascontiguousarray(days, np.float64), encoded[:, 0])
    return encoded


def season_feature(times: Integers) -> Floats:
    """Encode the season: sine and cosine of the year's phase (365.2425 days); shape (n, 2)."""
    encoded = np.empty((len(times), 2), np.float32)
    kernels.season_rows(np.ascontiguousarray(times, np.int64), encoded)
    return encoded


def event_tokens(encoded: Floats, times: Integers) -> Floats:
    """Append the elapsed-time encoding to encoded events.

    Parameters
    ----------
    encoded : ndarray of float32, shape (n, k)
        Encoder output, in canonical order.
    times : ndarray of int64, shape (n,)
        ``available_at``; nondecreasing.

    Returns
    -------
    ndarray of float32, shape (n, k + 1)
        The first event's elapsed time is zero.
    """
    previous = np.concatenate([times[:1], times[:-1]])
    return np.concatenate([encoded, elapsed_feature(elapsed_days(times, previous))], axis=1)


def query_tokens(features: Floats, times: Integers, last_event: Integers) -> Floats:
    """Append the elapsed-time and season encodings to scaled as-of features.

    Parameters
    ----------
    features : ndarray of float32, shape (m, k)
        Scaled as-of features.
    times, last_event : ndarray of int64, shape (m,)
        Forecast times, and the last visible event's ``available_at`` (the forecast time itself where
        nothing is visible).

    Returns
    -------
    ndarray of float32, shape (m, k + 3)
    """
    elapsed = elapsed_feature(elapsed_days(times, last_event))
    return np.concatenate([features, elapsed, season_feature(times)], axis=1)


def entity_tokens(
    entity: str,
    *,
    encoded: Floats,
    event_times: Integers,
    features: Floats,
    query_times: Integers,
    rows: Integers,
) -> EntityTokens:
    """Build the tokens of one entity.

    Parameters
    ----------
    entity : str
        The entity.
    encoded : ndarray of float32, shape (n, k)
        Encoded events in canonical order.
    event_times : ndarray of int64, shape (n,)
        Their ``available_at``.
    features : ndarray of float32, shape (m, q)
        Scaled as-of features of its samples, by forecast time.
    query_times, rows : ndarray of int64, shape (m,)
        Forecast times, nondecreasing, and rows in the samples frame.

    Returns
    -------
    EntityTokens

    Raises
    ------
    ForecasterError
        If a token is not finite, or forecasts are not in order of time.
    TimestampError
        If events are not in order of time.
    """
    backwards = np.flatnonzero(query_times[1:] < query_times[:-1])
    if len(backwards):
        raise ForecasterError(
            f"forecasts of {entity!r} go back in time in row {int(backwards[0]) + 1} "
            f"({iso(int(query_times[backwards[0] + 1]))}); sort the samples by forecast_time"
        )
    counts = visible_counts(event_times, query_times)
    last = (
        np.where(counts > 0, event_times[np.maximum(counts - 1, 0)], query_times)
        if len(event_times)
        else query_times
    )
    tokens = EntityTokens(
        entity=entity,
        events=event_tokens(encoded, event_times),
        event_times=event_times,
        queries=query_tokens(features, query_times, last),
        query_times=query_times,
        counts=counts,
        rows=rows,
    )
    for name, values in (("event", tokens.events), ("query", tokens.queries)):
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise ForecasterError(
                f"{name} tokens of {entity!r} are not finite in rows {np.flatnonzero(bad)[:3].tolist()}; "
                "check the features of those events"
            )
    return tokens


def decay_steps(days: Clock, half_lives: tuple[float | None, ...]) -> Clock:
    """Give how many half-lives each elapsed time takes off in each head, capped.

    Parameters
    ----------
    days : ndarray of float64, shape (n,)
        Elapsed days, nonnegative.
    half_lives : tuple of float or None, length H
        Days; None is no decay.

    Returns
    -------
    ndarray of float64, shape (n, H)
        At most :data:`~quantattn.forecasters.config.DECAY_CAP`.
    """
    rates = np.array([0.0 if h is None else 1.0 / h for h in half_lives])
    capped: Clock = np.minimum(days[:, None] * rates, DECAY_CAP)
    return capped


def total_queries(tokens: Mapping[str, EntityTokens]) -> int:
    """Count the queries of all entities."""
    return sum(len(t.rows) for t in tokens.values())
