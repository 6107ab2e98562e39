"""Instants as int64, never as floats: nanoseconds since 1970 do not fit into those."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.ragged import sequence_bounds
from quantattn.errors import ClockError, ShapeError

AsOf = int | tuple[int | None, ...] | None
"""Clock of a state: one for all rows, one for each, or none; a row of several may have none too."""

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


def row_clocks(given: Any, name: str) -> AsOf:
    """Return a clock as :func:`whole_instants` does, where rows may have none; None if no row has one.

    Raises
    ------
    ClockError
        For anything else.
    """
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        return whole_instants(given, name)
    clocks = tuple(None if time is None else _whole(time, name) for time in given)
    return clocks if any(time is not None for time in clocks) or not clocks else None


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


def clock_tensor(as_of: AsOf, batch: int, device: torch.device) -> Tensor:
    """Return the clock of every row ``(batch,)``, :data:`UNSET` where there is none."""
    clocks = as_of if isinstance(as_of, tuple) else (as_of,) * batch
    filled = [UNSET if time is None else time for time in clocks]
    return torch.tensor(filled, dtype=torch.int64, device=device)


def check_time_mask(mask: Any, times: Tensor) -> Tensor | None:
    """Return a mask of the shape of times, True where the key counts, or None.

    Raises
    ------
    ShapeError
        If it is not a bool tensor of that shape.
    """
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != times.shape:
        kind = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ShapeError(
            f"key_mask: expected a bool tensor {tuple(times.shape)}, True where the key counts, got {kind}."
        )
    return mask.to(times.device)


def time_parts(bounds: Tensor, name: str, times: Tensor) -> list[slice]:
    """Return where the sequences of a pack lie.

    Raises
    ------
    ShapeError
        If the bounds do not fit, or there is more than one row.
    """
    if times.shape[0] != 1:
        raise ShapeError(f"{name}: goes with a batch of one, got {times.shape[0]}; lay rows end to end.")
    return [
        slice(low, high) for low, high in itertools.pairwise(sequence_bounds(bounds, name, times.shape[1]))
    ]


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
