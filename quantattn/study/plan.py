"""What a study will do and about what it will take, before anything of it is trained."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from quantattn.pit.timestamps import iso
from quantattn.study import provenance
from quantattn.study.calibration import (
    NetworkCost,
    live_calls,
    measure_baseline,
    measure_network,
    side_size,
)
from quantattn.study.config import Study
from quantattn.study.execution import Execution
from quantattn.study.preparing import Prepared, prepare
from quantattn.study.progress import Progress, SilentProgress
from quantattn.walkforward import Fold
from quantattn.walkforward.networks import FoldTokens, fold_tokens
from quantattn.walkforward.planning import Task, plan_tasks
from quantattn.walkforward.settings import NETWORKS

ESTIMATE: Final = (
    "Times and memory are estimates from one training step of each network, and from each baseline on one "
    "instrument, measured just now. Early stopping makes it shorter. Metrics, latencies and the audit come "
    "on top."
)


@dataclass(frozen=True)
class FoldPlan:
    """One fold of a plan.

    Parameters
    ----------
    fold : int
        Its number.
    fit_time : str
        When the model that serves it is fitted, ISO text in UTC.
    n_train, n_validation, n_test : int
        Forecasts on each side.
    purged : dict of str to int
        Forecasts left out of training and validation, by reason.
    tokens : int
        Event and query tokens of one pass over the training side.
    trained : bool
        Whether networks train in it; else an earlier fold's forecast it.
    """

    fold: int
    fit_time: str
    n_train: int
    n_validation: int
    n_test: int
    purged: dict[str, int]
    tokens: int
    trained: bool


@dataclass(frozen=True)
class ModelPlan:
    """One model of a plan.

    Parameters
    ----------
    model : str
        Its name.
    units : int
        Folds times seeds.
    trainings : int
        Units that train or fit something.
    seconds : float or None
        Estimated seconds of all units one after the other; None where it could not be measured.
    """

    model: str
    units: int
    trainings: int
    seconds: float | None


@dataclass(frozen=True)
class StudyPlan:
    """What a study will do.

    Parameters
    ----------
    study : str
        Its name.
    n_samples, n_entities, n_events : int
        Forecasts, instruments and events in all.
    retrain : str
        The policy.
    folds : tuple of FoldPlan
        In order of time.
    models : tuple of ModelPlan
        In the order of the study.
    n_units : int
        Pieces of work.
    engine : str
        What does them.
    workers, threads : int
        Units at once, and threads of each.
    seconds : float
        Estimated seconds until all forecasts stand.
    memory_gib : float or None
        Estimated memory of all processes at their largest; None where this system does not tell.
    measured_seconds : float
        What the measuring took.
    """

    study: str
    n_samples: int
    n_entities: int
    n_events: int
    retrain: str
    folds: tuple[FoldPlan, ...]
    models: tuple[ModelPlan, ...]
    n_units: int
    engine: str
    workers: int
    threads: int
    seconds: float
    memory_gib: float | None
    measured_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as JSON values, with a note that it estimates."""
        return {**asdict(self), "note": ESTIMATE}


def plan_study(
    study: Study, *, execution: Execution | None = None, progress: Progress | None = None
) -> StudyPlan:
    """Say what a study will do: folds, purged forecasts, units, and estimated time and memory.

    Nothing is written, and nothing is trained but one step of each network on a few sequences and each
    baseline on one instrument.

    Parameters
    ----------
    study : Study
        As it would be run.
    execution : Execution, optional
        How it would be carried out.
    progress : Progress, optional
        Shows the stages; silent by default.

    Returns
    -------
    StudyPlan

    Raises
    ------
    DataError
        If the data breaks its contract.
    SplitError
        If there is too little history for the folds.
    """
    how, shown = execution or Execution(), progress or SilentProgress()
    prepared = prepare(study, shown, how)
    tasks = plan_tasks(prepared.folds, prepared.settings, prepared.source)
    started = time.perf_counter()
    with shown.stage("measure a step of each model", total=len(prepared.settings.models)) as stage:
        models = _models(prepared, tasks, stage.advance)
    measured = time.perf_counter() - started
    return StudyPlan(
        study=study.name,
        n_samples=prepared.dataset.samples.height,
        n_entities=len(prepared.dataset.entities),
        n_events=len(prepared.dataset.events),
        retrain=prepared.settings.retrain.words(),
        folds=tuple(_fold(prepared, fold, tasks) for fold in prepared.folds),
        models=models,
        n_units=len(tasks),
        engine=how.engine,
        workers=how.workers,
        threads=prepared.settings.threads,
        seconds=sum(model.seconds or 0.0 for model in models) / min(how.workers, len(tasks)),
        memory_gib=_memory(how.workers),
        measured_seconds=measured,
    )


def _fold(prepared: Prepared, fold: Fold, tasks: list[Task]) -> FoldPlan:
    networks = [task for task in tasks if task.unit.fold == fold.index and task.unit.model in NETWORKS]
    return FoldPlan(
        fold=fold.index,
        fit_time=iso(fold.fit_time),
        n_train=len(fold.train),
        n_validation=len(fold.validation),
        n_test=len(fold.test),
        purged=fold.dropped_counts,
        tokens=side_size(prepared, fold.train).tokens,
        trained=any(_trains(task) for task in networks) if networks else True,
    )


def _trains(task: Task) -> bool:
    return task.parent is None or task.begins


def _models(prepared: Prepared, tasks: list[Task], advance: Callable[[], None]) -> tuple[ModelPlan, ...]:
    tokens: dict[int, FoldTokens] = {}
    started = time.perf_counter()
    for fold in (prepared.folds[0], prepared.folds[-1]):
        tokens.setdefault(fold.index, fold_tokens(prepared.history, fold, prepared.settings.text_width))
    encode = (time.perf_counter() - started) / 2
    plans = []
    for model in prepared.settings.models:
        own = [task for task in tasks if task.unit.model == model]
        if model in NETWORKS:
            cost = measure_network(prepared, model, tokens, encode)
            seconds: float | None = sum(_network_seconds(prepared, cost, task) for task in own)
        else:
            each = measure_baseline(prepared, model, tokens)
            rows = sum(len(fold.train) for fold in prepared.folds) * len(own) / len(prepared.folds)
            seconds = None if each is None else each * rows
        plans.append(ModelPlan(model, len(own), sum(_trains(task) for task in own), seconds))
        advance()
    return tuple(plans)


def _network_seconds(prepared: Prepared, cost: NetworkCost, task: Task) -> float:
    settings = prepared.settings
    fold = next(fold for fold in prepared.folds if fold.index == task.unit.fold)
    test = side_size(prepared, fold.test)
    seconds = cost.encode_seconds / len(settings.models)
    seconds += cost.streaming(test, live_calls(prepared, fold.test))
    if not _trains(task):
        return seconds
    rows, held_out = side_size(prepared, fold.train), side_size(prepared, fold.validation)
    epochs = settings.training.epochs
    if settings.search is not None:
        epochs += settings.search.trials * (settings.search.epochs or settings.training.epochs)
    return seconds + cost.training(rows, held_out, epochs)


def _memory(workers: int) -> float | None:
    """Give what this process came to, which did what a worker does, for each of them and for the driver."""
    peak = provenance.peak_memory_gib()
    return None if peak is None else round(peak * (1 if workers == 1 else workers + 1), 2)
