"""A run's own events, to stream through its forecasters."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from quantattn.errors import CheckpointError, UsageError
from quantattn.pit import EventLog
from quantattn.study.loading import load_study
from quantattn.study.replay.checking import refuse_edited_study
from quantattn.study.replay.opening import own_log


def run_events(run: str | Path) -> EventLog:
    """Make the event log that a run's forecasts have read, from the data that its study names.

    Parameters
    ----------
    run : str or Path
        The run folder.

    Returns
    -------
    EventLog
        In canonical order. A forecaster of the run that streams through it gives the run's forecasts again,
        bit for bit, with equal ``info_hash``.

    Raises
    ------
    UsageError
        If there is no such run.
    CheckpointError
        If the study or the data are no longer those that the run recorded when it came to its end.
    StudyError
        If the study in the folder is faulty, or a data file that it names is gone.
    DataError
        If a data file breaks the data contract.

    Examples
    --------
    >>> log = run_events("runs/mine")  # doctest: +SKIP
    >>> live = StreamingForecaster.from_checkpoint("runs/mine/folds/3/linear-0")  # doctest: +SKIP
    >>> table = live.replay(log, clock)  # doctest: +SKIP
    """
    if not isinstance(run, str | Path):
        raise UsageError(f"run={run!r}: give the name of a run folder, as a text or a Path")
    folder = Path(run)
    if not (folder / "study.yaml").is_file():
        what = "holds no study.yaml, so it is no run" if folder.is_dir() else "is no folder"
        raise UsageError(f"{str(run)!r} {what}; give the folder that `quantattn run --out` wrote")
    study = load_study(folder / "study.yaml")
    refuse_edited_study(folder, study)

    def refuse(reason: str) -> NoReturn:
        raise CheckpointError(f"{folder}: {reason}; put the run's data back, or run the study again")

    return own_log(folder, study, refuse)
