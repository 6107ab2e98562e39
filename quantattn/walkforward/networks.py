"""One network in one fold: encode, train, forecast the test span by replaying the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.fitted import FittedForecaster, TargetScale
from quantattn.forecasters.history import FittedEncoders
from quantattn.forecasters.intervals import residual_interval
from quantattn.forecasters.streaming import StreamingForecaster, catch_up, replay_panel
from quantattn.forecasters.tokens import EntityTokens
from quantattn.forecasters.training import TrainingLog, forecast_batch, train
from quantattn.walkforward.fold import Fold, Rows
from quantattn.walkforward.table import TestForecasts

Tokens = Mapping[str, EntityTokens]


@dataclass(frozen=True)
class FoldTokens:
    """The token sequences of one fold, the same for both twins.

    Parameters
    ----------
    tokens : mapping of str to EntityTokens
        Whole sequences by entity.
    encoders : FittedEncoders
        What they were encoded with.
    """

    tokens: Tokens
    encoders: FittedEncoders

    def side(self, rows: Rows) -> list[EntityTokens]:
        """Give the sequences of some samples: their queries, and the events that these read."""
        chosen = (tokens.select(rows) for tokens in self.tokens.values())
        return [tokens for tokens in chosen if len(tokens.rows)]


def fit_network(
    fold: Fold,
    inputs: FoldTokens,
    target: np.ndarray,
    *,
    network: NetworkConfig,
    training: TrainingConfig,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
) -> tuple[FittedForecaster, TrainingLog]:
    """Train one network on a fold's training side.

    Parameters
    ----------
    fold : Fold
        The fold.
    inputs : FoldTokens
        Its token sequences.
    target : ndarray of float64, shape (n_samples,)
        ``y_true`` by row of the samples frame.
    network, training : NetworkConfig, TrainingConfig
        Sizes, and how to train.
    seed : int
        Of weights and order.
    on_epoch : callable, optional
        Called after each epoch.

    Returns
    -------
    forecaster : FittedForecaster
    log : TrainingLog
    """
    scale = TargetScale.fit(target[fold.train])
    scaled = scale.apply(target)
    held_out = inputs.side(fold.validation)
    model, log = train(
        inputs.side(fold.train),
        held_out,
        scaled,
        network=network,
        training=training,
        seed=seed,
        on_epoch=on_epoch,
    )
    judged = held_out or inputs.side(fold.train)
    forecasts = forecast_batch(model, judged, training.batch_entities)
    rows = np.array(sorted(forecasts), np.int64)
    residuals = target[rows] - scale.invert(np.array([forecasts[row] for row in rows.tolist()]))
    interval = residual_interval(residuals, training.interval)
    return FittedForecaster(model, inputs.encoders, scale, interval, fold.fit_time, seed), log


def _catch_up_all(forecaster: StreamingForecaster, tokens: list[EntityTokens], threads: int) -> list[int]:
    # The kernels release the lock and entities share nothing, so threads change no bit.
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(lambda sequence: catch_up(forecaster, sequence), tokens))


def stream_test(
    forecaster: FittedForecaster, fold: Fold, inputs: FoldTokens, *, threads: int
) -> TestForecasts:
    """Forecast a fold's test span through the streaming path.

    The history before the span is written first; from there on events and forecasts come in the order of
    the clock, one entity at a time, on one thread, and each call is timed.

    Parameters
    ----------
    forecaster : FittedForecaster
        The fold's forecaster.
    fold : Fold
        The fold.
    inputs : FoldTokens
        Its token sequences.
    threads : int
        Threads to write the history before the span with.

    Returns
    -------
    TestForecasts

    Raises
    ------
    ForecasterError
        If a test row has no token sequence.
    DenominatorError
        If a read meets something that is not finite.
    """
    tokens = inputs.side(fold.test)
    stream = forecaster.stream()
    stream.warm_up()
    written = _catch_up_all(stream, tokens, threads)
    result = replay_panel(stream, tokens, written)
    order = np.argsort(result.rows)
    if not np.array_equal(result.rows[order], fold.test):
        missing = np.setdiff1d(fold.test, result.rows)[:3].tolist()
        raise ForecasterError(
            f"fold {fold.index} has {len(fold.test)} test rows and {len(result.rows)} were replayed, missing "
            f"{missing}; read the history of every entity that has test rows"
        )
    return TestForecasts(
        y_pred=forecaster.target.invert(result.forecasts[order]),
        interval=forecaster.interval,
        update_us=result.update_us[order],
        read_us=result.read_us[order],
    )


def training_log(log: TrainingLog) -> dict[str, Any]:
    """Give a training log as JSON values."""
    return {
        "epochs": [
            {
                "epoch": entry.epoch,
                "training_loss": entry.training_loss,
                "validation_loss": entry.validation_loss if np.isfinite(entry.validation_loss) else None,
            }
            for entry in log.epochs
        ],
        "best_epoch": log.best_epoch,
        "tokens": log.tokens,
        "seconds": log.seconds,
    }
