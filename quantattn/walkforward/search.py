"""Hyper-parameters of a network, chosen inside the fold by its validation loss."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, Final

from quantattn.errors import ForecasterError, UsageError
from quantattn.files import hash_json
from quantattn.forecasters.config import NetworkConfig, TrainingConfig

RANGES: Final = ("learning_rate", "weight_decay", "gradient_clip")
"""Searched between two bounds, evenly in the logarithm."""

CHOICES: Final = ("width", "layers", "feed_forward", "batch_entities")
"""Searched among values that are written out."""

_OF_NETWORK: Final = ("width", "layers", "feed_forward")


@dataclass(frozen=True)
class SearchConfig:
    """What is searched, and how long.

    Parameters
    ----------
    trials : int
        How many settings are tried for each fold, network and seed.
    epochs : int, optional
        Most epochs of a trial; as many as in training by default.
    learning_rate, weight_decay, gradient_clip : tuple of float, optional
        Least and largest value, both positive; not searched by default.
    width, layers, feed_forward, batch_entities : tuple of int, optional
        The values to choose from; not searched by default.

    Raises
    ------
    UsageError
        If nothing is searched, or a range or choice is impossible.
    """

    trials: int = 20
    epochs: int | None = None
    learning_rate: tuple[float, float] | None = None
    weight_decay: tuple[float, float] | None = None
    gradient_clip: tuple[float, float] | None = None
    width: tuple[int, ...] | None = None
    layers: tuple[int, ...] | None = None
    feed_forward: tuple[int, ...] | None = None
    batch_entities: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check ranges and choices."""
        for name in ("trials", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"search: {name}={value} must be at least 1")
        for name in RANGES:
            bounds = getattr(self, name)
            if bounds is not None and not (len(bounds) == 2 and 0 < bounds[0] < bounds[1] < math.inf):
                raise UsageError(
                    f"search: {name}={bounds} is no range; give two positive numbers, least first"
                )
        for name in CHOICES:
            values = getattr(self, name)
            if values is not None and (not values or min(values) < 1 or len(set(values)) < len(values)):
                raise UsageError(f"search: {name}={values} must be distinct whole numbers from 1")
        if not self.searched:
            raise UsageError(f"search names nothing to search; give one of {', '.join(RANGES + CHOICES)}")

    @property
    def searched(self) -> tuple[str, ...]:
        """Names of what is searched, in a fixed order."""
        return tuple(name for name in (*RANGES, *CHOICES) if getattr(self, name) is not None)

    def require_fixed_sizes(self) -> None:
        """Refuse to search sizes of a network that begins from the weights of another.

        Raises
        ------
        UsageError
            If a size is searched.
        """
        sizes = [name for name in self.searched if name in _OF_NETWORK]
        if sizes:
            raise UsageError(
                f"search: {', '.join(sizes)} cannot be searched with a warm start, whose networks begin from "
                "the weights, and so with the sizes, of the fold before; search other settings, or retrain "
                "with every_fold"
            )

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def require_optuna() -> ModuleType:
    """Import optuna.

    Raises
    ------
    UsageError
        If it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            'search needs optuna, which is not installed; run pip install "quantattn[search]"'
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def optuna_version() -> str:
    """Give the version of optuna, on which the settings that are tried depend."""
    require_optuna()
    return importlib.metadata.version("optuna")


def with_parameters(
    network: NetworkConfig, training: TrainingConfig, parameters: Mapping[str, Any]
) -> tuple[NetworkConfig, TrainingConfig]:
    """Give sizes and training with some parameters replaced."""
    sizes = {name: value for name, value in parameters.items() if name in _OF_NETWORK}
    rest = {name: value for name, value in parameters.items() if name not in _OF_NETWORK}
    return replace(network, **sizes), replace(training, **rest)


def search_parameters(
    config: SearchConfig,
    judge: Callable[[dict[str, Any]], float],
    *,
    seed: int,
    known: Sequence[Mapping[str, Any]] = (),
    on_trial: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Try settings one after the other and give the best.

    Each is proposed by a tree-structured Parzen estimator (Bergstra et al. 2011, "Algorithms for
    Hyper-Parameter Optimization", section 4) from those before, so equal seeds and equal losses give equal
    trials, and a search that was cut short goes on from the trials that are known.

    Parameters
    ----------
    config : SearchConfig
        What is searched.
    judge : callable
        From parameters to a loss; a `ForecasterError` fails the trial alone.
    seed : int
        Of the proposals.
    known : sequence of mapping, optional
        Records of the first trials, as `on_trial` was told; one whose parameters are not those proposed
        now ends the list.
    on_trial : callable, optional
        Told of each new trial: `number`, `parameters`, `loss` (None if it failed) and `fault`.

    Returns
    -------
    parameters : dict
        Of the trial with the least loss, the first of equals.
    trials : list of dict
        All records.

    Raises
    ------
    ForecasterError
        If every trial failed.
    UsageError
        If optuna is not installed.
    """
    optuna = require_optuna()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")
    trials: list[dict[str, Any]] = []
    stored = list(known)
    for number in range(config.trials):
        trial = study.ask()
        parameters = {name: _suggest(trial, name, getattr(config, name)) for name in config.searched}
        record = _same(stored, number, parameters)
        if record is None:
            stored = []
            record = {"number": number, "parameters": parameters, **_judged(judge, parameters)}
            if on_trial is not None:
                on_trial(record)
        trials.append(record)
        if record["loss"] is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, record["loss"])
    done = [record for record in trials if record["loss"] is not None]
    if not done:
        raise ForecasterError(
            f"all {len(trials)} trials of the search failed, the first with: {trials[0]['fault']}; narrow "
            "its ranges"
        )
    return dict(min(done, key=lambda record: float(record["loss"]))["parameters"]), trials


def search_seed(fold: int, seed: int) -> int:
    """Give the seed of a search; the twins of one fold and seed share it."""
    return int(hash_json(["search", fold, seed])[:8], 16)


def _suggest(trial: Any, name: str, space: tuple[Any, ...]) -> Any:
    if name in RANGES:
        return float(trial.suggest_float(name, *space, log=True))
    return int(trial.suggest_categorical(name, list(space)))


def _judged(judge: Callable[[dict[str, Any]], float], parameters: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"loss": float(judge(parameters)), "fault": None}
    except ForecasterError as error:
        return {"loss": None, "fault": str(error)}


def _same(
    stored: Sequence[Mapping[str, Any]], number: int, parameters: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Give the stored record of a trial if it is of the same parameters and whole."""
    if number >= len(stored):
        return None
    record = stored[number]
    fits = set(record) == {"number", "parameters", "loss", "fault"} and record["parameters"] == parameters
    loss = record.get("loss")
    sound = loss is None or (isinstance(loss, float) and math.isfinite(loss))
    return dict(record) if fits and sound and record["number"] == number else None
