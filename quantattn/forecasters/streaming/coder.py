"""From one raw event to its token, and from as-of values to a query token: the encoders of a fold, live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.encoders import HashingTextEncoder, NumericScaler
from quantattn.encoders.text import TextHasher
from quantattn.errors import CheckpointError, EventDataError
from quantattn.forecasters import _token_kernels as kernels
from quantattn.forecasters.history import AS_OF_PREFIX, FittedEncoders
from quantattn.forecasters.streaming.events.event import Event, nearest

if TYPE_CHECKING:
    from quantattn.forecasters.tokens import Clock, Floats, Integers

APPENDED = 1
"""Columns of an event token behind the encoder's: the elapsed time."""


class EventCoder:
    """Codes events and queries one at a time, bit for bit as the encoders code a table.

    Parameters
    ----------
    encoders : FittedEncoders
        What a network was trained with.

    Raises
    ------
    CheckpointError
        If the queries were scaled from something else than the as-of values of the events' features.
    """

    def __init__(self, encoders: FittedEncoders) -> None:
        events = self._events = encoders.events
        self.features = events.features_
        self.event_width = events.width_ + APPENDED
        self._places = {name: place for place, name in enumerate(self.features)}
        self._values = np.empty(len(self.features))
        self._scales, self._clip = _scales_of(events.scaler_)
        first = events.text_width + len(self.features)
        self._kinds = {kind: first + place for place, kind in enumerate(events.kinds_)}
        self.text_width = events.text_width
        self._text = None
        if events.text_width:
            self._text = TextHasher(HashingTextEncoder(events.text_width, events.ngram_range))
        self._no_text = np.zeros(0, np.float32)
        self._query_scales, self._query_clip = _scales_of(encoders.queries)
        self._query_places = _query_places(encoders.queries.columns_, self._places)

    def refuse_unknown(self, event: Event) -> None:
        """Refuse an event with a feature that the encoders do not know.

        Raises
        ------
        EventDataError
            Offering the nearest names.
        """
        if not event.features.keys() <= self._places.keys():
            name = next(name for name in event.features if name not in self._places)
            raise EventDataError(
                f"event {event.event_id!r} has the feature {name!r}, which the encoders were not fitted on"
                f"{nearest(name, self.features)}; they know {', '.join(self.features) or 'none'}"
            )

    def event(self, event: Event, before: int) -> Floats:
        """Code one event.

        Parameters
        ----------
        event : Event
            The event; its features are known.
        before : int
            When the event before it in its sequence became available; its own instant for the first.

        Returns
        -------
        ndarray of float32, shape (event_width,)
        """
        values = self._values
        values.fill(np.nan)
        for name, value in event.features.items():
            values[self._places[name]] = value
        token = np.empty(self.event_width, np.float32)
        kernels.event_row(
            self._no_text if self._text is None else self._text(event.text),
            values,
            self._scales,
            self._clip,
            self._kinds.get(event.kind, -1),
            event.available_at,
            before,
            token,
        )
        return token

    def for_each(self, token: Floats, at: int, before: Integers) -> Floats:
        """Give an event's token for n entities, by when the event before it became available to each."""
        tokens = np.empty((len(before), self.event_width), np.float32)
        kernels.event_row_for_each(token, at, before, tokens)
        return tokens

    def encoded(self, frame: pl.DataFrame, text: Floats | None = None) -> Floats:
        """Code the rows of an event log's frame, all but the elapsed time; shape (n, event_width - 1).

        Parameters
        ----------
        frame : polars.DataFrame
            With ``kind``, ``text`` and the features.
        text : ndarray of float32, shape (n, text_width), optional
            Its hashed text, if that is at hand.
        """
        return self._events.transform(frame, text=text)

    def queries(self, values: Clock, at: int, before: Integers) -> Floats:
        """Code queries of one forecast time.

        Parameters
        ----------
        values : ndarray of float64, shape (n, k)
            As-of values of :attr:`features`, in their order; NaN where there is none.
        at : int
            The forecast time.
        before : ndarray of int64, shape (n,)
            When the last visible event became available; the forecast time where nothing is visible.

        Returns
        -------
        ndarray of float32, shape (n, query_width)
        """
        if self._query_places is not None:
            values = values[:, self._query_places]
        tokens = np.empty((values.shape[0], values.shape[1] + 3), np.float32)
        kernels.query_rows(values, self._query_scales, self._query_clip, at, before, tokens)
        return tokens


def sequence_tokens(encoded: Floats, times: Integers, before: int | None) -> Floats:
    """Append the elapsed time to coded events of one sequence.

    Parameters
    ----------
    encoded : ndarray of float32, shape (n, k)
        Coded events in canonical order.
    times : ndarray of int64, shape (n,)
        Their ``available_at``.
    before : int or None
        When the event before them became available; None if there is none.

    Returns
    -------
    ndarray of float32, shape (n, k + 1)
    """
    previous = np.empty_like(times)
    previous[:1] = times[:1] if before is None else before
    previous[1:] = times[:-1]
    return tokens_since(encoded, times, previous)


def tokens_since(encoded: Floats, times: Integers, before: Integers) -> Floats:
    """Append the elapsed time to coded events, whatever sequences they belong to.

    Parameters
    ----------
    encoded : ndarray of float32, shape (n, k)
        Coded events.
    times : ndarray of int64, shape (n,)
        Their ``available_at``.
    before : ndarray of int64, shape (n,)
        When the event before each in its sequence became available; its own instant for a first one.

    Returns
    -------
    ndarray of float32, shape (n, k + 1)
    """
    tokens = np.empty((len(encoded), encoded.shape[1] + APPENDED), np.float32)
    tokens[:, :-APPENDED] = encoded
    kernels.elapsed_since(times, before, tokens[:, -1])
    return tokens


def _scales_of(scaler: NumericScaler) -> tuple[npt.NDArray[np.float64], float]:
    return np.stack([scaler.mean_, scaler.scale_]), float(scaler.clip)


def _query_places(columns: tuple[str, ...], places: dict[str, int]) -> Integers | None:
    """Give the feature that each query column is the as-of value of; None where they stand in order."""
    odd = [
        name for name in columns if name.removeprefix(AS_OF_PREFIX) not in places or AS_OF_PREFIX not in name
    ]
    if odd:
        raise CheckpointError(
            f"the query scaler was fitted on {odd[:3]}, which are no as-of values of the events' features "
            f"{list(places)}; fit the forecaster on read_history(dataset, ...)"
        )
    found = [places[name.removeprefix(AS_OF_PREFIX)] for name in columns]
    return None if found == list(range(len(places))) else np.array(found, np.int64)
