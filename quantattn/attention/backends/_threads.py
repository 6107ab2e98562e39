"""A few threads that share the tasks of a compiled program.

The programs release the interpreter's lock. Plain threads do for them, get along with torch's own, may be
called from several threads at once and survive a fork; numba's parallel loops promise none of that on
every platform. An executor of the standard library would do as well, but for Ctrl-C: its locks are Python
code, which an interruption can leave locked for ever.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import torch

_SHARES = 4
"""Shares of the work for each thread: who is held up leaves some to the others."""
_HELPER, _CALLER = "helper", "caller"

_Job = Callable[[], None]
_jobs: SimpleQueue[_Job] = SimpleQueue()
_helpers = 0


def _forget_helpers() -> None:
    """Begin anew in a forked child, where the threads do not exist."""
    global _jobs, _helpers
    _jobs, _helpers = SimpleQueue(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get()()


def _raise_helpers(count: int) -> None:
    """See that there are as many threads."""
    global _helpers
    while _helpers < count:
        _thread.start_new_thread(_serve, (_jobs,))
        _helpers += 1


def thread_count() -> int:
    """Return how many threads may work: as many as torch may use."""
    return max(1, torch.get_num_threads())


def share_out(
    program: Callable[[int, int], object], tasks: int, threads: int, memory: Sequence[object] = ()
) -> None:
    """Call ``program(first, last)`` over runs of tasks that cover ``range(tasks)``, from several threads.

    Parameters
    ----------
    program : callable
        Compiled code; it knows its memory by address alone.
    tasks, threads : int
        How many of them.
    memory : sequence
        What lies at the addresses: every thread holds on to it while it works, also where the caller is
        interrupted and lets go.
    """
    threads = min(threads, tasks)
    if threads <= 1:
        program(0, tasks)
        return
    shares = min(tasks, threads * _SHARES)
    bounds = [tasks * share // shares for share in range(shares + 1)]
    waiting = iter(range(shares))
    team = _Team(threads - 1)

    def work() -> None:
        # next() on an iterator of a range is one step under the interpreter's lock.
        for share in waiting:
            program(bounds[share], bounds[share + 1])

    failure: BaseException | None = None
    try:
        _raise_helpers(team.size)
        for number in range(team.size):
            _jobs.put(team.job(number, work, memory))
        work()
    except BaseException as raised:
        failure = raised
    while True:
        try:
            if failure is not None:
                for _ in waiting:
                    pass
            # Whoever leaves frees the memory that the others write to: nobody leaves before they are done.
            team.settle()
            break
        except KeyboardInterrupt as raised:
            failure = raised
    failure = failure or next(iter(team.failures), None)
    if failure is not None:
        raise failure


class _Team:
    """Helpers of one call. Each place goes to whom claims it first, the helper or the caller who is done.

    Every step may be taken again after an interruption: claims are single steps of a dict, and who has ended
    is looked up, not counted.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.failures: list[BaseException] = []
        self._claims: dict[int, str] = {}
        self._ended: dict[int, bool] = {}
        self._bell: SimpleQueue[None] = SimpleQueue()

    def job(self, number: int, work: _Job, memory: Sequence[object]) -> _Job:
        """Return what the helper of that number does."""

        def run(_held: Sequence[object] = memory) -> None:
            if self._claims.setdefault(number, _HELPER) is not _HELPER:
                return
            try:
                work()
            except BaseException as raised:
                self.failures.append(raised)
            self._ended[number] = True
            self._bell.put(None)

        return run

    def settle(self) -> None:
        """Wait for the helpers that have begun; nothing is left for the others.

        Other callers may keep those busy for long.
        """
        begun = [number for number in range(self.size) if self._claims.setdefault(number, _CALLER) is _HELPER]
        while not all(number in self._ended for number in begun):
            self._bell.get()
