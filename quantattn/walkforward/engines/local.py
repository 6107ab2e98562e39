"""The engine of one machine: this process, or several beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from quantattn.errors import UsageError
from quantattn.forecasters.baselines import BASELINES, BUILT_IN
from quantattn.walkforward.engines.base import Account, Queue, UnitReport
from quantattn.walkforward.engines.processes import Pool
from quantattn.walkforward.engines.shared import pack_work, write_files
from quantattn.walkforward.engines.worker import Orders, factory_or_none
from quantattn.walkforward.planning import Task
from quantattn.walkforward.running import LastFold, Work, run_task
from quantattn.walkforward.threads import limited_threads


@dataclass(frozen=True)
class LocalEngine:
    """Units in processes of this machine.

    With one worker, units are done in this process, one after the other. With more, each worker is a process
    of its own (spawned, so nothing of this one leaks into it), with a thread pool of
    ``settings.threads`` threads; data is written once, to files in the run directory that all of them map
    into memory, and goes when the work is done. A worker that is killed loses the unit that it was at, which
    another does again. Results are the same bytes for every number of workers.

    Parameters
    ----------
    workers : int, default 1
        Units at once. A script that uses more than one needs the usual
        ``if __name__ == "__main__":`` around what it does.

    Raises
    ------
    UsageError
        If `workers` is less than 1.
    """

    workers: int = 1
    name: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        """Check the number of workers."""
        if self.workers < 1:
            raise UsageError(f"workers={self.workers} must be at least 1")

    def run(self, work: Work, tasks: Sequence[Task], run: Path, account: Account) -> None:
        """Do every task; see :class:`~quantattn.walkforward.engines.Engine`."""
        if self.workers == 1:
            _run_here(work, tasks, run, account)
        else:
            _run_beside(work, tasks, run, account, min(self.workers, len(tasks)))


def _run_here(work: Work, tasks: Sequence[Task], run: Path, account: Account) -> None:
    tokens = LastFold(work.tokens)
    with limited_threads(work.settings.threads):
        for task in tasks:
            unit = task.unit
            account.begun(unit)
            report = UnitReport(
                lambda steps, unit=unit: account.reached(unit, steps),  # type: ignore[misc]
                lambda record, unit=unit: account.trial(unit, record),  # type: ignore[misc]
            )
            run_task(work, task, run, tokens, trials=account.known_trials(unit), report=report)
            account.finished(unit)


def _run_beside(work: Work, tasks: Sequence[Task], run: Path, account: Account, workers: int) -> None:
    strangers = [name for name in work.settings.models if name in BASELINES and name not in BUILT_IN]
    own = {name: factory_or_none(BASELINES[name]) for name in strangers}
    run.mkdir(parents=True, exist_ok=True)
    # A hidden name that ends in .tmp: whatever a killed driver leaves is swept by the next run.
    with tempfile.TemporaryDirectory(prefix=".shared.", suffix=".tmp", dir=run) as folder:
        write_files(pack_work(work), Path(folder))
        orders = Orders(Path(folder), run, tuple(work.folds), work.settings, own)
        Pool(orders, workers, account).work_off(Queue(work, tasks))
