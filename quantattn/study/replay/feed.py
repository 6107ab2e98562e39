"""Lines that come when they come, read beside everything else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

from quantattn.forecasters.streaming.events.lines import numbered_lines

WAITING_LINES: Final = 10_000
"""So many lines wait to be taken, at most."""

WAITING_BYTES: Final = 8 << 20
"""So many bytes of lines wait to be taken, at most; one line may always wait, whatever its size."""

_LONGEST_WAIT: Final = 3600.0


class Nothing(Enum):
    """Why a log gives no item."""

    YET = "nothing has come in the time given"
    MORE = "the log is at its end"


class Feed:
    """Lines that come when they come, read by a thread of their own.

    What is read ahead is bounded by :data:`WAITING_LINES` and :data:`WAITING_BYTES`; then the
    writer waits.

    Parameters
    ----------
    chunks : iterable of bytes
        What is read.
    source : str
        Its name, for messages.
    """

    def __init__(self, chunks: Iterable[bytes], source: str) -> None:
        self._lines: queue.SimpleQueue[tuple[int, bytes] | Nothing | BaseException] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._waiting = self._bytes = 0
        self._ended = False
        reading = threading.Thread(target=self._read, args=(chunks, source), name="feed", daemon=True)
        reading.start()

    def _read(self, chunks: Iterable[bytes], source: str) -> None:
        try:
            for numbered in numbered_lines(chunks, source=source):
                self._let_in(len(numbered[1]))
                self._lines.put(numbered)
            self._lines.put(Nothing.MORE)
        except BaseException as error:  # told where the lines are taken
            self._lines.put(error)

    def _let_in(self, size: int) -> None:
        """Wait until there is room for a line of so many bytes, and count it."""
        with self._room:
            while self._waiting and (self._waiting >= WAITING_LINES or self._bytes + size > WAITING_BYTES):
                self._room.wait()
            self._waiting += 1
            self._bytes += size

    def _let_out(self, size: int) -> None:
        with self._room:
            self._waiting -= 1
            self._bytes -= size
            self._room.notify()

    def take(self, timeout: float | None) -> tuple[int, bytes] | Nothing:
        """Give the next line, or say that none has come in so many seconds (None: wait for ever)."""
        if self._ended:
            return Nothing.MORE
        try:
            if timeout is not None and timeout <= 0:
                found = self._lines.get_nowait()
            else:
                found = self._lines.get(timeout=None if timeout is None else min(timeout, _LONGEST_WAIT))
        except queue.Empty:
            return Nothing.YET
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, tuple):
            self._let_out(len(found[1]))
        self._ended = found is Nothing.MORE
        return found

    def wake(self) -> None:
        """End a wait for the next line; safe in a signal handler."""
        self._lines.put(Nothing.YET)


def chunks_of(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Give what a function reads, until it reads nothing."""
    while part := read():
        yield part
