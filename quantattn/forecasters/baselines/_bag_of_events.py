"""Decayed counts of what the visible events were: their kinds and their words, order forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines.sequences import EventSequences
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable
from quantattn.forecasters.tokens import elapsed_days


def visible_kinds(table: SampleTable, sequences: EventSequences, rows: Integers) -> tuple[str, ...]:
    """List the kinds of the events that some rows read, sorted: the vocabulary of a fold.

    Parameters
    ----------
    table : SampleTable
    sequences : EventSequences
    rows : ndarray of int64, shape (m,)
        Training rows.

    Returns
    -------
    tuple of str
    """
    kinds: set[str] = set()
    for entity in table.positions_by_entity(rows):
        own_rows, counts = sequences.counts(entity)
        read = counts[np.isin(own_rows, rows)]
        seen = sequences.own(entity).events["kind"].head(int(read.max(initial=0)))
        kinds.update(seen.cast(pl.String).drop_nulls().unique().to_list())
    return tuple(sorted(kinds))


def decayed_counts(
    table: SampleTable,
    sequences: EventSequences,
    rows: Integers,
    *,
    kinds: Sequence[str],
    words: int,
    half_lives: Sequence[float],
) -> Floats:
    """Give the decayed counts that each forecast sees.

    Column (life, thing) is the sum over the visible events of ``2 ** (-age / life) * x``, the age in days of
    real time at the forecast, and x one for the event's kind, or its text hashed into signed buckets.

    Parameters
    ----------
    table : SampleTable
    sequences : EventSequences
    rows : ndarray of int64, shape (m,)
    kinds : sequence of str
        Kinds that are counted; others are not.
    words : int
        Buckets of hashed words; 0 leaves the text out.
    half_lives : sequence of float
        In days.

    Returns
    -------
    ndarray of float64, shape (m, len(half_lives) * (len(kinds) + words))
        Zeros where nothing is visible.

    Raises
    ------
    ForecasterError
        If there is nothing to count.
    """
    width = len(kinds) + words
    if width == 0:
        raise ForecasterError(
            "words=0, and no training row sees an event with a kind; there is nothing to count"
        )
    lives = np.asarray(half_lives, dtype=np.float64)
    counted = np.zeros((rows.size, lives.size * width))
    for entity, positions in table.positions_by_entity(rows).items():
        at = sequences.queries(entity, rows[positions])
        read = sequences.counts(entity)[1][at]
        things = _things(sequences, entity, int(read.max(initial=0)), kinds, words)
        times = sequences.own(entity).event_times[: len(things)]
        states = _states(things, times, lives, np.unique(read[read > 0]))
        due = sequences.own(entity).query_times[at]
        for position, count, moment in zip(positions.tolist(), read.tolist(), due.tolist(), strict=True):
            if count:
                age = elapsed_days(np.array([moment]), times[count - 1 : count])
                counted[position] = (states[count] * np.exp2(-age / lives)[:, None]).ravel()
    return counted


def _things(sequences: EventSequences, entity: str, count: int, kinds: Sequence[str], words: int) -> Floats:
    """Give what the first `count` events of an entity were, one row each."""
    column = sequences.own(entity).events["kind"].head(count).cast(pl.String)
    one_hot = np.zeros((count, len(kinds)))
    for place, kind in enumerate(kinds):
        one_hot[:, place] = (column == kind).fill_null(value=False).to_numpy()
    if not words:
        return one_hot
    return np.concatenate([one_hot, sequences.words(entity, words)[:count].astype(np.float64)], axis=1)


def _states(things: Floats, times: Integers, lives: Floats, wanted: Integers) -> dict[int, Floats]:
    """Give the decayed sums just after some events, each of shape (lives, width), by number of events."""
    # One event after the other, so that a state has the same bits whatever comes later.
    gaps = elapsed_days(times, np.concatenate([times[:1], times[:-1]]))
    decays = np.exp2(-gaps[:, None] / lives)
    state = np.zeros((lives.size, things.shape[1]))
    kept: dict[int, Floats] = {}
    keep = set(wanted.tolist())
    for number in range(len(things)):
        state *= decays[number][:, None]
        state += things[number]
        if number + 1 in keep:
            kept[number + 1] = state.copy()
    return kept
