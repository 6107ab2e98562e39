"""Fitted estimators on disk: a fitted forecaster and the arguments of its constructor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantattn.errors import CheckpointError, OutputDirectoryError
from quantattn.files import atomic_directory, hash_file, hash_json, write_json
from quantattn.forecasters.estimators.values import plain
from quantattn.forecasters.fitted import CONFIG, WEIGHTS, FittedForecaster

SCHEMA = 1
ESTIMATOR = "estimator.json"
_FILES = {CONFIG, WEIGHTS, ESTIMATOR}
LEARNED = ("fit_time", "cutoff", "n_rows", "n_masked")


def write_estimator(
    folder: Path,
    kind: str,
    parameters: Mapping[str, Any],
    learned: Mapping[str, Any],
    forecaster: FittedForecaster,
) -> None:
    """Write an estimator into a folder, whole or not at all.

    Raises
    ------
    OutputDirectoryError
        If the folder holds anything but an estimator, or is a file.
    UsageError
        If an argument cannot be stored.
    """
    arguments = {name: plain(parameters, name) for name in parameters}
    if folder.exists() and not folder.is_dir():
        raise OutputDirectoryError(f"{str(folder)!r} is a file; give a folder")
    strange = {entry.name for entry in folder.iterdir()} - _FILES if folder.exists() else set()
    if strange:
        raise OutputDirectoryError(
            f"{str(folder)!r} holds {sorted(strange)[:3]}, which an estimator does not; give a folder of "
            "its own"
        )
    with atomic_directory(folder) as fresh:
        forecaster.save(fresh)
        content = {
            "schema": SCHEMA,
            "estimator": kind,
            "parameters": arguments,
            "learned": dict(learned),
            "forecaster_sha256": hash_file(fresh / CONFIG),
        }
        write_json(fresh / ESTIMATOR, {**content, "sha256": hash_json(content)})


def read_estimator(
    folder: Path, kind: str, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int], FittedForecaster]:
    """Read what :func:`write_estimator` wrote: the constructor's arguments, what was learned, the forecaster.

    Raises
    ------
    CheckpointError
        If a file is missing, truncated, altered, or of another estimator or version.
    """
    remedy = "fit and save it again"
    try:
        stored = json.loads((folder / ESTIMATOR).read_text(encoding="utf-8"))
        config = hash_file(folder / CONFIG)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder} holds no readable estimator ({error}); {remedy}") from error
    if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
        raise CheckpointError(f"{folder / ESTIMATOR} is not of schema {SCHEMA}; {remedy}")
    content = {name: value for name, value in stored.items() if name != "sha256"}
    try:
        whole = hash_json(content) == stored.get("sha256")
    except ValueError:  # NaN, which is never written
        whole = False
    if not whole or stored.get("forecaster_sha256") != config:
        raise CheckpointError(f"{folder / ESTIMATOR} was altered, or belongs to another forecaster; {remedy}")
    if stored.get("estimator") != kind:
        raise CheckpointError(f"{folder} holds a {stored.get('estimator')}, not a {kind}; load it as that")
    parameters, learned = stored.get("parameters"), stored.get("learned")
    if not isinstance(parameters, dict) or set(parameters) != set(defaults):
        raise CheckpointError(f"{folder / ESTIMATOR} has the arguments of another version; {remedy}")
    if not isinstance(learned, dict) or set(learned) != set(LEARNED):
        raise CheckpointError(f"{folder / ESTIMATOR} lacks what was learned; {remedy}")
    odd = {name: value for name, value in learned.items() if type(value) is not int or abs(value) >= 2**63}
    if odd:
        raise CheckpointError(f"{folder / ESTIMATOR} holds {odd}, which are no whole numbers; {remedy}")
    tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
    return tuples, learned, FittedForecaster.load(folder)
