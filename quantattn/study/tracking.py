"""Optional tracking of a run with MLflow: a parent run, and a child for each fold, model and seed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

from quantattn.errors import UsageError
from quantattn.study.execution import tracking_uri
from quantattn.study.preparing import Prepared
from quantattn.walkforward.settings import NETWORKS
from quantattn.walkforward.units import Unit, read_forecasts, read_log

_ARTEFACTS: Final = (
    "study.yaml",
    "manifest.json",
    "metrics.json",
    "comparisons.json",
    "latency.json",
    "audit.json",
    "findings.json",
    "forecasts.parquet",
    "report.html",
)
_PATIENCE: Final = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""A server that does not answer must not hold up a study; what the user has set stands."""


class Tracker(Protocol):
    """Is told of a run as it comes on."""

    @property
    def remarks(self) -> list[str]:
        """What could not be tracked, and why."""

    def unit(self, unit: Unit) -> None:
        """Track a unit that stands in the run directory."""

    def results(self, metrics: dict[str, Any], audit: dict[str, Any]) -> None:
        """Track what came out of the whole study."""

    def files(self, out: Path) -> None:
        """Track the files of the finished run."""


class NoTracker:
    """Tracks nothing."""

    remarks: list[str] = []  # noqa: RUF012 - it stays empty

    def unit(self, unit: Unit) -> None:
        """Track nothing."""

    def results(self, metrics: dict[str, Any], audit: dict[str, Any]) -> None:
        """Track nothing."""

    def files(self, out: Path) -> None:
        """Track nothing."""


def require_mlflow() -> Any:
    """Import MLflow.

    Raises
    ------
    UsageError
        If it is not installed.
    """
    try:
        import mlflow
    except ImportError as error:
        raise UsageError(
            '--track mlflow needs MLflow, which is not installed; run pip install "quantattn[mlflow]"'
        ) from error
    return mlflow


@contextmanager
def tracked(prepared: Prepared, out: Path) -> Iterator[Tracker]:
    """Track a run if it was asked for.

    Parameters
    ----------
    prepared : Prepared
        What is run.
    out : Path
        The run directory.

    Yields
    ------
    Tracker
        One that fails says so in its remarks and is silent from then on; the study goes on.

    Raises
    ------
    UsageError
        If MLflow is asked for and not installed.
    """
    if prepared.execution.track is None:
        yield NoTracker()
        return
    uri = tracking_uri(prepared.execution.track)
    mlflow = require_mlflow()
    if uri is None or "://" not in uri or uri.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # it was asked for by name
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    for logger in ("mlflow", "alembic"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    tracker = MlflowTracker(mlflow.MlflowClient, uri, prepared, out)
    try:
        yield tracker
    except KeyboardInterrupt:
        tracker.end("KILLED")
        raise
    except BaseException:
        tracker.end("FAILED")
        raise
    tracker.end("FINISHED")


class MlflowTracker:
    """Tracks a run with MLflow.

    Parameters
    ----------
    client : callable
        Makes an ``MlflowClient``.
    uri : str or None
        The tracking URI.
    prepared : Prepared
        What is run.
    out : Path
        The run directory.
    """

    def __init__(self, client: Callable[..., Any], uri: str | None, prepared: Prepared, out: Path) -> None:
        self.remarks: list[str] = []
        self._prepared, self._out = prepared, out
        self._client: Any = None
        self._parent = ""
        self._experiment = ""
        self._guarded(lambda: self._begin(client(tracking_uri=uri)), always=True)

    def _guarded(self, action: Callable[[], None], *, always: bool = False) -> None:
        if self.remarks or (self._client is None and not always):
            return
        try:
            action()
        except Exception as error:  # whatever a tracker or its server does, it is not the study's concern
            reason = " ".join(str(error).split())[:300]
            self.remarks.append(f"tracking with MLflow ended early ({type(error).__name__}: {reason})")

    def _begin(self, client: Any) -> None:
        study, settings = self._prepared.study, self._prepared.settings
        found = client.get_experiment_by_name(study.name)
        self._experiment = client.create_experiment(study.name) if found is None else found.experiment_id
        run = client.create_run(
            self._experiment, run_name=self._out.name, tags={"quantattn.folder": str(self._out)}
        )
        self._client, self._parent = client, run.info.run_id
        self._parameters(
            self._parent,
            {
                "engine": self._prepared.execution.engine,
                "workers": self._prepared.execution.workers,
                "threads": settings.threads,
                "retrain": settings.retrain.words(),
                "models": ", ".join(settings.models),
                "seeds": ", ".join(map(str, settings.seeds)),
                "folds": len(self._prepared.folds),
                "source": self._prepared.source,
            },
        )

    def unit(self, unit: Unit) -> None:
        """Track a unit: its parameters, its epochs, its test error and its files."""
        self._guarded(lambda: self._unit(unit))

    def _unit(self, unit: Unit) -> None:
        log, settings = read_log(unit, self._out), self._prepared.settings
        fold = next(fold for fold in self._prepared.folds if fold.index == unit.fold)
        name = f"fold {unit.fold} {unit.model} seed {unit.seed}"
        run = self._client.create_run(
            self._experiment, run_name=name, tags={"mlflow.parentRunId": self._parent}
        ).info.run_id
        parameters: dict[str, Any] = {"fold": unit.fold, "model": unit.model, "seed": unit.seed}
        parameters |= {name: value for name, value in fold.spans().items() if value is not None}
        if unit.model in NETWORKS:
            parameters |= settings.networks[unit.model].to_dict() | asdict(settings.training)
            parameters |= log.get("search", {}).get("chosen", {})
        else:
            parameters |= dict(log.get("parameters", {}))
        self._parameters(run, parameters)
        for entry in log.get("epochs", []):
            for side in ("training_loss", "validation_loss"):
                if entry[side] is not None:
                    self._client.log_metric(run, side, entry[side], step=entry["epoch"])
        rows = read_forecasts(unit, self._out)
        error = (rows["y_true"] - rows["y_pred"]).pow(2).mean()
        metrics = {"test_mse": error, "n_test": rows.height}
        metrics |= {name: log.get(name) for name in ("best_epoch", "tokens", "seconds")}
        self._metrics(run, metrics)
        self._client.log_artifacts(run, str(unit.folder(self._out)))
        self._client.set_terminated(run)

    def results(self, metrics: dict[str, Any], audit: dict[str, Any]) -> None:
        """Track the pooled metrics of each model, and the audit's verdict."""

        def send() -> None:
            for model in metrics["models"]:
                values = {
                    f"{model['model']}/{metric}": found["value"]
                    for metric, found in model["metrics"].items()
                    if found is not None
                }
                self._metrics(self._parent, values)
            self._client.set_tag(self._parent, "quantattn.audit", str(audit["verdict"]))

        self._guarded(send)

    def files(self, out: Path) -> None:
        """Track the files of the finished run, folds apart: those are with the children."""

        def send() -> None:
            for name in _ARTEFACTS:
                if (out / name).is_file():
                    self._client.log_artifact(self._parent, str(out / name))

        self._guarded(send)

    def end(self, status: str) -> None:
        """Close the parent run."""
        self._guarded(lambda: self._client.set_terminated(self._parent, status=status))

    def _parameters(self, run: str, parameters: dict[str, Any]) -> None:
        for name, value in parameters.items():
            self._client.log_param(run, name, value)

    def _metrics(self, run: str, metrics: dict[str, Any]) -> None:
        for name, value in metrics.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._client.log_metric(run, name, float(value))
