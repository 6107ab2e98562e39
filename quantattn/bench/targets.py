"""What a benchmark aimed at, and whether a run got there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
        What this project aimed at.
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


def target_line(target: Target) -> str:
    """Return what was aimed at and what was found as one line."""
    aim = f"aimed at: {target.bound} {_shown(target.target)}"
    if target.found is None:
        return f"{target.name}: not measured here ({aim})"
    spread = (
        ""
        if target.low is None or target.high is None
        else f", {_shown(target.low)} to {_shown(target.high)}"
    )
    verdict = "reached" if target.reached else "missed"
    return f"{target.name}: {_shown(target.found)}{spread} ({aim}): {verdict}"


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"
