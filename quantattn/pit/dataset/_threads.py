"""Work on the blocks of a table in a few threads, with the results in order.

An executor of the standard library would do as well, but for Ctrl-C: its locks are Python code, which an
interruption can leave locked for ever. Here a thread is started for each task, waits for its turn, takes
the next task and ends with it: there is nothing that an interruption could leave undone.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

import polars as pl

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Give ``work(task)`` for each task, in the order of the tasks.

    As many tasks as polars has threads are worked on at a time, and no more than one task each waits beyond
    those, so that memory stays bounded however many tasks there are. Threads help because `work` releases
    the interpreter's lock. Where the iteration ends early, tasks that have not begun are dropped and the
    others waited for.
    """
    threads = pl.thread_pool_size()
    turns: SimpleQueue[None] = SimpleQueue()
    for _ in range(threads):
        turns.put(None)
    pending: deque[_Job[Task, Result]] = deque()
    waiting: deque[_Job[Task, Result]] = deque()
    settle = _settle  # an iteration that outlives the program finds this module empty
    try:
        for task in tasks:
            job = _Job(work, task)
            pending.append(job)
            _thread.start_new_thread(_do_next, (pending, turns))
            waiting.append(job)
            del job, task
            if len(waiting) > 2 * threads:
                yield _first(waiting)
        while waiting:
            yield _first(waiting)
    finally:
        settle(waiting)


class _Job(Generic[Task, Result]):
    """One task."""

    def __init__(self, work: Callable[[Task], Result], task: Task) -> None:
        self._work, self._task = work, task
        self._results: list[Result] = []
        self._failures: list[BaseException] = []
        self._dropped = self._ended = False
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()

    def do(self) -> None:
        """Do the task and say so."""
        try:
            if not self._dropped:
                self._results.append(self._work(self._task))
        except BaseException as raised:
            self._failures.append(raised)
        del self._task
        self._ended = True
        self._bell.put(None)

    def drop(self) -> None:
        """See that the task is not begun any more."""
        self._dropped = True

    def wait(self) -> None:
        """Wait for the end of the task, unless its thread has stayed behind at a fork."""
        while not self._ended and self._process == os.getpid():
            self._bell.get()

    def result(self) -> Result:
        """Give the result, or raise what the task has raised."""
        self.wait()
        if self._failures:
            raise self._failures.pop()
        return self._results.pop()


def _do_next(pending: deque[_Job[Task, Result]], turns: SimpleQueue[None]) -> None:
    """Do the next task when there is a turn to be had, and pass that on."""
    turns.get()
    pending.popleft().do()
    turns.put(None)


def _first(waiting: deque[_Job[Task, Result]]) -> Result:
    """Take out the first result. An interruption leaves the job in, to be waited for."""
    result = waiting[0].result()
    waiting.popleft()
    return result


def _settle(waiting: deque[_Job[Task, Result]], ends: Callable[[], bool] = sys.is_finalizing) -> None:
    """Let nothing more begin, and wait for what has begun.

    What a thread works on is its own, so that leaving early would do no harm; but one that is in compiled
    code when the interpreter ends may take the process down. Once it does end, no other thread goes on.
    """
    interruption: KeyboardInterrupt | None = None
    while waiting and not ends():
        try:
            for job in waiting:
                job.drop()
            waiting[0].wait()
            waiting.popleft()
        except KeyboardInterrupt as raised:
            interruption = raised
    if interruption is not None:
        raise interruption
