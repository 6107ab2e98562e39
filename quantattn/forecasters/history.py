"""From a point-in-time dataset to the token sequences of a fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from quantattn.encoders import EventEncoder, NumericScaler
from quantattn.forecasters.tokens import EntityTokens, Floats, Integers, entity_tokens
from quantattn.pit import PointInTimeDataset
from quantattn.pit.dataset.point_in_time import Scope
from quantattn.pit.timestamps import instants, is_visible, nanoseconds_of

AS_OF_PREFIX = "asof_"


@dataclass(frozen=True)
class EntityHistory:
    """The raw sequence of one entity: nothing in it is fitted.

    Parameters
    ----------
    events : polars.DataFrame
        Its own and the market-wide events in canonical order.
    event_times : ndarray of int64, shape (n,)
        ``available_at`` in nanoseconds since the epoch, UTC.
    text : ndarray of float32, shape (n, text_width)
        Hashed text.
    rows : ndarray of int64, shape (m,)
        Its rows of the samples frame, by forecast time.
    query_times : ndarray of int64, shape (m,)
        Their forecast times.
    """

    events: pl.DataFrame
    event_times: Integers
    text: Floats
    rows: Integers
    query_times: Integers


@dataclass(frozen=True)
class History:
    """What every fold starts from.

    Parameters
    ----------
    samples : polars.DataFrame
        The dataset's samples.
    as_of : polars.DataFrame
        As-of features, aligned with `samples`.
    events : polars.DataFrame
        All events of the dataset in canonical order.
    features : tuple of str
        Names of the events' numeric features.
    entities : dict of str to EntityHistory
        By entity.
    scope : {"entity+market", "entity", "market"}
        Which events the sequences hold: the entity's own, the market-wide ones, or both.
    """

    samples: pl.DataFrame
    as_of: pl.DataFrame
    events: pl.DataFrame
    features: tuple[str, ...]
    entities: dict[str, EntityHistory]
    scope: Scope = "entity+market"

    @property
    def as_of_columns(self) -> tuple[str, ...]:
        """Names of the as-of features."""
        return tuple(name for name in self.as_of.columns if name.startswith(AS_OF_PREFIX))


def read_history(
    dataset: PointInTimeDataset, text_width: int, entities: tuple[str, ...] | None = None
) -> History:
    """Read the sequences of a dataset and hash their text.

    Parameters
    ----------
    dataset : PointInTimeDataset
        The dataset.
    text_width : int
        Width of the hashed text; 0 for none.
    entities : tuple of str, optional
        Only these; all of the dataset's by default.

    Returns
    -------
    History
    """
    samples = dataset.samples
    hashing = EventEncoder(text_width=text_width)
    times = nanoseconds_of(samples["forecast_time"])
    owner = samples["entity"].to_numpy()
    histories = {}
    for entity in entities if entities is not None else dataset.entities:
        sequence = dataset.event_sequence(entity)
        rows = np.flatnonzero(owner == entity).astype(np.int64)
        histories[entity] = EntityHistory(
            events=sequence,
            event_times=nanoseconds_of(sequence["available_at"]),
            text=hashing.encode_text(sequence),
            rows=rows,
            query_times=times[rows],
        )
    return History(
        samples,
        dataset.as_of_features(),
        dataset.events.frame,
        dataset.events.features,
        histories,
        dataset.scope,
    )


@dataclass(frozen=True)
class FittedEncoders:
    """The encoders of one fold: both fitted on what was visible before `cutoff` alone.

    Parameters
    ----------
    events : EventEncoder
        Encodes event tokens.
    queries : NumericScaler
        Scales as-of features.
    cutoff : int
        Nanoseconds since the epoch, UTC; only what was available strictly before it was seen.
    scope : {"entity+market", "entity", "market"}
        Which events the sequences hold that they encode.
    """

    events: EventEncoder
    queries: NumericScaler
    cutoff: int
    scope: Scope = "entity+market"


def fit_encoders(history: History, cutoff: int, *, text_width: int) -> FittedEncoders:
    """Fit a fold's encoders.

    Parameters
    ----------
    history : History
        All sequences; what was not available before `cutoff` is not looked at.
    cutoff : int
        The fold's first validation forecast (or its first test forecast where there is no validation),
        nanoseconds since the epoch, UTC.
    text_width : int
        Width of the hashed text.

    Returns
    -------
    FittedEncoders

    Raises
    ------
    EncoderError
        If no event, or no sample that saw one, lies before the cutoff.
    """
    events = EventEncoder(text_width=text_width).fit(history.events, history.features, cutoff)
    # A sample exists once its target could be measured, so those whose targets reach past the cutoff would
    # tell which bars there will be.
    known = history.as_of.with_columns(
        history.samples["max_available_at"].alias("available_at"), history.samples["label_available_at"]
    ).filter(
        pl.col("available_at").is_not_null(),
        is_visible(pl.col("label_available_at"), pl.lit(instants([cutoff])).first()),
    )
    queries = NumericScaler().fit(known, history.as_of_columns, cutoff)
    return FittedEncoders(events, queries, cutoff, history.scope)


def encode(history: History, encoders: FittedEncoders) -> dict[str, EntityTokens]:
    """Give the tokens of every entity under a fold's encoders.

    Parameters
    ----------
    history : History
        All sequences.
    encoders : FittedEncoders
        The fold's encoders.

    Returns
    -------
    dict of str to EntityTokens
    """
    queries = encoders.queries.transform(history.as_of)
    return {
        entity: entity_tokens(
            entity,
            encoded=encoders.events.transform(own.events, text=own.text),
            event_times=own.event_times,
            features=queries[own.rows],
            query_times=own.query_times,
            rows=own.rows,
        )
        for entity, own in history.entities.items()
    }
