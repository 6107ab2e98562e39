"""Checks of the arguments that baselines share, and what strangers' code raised, in one line."""

from __future__ import annotations

import copy
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from quantattn.errors import ForecasterError

T = TypeVar("T")


def copied(name: str, model: T) -> T:
    """Copy a stranger's model with all that it holds.

    Raises
    ------
    ForecasterError
        If it cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise ForecasterError(
            f"{name}: the {type(model).__name__} cannot be copied ({first_line(error)}), which keeps what it "
            "learns in one fold out of the next; let it hold no open files, locks or tensors with a gradient"
        ) from error


def real_numbers(values: object) -> npt.NDArray[np.float64]:
    """Give what a stranger's model forecast as float64, never dropping an imaginary part.

    Raises
    ------
    TypeError
        If it is complex, or no numbers at all.
    """
    found = np.asarray(values)
    if np.iscomplexobj(found):
        raise TypeError("the forecasts are complex numbers; give real ones")
    return found.astype(np.float64)


def require_count(name: str, argument: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least `least`.

    Raises
    ------
    ForecasterError
        Naming the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ForecasterError(f"{name}: {argument}={value!r} is not an integer from {least}; correct it")


def require_positive(name: str, argument: str, value: object, *, or_zero: bool = False) -> None:
    """Refuse what is not a positive finite number, or not one from zero.

    Raises
    ------
    ForecasterError
        Naming the argument.
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < 0 or (value == 0 and not or_zero):  # type: ignore[call-overload, operator]
        least = "a number from zero" if or_zero else "a positive number"
        raise ForecasterError(f"{name}: {argument}={value!r} is not {least}; correct it")


def first_line(error: Exception) -> str:
    """Give the kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
