"""Units of work on disk: one folder for each fold, model and seed, written whole, known by its hashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from quantattn.errors import CheckpointError
from quantattn.files import atomic_directory, hash_bytes, hash_file, write_json
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA
from quantattn.walkforward.table import parquet_bytes

SCHEMA = 2
RECORD = "unit.json"
FORECASTS = "forecasts.parquet"
LOG = "log.json"


@dataclass(frozen=True)
class Unit:
    """One model trained with one seed in one fold.

    Parameters
    ----------
    fold : int
        The fold's number.
    model : str
        The model's name.
    seed : int
        The seed.
    """

    fold: int
    model: str
    seed: int

    def folder(self, run: Path) -> Path:
        """Give the unit's folder in a run directory."""
        return run / "folds" / str(self.fold) / f"{self.model}-{self.seed}"


def trials_file(unit: Unit, run: Path) -> Path:
    """Name the file that keeps the trials of a unit's search until the unit is done."""
    return unit.folder(run).with_name(f"{unit.model}-{unit.seed}.trials.json")


def write_unit(
    unit: Unit,
    run: Path,
    *,
    inputs: str,
    forecasts: pl.DataFrame,
    log: dict[str, Any],
    extra: Callable[[Path], None] | None = None,
) -> None:
    """Write a finished unit, whole or not at all.

    Parameters
    ----------
    unit : Unit
        The unit.
    run : Path
        The run directory.
    inputs : str
        Hash of everything that decides the unit's results.
    forecasts : polars.DataFrame
        Its rows of the forecasts table.
    log : dict
        What happened, as JSON values.
    extra : callable, optional
        Writes further files into the folder that it is given.
    """
    with atomic_directory(unit.folder(run)) as folder:
        (folder / FORECASTS).write_bytes(parquet_bytes(forecasts))
        write_json(folder / LOG, log)
        if extra is not None:
            extra(folder)
        files = {file.name: hash_file(file) for file in sorted(folder.iterdir())}
        write_json(folder / RECORD, {"schema": SCHEMA, "inputs": inputs, "files": files})


def read_unit(unit: Unit, run: Path) -> dict[str, bytes]:
    """Read a unit's folder, to be sent elsewhere.

    Parameters
    ----------
    unit : Unit
        The unit.
    run : Path
        The run directory.

    Returns
    -------
    dict of str to bytes
        Content by name, the record included.
    """
    return {file.name: file.read_bytes() for file in sorted(unit.folder(run).iterdir())}


def store_unit(unit: Unit, run: Path, files: Mapping[str, bytes]) -> None:
    """Write a unit's folder as :func:`read_unit` gave it, whole or not at all.

    Parameters
    ----------
    unit : Unit
        The unit.
    run : Path
        The run directory.
    files : mapping of str to bytes
        Content by name.

    Raises
    ------
    CheckpointError
        If a file is not the one that the record names, or there is another.
    """
    try:
        recorded = dict(json.loads(files[RECORD])["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{unit} came without a readable record ({error}); run it again") from error
    whole = {name: hash_bytes(content) for name, content in files.items() if name != RECORD}
    if whole != recorded:
        raise CheckpointError(f"{unit} came with files that are not those of its record; run it again")
    with atomic_directory(unit.folder(run)) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)


def check_unit(unit: Unit, run: Path, *, inputs: str | None) -> str | None:
    """Say why a stored unit cannot be used again; None if it can.

    Parameters
    ----------
    unit : Unit
        The unit.
    run : Path
        The run directory.
    inputs : str or None
        Hash of everything that decides the unit's results now; None to leave that out.

    Returns
    -------
    str or None
        ``"absent"``, or what is wrong with it.
    """
    folder = unit.folder(run)
    if not folder.exists():
        return "absent"
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        files = dict(record["files"])
        stored, schema = record["inputs"], record["schema"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "its record cannot be read"
    if schema != SCHEMA:
        return f"it was written in schema {schema}"
    if inputs is not None and stored != inputs:
        return "data, code, settings or versions have changed since it was written"
    there = {file.name for file in folder.iterdir()} - {RECORD}
    if set(files) != there or not there >= {FORECASTS, LOG}:
        return "files are missing or strange"
    for name, digest in files.items():
        try:
            altered = hash_file(folder / name) != digest
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if altered:
            return f"{name} was altered or cut short"
    return None


def read_forecasts(unit: Unit, run: Path) -> pl.DataFrame:
    """Read a unit's rows of the forecasts table.

    Raises
    ------
    CheckpointError
        If they cannot be read or have other columns.
    """
    path = unit.folder(run) / FORECASTS
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); run again with --resume") from error
    if list(frame.schema.items()) != list(FORECAST_SCHEMA.items()):
        raise CheckpointError(
            f"{path} has columns {frame.columns}, not those of a forecasts table; run again with --resume"
        )
    return frame


def read_log(unit: Unit, run: Path) -> dict[str, Any]:
    """Read what happened in a unit.

    Raises
    ------
    CheckpointError
        If it cannot be read.
    """
    path = unit.folder(run) / LOG
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); run again with --resume") from error
