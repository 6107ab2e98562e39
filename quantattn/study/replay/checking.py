"""Is a run folder still what its run wrote: study, units and forecasts held against what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import polars as pl

from quantattn.errors import CheckpointError
from quantattn.study.config import Study, study_hash
from quantattn.walkforward.units import Unit, check_unit

_MANIFEST: Final = "manifest.json"
_FORECASTS: Final = "forecasts.parquet"
_KEY: Final = ("forecast_time", "entity", "horizon")


def refuse_edited_study(run: Path, study: Study) -> None:
    """Refuse a study that is not the one that the run was made of.

    Parameters
    ----------
    run : Path
        The run folder. A run that has not come to its end recorded no study; then nothing is compared.
    study : Study
        What its ``study.yaml`` says now.

    Raises
    ------
    CheckpointError
        If they differ in what decides results, or the record cannot be read.
    """
    path = run / _MANIFEST
    if not path.exists():
        return
    try:
        recorded: Any = json.loads(path.read_text(encoding="utf-8"))["study_hash"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}), so nobody knows the run's study; run again with --resume"
        ) from error
    if recorded != study_hash(study):
        raise CheckpointError(
            f"{run / 'study.yaml'} is not the study that this run was made of, so its clock and events would "
            "be others than the model's; put the run's own back, or run the edited one in another folder"
        )


def refuse_other_rows(unit: Unit, rows: pl.DataFrame, run: Path) -> None:
    """Refuse a unit whose forecasts are those of another unit or run.

    Parameters
    ----------
    unit : Unit
        What its folder's name says.
    rows : polars.DataFrame
        Its rows of the forecasts table.
    run : Path
        The run folder. If its run has come to its end, its forecasts table must hold these rows.

    Raises
    ------
    CheckpointError
        If they are.
    """
    said = rows.select("fold", "model", "seed").unique().rows()
    if said != [(unit.fold, unit.model, unit.seed)]:
        raise CheckpointError(
            f"{unit.folder(run)} holds forecasts of (fold, model, seed) {sorted(said)[:3]}: it belongs to "
            "another unit; run again with --resume"
        )
    path = run / _FORECASTS
    if not (run / _MANIFEST).exists():
        return
    try:
        table = pl.read_parquet(path)
        mine = table.filter(
            (pl.col("fold") == unit.fold) & (pl.col("model") == unit.model) & (pl.col("seed") == unit.seed)
        ).select(rows.columns)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); run again with --resume") from error
    if not mine.sort(_KEY).equals(rows.sort(_KEY)):
        raise CheckpointError(
            f"{unit.folder(run)} holds other forecasts than {path} has of it: it belongs to another run, or "
            "was made again; run again with --resume"
        )


def refuse_strange_unit(unit: Unit, run: Path) -> None:
    """Refuse a unit whose files are not those of its record.

    Parameters
    ----------
    unit : Unit
        The unit.
    run : Path
        The run folder.

    Raises
    ------
    CheckpointError
        If it is of another schema, or a file is missing, strange or altered.
    """
    reason = check_unit(unit, run, inputs=None)
    if reason is not None:
        raise CheckpointError(f"{unit.folder(run)} cannot be used: {reason}; run again with --resume")
