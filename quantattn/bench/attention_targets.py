"""What the attention library aimed at, and whether a run got there."""

from __future__ import annotations

TARGET_SDPA = {256: 1.0, 1024: 6.0, 4096: 20.0}
TARGET_KERNEL = 3.5
TARGET_EXPONENT = 1.05
TARGET_MEMORY = 0.15

FEWEST_LENGTHS, LONGEST = 5, 256 * 1024
"""An exponent of growth is judged from as many lengths at least, the longest being that."""


def may_judge_growth(lengths: tuple[int, ...]) -> bool:
    """Return whether the lengths are enough to say how time grows."""
    return len(lengths) >= FEWEST_LENGTHS and max(lengths) >= LONGEST
