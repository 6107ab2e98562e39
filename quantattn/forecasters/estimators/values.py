"""Arguments of a constructor as plain numbers, or a message that says what they are not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from quantattn.errors import UsageError


def whole(given: Mapping[str, Any], name: str) -> int:
    """Give an argument as an integer.

    Raises
    ------
    UsageError
        If it is not a whole number.
    """
    value = given[name]
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not a whole number; give one, such as 8")
    return int(value)


def real(given: Mapping[str, Any], name: str) -> float:
    """Give an argument as a float.

    Raises
    ------
    UsageError
        If it is not a finite number.
    """
    value = given[name]
    if not isinstance(value, Real) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not a number; give one, such as 0.1")
    if not _is_finite(value):
        raise UsageError(f"{name}={value!r} is not a finite number, which cannot be stored; give one")
    return float(value)


def listed(given: Mapping[str, Any], name: str, *, or_none: bool = False) -> tuple[Any, ...]:
    """Give an argument as a tuple of floats, each of which may be None where so allowed.

    Raises
    ------
    UsageError
        If it is not a list, tuple or row of finite numbers.
    """
    value = given[name]
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise UsageError(f"{name}={value!r} is not a tuple of numbers; give one, such as (0.5, 0.9)")
    entries = {f"{name}[{place}]": entry for place, entry in enumerate(value)}
    return tuple(
        None if entry is None and or_none else real(entries, place) for place, entry in entries.items()
    )


def switch(given: Mapping[str, Any], name: str) -> bool:
    """Give an argument as a truth value.

    Raises
    ------
    UsageError
        If it is neither True nor False.
    """
    value = given[name]
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name}={value!r} is neither True nor False; give one of them")
    return bool(value)


def plain(given: Mapping[str, Any], name: str) -> Any:
    """Give an argument as a JSON value; numpy's numbers and rows are taken for what they hold.

    Raises
    ------
    UsageError
        If JSON has no such value.
    """
    return _plain(given[name], name)


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{name}[{place}]") for place, entry in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and _is_finite(value):
        return float(value)
    raise UsageError(
        f"{name}={value!r} cannot be stored with the estimator; give a finite number, a text, None or a "
        "tuple of these"
    )


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number or fraction beyond every float
        return False
