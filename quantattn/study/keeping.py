"""What a run keeps in its folder, and what it removes: leftovers, and what belongs to other forecasts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import polars as pl

from quantattn.files import atomic_path, hash_file, hash_json, write_json
from quantattn.walkforward.planning import Task
from quantattn.walkforward.table import parquet_bytes
from quantattn.walkforward.units import RECORD, Unit, check_unit, trials_file

FORECASTS: Final = "forecasts.parquet"
MADE_FROM_FORECASTS: Final = (
    "metrics.json",
    "comparisons.json",
    "latency.json",
    "audit.json",
    "findings.json",
    "manifest.json",
    "report.html",
)
"""What belongs to one forecasts table and to no other."""


def sweep(out: Path) -> None:
    """Remove what a killed run left half-written."""
    for leftover in [*out.glob(".*.tmp"), *out.glob("folds/*/.*.tmp"), *out.glob("folds/*/*/.*.tmp")]:
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def drop_unplanned(out: Path, units: list[Unit]) -> None:
    """Remove pieces of work that this study does not have: its data once made more folds."""
    planned = {unit.folder(out) for unit in units}
    for folder in out.glob("folds/*/*"):
        # Only what a run wrote is a run's to remove.
        if folder not in planned and (folder / RECORD).is_file():
            shutil.rmtree(folder)
    trials = {trials_file(unit, out) for unit in units}
    for file in out.glob("folds/*/*.trials.json"):
        if file not in trials:
            file.unlink(missing_ok=True)
    for fold in out.glob("folds/*"):
        with suppress(OSError):  # it still holds something
            fold.rmdir()


def drop_results(out: Path) -> None:
    """Remove everything that was made from the forecasts table."""
    for name in MADE_FROM_FORECASTS:
        (out / name).unlink(missing_ok=True)


def drop_stale_results(out: Path, tasks: Iterable[Task]) -> None:
    """Remove results of forecasts that are about to be made again: a run that fails leaves no old verdict."""
    stands = any((out / name).exists() for name in MADE_FROM_FORECASTS)
    if stands and any(check_unit(task.unit, out, inputs=task.inputs) is not None for task in tasks):
        drop_results(out)


def write_forecasts(forecasts: pl.DataFrame, out: Path) -> None:
    """Write the forecasts table; results that were made from another one go first."""
    path = out / FORECASTS
    with atomic_path(path) as temporary:
        temporary.write_bytes(parquet_bytes(forecasts))
        if path.exists() and hash_file(path) != hash_file(temporary):
            drop_results(out)


def result_inputs(out: Path, source: str) -> str:
    """Name everything that latencies and audit depend on: forecasts with their timings, data and code."""
    return hash_json({"forecasts": hash_file(out / FORECASTS), "source": source})


def _reusable(path: Path, inputs: str) -> dict[str, Any] | None:
    """Read a result file that was made from the same inputs; None if there is none."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(stored, dict) and stored.pop("sha256", None) == hash_json(stored)
    except (OSError, ValueError, RecursionError):
        return None
    return stored if whole and stored.get("inputs") == inputs else None


def kept(path: Path, inputs: str, resume: bool, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Use a stored result again on resuming, or make and store it.

    Parameters
    ----------
    path : Path
        Its file.
    inputs : str
        Hash of what it is made from.
    resume : bool
        Whether a stored one may be used.
    make : callable
        Makes it.

    Returns
    -------
    dict
    """
    stored = _reusable(path, inputs) if resume else None
    if stored is None:
        stored = {**make(), "inputs": inputs}
        # By its hash a result that was altered or stands under another's name is known and made again.
        write_json(path, {**stored, "sha256": hash_json(stored)})
    return stored
