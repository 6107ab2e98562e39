"""A study from Python: its folder, its settings and its run in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quantattn.study.config import Study
from quantattn.study.execution import Execution
from quantattn.study.output import run_directory
from quantattn.study.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from quantattn.study.job import RunSummary


def run_study(
    study: Study,
    out: str | Path,
    *,
    quick: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    execution: Execution | None = None,
) -> RunSummary:
    """Run a study as ``quantattn run`` does, models that this process has registered included.

    Parameters
    ----------
    study : Study
        See :func:`~quantattn.study.load_study`.
    out : str or Path
        The run's folder: new or empty, or one to go on in.
    quick : bool, default False
        Run the reduced study, for a first look.
    resume : bool, default False
        Go on with a run of this study that `out` holds.
    progress : Progress, optional
        Shows the stages; silent by default. ``progress_for(sys.stderr)`` is that of the command line.
    execution : Execution, optional
        Engine, workers, threads and tracking; this process on all cores by default. With several workers,
        register models at the top of a script whose main part is under ``if __name__ == "__main__":``.

    Returns
    -------
    RunSummary
        Path of the report, the answer and the findings.

    Raises
    ------
    OutputDirectoryError
        If `out` holds something else, or this study's run and `resume` is not set.

    Examples
    --------
    .. code-block:: python

        from sklearn.ensemble import RandomForestRegressor
        import quantattn as qa

        qa.register_estimator("forest", lambda seed: RandomForestRegressor(random_state=seed))
        study = qa.load_study("my_study.yaml")  # its models may name forest
        print(qa.run_study(study, "runs/forest").report)
    """
    from quantattn.study import job

    chosen = study.quick() if quick else study
    with run_directory(Path(out), chosen, resume=resume) as folder:
        return job.run_study(
            chosen,
            out=folder,
            quick=quick,
            resume=resume,
            progress=SilentProgress() if progress is None else progress,
            command="quantattn.run_study",
            execution=execution,
        )
