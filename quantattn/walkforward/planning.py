"""The units of a study, the steps and the inputs of each, and which of them wait for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quantattn.files import hash_bytes, hash_json
from quantattn.forecasters.baselines import BASELINES, BUILT_IN, baseline_traits, make_baseline
from quantattn.forecasters.baselines._identity import fingerprint
from quantattn.walkforward.fold import Fold, require_walk_forward
from quantattn.walkforward.retraining import parent_folds
from quantattn.walkforward.search import optuna_version
from quantattn.walkforward.settings import NETWORKS, FoldSettings
from quantattn.walkforward.units import Unit


@dataclass(frozen=True)
class Task:
    """A unit to be done.

    Parameters
    ----------
    unit : Unit
        The unit.
    inputs : str
        Hash of everything that decides its results.
    parent : Unit or None
        The unit whose network it needs: to forecast with, or to begin from.
    begins : bool
        Whether it begins from its parent's weights and trains on; else it forecasts with that network.
    """

    unit: Unit
    inputs: str
    parent: Unit | None = None
    begins: bool = False


def runs_every_seed(model: str) -> bool:
    """Say whether chance plays a part in a model, so that each seed is a run of its own."""
    return model in NETWORKS or (model in BASELINES and baseline_traits(model).stochastic)


def plan_units(folds: Sequence[Fold], settings: FoldSettings) -> list[Unit]:
    """List the units of a study; a model that chance does not touch runs for the first seed alone."""
    seeds = {
        model: settings.seeds if runs_every_seed(model) else settings.seeds[:1] for model in settings.models
    }
    return [
        Unit(fold.index, model, seed) for fold in folds for model in settings.models for seed in seeds[model]
    ]


def unit_steps(unit: Unit, settings: FoldSettings) -> int:
    """Count the progress steps of a unit: its trials, its epochs and its test span."""
    if unit.model not in NETWORKS:
        return 1
    trials = settings.search.trials if settings.search is not None else 0
    return settings.training.epochs + 1 + trials


def plan_tasks(folds: Sequence[Fold], settings: FoldSettings, source: str) -> list[Task]:
    """Give every unit with its inputs and its parent, in the order of :func:`plan_units`.

    Parameters
    ----------
    folds : sequence of Fold
        As they are run; see :func:`~quantattn.walkforward.retraining.retrained_folds`.
    settings : FoldSettings
        Models and training.
    source : str
        Hash of data, code and versions.

    Returns
    -------
    list of Task
        A parent stands before its children.

    Raises
    ------
    SplitError
        If a fold is not of a walk-forward.
    UsageError
        If sizes of networks are searched that begin from the weights of the fold before.
    """
    require_walk_forward(folds, needed_by="a plan")
    if settings.search is not None and settings.retrain.warm:
        settings.search.require_fixed_sizes()
    parents = parent_folds(folds, settings.retrain)
    by_index = {fold.index: fold for fold in folds}
    tasks: dict[Unit, Task] = {}
    for unit in plan_units(folds, settings):
        above = parents[unit.fold] if unit.model in NETWORKS else None
        parent = None if above is None else tasks[Unit(above, unit.model, unit.seed)]
        inputs = _unit_inputs(unit, by_index[unit.fold], settings, source, parent)
        begins = parent is not None and settings.retrain.warm
        tasks[unit] = Task(unit, inputs, None if parent is None else parent.unit, begins)
    return list(tasks.values())


def _unit_inputs(unit: Unit, fold: Fold, settings: FoldSettings, source: str, parent: Task | None) -> str:
    shared: dict[str, Any] = {
        "source": source,
        "unit": asdict(unit),
        "fit_time": fold.fit_time,
        "validation_time": fold.validation_time,
        "rows": [hash_bytes(rows.tobytes()) for rows in (fold.train, fold.validation, fold.test)],
        "training": asdict(settings.training),
        "study": settings.retrain.study_name(settings.study),
    }
    if unit.model in NETWORKS:
        shared["network"] = settings.networks[unit.model].to_dict()
        shared["text_width"] = settings.text_width
        shared["threads"] = settings.threads
        shared["retrain"] = settings.retrain.words()
        shared["parent"] = None if parent is None else parent.inputs
        if settings.search is not None:
            shared["search"] = {**settings.search.to_dict(), "optuna": optuna_version()}
    elif unit.model in BASELINES:
        shared |= _baseline_inputs(unit, settings)
    return hash_json(shared)


def _baseline_inputs(unit: Unit, settings: FoldSettings) -> dict[str, Any]:
    traits = baseline_traits(unit.model)
    found: dict[str, Any] = {}
    if traits.inputs == "tokens":
        found["text_width"] = settings.text_width
    if traits.stochastic or not traits.built_in:
        found["threads"] = settings.threads
    if unit.model not in BUILT_IN:
        # The package's own are known by the hash of its code; of others their code and state.
        model = make_baseline(unit.model, unit.seed)
        identity = getattr(model, "identity", None)
        found["baseline"] = identity() if callable(identity) else repr(type(model))
        found["code"] = fingerprint((BASELINES[unit.model], model))
    return found
