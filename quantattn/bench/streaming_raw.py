"""The way from raw events to forecasts with intervals, as a live process takes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import polars as pl

from quantattn.bench.data_tables import Size, dataset_of, event_pieces, held_in_memory
from quantattn.bench.streaming_calls import no_collection
from quantattn.bench.streaming_cases import random_network
from quantattn.bench.streaming_results import Rate, rate_of
from quantattn.bench.timing import take_turns
from quantattn.forecasters import FittedEncoders, FittedForecaster, StreamingForecaster, TargetScale
from quantattn.forecasters.history import fit_encoders, read_history
from quantattn.pit.timestamps import nanoseconds_of

TEXT_WIDTH = 32
_FITTED_ON = Size(2_000, entities=1, times=50, market=0.0)
_HISTORY = 1_000
"""Events written before forecasts are read."""
_MOST_RUNS = 20
"""Runs of each kind, each on events of its own that are made before."""


def raw_events(number: int) -> pl.DataFrame:
    """Return so many events of one entity with headlines that are all different."""
    return pl.concat(list(event_pieces(Size(number, entities=1, times=1, market=0.0))))


def fitted_encoders() -> FittedEncoders:
    """Return encoders fitted on events like those of :func:`raw_events`."""
    history = read_history(dataset_of(held_in_memory(_FITTED_ON), _FITTED_ON), TEXT_WIDTH)
    cutoff = int(nanoseconds_of(history.samples["label_available_at"])[-1]) + 1
    return fit_encoders(history, cutoff, text_width=TEXT_WIDTH)


def raw_forecaster(width: int) -> FittedForecaster:
    """Return a linear forecaster with drawn weights on those encoders."""
    encoders = fitted_encoders()
    network = random_network("linear", width, encoders.events.width_ + 1, len(encoders.queries.columns_) + 3)
    return FittedForecaster(network, encoders, TargetScale(0.0, 1.0), (-1.0, 1.0), encoders.cutoff, 0)


def raw_rates(width: int, *, events: int, seconds: float) -> tuple[Rate, ...]:
    """Time updates with raw events, with and without headlines, and forecasts; the runs take turns.

    Parameters
    ----------
    width : int
        Of the network.
    events : int
        Of a run.
    seconds : float
        For each kind of run.
    """
    fitted = raw_forecaster(width)
    calls = {
        "update, with a headline": _updates(fitted, events, headline=True),
        "update, without text": _updates(fitted, events, headline=False),
        "forecast": _forecasts(fitted, events),
    }
    with no_collection():
        found = take_turns(calls, seconds=seconds, most=_MOST_RUNS)
    return tuple(rate_of(name, events, run) for name, run in found.items())


def _updates(fitted: FittedForecaster, events: int, *, headline: bool) -> Callable[[], object]:
    stream = StreamingForecaster(fitted)
    stream.warm_up()
    every = _plain(raw_events(events * (_MOST_RUNS + 1)), headline=headline)
    runs = iter([every[first : first + events] for first in range(0, len(every), events)])

    def run() -> None:
        for event in next(runs):
            stream.update(event)

    return run


def _forecasts(fitted: FittedForecaster, events: int) -> Callable[[], object]:
    stream = StreamingForecaster(fitted)
    stream.warm_up()
    written = _plain(raw_events(_HISTORY), headline=True)
    for event in written:
        stream.update(event)
    entity, last = written[-1]["entity"], written[-1]["available_at"]
    ahead = itertools.count(last + 1)

    def run() -> None:
        for at in itertools.islice(ahead, events):
            stream.forecast(entity, at)

    return run


def _plain(frame: pl.DataFrame, *, headline: bool) -> list[dict[str, Any]]:
    """Give events as plain values, as they would come from a line of JSON."""
    whole = frame.with_columns(pl.col("event_time", "available_at").dt.timestamp("ns"))
    return (whole if headline else whole.with_columns(pl.lit(None, pl.String).alias("text"))).to_dicts()
