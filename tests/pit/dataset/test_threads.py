"""Results in order from several threads, however the iteration ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from quantattn.pit.dataset import _threads
from quantattn.pit.dataset._threads import in_order

THREADS = 3


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads.pl, "thread_pool_size", lambda: THREADS)


def idle(task: int) -> int:
    """Give the interpreter's lock away; the later tasks are done first."""
    time.sleep(0.001 * (7 - task % 8))
    return -task


@pytest.mark.parametrize("count", [0, 1, 2, 6, 7, 8, 100])
def test_the_order_is_that_of_the_tasks(count: int) -> None:
    assert list(in_order(idle, iter(range(count)))) == [-task for task in range(count)]


def test_several_threads_work_and_not_far_ahead() -> None:
    taken: list[int] = []
    workers: set[int] = set()
    together = threading.Barrier(THREADS)

    def source() -> Iterator[int]:
        for task in range(50):
            taken.append(task)
            yield task

    def work(task: int) -> int:
        workers.add(threading.get_ident())
        if task < THREADS:
            together.wait(60)
        return task

    for place, result in enumerate(in_order(work, source())):
        assert result == place
        assert len(taken) <= place + 1 + 2 * THREADS
    assert len(workers) >= THREADS
    assert len(taken) == 50


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_a_task_raises_comes_at_its_place(error: type[BaseException]) -> None:
    def work(task: int) -> int:
        if task >= 5:
            raise error(f"task {task}")
        return task

    given = []
    with pytest.raises(error, match="task 5"):
        given.extend(in_order(work, range(20)))  # extend() takes what comes before the error
    assert given == [0, 1, 2, 3, 4]
    assert list(in_order(idle, range(3))) == [0, -1, -2]


def test_what_the_source_raises_ends_it_all() -> None:
    def source() -> Iterator[int]:
        yield from range(4)
        raise OSError("the disk is gone")

    ended: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        list(in_order(lambda task: ended.append(task), source()))
    before = list(ended)
    time.sleep(0.02)
    assert ended == before


def test_who_leaves_early_waits_for_what_runs_and_no_more() -> None:
    begun: list[int] = []
    ended: list[int] = []
    hold = threading.Event()

    def work(task: int) -> int:
        begun.append(task)
        if task:
            hold.wait(60)
        ended.append(task)
        return task

    results = in_order(work, range(100))
    assert next(results) == 0
    while len(begun) < 1 + THREADS:
        time.sleep(0.001)
    threading.Timer(0.05, hold.set).start()
    results.close()
    assert sorted(ended) == sorted(begun) == list(range(1 + THREADS))
    time.sleep(0.02)
    assert len(begun) == 1 + THREADS


def test_a_task_may_have_tasks() -> None:
    # More of them than threads: nobody may wait for a thread that waits too.
    def work(task: int) -> int:
        return sum(in_order(idle, range(task)))

    assert list(in_order(work, range(12))) == [-sum(range(task)) for task in range(12)]


def test_callers_do_not_meet() -> None:
    found: list[list[int]] = []
    callers = [
        threading.Thread(target=lambda: found.append(list(in_order(idle, range(40))))) for _ in range(5)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert found == [[-task for task in range(40)]] * 5


def run(program: str) -> list[str]:
    """Run the program in a new interpreter and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


ENDS_AMID_TASKS = """
import time
from quantattn.pit.dataset import _threads
_threads.pl.thread_pool_size = lambda: 3
results = _threads.in_order(time.sleep, [0, *[600] * 99])
next(results)
time.sleep(0.1)
print("end", flush=True)
"""


def test_the_interpreter_ends_amid_tasks() -> None:
    assert run(ENDS_AMID_TASKS) == ["end"]


FORKED = """
import os, time, warnings
from quantattn.pit.dataset import _threads
_threads.pl.thread_pool_size = lambda: 3
warnings.simplefilter("ignore")  # that threads are about at the fork is the point
begun = []
def work(task):
    begun.append(task)
    time.sleep(0.01)
    return -task
results = _threads.in_order(work, range(100))
next(results)
child = os.fork()
if not child:
    results.close()
    right = list(_threads.in_order(work, range(20))) == [-task for task in range(20)]
    os._exit(0 if right else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(list(results)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    assert run(FORKED) == ["0", "99"]


INTERRUPTED = """
import _thread, signal
import numpy as np
import polars as pl
from quantattn.pit import EventLog
from quantattn.pit.dataset import _threads, hashing
_threads.pl.thread_pool_size = lambda: 3
stamps = pl.Series(np.arange(60_000)).cast(pl.Datetime("ns", "UTC"))
frame = EventLog.from_frame(
    pl.DataFrame({"at": stamps, "who": "A", "text": "a text of some length", "x": np.arange(60_000.0)}),
    event_time="at", entity="who", text="text", features=("x",), latency="1s",
).frame
expected = hashing.event_digests(frame, ("x",))
blocks = list(frame.iter_slices(500))
names, labels = hashing.feature_labels(("x",))
def digests():
    return list(_threads.in_order(lambda block: hashing.digest_block(block, names, labels), blocks))
signal.signal(signal.SIGALRM, signal.default_int_handler)
stopped = 0
for turn in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003 + 0.0003 * turn)
        while True:
            digests()
    except KeyboardInterrupt:
        stopped += 1
found = np.concatenate(digests()).view(np.uint8).reshape(-1, 16)
print(stopped, np.array_equal(found, expected), _thread._count() < 10)
"""

INTERRUPTED_BETWEEN = """
import _thread, signal
from quantattn.pit.dataset import _threads
_threads.pl.thread_pool_size = lambda: 3
signal.signal(signal.SIGALRM, signal.default_int_handler)
stopped = 0
for turn in range(600):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.000003 * (turn % 500))
        while True:
            for result in _threads.in_order(abs, range(10)):
                pass
    except KeyboardInterrupt:
        stopped += 1
print(stopped, list(_threads.in_order(abs, range(3))) == [0, 1, 2], _thread._count() < 10)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs interval timers")
@pytest.mark.parametrize(
    ("program", "times"), [(INTERRUPTED, 60), (INTERRUPTED_BETWEEN, 600)], ids=["at work", "between tasks"]
)
def test_interrupted_again_and_again(program: str, times: int) -> None:
    assert run(program) == [str(times), "True", "True"]
