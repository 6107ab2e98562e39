"""One network unit from its fold's rows to a fitted forecaster: search, warm start, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.fitted import FittedForecaster, TargetScale
from quantattn.forecasters.training import train
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.networks import FoldTokens, fit_network, training_log, warm_weights
from quantattn.walkforward.search import SearchConfig, search_parameters, search_seed, with_parameters
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.units import Unit


class Report(Protocol):
    """Is told how a unit comes on."""

    def step(self) -> None:
        """Count one epoch or trial as done."""

    def trial(self, record: dict[str, Any]) -> None:
        """Keep the record of a finished trial."""


class NoReport:
    """Is told and says nothing."""

    def step(self) -> None:
        """Count nothing."""

    def trial(self, record: dict[str, Any]) -> None:
        """Keep nothing."""


def fit_unit(
    unit: Unit,
    fold: Fold,
    inputs: FoldTokens,
    target: np.ndarray,
    settings: FoldSettings,
    *,
    before: FittedForecaster | None = None,
    trials: Sequence[Mapping[str, Any]] = (),
    report: Report | None = None,
) -> tuple[FittedForecaster, dict[str, Any]]:
    """Fit the network of a unit: choose its hyper-parameters if asked to, then train it.

    Parameters
    ----------
    unit : Unit
        The unit; its model is a network.
    fold : Fold
        Its fold, of which only the training and validation rows are used.
    inputs : FoldTokens
        The fold's token sequences.
    target : ndarray of float64, shape (n_samples,)
        ``y_true`` by row of the samples frame.
    settings : FoldSettings
        How to train.
    before : FittedForecaster, optional
        The forecaster of the fold before, to begin from; its parameters, if searched, are searched anew.
    trials : sequence of mapping, optional
        Trials of this unit's search that are known already.
    report : Report, optional
        Told of every epoch and trial.

    Returns
    -------
    forecaster : FittedForecaster
    log : dict
        JSON values: the epochs, and under ``search`` every trial and what was chosen.

    Raises
    ------
    ForecasterError
        If training fails, or a search has no validation side or no trial that succeeds.
    UsageError
        If sizes are searched and `before` has some.
    """
    told = report or NoReport()
    network, training = settings.networks[unit.model], settings.training
    extra: dict[str, Any] = {}
    if settings.search is not None:
        if before is not None:
            settings.search.require_fixed_sizes()
        chosen, records = _search(
            unit, fold, inputs, target, network, training, settings.search, before, trials, told
        )
        extra["search"] = {"chosen": chosen, "trials": records}
        network, training = with_parameters(network, training, chosen)
    forecaster, log = fit_network(
        fold,
        inputs,
        target,
        network=network,
        training=training,
        seed=unit.seed,
        on_epoch=lambda epoch: told.step(),
        before=before,
    )
    return forecaster, {**training_log(log), **extra}


def _search(
    unit: Unit,
    fold: Fold,
    inputs: FoldTokens,
    target: np.ndarray,
    network: NetworkConfig,
    training: TrainingConfig,
    config: SearchConfig,
    before: FittedForecaster | None,
    trials: Sequence[Mapping[str, Any]],
    report: Report,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if not len(fold.validation):
        raise ForecasterError(
            f"fold {fold.index} has no validation rows, by which a search judges its trials; set val_size"
        )
    scaled = TargetScale.fit(target[fold.train]).apply(target)
    rows, held_out = inputs.side(fold.train), inputs.side(fold.validation)
    options: dict[str, Any] = {} if before is None else {"initial": warm_weights(before, inputs.encoders)}
    judge = _judge(rows, held_out, scaled, network, training, config, unit.seed, options)

    def on_trial(record: dict[str, Any]) -> None:
        report.trial(record)
        report.step()

    for _ in trials[: config.trials]:
        report.step()
    return search_parameters(
        config, judge, seed=search_seed(fold.index, unit.seed), known=trials, on_trial=on_trial
    )


def _judge(
    rows: Any,
    held_out: Any,
    scaled: np.ndarray,
    network: NetworkConfig,
    training: TrainingConfig,
    config: SearchConfig,
    seed: int,
    options: dict[str, Any],
) -> Callable[[dict[str, Any]], float]:
    def judge(parameters: dict[str, Any]) -> float:
        try:
            sizes, how = with_parameters(
                network, training, {**parameters, "epochs": config.epochs or training.epochs}
            )
        except UsageError as error:  # sizes that do not go together fail this trial alone
            raise ForecasterError(str(error)) from error
        _, log = train(rows, held_out, scaled, network=sizes, training=how, seed=seed, **options)
        return log.epochs[log.best_epoch].validation_loss

    return judge
