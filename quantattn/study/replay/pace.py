"""How fast a replay goes, and how its waits are ended."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from quantattn.errors import UsageError

_LONGEST_WAIT: Final = 3600.0
_SECOND: Final = 1_000_000_000

Speed = float | Literal["max", "real"]


def speed_of(text: str) -> Speed:
    """Read a speed as the command line gives it.

    Parameters
    ----------
    text : str
        ``"max"``, ``"real"``, or how many times faster than real, such as ``"3600"``.

    Returns
    -------
    float or str

    Raises
    ------
    UsageError
        If it is something else.
    """
    if text in ("max", "real"):
        return "max" if text == "max" else "real"
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor > 0):
        raise UsageError(
            f"speed {text!r} is unknown; use max, real, or how many times faster than real, such as 3600"
        )
    return factor


class Alarm:
    """Ends a replay from outside: waits are cut short, and it stops at the next whole step.

    It may be rung in a signal handler: the queues that wake the waiting allow that, locks would not.
    """

    def __init__(self) -> None:
        self.rung = False
        self.heard = False  # whether somebody looks at it
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._others: list[Callable[[], None]] = []

    def also(self, wake: Callable[[], None]) -> None:
        """Add something to be called when it is rung; it must be as safe in a signal handler."""
        self._others.append(wake)

    def ring(self) -> None:
        """End the replay."""
        self.rung = True
        self._bell.put(None)
        for wake in self._others:
            wake()

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until it is rung."""
        until = time.monotonic() + seconds
        while not self.rung and (rest := until - time.monotonic()) > 0:
            try:
                self._bell.get(timeout=min(rest, _LONGEST_WAIT))
            except queue.Empty:
                continue


@dataclass
class Pace:
    """When an instant of a log comes, by the clock on the wall.

    Parameters
    ----------
    speed : float or "max" or "real"
        ``"max"``: at once. A number: so many times faster than real, counted from the first instant that is
        asked for. ``"real"``: 1 for a log, and with `live` the instant itself.
    live : bool
        Whether the events come as they happen.
    """

    speed: Speed
    live: bool
    started: int = field(default_factory=time.time_ns)
    _origin: tuple[int, float] | None = None

    @property
    def waits(self) -> bool:
        """Whether anything is waited for."""
        return self.speed != "max"

    @property
    def by_the_wall(self) -> bool:
        """Whether instants are those of the clock on the wall."""
        return self.live and self.speed == "real"

    def begin(self, instant: int) -> None:
        """Count from an instant as from now, unless something was counted from before."""
        if self._origin is None:
            self._origin = (instant, time.monotonic())

    def until(self, instant: int) -> float | None:
        """Give the seconds until an instant comes; None if nobody can know that yet.

        Parameters
        ----------
        instant : int
            Nanoseconds since the epoch, UTC.
        """
        if self.speed == "max":
            return None
        if self.by_the_wall:
            return max(0.0, (instant - time.time_ns()) / _SECOND)
        if self._origin is None:
            return None
        factor = 1.0 if self.speed == "real" else float(self.speed)
        origin, began = self._origin
        return max(0.0, began + (instant - origin) / _SECOND / factor - time.monotonic())
