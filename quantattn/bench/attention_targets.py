"""What the attention library aimed at, and whether a run got there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TARGET_SDPA = {256: 1.0, 1024: 6.0, 4096: 20.0}
TARGET_KERNEL = 3.5
TARGET_EXPONENT = 1.05
TARGET_MEMORY = 0.15

FEWEST_LENGTHS, LONGEST = 5, 256 * 1024
"""An exponent of growth is judged from as many lengths at least, the longest being that."""


@dataclass(frozen=True)
class Target:
    """A figure that was aimed at, and what was found.

    Attributes
    ----------
    name : str
        What was measured, or compared with a record.
    bound : {"at least", "at most"}
        On which side of `target` to end.
    target : float
        What this project aimed at, with 2 threads.
    found : float or None
        None where it could not be measured.
    low, high : float or None
        Its spread, where it has one.
    reached : bool or None
        None where it could not be judged.
    measured_here : bool
        False where figures of another machine enter.
    """

    name: str
    bound: Literal["at least", "at most"]
    target: float
    found: float | None
    low: float | None
    high: float | None
    reached: bool | None
    measured_here: bool = True


def judge(
    name: str,
    bound: Literal["at least", "at most"],
    target: float,
    found: float | None,
    spread: tuple[float | None, float | None],
    *,
    measured_here: bool = True,
) -> Target:
    """Return a target with its verdict, which is that of the median."""
    reached = None
    if found is not None:
        reached = found >= target if bound == "at least" else found <= target
    return Target(name, bound, target, found, *spread, reached, measured_here)


def may_judge_growth(lengths: tuple[int, ...]) -> bool:
    """Return whether the lengths are enough to say how time grows."""
    return len(lengths) >= FEWEST_LENGTHS and max(lengths) >= LONGEST
