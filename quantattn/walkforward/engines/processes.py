"""Worker processes of this machine: started, fed, replaced when they die, and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from quantattn.errors import ForecasterError
from quantattn.walkforward.engines.base import Account, Queue
from quantattn.walkforward.engines.worker import Orders, serve
from quantattn.walkforward.planning import Task
from quantattn.walkforward.units import Unit

MOST_DEATHS: Final = 3
"""A unit whose worker died so often is given up: it would go on for ever."""

_FAREWELL: Final = 5.0
"""Seconds that an idle worker gets to leave by itself."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task | None = None


@dataclass
class Pool:
    """Workers that do tasks side by side.

    Parameters
    ----------
    orders : Orders
        What every worker is told.
    size : int
        How many there are.
    account : Account
        Told of everything.
    """

    orders: Orders
    size: int
    account: Account
    _workers: list[_Worker] = field(default_factory=list)
    _deaths: dict[Unit, int] = field(default_factory=dict)

    def work_off(self, queue: Queue) -> None:
        """Do all tasks of a queue.

        Raises
        ------
        ForecasterError
            If workers die again and again at one unit.
        Exception
            What a unit raised; units that were finished by then are kept.
        """
        try:
            self._work_off(queue)
        finally:
            self._end()

    def _work_off(self, queue: Queue) -> None:
        while True:
            self._hand_out(queue)
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy and not queue:
                return
            ready = set(wait([item for one in busy for item in (one.connection, one.process.sentinel)]))
            for worker in busy:
                if worker.connection in ready or worker.process.sentinel in ready:
                    self._hear(worker, queue)

    def _hand_out(self, queue: Queue) -> None:
        while (idle := self._idle()) is not None or len(self._workers) < self.size:
            task = queue.next()
            if task is None:
                return
            worker = idle or self._start()
            worker.task = task
            self.account.begun(task.unit)
            with contextlib.suppress(OSError):  # it died while idle, which its sentinel tells
                worker.connection.send((task, self.account.known_trials(task.unit)))

    def _idle(self) -> _Worker | None:
        return next((worker for worker in self._workers if worker.task is None), None)

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.orders), daemon=True)
        with _deaf_to_interrupts():
            process.start()
        theirs.close()  # or its end would stay open here and a dead worker never be seen
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def _hear(self, worker: _Worker, queue: Queue) -> None:
        """Take in all that a worker has said, and its death if it has come."""
        assert worker.task is not None
        unit = worker.task.unit
        try:
            while worker.connection.poll():
                word, content = worker.connection.recv()
                if word == "reached":
                    self.account.reached(unit, content)
                elif word == "trial":
                    self.account.trial(unit, content)
                elif word == "failed":
                    raise content
                elif word == "done":
                    worker.task = None
                    queue.finish(unit)
                    self.account.finished(unit)
                    return
        except (EOFError, ConnectionResetError):
            pass
        else:
            if worker.process.is_alive():
                return
        self._bury(worker, queue)

    def _bury(self, worker: _Worker, queue: Queue) -> None:
        task = worker.task
        assert task is not None
        worker.process.join()
        worker.connection.close()
        self._workers.remove(worker)
        # Half of a folder under a hidden name may be left; nobody else writes this unit.
        sweep_unit(task.unit, self.orders.run)
        how = _words(worker.process.exitcode)
        self._deaths[task.unit] = self._deaths.get(task.unit, 0) + 1
        if self._deaths[task.unit] >= MOST_DEATHS:
            raise ForecasterError(
                f"{self._deaths[task.unit]} workers died at fold {task.unit.fold} {task.unit.model} seed "
                f"{task.unit.seed}, the last {how}; if memory ran out, use fewer --workers"
            )
        self.account.again(task.unit, f"its worker {how}")
        queue.put_back(task)

    def _end(self) -> None:
        """End every worker: those at work at once, idle ones by a word."""
        for worker in self._workers:
            if worker.task is not None:
                worker.process.kill()
            else:
                with contextlib.suppress(OSError):
                    worker.connection.send(None)
        for worker in self._workers:
            worker.process.join(_FAREWELL)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
            if worker.task is not None:
                sweep_unit(worker.task.unit, self.orders.run)
        self._workers.clear()


def sweep_unit(unit: Unit, run: Path) -> None:
    """Remove what a killed worker left half-written of a unit."""
    folder = unit.folder(run)
    for leftover in folder.parent.glob(f".{folder.name}.*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)


def _words(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait while a process is started: one that comes too early for it would print a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
