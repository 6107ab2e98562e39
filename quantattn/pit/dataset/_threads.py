"""Work on the blocks of a table in a few threads, with the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import polars as pl

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Give ``work(task)`` for each task, in the order of the tasks.

    As many threads as polars has work ahead, by no more than one task each beyond those that run, so that
    memory stays bounded however many tasks there are. Threads help because `work` releases the
    interpreter's lock. They end with the iteration.
    """
    threads = pl.thread_pool_size()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="quantattn-pit") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
