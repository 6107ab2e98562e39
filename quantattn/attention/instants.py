"""Instants as int64, never as floats: nanoseconds since 1970 do not fit into those."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from quantattn.errors import ClockError, ShapeError

UNSET = torch.iinfo(torch.int64).min
"""Stands before all instants, where there is none."""

_LARGEST = torch.iinfo(torch.int64).max


def whole_instants(given: Any, name: str) -> int | tuple[int, ...]:
    """Return one instant, or several, as Python's integers.

    Raises
    ------
    ClockError
        For anything that is not a whole number in the range of int64, or several of them.
    """
    if isinstance(given, Tensor) or type(given).__module__ == "numpy":
        given = given.tolist()
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return tuple(_whole(time, name) for time in given)
    return _whole(given, name)


def _whole(time: Any, name: str) -> int:
    try:
        whole = operator.index(time)
    except TypeError:
        whole = UNSET
    if isinstance(time, bool) or not UNSET < whole <= _LARGEST:
        raise ClockError(
            f"{name}: expected whole numbers of int64 in the unit of the clock, such as nanoseconds since "
            f"1970, got {time!r}."
        )
    return whole


def check_instants(times: Any, name: str, shape: tuple[int, int] | None = None) -> Tensor:
    """Return a tensor of instants, int64 and of two axes.

    Raises
    ------
    ShapeError
        For another dtype or shape.
    """
    if not isinstance(times, Tensor) or times.dtype != torch.int64:
        kind = times.dtype if isinstance(times, Tensor) else type(times).__name__
        raise ShapeError(f"{name}: expected an int64 tensor of instants, got {kind}.")
    if times.dim() != 2 or (shape is not None and tuple(times.shape) != shape):
        raise ShapeError(f"{name}: expected shape {shape or '(B, length)'}, got {tuple(times.shape)}.")
    return times


def clock_tensor(as_of: int | tuple[int, ...] | None, batch: int, device: torch.device) -> Tensor:
    """Return the clock of every row ``(batch,)``, :data:`UNSET` where there is none."""
    if isinstance(as_of, tuple):
        return torch.tensor(as_of, dtype=torch.int64, device=device)
    return torch.full((batch,), UNSET if as_of is None else as_of, dtype=torch.int64, device=device)


def running_clock(times: Tensor, mask: Tensor | None) -> Tensor:
    """Return the running clock of the keys that count, which must never go back.

    Raises
    ------
    ClockError
        Quoting the first key that lies before an earlier one.
    """
    known = times if mask is None else torch.where(mask, times, UNSET)
    if known.shape[-1] == 0:
        return known
    ordered = known.cummax(-1).values
    back = known < ordered
    if mask is not None:
        back &= mask
    if bool(back.any()):
        batch, row = back.nonzero()[0].tolist()
        raise ClockError(
            f"key_times: {int(times[batch, row])} at batch {batch}, position {row} comes after "
            f"{int(ordered[batch, row])} ({int(back.sum())} such in all); sort keys by time."
        )
    return ordered
