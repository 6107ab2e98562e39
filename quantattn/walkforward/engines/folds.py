"""Every fold, model and seed of a study: what is there is used again, what is not an engine makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from quantattn.forecasters.baselines import SampleTable
from quantattn.forecasters.history import History
from quantattn.walkforward.engines.base import Account, Engine, Watcher
from quantattn.walkforward.engines.local import LocalEngine
from quantattn.walkforward.ensembles import ensemble_rows
from quantattn.walkforward.fold import Fold, require_walk_forward
from quantattn.walkforward.planning import plan_tasks, unit_steps
from quantattn.walkforward.retraining import retrained_folds
from quantattn.walkforward.running import Work
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.units import Unit, check_unit, read_forecasts, trials_file

_ORDER = ["model", "seed", "fold", "forecast_time", "entity"]


@dataclass
class Outcome:
    """What became of the units of a study.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The whole forecasts table, in a fixed order.
    reused : list of Unit
        Units that were there already and matched.
    redone : dict of Unit to str
        Units that were there and did not match, and why.
    remarks : list of str
        What else happened on the way: units that were begun again, and why.
    """

    forecasts: pl.DataFrame
    reused: list[Unit] = field(default_factory=list)
    redone: dict[Unit, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def run_folds(
    history: History,
    table: SampleTable,
    folds: Sequence[Fold],
    settings: FoldSettings,
    *,
    run: str | Path,
    source: str,
    watcher: Watcher,
    engine: Engine | None = None,
    on_unit: Callable[[Unit], None] | None = None,
) -> Outcome:
    """Train and forecast every unit, reusing those that are already there and match.

    Parameters
    ----------
    history : History
        All sequences.
    table : SampleTable
        The baselines' view of the same information sets.
    folds : sequence of Fold
        The folds, as they were split or as they are run.
    settings : FoldSettings
        Models and training.
    run : str or Path
        The run directory.
    source : str
        Hash of data, code and versions.
    watcher : Watcher
        Told about progress.
    engine : Engine, optional
        What does the units; by default this process, one after the other.
    on_unit : callable, optional
        Called with each unit once it stands in `run`, reused ones first.

    Returns
    -------
    Outcome

    Raises
    ------
    SplitError
        If a fold is not of a walk-forward.
    """
    require_walk_forward(folds, needed_by="run_folds")
    run = Path(run)
    work = Work(history, table, retrained_folds(folds, settings.retrain), settings)
    tasks = plan_tasks(work.folds, settings, source)
    outcome = Outcome(pl.DataFrame())
    pending = []
    for task in tasks:
        reason = check_unit(task.unit, run, inputs=task.inputs)
        if reason is not None:
            pending.append(task)
            if reason != "absent":
                outcome.redone[task.unit] = reason
            continue
        outcome.reused.append(task.unit)
        trials_file(task.unit, run).unlink(missing_ok=True)
        watcher.advance(unit_steps(task.unit, settings))
        if on_unit is not None:
            on_unit(task.unit)
    account = Account(work, pending, run, watcher, on_unit)
    if pending:
        (engine or LocalEngine()).run(work, pending, run, account)
    outcome.remarks = account.remarks
    frames = [read_forecasts(task.unit, run) for task in tasks]
    if settings.ensemble:
        frames += ensemble_rows(pl.concat(frames))
    outcome.forecasts = pl.concat(frames).sort(_ORDER, maintain_order=True).rechunk()
    return outcome
