"""A few threads that share the tasks of a compiled program.

The programs release the interpreter's lock. Plain threads do for them, get along with torch's own, may be
called from several threads at once and survive a fork; numba's parallel loops promise none of that on
every platform.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch

_SHARES = 4
"""Shares of the work for each thread: who is held up leaves some to the others."""

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    """Drop the pool in a forked child, where its threads do not exist."""
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


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
    global _pool, _pool_size
    threads = min(threads, tasks)
    if threads <= 1:
        program(0, tasks)
        return
    shares = min(tasks, threads * _SHARES)
    bounds = [tasks * share // shares for share in range(shares + 1)]
    waiting = iter(range(shares))

    def work(_held: object = None) -> None:
        # next() on an iterator of a range is one step under the interpreter's lock.
        for share in waiting:
            program(bounds[share], bounds[share + 1])

    if _pool is None or _pool_size < threads - 1:
        _pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="quantattn")
        _pool_size = threads - 1
    helpers: list[Future[None]] = []
    try:
        for _ in range(threads - 1):
            helpers.append(_pool.submit(work, memory))
        work()
        for helper in helpers:
            # Nothing is left for one that has not begun: other callers may keep the threads busy for long.
            if not helper.cancel():
                helper.result()
    except BaseException:
        # Whoever interrupts frees the memory that the others write to: nobody leaves before they are done.
        for _ in waiting:
            pass
        _wait(helpers)
        raise


def _wait(helpers: Sequence[Future[None]]) -> None:
    """Wait for threads that have begun, whatever interrupts it."""
    while True:
        try:
            wait([helper for helper in helpers if not helper.cancel()])
            return
        except KeyboardInterrupt:
            continue
