"""What a long job says while it runs: bars on a terminal, plain lines elsewhere, and its timings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

QUIET_SECONDS: Final = 5.0
"""A plain stage says something at most this often."""


@dataclass(frozen=True)
class StageTiming:
    """How long a stage took.

    Parameters
    ----------
    stage : str
        Its name.
    seconds : float
        Wall-clock seconds, stages inside it included.
    """

    stage: str
    seconds: float


class Stage(Protocol):
    """A stage under way."""

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps as done."""

    def note(self, text: str) -> None:
        """Show a short remark beside the stage; a later one takes its place."""


class Progress(Protocol):
    """Shows the stages of a job and keeps their timings."""

    @property
    def timings(self) -> tuple[StageTiming, ...]:
        """The finished stages in the order in which they finished, failed ones included."""

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """Begin a stage, and end it with the ``with`` block.

        Parameters
        ----------
        name : str
            A few words.
        total : int, optional
            Number of steps; without it no time left can be told.

        Returns
        -------
        context manager of Stage
        """


def progress_for(stream: TextIO) -> Progress:
    """Choose bars for a terminal and plain lines for a file or pipe.

    Parameters
    ----------
    stream : text stream
        Where to write, usually ``sys.stdout``.

    Returns
    -------
    Progress
    """
    if not stream.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainProgress(stream)
    # Rich takes a while to import, and a log file has no use for it.
    from quantattn.study.bars import BarProgress

    return BarProgress(stream)


class Timed:
    """Keeps the timings; the children show the stages."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._timings: list[StageTiming] = []

    @property
    def timings(self) -> tuple[StageTiming, ...]:
        """The finished stages in the order in which they finished, failed ones included."""
        return tuple(self._timings)

    @contextmanager
    def _timed(self, name: str) -> Iterator[float]:
        start = self._clock()
        try:
            yield start
        finally:
            self._timings.append(StageTiming(name, self._clock() - start))


class SilentProgress(Timed):
    """Says nothing and keeps the timings; for notebooks and tests."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Time a stage."""
        with self._timed(name):
            yield _SilentStage()


class _SilentStage:
    def advance(self, n: int = 1) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


class PlainProgress(Timed):
    """Writes a line when a stage begins and ends, and now and then between.

    Parameters
    ----------
    stream : text stream
        Where to write.
    clock : callable, optional
        Gives seconds; monotonic.
    quiet : float, optional
        Least seconds between two lines of one stage.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        super().__init__(clock)
        self._stream = stream
        self._quiet = quiet
        self._depth = 0

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Write the stage's lines, indented inside another stage."""
        indent = "  " * self._depth
        self._depth += 1
        label = indent + one_line(name)
        outcome = "stopped"
        self._write(f"{label} ...")
        try:
            with self._timed(name):
                current = _PlainStage(label, total, self._write, self._clock, self._quiet)
                yield current
            outcome = "done"
        finally:
            self._depth -= 1
            self._write(f"{label}: {outcome} in {spoken_seconds(self._timings[-1].seconds)}{current.remark}")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class _PlainStage:
    def __init__(
        self,
        label: str,
        total: int | None,
        write: Callable[[str], None],
        clock: Callable[[], float],
        quiet: float,
    ) -> None:
        self._label, self._total, self._write, self._clock, self._quiet = label, total, write, clock, quiet
        self._start = self._last = clock()
        self._done = 0
        self._note = ""

    @property
    def remark(self) -> str:
        return f" ({self._note})" if self._note else ""

    def advance(self, n: int = 1) -> None:
        """Count steps, and write a line if the last one is some seconds old."""
        self._done += n
        self._tell()

    def note(self, text: str) -> None:
        """Keep a remark for the next line."""
        self._note = one_line(text)
        self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if now - self._last < self._quiet:
            return
        self._last = now
        self._write(
            f"{self._label}: {self._count()}{spoken_seconds(now - self._start)}{self._left(now)}{self.remark}"
        )

    def _count(self) -> str:
        if self._total is None:
            return f"{self._done} steps, " if self._done else ""
        share = f" ({self._done / self._total:.0%})" if self._total else ""
        return f"{self._done} of {self._total}{share}, "

    def _left(self, now: float) -> str:
        if not self._total or not 0 < self._done < self._total:
            return ""
        return f", about {spoken_seconds((now - self._start) / self._done * (self._total - self._done))} left"


def one_line(text: str) -> str:
    """Keep a text to one line of printable characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def spoken_seconds(seconds: float) -> str:
    """Give seconds as people say them: ``0.3 s``, ``42 s``, ``3 min 05 s``, ``1 h 02 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
