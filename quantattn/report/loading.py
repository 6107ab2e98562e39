"""Reads the result files of a run directory, and says plainly what is wrong with one that is not whole."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import polars as pl
from pydantic import BaseModel, ValidationError

from quantattn.errors import CheckpointError
from quantattn.pit.timestamps import TIME
from quantattn.report.schema import Audit, Comparisons, Findings, Latency, Manifest, Metrics

MANIFEST_SCHEMA = 1
"""The schema version of ``manifest.json`` that this report understands."""

_Model = TypeVar("_Model", bound=BaseModel)

_FAMILIES = {
    "text": "text",
    "integer": "an integer type",
    "real": "a floating type",
    "time": "Datetime('ns', 'UTC')",
}

_FORECAST_COLUMNS = {
    "model": "text",
    "seed": "integer",
    "fold": "integer",
    "entity": "text",
    "forecast_time": "time",
    "y_pred": "real",
    "y_true": "real",
    "n_visible": "integer",
    "max_available_at": "time",
    "info_hash": "text",
}


@dataclass(frozen=True)
class RunResults:
    """Everything that a report shows, as it was written by the run.

    Attributes
    ----------
    findings, metrics, comparisons, audit, manifest
        The validated JSON files of the same names.
    latency : Latency or None
        ``latency.json``, or None where the run did not measure latency and wrote none.
    study_text : str
        ``study.yaml`` as it stands.
    forecasts : polars.DataFrame
        The columns of ``forecasts.parquet`` that the report draws on; times are UTC.
    """

    findings: Findings
    metrics: Metrics
    comparisons: Comparisons
    latency: Latency | None
    audit: Audit
    manifest: Manifest
    study_text: str
    forecasts: pl.DataFrame


def load_run(run_directory: str | Path) -> RunResults:
    """Read and check the result files of a run directory.

    Parameters
    ----------
    run_directory : str or Path
        A run directory (``quantattn run --out``).

    Returns
    -------
    RunResults
        The validated results.

    Raises
    ------
    CheckpointError
        If the directory or one of its files is missing, cannot be read, breaks its schema, or does not
        belong to the same run as the others. ``latency.json`` alone may be absent: latency is optional.
    """
    run_directory = Path(run_directory)
    if not run_directory.is_dir():
        raise CheckpointError(
            f"{run_directory} is not a run directory: there is no such folder; "
            "give the folder that 'quantattn run --out' wrote"
        )
    latency_path = run_directory / "latency.json"
    results = RunResults(
        findings=_read_record(run_directory / "findings.json", Findings),
        metrics=_read_record(run_directory / "metrics.json", Metrics),
        comparisons=_read_record(run_directory / "comparisons.json", Comparisons),
        latency=_read_record(latency_path, Latency) if latency_path.exists() else None,
        audit=_read_record(run_directory / "audit.json", Audit),
        manifest=_read_record(run_directory / "manifest.json", Manifest),
        study_text=_read_text(run_directory / "study.yaml"),
        forecasts=_read_forecasts(run_directory / "forecasts.parquet"),
    )
    _check_one_run(results, run_directory)
    return results


def _fail(path: Path, problem: str) -> NoReturn:
    raise CheckpointError(f"{path}: {problem}; {_remedy(path.parent)} to write it whole")


def _remedy(directory: Path) -> str:
    """Say how to finish the run: with its own command, where the manifest is there to name it."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        command = manifest["command"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        command = None
    if isinstance(command, list):
        command = shlex.join(map(str, command))
    if not isinstance(command, str) or not command.strip():
        return "run the study again with --resume and the same --out"
    resume = "" if "--resume" in command.split() else " --resume"
    return f"run '{command}{resume}' again"


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        _fail(path, "the file is missing")
    except UnicodeDecodeError as error:
        _fail(path, f"the file is not UTF-8 text ({error.reason} at byte {error.start})")
    except OSError as error:
        _fail(path, f"the file cannot be read ({error.strerror})")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not JSON; undefined figures are null")


def _read_record(path: Path, model: type[_Model]) -> _Model:
    text = _read_text(path)
    try:
        # The stricter parser first: it also finds a NaN inside free-form parts such as evidence.
        json.loads(text, parse_constant=_refuse_constant)
        return model.model_validate_json(text)
    except ValidationError as error:
        _fail(path, _describe(error))
    except (ValueError, RecursionError) as error:
        _fail(path, f"the file is not valid JSON ({error})")


def _describe(error: ValidationError, most: int = 3) -> str:
    """Name the first offending fields of a validation error."""
    problems = [
        f"'{'.'.join(str(part) for part in item['loc']) or '(the whole file)'}': {item['msg']}"
        for item in error.errors(include_url=False, include_context=False)[:most]
    ]
    rest = error.error_count() - len(problems)
    return "; ".join(problems) + (f"; and {rest} more" if rest > 0 else "")


def _read_forecasts(path: Path) -> pl.DataFrame:
    if not path.exists():
        _fail(path, "the file is missing")
    try:
        schema = pl.read_parquet_schema(path)
        absent = [name for name in _FORECAST_COLUMNS if name not in schema]
        if absent:
            _fail(path, f"there is no column {', '.join(map(repr, absent))}")
        frame = pl.read_parquet(path, columns=list(_FORECAST_COLUMNS))
    except (pl.exceptions.PolarsError, OSError) as error:
        _fail(path, f"the file is not a readable Parquet file ({str(error).splitlines()[0]})")
    for name, family in _FORECAST_COLUMNS.items():
        if not _is_of_family(frame.schema[name], family):
            _fail(path, f"column {name!r} has type {frame.schema[name]}, not {_FAMILIES[family]}")
    if frame.is_empty():
        _fail(path, "the file holds no forecasts")
    return frame


def _is_of_family(dtype: pl.DataType, family: str) -> bool:
    """Say whether a column's type carries what the report needs; widths do not matter."""
    if family == "time":
        return dtype == TIME
    if family == "integer":
        return dtype.is_integer()
    if family == "real":
        return dtype.is_float()
    return dtype == pl.String


def _check_one_run(results: RunResults, directory: Path) -> None:
    """Refuse files that were put together from different runs."""
    if results.manifest.schema_version != MANIFEST_SCHEMA:
        _fail(
            directory / "manifest.json",
            f"'schema' is {results.manifest.schema_version}, but this version reads {MANIFEST_SCHEMA}",
        )
    names = [entry.model for entry in results.metrics.models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        _fail(directory / "metrics.json", f"model {twice[0]!r} appears more than once")
    forecast = set(results.forecasts["model"].unique().to_list())
    strangers = [name for name in names if name not in forecast]
    if strangers:
        _fail(
            directory / "metrics.json",
            f"model {strangers[0]!r} has metrics but no row in forecasts.parquet: "
            "the two files belong to different runs",
        )
