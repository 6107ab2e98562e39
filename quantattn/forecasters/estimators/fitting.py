"""From checked rows to a fitted forecaster: encoders, scales, weights, training and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.estimators.sides import Sides
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.heads import HeadConfig, distribution
from quantattn.forecasters.history import FittedEncoders, History
from quantattn.forecasters.intervals import residual_interval
from quantattn.forecasters.objectives import Loss, Objective
from quantattn.forecasters.passes import forecast_outputs
from quantattn.forecasters.readout import Readout, TargetScale
from quantattn.forecasters.targets import Targets
from quantattn.forecasters.tokens import EntityTokens
from quantattn.forecasters.training import TrainingLog, train
from quantattn.forecasters.weights import class_weights, volatility_weights
from quantattn.pit.timestamps import nanoseconds_of

Floats64 = npt.NDArray[np.float64]
Weighting = Literal["volatility", "balanced"]


@dataclass(frozen=True)
class Aim:
    """What is minimised, beside the network's head.

    Parameters
    ----------
    loss : str
        One of the losses of the head.
    delta : float
        Of the Huber loss.
    weights : {"volatility", "balanced"}, optional
        How training targets are weighed.
    volatility_window : int
        Targets that a trailing volatility is measured over.
    """

    loss: Loss
    delta: float = 1.0
    weights: Weighting | None = None
    volatility_window: int = 20

    def check(self, head: HeadConfig) -> None:
        """Refuse weights that do not fit the head, and impossible numbers.

        Raises
        ------
        UsageError
            Naming what would fit.
        """
        if self.weights not in (None, "volatility", "balanced"):
            raise UsageError(f"weights={self.weights!r} is not known; use None, 'volatility' or 'balanced'")
        if (self.weights == "balanced") != (head.kind == "direction") and self.weights is not None:
            fit = "'balanced' or None" if head.kind == "direction" else "'volatility' or None"
            raise UsageError(f"weights={self.weights!r} does not fit head={head.kind!r}; use {fit}")
        if self.volatility_window < 2:
            raise UsageError(f"volatility_window={self.volatility_window} must be at least 2")


def prepare_targets(targets: Targets, sides: Sides, head: HeadConfig, loss: Loss) -> Floats64:
    """Give targets as the head forecasts them, shape (n_samples, targets); NaN where none may be read.

    Directions become 1 and 0, a return of exactly zero has none; variances become logarithms under QLIKE.

    Raises
    ------
    ForecasterError
        If a target has no known value in the training rows, or a variance is not positive.
    UsageError
        If QLIKE is asked for a target of which it is not known whether it is a variance.
    """
    values = np.full(targets.values.shape, np.nan)
    for rows, known in ((sides.train, sides.train_known), (sides.validation, sides.validation_known)):
        values[rows] = np.where(known, targets.values[rows], np.nan)
    for place, (name, log) in enumerate(zip(targets.names, targets.logs, strict=True)):
        column = values[:, place]
        if head.kind == "direction":
            values[:, place] = np.where(np.isnan(column) | (column == 0), np.nan, column > 0)
        elif loss == "qlike":
            if log is None:
                raise UsageError(
                    f"loss='qlike' is for variances, and it is not known whether {name!r} is one or its "
                    "logarithm; set log_target, or give labels of realised_variance"
                )
            if not log:
                bad = np.flatnonzero(column <= 0)
                if len(bad):
                    raise ForecasterError(
                        f"{name!r} is not positive in sample rows {bad[:3].tolist()}, which QLIKE does not "
                        "allow; drop those rows"
                    )
                values[:, place] = np.log(column)
        if np.isnan(values[sides.train, place]).all():
            raise ForecasterError(
                f"target {name!r} has no value that is known in the training rows; lengthen the training "
                "window or leave it out"
            )
    return values


def weigh(values: Floats64, targets: Targets, sides: Sides, aim: Aim, history: History) -> Floats64 | None:
    """Give what each target weighs, shape (n_samples, targets), from the training rows alone.

    Validation targets weigh the same, but for class weights, which are those of training on both sides.
    """
    if aim.weights is None:
        return None
    weights = np.ones(values.shape)
    times = nanoseconds_of(history.samples["forecast_time"])
    owner = history.samples["entity"].to_numpy()
    for place in range(values.shape[1]):
        rows = sides.train[np.isfinite(values[sides.train, place])]
        if aim.weights == "balanced":
            down, up = class_weights(values[rows, place] > 0.5)
            weights[:, place] = np.where(values[:, place] > 0.5, up, down)
        else:
            weights[rows, place] = volatility_weights(
                values[rows, place],
                targets.available_at[rows, place],
                owner[rows],
                times[rows],
                window=aim.volatility_window,
            )
    return weights


def fit_forecaster(
    history: History,
    tokens: Sequence[EntityTokens],
    encoders: FittedEncoders,
    targets: Targets,
    sides: Sides,
    *,
    network: NetworkConfig,
    training: TrainingConfig,
    aim: Aim,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
) -> tuple[FittedForecaster, TrainingLog]:
    """Train one network with any head.

    Parameters
    ----------
    history : History
        All sequences.
    tokens : sequence of EntityTokens
        Whole sequences under `encoders`.
    encoders : FittedEncoders
        Fitted on what was visible at the cutoff of the training side.
    targets : Targets
        By row of the samples.
    sides : Sides
        The rows.
    network, training : NetworkConfig, TrainingConfig
        Sizes, head, and how to train.
    aim : Aim
        What is minimised.
    seed : int
        Of weights and order.
    on_epoch : callable, optional
        Called after each epoch.

    Returns
    -------
    forecaster : FittedForecaster
    log : TrainingLog
    """
    head = network.head
    aim.check(head)
    values = prepare_targets(targets, sides, head, aim.loss)
    scales = _scales(values[sides.train], head)
    scaled = np.stack([scale.apply(column) for scale, column in zip(scales, values.T, strict=True)], axis=1)
    objective = Objective(aim.loss, aim.delta, tuple(scale.scale for scale in scales))
    chosen = [own.select(sides.train) for own in tokens]
    held_out = [own.select(sides.validation) for own in tokens]
    missing = len(sides.train) - sum(len(own.rows) for own in chosen)
    if missing:
        raise ForecasterError(
            f"{missing} training rows have no token sequence; read the history of every entity that has rows"
        )
    model, log = train(
        chosen,
        held_out,
        scaled,
        network=network,
        training=training,
        seed=seed,
        on_epoch=on_epoch,
        objective=objective,
        weights=weigh(values, targets, sides, aim, history),
    )
    intervals = [(0.0, 0.0)] * len(scales)
    if head.kind == "point":
        judged = held_out if np.isfinite(values[sides.validation]).any() else chosen
        rows, raw = forecast_outputs(model, judged, training.batch_entities, training.segment_tokens)
        said = distribution(head, raw).point
        for place, scale in enumerate(scales):
            residuals = values[rows, place] - scale.invert(said[:, place])
            intervals[place] = residual_interval(residuals[np.isfinite(residuals)], training.interval)
    logs = tuple(aim.loss == "qlike" and log is False for log in targets.logs)
    logs = logs if any(logs) else ()
    plain = head.is_plain and not logs
    readout = None if plain else Readout(head, scales, tuple(intervals), training.interval, logs)
    fitted = FittedForecaster(model, encoders, scales[0], intervals[0], sides.fit_time, seed, readout)
    return fitted, log


def _scales(values: Floats64, head: HeadConfig) -> tuple[TargetScale, ...]:
    """Measure the known training targets; directions stay as they are."""
    if head.kind == "direction":
        return tuple(TargetScale(0.0, 1.0) for _ in head.targets)
    scales = []
    for name, column in zip(head.targets, values.T, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            scale = TargetScale.fit(column[np.isfinite(column)])
        if not np.isfinite([scale.center, scale.scale]).all():
            raise ForecasterError(f"target {name!r} is too large to have a spread; give it in other units")
        scales.append(scale)
    return tuple(scales)
