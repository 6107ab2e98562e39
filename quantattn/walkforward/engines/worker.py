"""What runs in a worker process: it waits for tasks, does them, and ends when its driver does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from quantattn.errors import UsageError
from quantattn.forecasters.baselines import BASELINES, register_baseline
from quantattn.walkforward.engines.base import UnitReport
from quantattn.walkforward.engines.shared import SharedTokens, map_work
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.planning import Task
from quantattn.walkforward.running import LastFold, run_task
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.threads import limited_threads


@dataclass(frozen=True)
class Orders:
    """What a worker is told once, when it begins.

    Parameters
    ----------
    shared : Path
        Folder of the shared data.
    run : Path
        The run directory.
    folds : tuple of Fold
        The folds as they are run.
    settings : FoldSettings
        Models and training.
    baselines : mapping of str to callable or None
        Factories that were registered from outside the package; None for one that cannot be sent, which
        the worker must have registered itself by importing what the driver's script imports.
    """

    shared: Path
    run: Path
    folds: tuple[Fold, ...]
    settings: FoldSettings
    baselines: Mapping[str, Any]


def serve(connection: Connection, orders: Orders) -> None:
    """Do tasks until told to stop or the driver is gone.

    Every message is a pair of a word and what belongs to it: ``reached`` with a number of steps, ``trial``
    with a record, ``done``, or ``failed`` with an exception.

    Parameters
    ----------
    connection : Connection
        Gives tasks with their known trials, then None; takes messages.
    orders : Orders
        What is the same for all tasks.
    """
    # Ctrl-C reaches the whole group; the driver alone decides what it means, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_driver, daemon=True).start()
    for name, factory in orders.baselines.items():
        if name not in BASELINES and factory is not None:
            register_baseline(name, factory)
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),
        limited_threads(orders.settings.threads),
    ):
        work = map_work(orders.shared, orders.folds, orders.settings)
        tokens = LastFold(SharedTokens(work, orders.shared))
        while (given := connection.recv()) is not None:
            task: Task = given[0]
            trials: Sequence[Mapping[str, Any]] = given[1]
            report = UnitReport(
                lambda steps: connection.send(("reached", steps)),
                lambda record: connection.send(("trial", record)),
            )
            try:
                _require_known(task.unit.model, orders)
                run_task(work, task, orders.run, tokens, trials=trials, report=report)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                connection.send(("failed", sendable(error)))
            else:
                connection.send(("done", None))


def factory_or_none(factory: Any) -> Any:
    """Give a factory that can be sent to another process, or None."""
    try:
        ForkingPickler.dumps(factory)
    except Exception:  # whatever a stranger's object raises
        return None
    return factory


def _require_known(model: str, orders: Orders) -> None:
    if model in orders.baselines and model not in BASELINES:
        raise UsageError(
            f"baseline {model!r} was registered in a way that a worker process cannot repeat; register it at "
            "the top of a script or of a module that the script imports (not in a notebook), or use workers=1"
        )


def sendable(error: Exception) -> Exception:
    """Give an exception that can cross to another process and keeps its class where that is ours or plain."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    try:
        again = type(error)(*error.args)
    except Exception:  # a class that wants other arguments than it keeps
        again = None
    if again is not None and str(again) == str(error):
        return again
    return RuntimeError(f"{type(error).__name__}: {error}")


def _end_with_driver() -> None:
    """Wait for the driver's end, however it comes, and leave at once: what is half-written stays unnamed."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
