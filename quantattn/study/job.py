"""The main job: from a study to its report, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from quantattn.errors import OutputDirectoryError
from quantattn.evaluation import findings
from quantattn.files import exclusive_directory, write_json
from quantattn.report import write_report
from quantattn.study.config import Study
from quantattn.study.execution import Execution
from quantattn.study.forecasting import forecast, stored_forecasters
from quantattn.study.headline import headline
from quantattn.study.judging import audit, evaluate, latency
from quantattn.study.keeping import sweep
from quantattn.study.manifest import manifest
from quantattn.study.preparing import fold_settings, prepare
from quantattn.study.progress import Progress
from quantattn.study.tracking import require_mlflow, tracked
from quantattn.walkforward.engines import make_engine
from quantattn.walkforward.search import require_optuna

__all__ = ["RunSummary", "fold_settings", "run_study"]


@dataclass(frozen=True)
class RunSummary:
    """What a finished run has to say.

    Parameters
    ----------
    report : Path
        The report.
    headline : str
        The answer in one sentence.
    findings : list of str
        The three findings that matter.
    remarks : list of str
        What the reader should know that went otherwise than asked: tracking that failed.
    """

    report: Path
    headline: str
    findings: list[str]
    remarks: list[str] = field(default_factory=list)


def run_study(
    study: Study,
    *,
    out: Path,
    quick: bool,
    resume: bool,
    progress: Progress,
    command: str,
    execution: Execution | None = None,
) -> RunSummary:
    """Run a study from its files to its report.

    Every finished piece of work is kept as soon as it is there; a killed run, resumed, ends with the same
    forecasts, byte for byte but for the timings.

    Parameters
    ----------
    study : Study
        As it is run: for a quick run, the reduced one.
    out : Path
        The run directory, which holds ``study.yaml`` already.
    quick : bool
        Whether this is the reduced study; kept in the manifest.
    resume : bool
        Whether work found in `out` may be used again where it matches.
    progress : Progress
        Shows the stages.
    command : str
        The command line, for the manifest.
    execution : Execution, optional
        Engine, workers, threads and tracking; this process on all cores by default.

    Returns
    -------
    RunSummary
    """
    try:
        with exclusive_directory(out):
            how = execution or Execution()
            return _run(study, how, out=out, quick=quick, resume=resume, progress=progress, command=command)
    except BlockingIOError as error:
        raise OutputDirectoryError(
            f"another run is at work in {str(out)!r}; wait for it to end, or name another folder with --out"
        ) from error


def _run(
    study: Study, how: Execution, *, out: Path, quick: bool, resume: bool, progress: Progress, command: str
) -> RunSummary:
    started = datetime.now(UTC)
    engine = make_engine(how.engine, workers=how.workers, address=how.address)
    require_extras(study, how)
    sweep(out)
    prepared = prepare(study, progress, how)
    with tracked(prepared, out) as tracker:
        forecasts, remarks = forecast(prepared, engine, out, progress, tracker.unit)
        metrics, comparisons = evaluate(prepared, forecasts, out, progress)
        forecasters = stored_forecasters(prepared, out)
        timed = latency(prepared, forecasts, forecasters, out, resume, progress)
        audited = audit(prepared, forecasts, forecasters, out, resume, progress)
        said = findings(metrics, comparisons, timed)
        answer = headline(metrics, comparisons, timed, audited)
        write_json(out / "findings.json", {"headline": answer, "findings": said})
        tracker.results(metrics, audited)
        written = manifest(
            prepared,
            started=started,
            quick=quick,
            command=command,
            progress=progress,
            remarks=[*remarks, *tracker.remarks],
        )
        write_json(out / "manifest.json", written)
        with progress.stage("report"):
            report = write_report(out)
        tracker.files(out)
    return RunSummary(report, answer, said, list(tracker.remarks))


def require_extras(study: Study, how: Execution) -> None:
    """See that what is asked for is installed, before hours of work.

    Raises
    ------
    UsageError
        If it is not; the message names the extra.
    """
    if study.search is not None:
        require_optuna()
    if how.track is not None:
        require_mlflow()
