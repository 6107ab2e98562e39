"""Truncated windows: the last events only, and the information sets that this makes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import DataError
from quantattn.forecasters.baselines.sequences import EventSequences
from quantattn.forecasters.baselines.table import Integers, SampleTable
from quantattn.forecasters.tokens import ELAPSED_WIDTH, SEASON_WIDTH, EntityTokens, Floats
from quantattn.pit.dataset.hashing import InformationHash, event_digests
from quantattn.pit.timestamps import TIME, instants


def windowed_information(table: SampleTable, rows: Integers, window: int) -> pl.DataFrame:
    """Name the information sets of a model that reads the last `window` visible events.

    Parameters
    ----------
    table : SampleTable
        With sequences.
    rows : ndarray of int64, shape (m,)
        Positions in its samples.
    window : int
        Events, at least 1.

    Returns
    -------
    polars.DataFrame, m rows
        ``n_visible``, ``max_available_at`` and ``info_hash`` as in the samples of a dataset, over the window
        alone; the hash equals the dataset's where the window holds the whole history.

    Raises
    ------
    DataError
        If the table has no sequences or lacks an entity's or a row, or the window is no count from 1.
    """
    rows = table.rows(rows)
    whole = isinstance(window, int | np.integer) and not isinstance(window, bool)
    if table.sequences is None or not whole or window < 1:
        raise DataError(
            f"window={window!r} over sequences={table.sequences!r}: give a table with the events behind its "
            "samples, and a window of at least one event"
        )
    n_visible = np.zeros(rows.size, np.int64)
    newest = np.zeros(rows.size, np.int64)
    names = [""] * rows.size
    for entity, positions in table.positions_by_entity(rows).items():
        own = table.sequences.own(entity)
        counts = table.sequences.counts(entity)[1][table.sequences.queries(entity, rows[positions])]
        digests = event_digests(own.events.head(int(counts.max(initial=0))), table.sequences.features)
        for position, count in zip(positions.tolist(), counts.tolist(), strict=True):
            first = max(0, count - window)
            running = InformationHash()
            running.update(digests[first:count])
            names[position] = running.hexdigest()
            n_visible[position] = count - first
            newest[position] = own.event_times[count - 1] if count else 0
    last = pl.when(pl.Series(n_visible > 0)).then(instants(newest))
    return pl.DataFrame({"n_visible": n_visible}).with_columns(
        last.cast(TIME).alias("max_available_at"), pl.Series("info_hash", names, dtype=pl.String)
    )


def windowed_tokens(
    sequences: EventSequences, entity: str, rows: Integers, window: int
) -> list[EntityTokens]:
    """Give a sequence of its own to each forecast, with the last `window` events that it reads.

    Nothing older is left in it: the first event has no time since the one before, and the as-of features
    are those of the window alone.

    Parameters
    ----------
    sequences : EventSequences
        With tokens.
    entity : str
        The entity.
    rows : ndarray of int64, shape (m,)
        Rows of its samples.
    window : int
        Events, at least 1.

    Returns
    -------
    list of EntityTokens, length m
        Each with one query.

    Raises
    ------
    DataError
        If the sequences have no tokens of the entity, or no scaler.
    """
    tokens = sequences.tokens_of(entity)
    places = sequences.queries(entity, rows)
    counts = tokens.counts[places]
    firsts = np.maximum(counts - window, 0)
    features = _windowed_features(sequences, entity, firsts, counts)
    rest = tokens.queries[places, -(ELAPSED_WIDTH + SEASON_WIDTH) :]
    queries = np.concatenate([features, rest], axis=1)
    windows = []
    for number, (place, first, count) in enumerate(
        zip(places.tolist(), firsts.tolist(), counts.tolist(), strict=True)
    ):
        events = tokens.events[first:count].copy()
        events[:1, -ELAPSED_WIDTH:] = 0.0
        windows.append(
            EntityTokens(
                entity=entity,
                events=events,
                event_times=tokens.event_times[first:count],
                queries=queries[number : number + 1],
                query_times=tokens.query_times[place : place + 1],
                counts=np.array([count - first]),
                rows=tokens.rows[place : place + 1],
            )
        )
    return windows


def _windowed_features(sequences: EventSequences, entity: str, firsts: Integers, counts: Integers) -> Floats:
    """Give scaled as-of features of windows ``[firsts[i], counts[i])``, shape (m, features).

    As in a dataset: the value in the entity's own last event that has it; failing that, in the market's.
    """
    if sequences.scaler is None:
        raise DataError(
            f"sequences hold tokens of {entity!r} and no scaler; give with_tokens(tokens, encoders)"
        )
    events = sequences.own(entity).events
    own = events["entity"].is_not_null().to_numpy()
    columns = {}
    for name in sequences.features:
        there = events[name].is_not_null().to_numpy()
        values = events[name].fill_null(0.0).to_numpy()
        of_own, of_market = (_last(there & side, firsts, counts) for side in (own, ~own))
        source = np.where(of_own >= 0, of_own, of_market)
        column = values[np.maximum(source, 0)] if values.size else np.zeros(source.size)
        columns[f"asof_{name}"] = pl.Series(column).set(pl.Series(source < 0), None)
    return sequences.scaler.transform(pl.DataFrame(columns))


def _last(there: npt.NDArray[np.bool_], firsts: Integers, counts: Integers) -> Integers:
    """Give the last true place in each stretch ``[first, count)``; -1 where there is none."""
    places = np.where(there, np.arange(there.size), -1)
    last = np.concatenate([[-1], np.maximum.accumulate(places)])[counts]
    return np.where(last >= firsts, last, -1)
