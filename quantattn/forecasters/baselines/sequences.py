"""The events behind a sample table, raw and as the tokens of a fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.encoders import HashingTextEncoder, NumericScaler
from quantattn.errors import DataError
from quantattn.forecasters.history import EntityHistory, FittedEncoders, History
from quantattn.forecasters.tokens import EntityTokens
from quantattn.pit.timestamps import nanoseconds_of, visible_counts

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class EventSequences:
    """The sequences of every entity: its own and the market-wide events, in canonical order.

    A forecast of an entity reads exactly the events with ``available_at < forecast_time``, the same as
    the attention networks; :meth:`counts` says how many these are.

    Parameters
    ----------
    entities : mapping of str to EntityHistory
        Raw events and forecasts of each entity; nothing in them is fitted.
    features : tuple of str
        Numeric features of the events, in the order of the as-of columns.
    tokens : mapping of str to EntityTokens, optional
        The same as tokens, under encoders that were fitted inside the fold.
    scaler : NumericScaler, optional
        What scaled the as-of features of these tokens; windows scale their own with it.
    """

    entities: Mapping[str, EntityHistory]
    features: tuple[str, ...]
    tokens: Mapping[str, EntityTokens] | None = None
    scaler: NumericScaler | None = None
    _words: dict[tuple[str, int], Words] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, history: History) -> EventSequences:
        """Take the sequences of a history.

        Parameters
        ----------
        history : History
            All sequences.

        Returns
        -------
        EventSequences
            Without tokens.
        """
        return cls(history.entities, history.features)

    def with_tokens(self, tokens: Mapping[str, EntityTokens], encoders: FittedEncoders) -> EventSequences:
        """Give the same sequences with the tokens of a fold.

        Parameters
        ----------
        tokens : mapping of str to EntityTokens
            What ``encode(history, encoders)`` gave.
        encoders : FittedEncoders
            The fold's encoders.

        Returns
        -------
        EventSequences
            Shares the hashed words with this one.
        """
        return replace(self, tokens=tokens, scaler=encoders.queries)

    def own(self, entity: str) -> EntityHistory:
        """Give the events of an entity that has samples.

        Raises
        ------
        DataError
            If there are none.
        """
        if entity not in self.entities:
            raise DataError(
                f"sequences hold no events of {entity!r}, which has samples; read the history of every entity"
            )
        return self.entities[entity]

    def tokens_of(self, entity: str) -> EntityTokens:
        """Give the tokens of an entity that has samples.

        Raises
        ------
        DataError
            If there are none.
        """
        if self.tokens is None or entity not in self.tokens:
            raise DataError(
                f"sequences hold no tokens of {entity!r}, which has samples; encode every entity of the fold"
            )
        return self.tokens[entity]

    def counts(self, entity: str) -> tuple[Integers, Integers]:
        """Say how many leading events each forecast of an entity reads.

        Parameters
        ----------
        entity : str
            The entity.

        Returns
        -------
        rows, counts : ndarray of int64, shape (m,)
            Rows of the samples frame, and the number of events with ``available_at`` strictly before the
            forecast time of each.
        """
        own = self.own(entity)
        return own.rows, visible_counts(own.event_times, own.query_times)

    def queries(self, entity: str, rows: Integers) -> Integers:
        """Find the forecasts of some rows in an entity's sequence.

        Parameters
        ----------
        entity : str
            The entity.
        rows : ndarray of int64, shape (m,)
            Rows of its samples, in any order.

        Returns
        -------
        ndarray of int64, shape (m,)
            Places in ``own(entity).rows``.
        """
        own_rows = self.own(entity).rows
        order = np.argsort(own_rows, kind="stable")
        places: Integers = order[np.searchsorted(own_rows[order], rows)]
        return places

    def words(self, entity: str, width: int) -> Words:
        """Hash the single words of an entity's events; nothing is learned, so it is done once for all folds.

        Parameters
        ----------
        entity : str
            The entity.
        width : int
            Signed buckets, at least 1.

        Returns
        -------
        ndarray of float32, shape (n, width)
            As :class:`~quantattn.encoders.HashingTextEncoder` gives them: unit length, zero without words.
        """
        key = (entity, width)
        if key not in self._words:
            texts = self.own(entity).events["text"]
            self._words[key] = HashingTextEncoder(width, (1, 1)).transform(texts)
        return self._words[key]

    def check(self, samples: pl.DataFrame) -> None:
        """Refuse sequences whose forecasts are not those of the samples.

        Parameters
        ----------
        samples : polars.DataFrame
            With ``entity`` and ``forecast_time``.

        Raises
        ------
        DataError
            If a row of a sequence is outside the samples, or of another entity or time, or one is missing.
        """
        times = nanoseconds_of(samples["forecast_time"])
        groups = samples.select("entity").with_row_index("row").partition_by("entity", as_dict=True)
        members = {str(key[0]): part["row"].to_numpy() for key, part in groups.items()}
        for entity, own in self.entities.items():
            expected = members.get(entity, np.empty(0, np.int64))
            if not np.array_equal(np.sort(own.rows), expected) or not np.array_equal(
                times[own.rows], own.query_times
            ):
                raise DataError(
                    f"sequences of {entity!r} name rows that are not its samples; read the history and the "
                    "samples from the same dataset"
                )
        for entity, tokens in (self.tokens or {}).items():
            known = self.entities.get(entity)
            if known is None or not (
                np.array_equal(known.rows, tokens.rows)
                and np.array_equal(known.event_times, tokens.event_times)
            ):
                raise DataError(
                    f"tokens of {entity!r} are not those of its events; encode the same history that the "
                    "sequences come from"
                )
