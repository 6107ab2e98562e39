"""Pieces of text and JSON that the benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from quantattn.bench.targets import Target, target_line
from quantattn.bench.timing import Ratio, Timing

WIDTH = 110
"""Columns of a line of prose."""


def machine_text(machine: dict[str, Any], threads: int) -> str:
    """Return processor, cores, threads and versions."""
    return (
        f"{machine['cpu']}, {count_text(machine['cores'], 'core')}, {count_text(threads, 'thread')}; torch "
        f"{machine['torch']}, numba {machine['numba']}"
    )


def quartiles_text(time: Timing) -> str:
    """Return both quartiles in milliseconds; nothing for a single call, which has no spread."""
    return f"({time.low_milliseconds:.2f} to {time.high_milliseconds:.2f})" if time.calls > 1 else ""


def spread_text(ratio: Ratio) -> str:
    """Return the spread of a ratio."""
    return f"({ratio.low:.2f} to {ratio.high:.2f})"


def count_text(number: int, thing: str) -> str:
    """Return a number and what it counts, in the plural where due."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def note_lines(text: str) -> list[str]:
    """Return an indented paragraph."""
    return wrap(text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)


def verdict_lines(targets: Sequence[Target], *, quick: bool, threads: int) -> Iterator[str]:
    """Say of each target what was aimed at and what was found; a quick run has no verdicts."""
    if quick:
        yield "No verdicts: a quick run is too short for them."
        return
    yield f"What this project aimed at with {count_text(threads, 'thread')}, and what this run found:"
    for target in targets:
        yield f"   {target_line(target)}"


def without_nan(value: Any) -> Any:
    """Replace NaN, which JSON has not, by None, in dicts, lists and tuples."""
    if isinstance(value, dict):
        return {name: without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value
