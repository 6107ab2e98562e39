"""One unit of work, from its inputs to its folder: what every engine does, wherever it does it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines import (
    BASELINES,
    BUILT_IN,
    Baseline,
    BaselineTraits,
    EventSequences,
    SampleTable,
    baseline_traits,
    fit_baseline,
    make_baseline,
    windowed_information,
)
from quantattn.forecasters.baselines._process import kept_settings
from quantattn.forecasters.baselines._randomness import isolated_randomness
from quantattn.forecasters.baselines.base import checked_forecasts
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.history import History
from quantattn.forecasters.intervals import residual_interval
from quantattn.walkforward.agreement import Agreement, compare_paths
from quantattn.walkforward.fitting import Report, fit_unit
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.live import stream_test
from quantattn.walkforward.networks import FoldTokens, fold_tokens
from quantattn.walkforward.planning import Task
from quantattn.walkforward.settings import NETWORKS, FoldSettings
from quantattn.walkforward.table import TestForecasts, forecast_rows
from quantattn.walkforward.threads import limited_threads
from quantattn.walkforward.units import write_unit

TokenSource = Callable[[Fold], FoldTokens]
"""Gives the tokens of a fold."""


@dataclass(frozen=True, eq=False)
class Work:
    """What the units of a study are made from.

    Parameters
    ----------
    history : History
        All sequences.
    table : SampleTable
        The baselines' view of the same information sets.
    folds : sequence of Fold
        The folds as they are run.
    settings : FoldSettings
        Models and training.
    """

    history: History
    table: SampleTable
    folds: Sequence[Fold]
    settings: FoldSettings

    @cached_property
    def target(self) -> np.ndarray:
        """``y_true`` by row of the samples, float64."""
        return self.history.samples["y_true"].to_numpy().astype(np.float64)

    @cached_property
    def by_index(self) -> dict[int, Fold]:
        """The folds by their numbers."""
        return {fold.index: fold for fold in self.folds}

    @cached_property
    def sequenced(self) -> SampleTable:
        """The table with the events behind its samples, for the baselines that read them."""
        if self.table.sequences is not None:
            return self.table
        return replace(self.table, sequences=EventSequences.of(self.history))

    def tokens(self, fold: Fold) -> FoldTokens:
        """Encode a fold's sequences."""
        return fold_tokens(self.history, fold, self.settings.text_width)


class LastFold:
    """Keeps the tokens of the fold that was asked for last."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._index: int | None = None
        self._tokens: FoldTokens | None = None

    def __call__(self, fold: Fold) -> FoldTokens:
        """Give the tokens of a fold, made once while one fold is at work."""
        if self._tokens is None or self._index != fold.index:
            self._tokens = None  # two folds' tokens need not stand in memory together
            self._index, self._tokens = fold.index, self._source(fold)
        return self._tokens


def run_task(
    work: Work,
    task: Task,
    run: Path,
    tokens: TokenSource,
    *,
    trials: Sequence[Mapping[str, Any]] = (),
    report: Report,
) -> None:
    """Do a unit and write its folder, whole or not at all.

    Parameters
    ----------
    work : Work
        What it is made from.
    task : Task
        The unit, and the unit that it waits for, whose folder stands in `run`.
    run : Path
        The run directory.
    tokens : callable
        Gives the tokens of a fold.
    trials : sequence of mapping, optional
        Trials of its search that are known.
    report : Report
        Told how it comes on.
    """
    # A unit inherits no settings of the process from strangers' code in those before it.
    with limited_threads(work.settings.threads), kept_settings():
        _run(work, task, run, tokens, trials, report)


def _run(
    work: Work,
    task: Task,
    run: Path,
    tokens: TokenSource,
    trials: Sequence[Mapping[str, Any]],
    report: Report,
) -> None:
    unit, fold = task.unit, work.by_index[task.unit.fold]
    extra: Callable[[Path], None] | None = None
    if unit.model in NETWORKS:
        forecaster, log = _network(work, task, fold, run, tokens, trials, report)
        forecasts = stream_test(forecaster, fold, work.history, threads=work.settings.threads)
        log["streaming"] = _agreement(work, forecaster, fold, tokens(fold), forecasts).to_dict()
        extra = forecaster.save
    else:
        # A stranger's model may draw from the global generators without being one of the wrapped ones.
        own = unit.model not in BUILT_IN
        with isolated_randomness(unit.seed) if own else contextlib.nullcontext():
            forecasts, log = _baseline(work, task, fold, tokens)
    rows = forecast_rows(
        work.history.samples,
        fold,
        forecasts,
        study=work.settings.retrain.study_name(work.settings.study),
        model=unit.model,
        seed=unit.seed,
    )
    write_unit(unit, run, inputs=task.inputs, forecasts=rows, log=log, extra=extra)


def _agreement(
    work: Work, forecaster: FittedForecaster, fold: Fold, tokens: FoldTokens, forecasts: TestForecasts
) -> Agreement:
    training = work.settings.training
    return compare_paths(
        forecaster,
        tokens.tokens.values(),
        fold.test,
        forecasts.y_pred,
        batch_entities=training.batch_entities,
        segment_tokens=training.segment_tokens,
    )


def _network(
    work: Work,
    task: Task,
    fold: Fold,
    run: Path,
    tokens: TokenSource,
    trials: Sequence[Mapping[str, Any]],
    report: Report,
) -> tuple[FittedForecaster, dict[str, Any]]:
    """Fit the unit's network, or take its parent's where the policy says so."""
    parent = None if task.parent is None else FittedForecaster.load(task.parent.folder(run))
    policy = work.settings.retrain
    named: dict[str, Any] = {} if policy.policy == "every_fold" else {"retrain": policy.words()}
    if task.parent is not None and parent is not None and not task.begins:
        if parent.fit_time != fold.fit_time:
            raise ForecasterError(
                f"the stored network of fold {task.parent.fold} was not fitted when fold {fold.index} says; "
                "run the study in an empty folder"
            )
        none: dict[str, Any] = {"epochs": [], "best_epoch": None, "tokens": 0, "seconds": 0.0}
        return parent, {**none, **named, "trained_in_fold": task.parent.fold}
    forecaster, log = fit_unit(
        task.unit,
        fold,
        tokens(fold),
        work.target,
        work.settings,
        before=parent,
        trials=trials,
        report=report,
    )
    if task.parent is not None:
        named["begun_from_fold"] = task.parent.fold
    return forecaster, {**log, **named}


def _baseline(
    work: Work, task: Task, fold: Fold, tokens: TokenSource
) -> tuple[TestForecasts, dict[str, Any]]:
    """Fit a baseline and forecast the test rows."""
    unit = task.unit
    traits = baseline_traits(unit.model) if unit.model in BASELINES else None
    table = work.table if traits is None else baseline_table(work, traits, fold, tokens)
    model = fit_baseline(make_baseline(unit.model, unit.seed), table, fold.train, fold.validation)
    judged = fold.validation if len(fold.validation) else fold.train
    interval = residual_interval(
        work.target[judged] - _forecasts(model, table, judged), work.settings.training.interval
    )
    forecasts = TestForecasts(_forecasts(model, table, fold.test), interval)
    built_in = traits is not None and traits.built_in
    identity = getattr(model, "identity", None)
    said = model.get_params() if built_in or not callable(identity) else identity()["parameters"]
    log: dict[str, Any] = {"parameters": said}
    notes = getattr(model, "notes", None)
    if callable(notes) and notes():
        log["notes"] = notes()
    if traits is None or traits.window is None:
        return forecasts, log
    log["window"] = traits.window
    seen = windowed_information(work.sequenced, fold.test, traits.window)
    return replace(forecasts, information=seen), log


def _forecasts(model: Baseline, table: SampleTable, rows: np.ndarray) -> np.ndarray:
    return checked_forecasts(model.name, model.predict(table, rows), len(rows))


def baseline_table(work: Work, traits: BaselineTraits, fold: Fold, tokens: TokenSource) -> SampleTable:
    """Give the table with what the baseline reads besides it."""
    if traits.inputs == "table" and traits.window is None:
        return work.table
    table = work.sequenced
    if traits.inputs != "tokens" or table.sequences is None:
        return table
    encoded = tokens(fold)
    return replace(table, sequences=table.sequences.with_tokens(encoded.tokens, encoded.encoders))
