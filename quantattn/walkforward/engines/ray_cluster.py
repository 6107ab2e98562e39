"""The engine of a cluster: folds, models and seeds as Ray tasks."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.baselines import BASELINES, BUILT_IN
from quantattn.walkforward.engines.base import Account, Queue
from quantattn.walkforward.engines.ray_tasks import Cargo, Mailbox, do_unit, surroundings
from quantattn.walkforward.engines.shared import pack_work
from quantattn.walkforward.planning import Task
from quantattn.walkforward.running import Work
from quantattn.walkforward.threads import available_cores
from quantattn.walkforward.units import Unit, read_unit, store_unit

_CONNECT: Final = 10.0
"""Seconds within which a cluster must answer."""

_POLL: Final = 0.2
"""Seconds between two looks at the mailbox."""


def require_ray() -> Any:
    """Import Ray.

    Raises
    ------
    UsageError
        If it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody was asked
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            'the engine ray needs Ray, which is not installed; run pip install "quantattn[ray]"'
        ) from error
    return ray


@dataclass(frozen=True)
class RayEngine:
    """Units as tasks of a Ray cluster.

    Data is put into the object store once; each task reserves ``settings.threads`` CPUs and runs on as
    many threads. Its files travel back to the driver, which alone writes the run directory, so nodes need
    share no disk. Tasks of a node that is lost are done again elsewhere. Results are those of the local
    engine byte for byte where the processors are of one type; a unit that was done on another type is
    remarked upon. Every node needs the same versions of quantattn and of what it builds on, or its first
    task refuses.

    Parameters
    ----------
    address : str, optional
        Of the cluster, ``"auto"`` for the one of this machine; without it, Ray is started on this machine
        and ended with the work.
    workers : int, default 1
        Units at once on one machine of this size; whoever makes the settings derives ``threads`` from it.
        The cluster runs as many as its CPUs hold.
    retries : int, default 10
        How often a task is begun again for a lost node or a killed worker.

    Raises
    ------
    UsageError
        If Ray is not installed or a number is less than it can be.
    """

    address: str | None = None
    workers: int = 1
    retries: int = 10
    name: ClassVar[str] = "ray"

    def __post_init__(self) -> None:
        """Check the numbers, and that there is Ray."""
        if self.workers < 1 or self.retries < 0:
            raise UsageError(
                f"workers={self.workers} must be at least 1 and retries={self.retries} at least 0"
            )
        require_ray()

    def run(self, work: Work, tasks: Sequence[Task], run: Path, account: Account) -> None:
        """Do every task; see :class:`~quantattn.walkforward.engines.Engine`."""
        ray = require_ray()
        with _connected(ray, self.address):
            _refuse_small_nodes(ray, work.settings.threads)
            _Course(ray, work, tasks, run, account, self.retries).follow()


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Join a cluster, or start one here; one that the caller has joined already is used and left open."""
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _refuse_deaf(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": available_cores(), "include_dashboard": False}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"there is no Ray cluster at {address!r} ({reason}); start one with `ray start --head`, or leave "
            "--address out"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_deaf(address: str) -> None:
    """See that somebody listens at an address that names a port; Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"nobody listens at the Ray address {address!r} ({error}); start a cluster with "
            "`ray start --head` and give the address that it names"
        ) from error


def _refuse_small_nodes(ray: Any, threads: int) -> None:
    most = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
    if most < threads:
        raise UsageError(
            f"a unit runs on {threads} threads and no node of the cluster has more than {most:g} CPUs; use "
            f"--threads {max(1, int(most))}"
        )


@dataclass
class _Course:
    """The way of all tasks through the cluster."""

    ray: Any
    work: Work
    tasks: Sequence[Task]
    run: Path
    account: Account
    retries: int
    _under_way: dict[Any, Task] = field(default_factory=dict)
    _begun: Counter[Unit] = field(default_factory=Counter)
    _finished: set[Unit] = field(default_factory=set)

    def follow(self) -> None:
        """Submit what can be begun, take in what is done, until nothing is left."""
        ray, queue = self.ray, Queue(self.work, self.tasks)
        box = [ray.put(self._cargo())]
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        # Beside the driver: on a node that is lost it would be lost too.
        actor = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here, max_restarts=-1)
        mailbox = actor.remote()
        remote = ray.remote(do_unit).options(
            num_cpus=self.work.settings.threads, max_retries=self.retries, retry_exceptions=False
        )
        try:
            while queue or self._under_way:
                while (task := queue.next()) is not None:
                    parent = None if task.parent is None else read_unit(task.parent, self.run)
                    trials = self.account.known_trials(task.unit)
                    self._under_way[remote.remote(box, task, parent, trials, mailbox)] = task
                done, _ = ray.wait(list(self._under_way), num_returns=1, timeout=_POLL)
                self._read(mailbox)
                for reference in done:
                    task = self._under_way.pop(reference)
                    self._store(task, reference)
                    queue.finish(task.unit)
        finally:
            for reference in self._under_way:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(reference, force=True)
            with suppress(Exception):
                ray.kill(mailbox)

    def _cargo(self) -> Cargo:
        names = [name for name in self.work.settings.models if name in BASELINES and name not in BUILT_IN]
        return Cargo(
            files={name: np.frombuffer(content, np.uint8) for name, content in pack_work(self.work).items()},
            folds=tuple(self.work.folds),
            settings=self.work.settings,
            baselines={name: BASELINES[name] for name in names},
            surroundings=surroundings(),
        )

    def _read(self, mailbox: Any) -> None:
        """Take in what units have said; a mailbox that is lost begins anew, and no result is in it."""
        letters: list[tuple[Task, str, Any]] = []
        with suppress(self.ray.exceptions.RayError):
            letters = self.ray.get(mailbox.take.remote())
        for task, word, content in letters:
            unit = task.unit
            if unit in self._finished:
                continue
            if word == "begun":
                self._begun[unit] += 1
                if self._begun[unit] > 1:
                    self.account.again(unit, "its node or its worker was lost")
                self.account.begun(unit)
            elif word == "reached":
                self.account.reached(unit, content)
            elif word == "trial":
                self.account.trial(unit, content)
            elif word == "strange":
                self.account.remark(unit, content)

    def _store(self, task: Task, reference: Any) -> None:
        unit = task.unit
        try:
            found = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
            raise ForecasterError(
                f"Ray gave up on fold {unit.fold} {unit.model} seed {unit.seed} ({type(error).__name__}: "
                f"{reason}); see the state of its nodes, then go on with --resume"
            ) from error
        if isinstance(found, Exception):
            raise found
        store_unit(unit, self.run, found)
        self._finished.add(unit)
        self.account.finished(unit)
