"""The stage that trains and forecasts, and which of its forecasts may be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from quantattn.evaluation import validate_forecasts
from quantattn.forecasters import FittedForecaster
from quantattn.forecasters.baselines import BASELINES, baseline_traits
from quantattn.study.keeping import drop_stale_results, drop_unplanned, write_forecasts
from quantattn.study.preparing import Prepared
from quantattn.study.progress import Progress
from quantattn.walkforward.engines import Engine, run_folds
from quantattn.walkforward.planning import plan_tasks, plan_units, runs_every_seed, unit_steps
from quantattn.walkforward.settings import NETWORKS
from quantattn.walkforward.units import Unit


def forecast(
    prepared: Prepared,
    engine: Engine,
    out: Path,
    progress: Progress,
    on_unit: Callable[[Unit], None] | None = None,
) -> tuple[pl.DataFrame, list[str]]:
    """Train and forecast what is not there yet, and write the forecasts table.

    Parameters
    ----------
    prepared : Prepared
        What the data stage gave.
    engine : Engine
        Does the units.
    out : Path
        The run directory.
    progress : Progress
        Shows the stage.
    on_unit : callable, optional
        Called with each unit that stands.

    Returns
    -------
    forecasts : polars.DataFrame
        The whole table.
    remarks : list of str
        What was done again, and why.
    """
    settings = prepared.settings
    units = plan_units(prepared.folds, settings)
    drop_stale_results(out, plan_tasks(prepared.folds, settings, prepared.source))
    drop_unplanned(out, units)
    steps = sum(unit_steps(unit, settings) for unit in units)
    with progress.stage("train and forecast", total=steps) as stage:
        outcome = run_folds(
            prepared.history,
            prepared.table,
            prepared.folds,
            settings,
            run=out,
            source=prepared.source,
            watcher=stage,
            engine=engine,
            on_unit=on_unit,
        )
        forecasts = validate_forecasts(outcome.forecasts)
        write_forecasts(forecasts, out)
        redone = [
            f"fold {unit.fold} {unit.model} seed {unit.seed} was done again: {why}"
            for unit, why in outcome.redone.items()
        ]
        note = f"{forecasts.height:,} forecasts"
        if settings.retrain.warm:
            note += ", networks warm-started from the fold before"
        if outcome.reused:
            note += f", {len(outcome.reused)} pieces of work used again"
        if redone:
            note += f", {len(redone)} done again ({next(iter(outcome.redone.values()))})"
        stage.note(note)
    remarks = [*redone, *outcome.remarks]
    if settings.ensemble and not (
        len(settings.seeds) > 1 and any(runs_every_seed(name) for name in settings.models)
    ):
        remarks.append("ensemble: no model was trained with several seeds, so there was nothing to average")
    return forecasts, remarks


def windowed_models(prepared: Prepared) -> dict[str, int]:
    """Give the baselines that read the last so many events alone, with that number."""
    windows = {name: baseline_traits(name).window for name in prepared.settings.models if name in BASELINES}
    return {name: window for name, window in windows.items() if window is not None}


def network_units(prepared: Prepared) -> list[Unit]:
    """List the units whose models are networks."""
    return [unit for unit in plan_units(prepared.folds, prepared.settings) if unit.model in NETWORKS]


def stored_forecasters(prepared: Prepared, out: Path) -> dict[tuple[int, str, int], FittedForecaster]:
    """Load the forecasters of a run, by fold, model and seed."""
    return {
        (unit.fold, unit.model, unit.seed): FittedForecaster.load(unit.folder(out))
        for unit in network_units(prepared)
    }
