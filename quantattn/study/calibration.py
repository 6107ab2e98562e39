"""What a step of each model takes on this machine: a few seconds of measuring before hours of work."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from quantattn.errors import QuantAttnError
from quantattn.forecasters import FittedForecaster, TargetScale
from quantattn.forecasters.baselines import BASELINES, baseline_traits, fit_baseline, make_baseline
from quantattn.forecasters.history import History
from quantattn.forecasters.training import train
from quantattn.pit import EventLog
from quantattn.pit.timestamps import nanoseconds_of, visible_counts
from quantattn.study.preparing import Prepared
from quantattn.walkforward import Fold
from quantattn.walkforward.live import events_for
from quantattn.walkforward.networks import FoldTokens
from quantattn.walkforward.running import Work, baseline_table
from quantattn.walkforward.threads import limited_threads

_VALIDATION = 1 / 3
"""A pass without gradients, as a share of one with them."""


@dataclass(frozen=True)
class Size:
    """How much a side of a fold holds.

    Parameters
    ----------
    tokens : int
        Event and query tokens, over all entities.
    sequences : int
        Entities that have forecasts there.
    """

    tokens: int
    sequences: int

    @property
    def length(self) -> float:
        """Tokens of a sequence, on average."""
        return self.tokens / max(self.sequences, 1)


def side_size(prepared: Prepared, rows: np.ndarray) -> Size:
    """Count the tokens of some samples: their queries, and the events up to the last that each reads."""
    tokens = sequences = 0
    for own in prepared.history.entities.values():
        asked = np.isin(own.rows, rows)
        if asked.any():
            read = visible_counts(own.event_times, own.query_times[asked])
            tokens += int(read.max()) + int(asked.sum())
            sequences += 1
    return Size(tokens, sequences)


def live_calls(prepared: Prepared, rows: np.ndarray) -> int:
    """Count the live calls of a test span: its forecasts, and the raw events behind the first of them."""
    log, _ = events_for(prepared.history, rows)
    first = nanoseconds_of(prepared.history.samples[rows]["forecast_time"]).min()
    before = visible_counts(nanoseconds_of(log.frame["available_at"]), np.array([first]))[0]
    return len(rows) + len(log) - int(before)


@dataclass(frozen=True)
class NetworkCost:
    """What a network takes.

    Parameters
    ----------
    lengths, step_seconds : tuple of float
        Mean length of the sequences of the steps that were measured, ascending, and seconds per token.
    write_seconds : float
        Seconds per event and entity of the history before a test span, which is written at once.
    call_seconds : float
        Seconds of a live call: one raw event, or one forecast, of a single entity.
    encode_seconds : float
        Seconds to encode a fold.
    """

    lengths: tuple[float, ...]
    step_seconds: tuple[float, ...]
    write_seconds: float
    call_seconds: float
    encode_seconds: float

    def per_token(self, length: float) -> float:
        """Give the seconds per token of a training step at a length, between and beyond those measured."""
        if len(self.lengths) < 2 or self.lengths[0] == self.lengths[-1]:
            return self.step_seconds[-1]
        (short, long), (low, high) = self.lengths, self.step_seconds
        slope = (high - low) / (long - short)
        # Below the shortest, a line through two noisy points may end below zero.
        return max(low + slope * (length - short), min(low, high) / 2)

    def training(self, rows: Size, held_out: Size, epochs: int) -> float:
        """Give the seconds of a training of so many epochs."""
        each = rows.tokens * self.per_token(rows.length)
        judged = held_out.tokens * self.per_token(held_out.length) * _VALIDATION
        return epochs * (each + judged)

    def streaming(self, test: Size, calls: int) -> float:
        """Give the seconds of a test span through the streaming forecaster, and of the batch path beside it.

        Parameters
        ----------
        test : Size
            The test side, with the history before it.
        calls : int
            Live calls; see :func:`live_calls`.
        """
        # A market-wide event is one call, and a step for every entity that reads it.
        live = calls * max(self.call_seconds - self.write_seconds, 0.0) + test.tokens * self.write_seconds
        # One of the sequences is forecast in float64 too, at about twice the time.
        compared = (test.tokens + 2 * test.length) * self.per_token(test.length) * _VALIDATION
        return live + compared


def measure_network(
    prepared: Prepared, model: str, tokens: dict[int, FoldTokens], encode: float
) -> NetworkCost:
    """Time one training step of a network in the first and the last fold, and the stream of one entity.

    Parameters
    ----------
    prepared : Prepared
        The study.
    model : str
        ``"linear"`` or ``"softmax"``.
    tokens : dict of int to FoldTokens
        Tokens of the first and the last fold, by index.
    encode : float
        Seconds that encoding a fold took.

    Returns
    -------
    NetworkCost
    """
    settings, target = prepared.settings, prepared.history.samples["y_true"].to_numpy().astype(np.float64)
    network, training = settings.networks[model], replace(settings.training, epochs=1)
    found: list[tuple[float, float]] = []
    with limited_threads(settings.threads):
        for fold in {fold.index: fold for fold in (prepared.folds[0], prepared.folds[-1])}.values():
            sides = sorted(tokens[fold.index].side(fold.train), key=lambda own: len(own.events))
            middle = max(0, (len(sides) - training.batch_entities) // 2)
            batch = sides[middle : middle + training.batch_entities]
            scale = TargetScale.fit(target[fold.train])
            for _ in range(2):  # the first time compiles and warms up
                fitted, log = train(
                    batch, [], scale.apply(target), network=network, training=training, seed=settings.seeds[0]
                )
            found.append((log.tokens / len(batch), log.seconds / log.tokens))
        forecaster = FittedForecaster(
            fitted, tokens[fold.index].encoders, scale, (0.0, 0.0), fold.fit_time, settings.seeds[0]
        )
        stream = _stream_seconds(forecaster, prepared.history, fold)
    found.sort()
    lengths, seconds = zip(*found, strict=True)
    return NetworkCost(lengths, seconds, *stream, encode)


def _stream_seconds(forecaster: FittedForecaster, history: History, fold: Fold) -> tuple[float, float]:
    """Give the seconds per event of one entity's history before a test span, and of a live call within it."""
    owner = history.samples["entity"].to_numpy()[fold.test]
    asked = history.samples[fold.test[owner == owner[0]]].select("entity", "forecast_time")
    log, text = events_for(history, fold.test[owner == owner[0]])
    first = nanoseconds_of(asked["forecast_time"]).min()
    before = int(visible_counts(nanoseconds_of(log.frame["available_at"]), np.array([first]))[0])
    live = forecaster.stream()
    live.warm_up()
    began = time.perf_counter()
    live.update_many(EventLog(log.frame[:before], log.features), text=None if text is None else text[:before])
    written = time.perf_counter()
    live.replay(EventLog(log.frame[before:], log.features), asked, entities=[owner[0]])
    ended = time.perf_counter()
    call = (ended - written) / (len(log) - before + asked.height)
    return (written - began) / before if before else call, call


def measure_baseline(prepared: Prepared, model: str, tokens: dict[int, FoldTokens]) -> float | None:
    """Time a baseline on one entity of the first fold: seconds per row, None if that is too little for it."""
    fold = prepared.folds[0]
    owner = prepared.history.samples["entity"].to_numpy()
    first = owner[fold.train[0]]
    rows, asked = (side[owner[side] == first] for side in (fold.train, fold.test))
    held_out = fold.validation[owner[fold.validation] == first]
    work = Work(prepared.history, prepared.table, prepared.folds, prepared.settings)
    if model not in BASELINES:
        return None
    table = baseline_table(work, baseline_traits(model), fold, lambda chosen: tokens[chosen.index])
    try:
        with limited_threads(prepared.settings.threads):
            started = time.perf_counter()
            fitted = fit_baseline(make_baseline(model, prepared.settings.seeds[0]), table, rows, held_out)
            fitted.predict(table, asked)
            return (time.perf_counter() - started) / len(rows)
    except QuantAttnError:
        return None
