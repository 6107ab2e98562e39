"""The local engine: every fold, model and seed in turn, each result kept as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
from threadpoolctl import threadpool_limits

from quantattn.files import hash_bytes, hash_json
from quantattn.forecasters.baselines import SampleTable, make_baseline
from quantattn.forecasters.history import History, encode, fit_encoders
from quantattn.forecasters.intervals import residual_interval
from quantattn.pit.timestamps import iso
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.networks import FoldTokens, fit_network, stream_test, training_log
from quantattn.walkforward.settings import NETWORKS, FoldSettings
from quantattn.walkforward.table import TestForecasts, forecast_rows
from quantattn.walkforward.units import Unit, check_unit, read_forecasts, write_unit


class Watcher(Protocol):
    """Is told how far the folds have come."""

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps."""

    def note(self, text: str) -> None:
        """Show what is being done."""


@dataclass
class Outcome:
    """What the engine did.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The whole forecasts table, in a fixed order.
    reused : list of Unit
        Units that were there already and matched.
    redone : dict of Unit to str
        Units that were there and did not match, and why.
    """

    forecasts: pl.DataFrame
    reused: list[Unit] = field(default_factory=list)
    redone: dict[Unit, str] = field(default_factory=dict)


def plan_units(folds: Sequence[Fold], settings: FoldSettings) -> list[Unit]:
    """List the units of a study; a model that chance does not touch runs for the first seed alone."""
    return [
        Unit(fold.index, model, seed)
        for fold in folds
        for model in settings.models
        for seed in (settings.seeds if model in NETWORKS else settings.seeds[:1])
    ]


def unit_steps(unit: Unit, settings: FoldSettings) -> int:
    """Count the progress steps of a unit: its epochs and its test span."""
    return settings.training.epochs + 1 if unit.model in NETWORKS else 1


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Run torch and the linear algebra libraries on a number of threads, and put theirs back after."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


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


def _unit_inputs(unit: Unit, fold: Fold, settings: FoldSettings, source: str) -> str:
    shared: dict[str, Any] = {
        "source": source,
        "unit": asdict(unit),
        "fit_time": fold.fit_time,
        "validation_time": fold.validation_time,
        "rows": [hash_bytes(rows.tobytes()) for rows in (fold.train, fold.validation, fold.test)],
        "training": asdict(settings.training),
        "study": settings.study,
    }
    if unit.model in NETWORKS:
        shared["network"] = settings.networks[unit.model].to_dict()
        shared["text_width"] = settings.text_width
        shared["threads"] = settings.threads
    return hash_json(shared)


def _baseline_forecasts(
    unit: Unit, fold: Fold, table: SampleTable, target: np.ndarray, coverage: float
) -> tuple[TestForecasts, dict[str, Any]]:
    model = make_baseline(unit.model, unit.seed).fit(table, fold.train)
    judged = fold.validation if len(fold.validation) else fold.train
    interval = residual_interval(target[judged] - model.predict(table, judged), coverage)
    return TestForecasts(model.predict(table, fold.test), interval), {"parameters": model.get_params()}


def run_folds(
    history: History,
    table: SampleTable,
    folds: Sequence[Fold],
    settings: FoldSettings,
    *,
    run: Path,
    source: str,
    watcher: Watcher,
) -> Outcome:
    """Train and forecast every unit, reusing those that are already there and match.

    Parameters
    ----------
    history : History
        All sequences.
    table : SampleTable
        The baselines' view of the same information sets.
    folds : sequence of Fold
        The folds.
    settings : FoldSettings
        Models and training.
    run : Path
        The run directory.
    source : str
        Hash of data, code and versions.
    watcher : Watcher
        Told about progress.

    Returns
    -------
    Outcome
    """
    target = history.samples["y_true"].to_numpy().astype(np.float64)
    outcome = Outcome(pl.DataFrame())
    units = plan_units(folds, settings)
    with limited_threads(settings.threads):
        for fold in folds:
            tokens: FoldTokens | None = None
            for unit in (unit for unit in units if unit.fold == fold.index):
                inputs = _unit_inputs(unit, fold, settings, source)
                reason = check_unit(unit, run, inputs=inputs)
                if reason is None:
                    outcome.reused.append(unit)
                    watcher.advance(unit_steps(unit, settings))
                    continue
                if reason != "absent":
                    outcome.redone[unit] = reason
                fitted = iso(fold.fit_time)[:10]
                watcher.note(f"fold {fold.index + 1} of {len(folds)}: {unit.model}, fitted at {fitted}")
                if unit.model in NETWORKS:
                    tokens = tokens or fold_tokens(history, fold, settings.text_width)
                    _run_network(unit, fold, tokens, target, history, settings, run, inputs, watcher)
                else:
                    forecasts, log = _baseline_forecasts(
                        unit, fold, table, target, settings.training.interval
                    )
                    rows = forecast_rows(
                        history.samples,
                        fold,
                        forecasts,
                        study=settings.study,
                        model=unit.model,
                        seed=unit.seed,
                    )
                    write_unit(unit, run, inputs=inputs, forecasts=rows, log=log)
                    watcher.advance(1)
    frames = [read_forecasts(unit, run) for unit in units]
    order = ["model", "seed", "fold", "forecast_time", "entity"]
    outcome.forecasts = pl.concat(frames).sort(order, maintain_order=True).rechunk()
    return outcome


def _run_network(
    unit: Unit,
    fold: Fold,
    tokens: FoldTokens,
    target: np.ndarray,
    history: History,
    settings: FoldSettings,
    run: Path,
    inputs: str,
    watcher: Watcher,
) -> None:
    done = 0

    def on_epoch(epoch: int) -> None:
        nonlocal done
        done += 1
        watcher.advance(1)

    forecaster, log = fit_network(
        fold,
        tokens,
        target,
        network=settings.networks[unit.model],
        training=settings.training,
        seed=unit.seed,
        on_epoch=on_epoch,
    )
    forecasts = stream_test(forecaster, fold, tokens, threads=settings.threads)
    rows = forecast_rows(
        history.samples, fold, forecasts, study=settings.study, model=unit.model, seed=unit.seed
    )
    write_unit(unit, run, inputs=inputs, forecasts=rows, log=training_log(log), extra=forecaster.save)
    watcher.advance(unit_steps(unit, settings) - done)
