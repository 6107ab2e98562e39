"""What callers hand to a stream: tokens and instants as the compiled steps take them, or refusals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from quantattn.errors import ClockError, DenominatorError, ShapeError, TimestampError, UsageError
from quantattn.forecasters.streaming.network.packing import Floats
from quantattn.forecasters.tokens import Integers
from quantattn.pit.timestamps import iso

FLOAT32 = np.dtype(np.float32)
FAR = 1 << 63
"""Nanoseconds: instants before and behind it of 1970 are whole numbers of 64 bits, 292 years either way."""


def as_tokens(tokens: Any, shape: tuple[int, ...], what: str) -> Floats:
    """Give tokens as one piece of float32 numbers.

    Parameters
    ----------
    tokens : ndarray of float32
        What came.
    shape : tuple of int
        The shape that it must have.
    what : str
        Its name in the message.

    Returns
    -------
    ndarray of float32
        `tokens` itself, or a copy where it does not lie in one piece or is read-only.

    Raises
    ------
    ShapeError
        If it is no array, or of another shape or type: float64 would be rounded without being asked.
    """
    if not isinstance(tokens, np.ndarray):
        came = f"type {type(tokens).__name__}"
    elif tokens.shape == shape and tokens.dtype == FLOAT32:
        return np.array(np.require(tokens, FLOAT32, ["C", "A", "W"]), copy=False, subok=False)
    else:
        came = f"shape {tokens.shape} and type {tokens.dtype}"
    raise ShapeError(
        f"{what} of {came}, expected float32 {shape}; encode with the encoders that the "
        "network was trained with"
    )


def as_instant(at: Any) -> int:
    """Give an instant as int.

    Parameters
    ----------
    at : int
        Nanoseconds since the epoch, UTC; any type of whole numbers.

    Returns
    -------
    int

    Raises
    ------
    TimestampError
        If it is no whole number, or further than 292 years from 1970.
    """
    try:
        number = operator.index(at)
    except TypeError:
        number = FAR
    if not -FAR <= number < FAR:
        raise TimestampError(
            f"{at!r} is not an instant; give whole nanoseconds since the epoch, within 292 years of 1970"
        )
    return number


def as_instants(at: Any, n: int) -> Integers:
    """Give as many instants as there are tokens.

    Parameters
    ----------
    at : ndarray of int64, shape (n,), or int
        Nanoseconds since the epoch, UTC; one for each token, or one for all.
    n : int
        Tokens.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    ShapeError
        If there are more or fewer.
    TimestampError
        If they are no whole numbers, or further than 292 years from 1970.
    """
    times = np.asarray(at)
    if times.shape not in ((), (n,)):
        raise ShapeError(f"instants of shape {times.shape} for {n} tokens; give one for each")
    if times.size and times.dtype.kind not in "iu":
        raise TimestampError(
            f"instants of type {times.dtype}; give whole nanoseconds since the epoch as int64"
        )
    for extreme in (int(times.min()), int(times.max())) if times.size else ():
        as_instant(extreme)
    return np.ascontiguousarray(np.broadcast_to(times, (n,)), np.int64)


def refuse_twice(entities: Sequence[str]) -> Never:
    """Refuse several events of one entity in a call that writes one of each."""
    twice = next(entity for place, entity in enumerate(entities) if entity in entities[:place])
    raise UsageError(
        f"entity {twice!r} is given twice; a call writes one event of each entity, and write_sequence "
        "several of one"
    )


def refuse_event(entity: str, at: int, last: int) -> Never:
    """Refuse an event that is older than the one before it."""
    raise ClockError(
        f"event of {entity!r} available at {iso(at)} comes after one available at {iso(last)}; send events "
        "in canonical order"
    )


def refuse_read(entity: str, at: int, last: int) -> Never:
    """Refuse a read that an event written before is not visible to."""
    raise ClockError(
        f"forecast of {entity!r} at {iso(at)} comes after an event available at {iso(last)} was written; an "
        "event is visible only strictly after its available_at, so forecast before writing it"
    )


def refuse_numbers(bad: int, entity: str, at: int | None) -> Never:
    """Refuse to go on with what is not finite; `at` is None for the start token."""
    when = "the start token" if at is None else iso(at)
    raise DenominatorError(
        f"{bad} reads of entity {entity!r} at {when} met something that is not finite, or a denominator that "
        "is not positive; check the token's features, and replay the entity from the beginning"
    )
