"""What runs on the nodes of a Ray cluster."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import ForecasterError, QuantAttnError
from quantattn.forecasters.baselines import BASELINES, register_baseline
from quantattn.walkforward import environment
from quantattn.walkforward.engines.base import UnitReport
from quantattn.walkforward.engines.shared import unpack_work
from quantattn.walkforward.engines.worker import sendable
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.planning import Task
from quantattn.walkforward.running import LastFold, Work, run_task
from quantattn.walkforward.settings import FoldSettings
from quantattn.walkforward.threads import limited_threads
from quantattn.walkforward.units import read_unit, store_unit


@dataclass(frozen=True)
class Cargo:
    """What is put into the object store once, for all units.

    Parameters
    ----------
    files : mapping of str to ndarray of uint8
        The data, as :func:`~quantattn.walkforward.engines.shared.pack_work` gave it.
    folds : tuple of Fold
        The folds as they are run.
    settings : FoldSettings
        Models and training.
    baselines : mapping of str to callable
        Factories that were registered from outside the package.
    surroundings : mapping of str to object
        Code and versions that every node must have, and the driver's processor.
    """

    files: Mapping[str, npt.NDArray[np.uint8]]
    folds: tuple[Fold, ...]
    settings: FoldSettings
    baselines: Mapping[str, Any]
    surroundings: Mapping[str, Any]


class Mailbox:
    """An actor that keeps what units say until the driver comes for it."""

    def __init__(self) -> None:
        self._letters: list[tuple[Task, str, Any]] = []

    def put(self, task: Task, word: str, content: Any) -> None:
        """Leave a message about a task."""
        self._letters.append((task, word, content))

    def take(self) -> list[tuple[Task, str, Any]]:
        """Take all messages out."""
        letters, self._letters = self._letters, []
        return letters


_OPENED: dict[str, tuple[Work, LastFold]] = {}


def surroundings() -> dict[str, Any]:
    """Give the code, the versions and the processor of this process."""
    return {
        "code": environment.code_hash(),
        "versions": environment.versions(),
        "processor": environment.processor(),
    }


def do_unit(
    box: Sequence[Any],
    task: Task,
    parent: Mapping[str, bytes] | None,
    trials: Sequence[Mapping[str, Any]],
    mailbox: Any,
) -> dict[str, bytes] | Exception:
    """Do a unit and give its folder's files, or what went wrong.

    Parameters
    ----------
    box : sequence of one ObjectRef
        Refers to the :class:`Cargo`; in a list, so that each process fetches it once and keeps it.
    task : Task
        The unit.
    parent : mapping of str to bytes or None
        The files of the unit that it waits for.
    trials : sequence of mapping
        Trials of its search that are known.
    mailbox : actor handle
        Takes messages.

    Returns
    -------
    dict of str to bytes, or Exception
    """
    mailbox.put.remote(task, "begun", None)
    report = UnitReport(
        lambda steps: mailbox.put.remote(task, "reached", steps),
        lambda record: mailbox.put.remote(task, "trial", record),
    )
    try:
        work, tokens = _open(box[0], lambda words: mailbox.put.remote(task, "strange", words))
        with tempfile.TemporaryDirectory(prefix="quantattn-") as name, limited_threads(work.settings.threads):
            run = Path(name)
            if task.parent is not None and parent is not None:
                store_unit(task.parent, run, parent)
            run_task(work, task, run, tokens, trials=trials, report=report)
            return read_unit(task.unit, run)
    except QuantAttnError as error:
        return error
    except Exception as error:
        return sendable(error)


def _open(reference: Any, strange: Any) -> tuple[Work, LastFold]:
    """Fetch the cargo into this process, once."""
    import ray

    key = str(reference)
    if key not in _OPENED:
        cargo: Cargo = ray.get(reference)
        _compare(cargo.surroundings, strange)
        for name, factory in cargo.baselines.items():
            if name not in BASELINES:
                register_baseline(name, factory)
        work = unpack_work(cargo.files, cargo.folds, cargo.settings)
        _OPENED.clear()  # of an earlier study
        _OPENED[key] = (work, LastFold(work.tokens))
    return _OPENED[key]


def _compare(wanted: Mapping[str, Any], strange: Any) -> None:
    """Refuse a node with other code or versions, and say so of one with another processor."""
    here, node = surroundings(), platform.node()
    if here["code"] != wanted["code"]:
        raise ForecasterError(
            f"node {node} has other code of quantattn than the driver; install the same version on both"
        )
    others = {name: v for name, v in here["versions"].items() if wanted["versions"].get(name) != v}
    if others:
        name, version = next(iter(others.items()))
        raise ForecasterError(
            f"node {node} has {name} {version} and the driver {wanted['versions'].get(name)}; install the "
            "same versions on both, for results depend on them"
        )
    if here["processor"] != wanted["processor"]:
        strange(f"on {here['processor']}, not {wanted['processor']}")
