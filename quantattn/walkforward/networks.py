"""One network in one fold: encode and train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.fitted import FittedForecaster, TargetScale
from quantattn.forecasters.history import FittedEncoders, History, encode, fit_encoders
from quantattn.forecasters.intervals import residual_interval
from quantattn.forecasters.tokens import EntityTokens
from quantattn.forecasters.training import TrainingLog, forecast_batch, train
from quantattn.walkforward.fold import Fold, Rows

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


def fold_tokens(history: History, fold: Fold, text_width: int) -> FoldTokens:
    """Encode a fold's sequences with encoders fitted on what its training cutoff had seen.

    Parameters
    ----------
    history : History
        All sequences.
    fold : Fold
        The fold.
    text_width : int
        Width of the hashed text.

    Returns
    -------
    FoldTokens
    """
    # The cutoff is the first validation (or test) forecast; only what is visible at it is fitted on.
    encoders = fit_encoders(history, fold.validation_time + 1, text_width=text_width)
    return FoldTokens(encode(history, encoders), encoders)


def warm_weights(before: FittedForecaster, encoders: FittedEncoders) -> dict[str, Tensor]:
    """Give the weights of a network as a start for the next fold's, whose tokens may have other columns.

    Parameters
    ----------
    before : FittedForecaster
        Of the fold before.
    encoders : FittedEncoders
        Of the fold that begins from it.

    Returns
    -------
    dict of str to Tensor
        Kinds of event that the fold before had not seen begin at zero, so that they change nothing yet.
    """
    weights = {name: value.clone() for name, value in before.network.state_dict().items()}
    old, new = before.encoders.events.column_names_, encoders.events.column_names_
    if old != new:
        seen = weights["event_embedding.weight"]
        # Behind the encoder's columns stand those that tokens append themselves.
        appended = seen.shape[1] - len(old)
        placed = torch.zeros(seen.shape[0], len(new) + appended)
        for position, name in enumerate(new):
            if name in old:
                placed[:, position] = seen[:, old.index(name)]
        placed[:, len(new) :] = seen[:, len(old) :]
        weights["event_embedding.weight"] = placed
    return weights


def fit_network(
    fold: Fold,
    inputs: FoldTokens,
    target: np.ndarray,
    *,
    network: NetworkConfig,
    training: TrainingConfig,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
    before: FittedForecaster | None = None,
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
    before : FittedForecaster, optional
        The forecaster of the fold before, from whose weights to begin; fresh ones by default.

    Returns
    -------
    forecaster : FittedForecaster
    log : TrainingLog
    """
    options: dict[str, Any] = {} if before is None else {"initial": warm_weights(before, inputs.encoders)}
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
        **options,
    )
    judged = held_out or inputs.side(fold.train)
    forecasts = forecast_batch(model, judged, training.batch_entities)
    rows = np.array(sorted(forecasts), np.int64)
    residuals = target[rows] - scale.invert(np.array([forecasts[row] for row in rows.tolist()]))
    interval = residual_interval(residuals, training.interval)
    return FittedForecaster(model, inputs.encoders, scale, interval, fold.fit_time, seed), log


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
