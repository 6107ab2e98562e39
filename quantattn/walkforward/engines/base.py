"""What an engine is, and the account that is kept of its work in the process that asked for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from quantattn.files import write_json
from quantattn.pit.timestamps import iso
from quantattn.walkforward.planning import Task, unit_steps
from quantattn.walkforward.running import Work
from quantattn.walkforward.units import Unit, trials_file


class Watcher(Protocol):
    """Is told how far the folds have come."""

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps."""

    def note(self, text: str) -> None:
        """Show what is being done."""


class Engine(Protocol):
    """Does units of work, one or many at a time; which engine did them changes no byte of the forecasts.

    Attributes
    ----------
    name : str
        ``"local"`` or ``"ray"``.
    workers : int
        Units at once on one machine of this size.
    """

    @property
    def name(self) -> str:
        """The engine's name."""

    @property
    def workers(self) -> int:
        """Units at once on one machine of this size."""

    def run(self, work: Work, tasks: Sequence[Task], run: Path, account: Account) -> None:
        """Do every task; a parent among them is done before its children.

        Parameters
        ----------
        work : Work
            What the units are made from.
        tasks : sequence of Task
            What is to be done; parents that are not among them stand in `run`.
        run : Path
            The run directory.
        account : Account
            Told of everything.
        """


class Account:
    """Keeps what units have come to, and tells a watcher; a unit that is begun again counts no step twice.

    Parameters
    ----------
    work : Work
        What the units are made from.
    tasks : sequence of Task
        What is to be done.
    run : Path
        The run directory.
    watcher : Watcher
        Told about progress.
    on_unit : callable, optional
        Called with each unit that has been written.
    """

    def __init__(
        self,
        work: Work,
        tasks: Sequence[Task],
        run: Path,
        watcher: Watcher,
        on_unit: Callable[[Unit], None] | None = None,
    ) -> None:
        self._work, self._run, self._watcher, self._on_unit = work, run, watcher, on_unit
        self._inputs = {task.unit: task.inputs for task in tasks}
        self._total = {task.unit: unit_steps(task.unit, work.settings) for task in tasks}
        self._told = dict.fromkeys(self._total, 0)
        self._trials: dict[Unit, list[dict[str, Any]]] = {}
        self.remarks: list[str] = []

    def begun(self, unit: Unit) -> None:
        """Note that a unit is being done."""
        fold = self._work.by_index[unit.fold]
        number = list(self._work.by_index).index(unit.fold) + 1
        fitted = iso(fold.fit_time)[:10]
        self._watcher.note(f"fold {number} of {len(self._work.folds)}: {unit.model}, fitted at {fitted}")

    def reached(self, unit: Unit, steps: int) -> None:
        """Note how many steps a unit has done."""
        steps = min(steps, self._total[unit])
        if steps > self._told[unit]:
            self._watcher.advance(steps - self._told[unit])
            self._told[unit] = steps

    def trial(self, unit: Unit, record: dict[str, Any]) -> None:
        """Keep a trial of a unit's search, should the unit be cut short."""
        trials = self._trials.setdefault(unit, [])
        del trials[record["number"] :]
        trials.append(record)
        write_json(trials_file(unit, self._run), {"inputs": self._inputs[unit], "trials": trials})

    def known_trials(self, unit: Unit) -> list[Mapping[str, Any]]:
        """Give the trials of a unit that was cut short, if they are of the same inputs."""
        if self._work.settings.search is None:
            return []
        try:
            stored = json.loads(trials_file(unit, self._run).read_text(encoding="utf-8"))
            trials = stored["trials"] if stored["inputs"] == self._inputs[unit] else []
            self._trials[unit] = [dict(record) for record in trials]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
        return list(self._trials[unit])

    def finished(self, unit: Unit) -> None:
        """Note that a unit stands in the run directory."""
        self.reached(unit, self._total[unit])
        trials_file(unit, self._run).unlink(missing_ok=True)
        if self._on_unit is not None:
            self._on_unit(unit)

    def remark(self, unit: Unit, words: str) -> None:
        """Note what whoever reads the results should know of a unit."""
        self.remarks.append(f"fold {unit.fold} {unit.model} seed {unit.seed} was run {words}")

    def again(self, unit: Unit, why: str) -> None:
        """Note that a unit is begun again, and why."""
        words = f"fold {unit.fold} {unit.model} seed {unit.seed} was begun again: {why}"
        self.remarks.append(words)
        self._watcher.note(words)


class UnitReport:
    """Counts the steps of a unit and hands them on.

    Parameters
    ----------
    reached : callable
        Told the number of steps so far.
    keep : callable
        Given the record of each trial.
    """

    def __init__(self, reached: Callable[[int], None], keep: Callable[[dict[str, Any]], None]) -> None:
        self._reached, self._keep, self._steps = reached, keep, 0

    def begin(self) -> None:
        """Count from zero, for the next unit."""
        self._steps = 0

    def step(self) -> None:
        """Count one epoch or trial as done."""
        self._steps += 1
        self._reached(self._steps)

    def trial(self, record: dict[str, Any]) -> None:
        """Hand on the record of a finished trial."""
        self._keep(record)


class Queue:
    """The tasks that are left, in the order in which to do them: the longest first, parents before children.

    Parameters
    ----------
    work : Work
        Gives the size of each fold.
    tasks : sequence of Task
        What is to be done.
    """

    def __init__(self, work: Work, tasks: Sequence[Task]) -> None:
        self._waiting = sorted(tasks, key=lambda task: -_size(work, task))
        self._unfinished = {task.unit for task in tasks}

    def __bool__(self) -> bool:
        """Say whether anything is left to begin."""
        return bool(self._waiting)

    def next(self) -> Task | None:
        """Take the first task whose parent stands; None if all that are left wait for one."""
        for place, task in enumerate(self._waiting):
            if task.parent not in self._unfinished:
                return self._waiting.pop(place)
        return None

    def put_back(self, task: Task) -> None:
        """Let a task be the next once more."""
        self._waiting.insert(0, task)

    def finish(self, unit: Unit) -> None:
        """Let the children of a unit be begun."""
        self._unfinished.discard(unit)


def _size(work: Work, task: Task) -> int:
    """Give what makes a task long: rows of a network that trains; a parent's children wait for it."""
    fold = work.by_index[task.unit.fold]
    trains = task.unit.model in work.settings.networks and (task.parent is None or task.begins)
    return len(fold.train) if trains else 0
