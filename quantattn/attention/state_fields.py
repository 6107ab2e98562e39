"""What the fields of a state may be, whoever puts them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from quantattn.attention.instants import AsOf, row_clocks
from quantattn.errors import ClockError, StateError

FLOATS = (torch.float32, torch.float64)
"""What a state is kept in."""

_AXES = {"S": "(B, H, r, d_v)", "z": "(B, H, r)", "count": "(B,)", "pending": "(B, H)"}
_REMEDY = "take a state as an earlier call returned it, or restore() it from its file"


def check_tensors(S: Any, z: Any, count: Any, pending: Any) -> None:
    """Refuse tensors that cannot be those of one state; numbers are not looked at.

    Raises
    ------
    StateError
        Naming the field and quoting what came.
    """
    held = {"S": S, "z": z, "count": count} | ({} if pending is None else {"pending": pending})
    for name, tensor in held.items():
        if not isinstance(tensor, Tensor):
            raise StateError(
                f"{name}: expected a tensor {_AXES[name]}, got {type(tensor).__name__}; {_REMEDY}."
            )
    shape = tuple(S.shape)
    if len(shape) != 4:
        raise StateError(f"S: expected a tensor {_AXES['S']}, got shape {shape}; {_REMEDY}.")
    wanted = {"S": shape, "z": shape[:3], "count": shape[:1], "pending": shape[:2]}
    dtypes = {"z": S.dtype, "count": torch.int64, "pending": torch.float64}
    if S.dtype not in FLOATS:
        raise StateError(f"S: a state is kept in torch.float32 or torch.float64, got {S.dtype}; {_REMEDY}.")
    for name, tensor in held.items():
        if tuple(tensor.shape) != wanted[name]:
            raise StateError(
                f"{name}: expected shape {_AXES[name]} = {wanted[name]} beside S, got {tuple(tensor.shape)}; "
                f"{_REMEDY}."
            )
        if tensor.dtype != dtypes.get(name, S.dtype):
            raise StateError(
                f"{name}: expected {dtypes[name]} beside S in {S.dtype}, got {tensor.dtype}; {_REMEDY}."
            )
        if tensor.device != S.device:
            raise StateError(f"{name}: is on {tensor.device}, S is on {S.device}; move a state with .to().")


def checked_clock(as_of: Any, rows: int) -> AsOf:
    """Return the clock of a state of so many rows.

    Raises
    ------
    ClockError
        If it is not made of whole numbers of int64.
    StateError
        If there are not as many clocks as rows.
    """
    clock = row_clocks(as_of, "as_of")
    if isinstance(clock, tuple):
        clocks_of_rows(clock, rows)
    return clock


def clocks_of_rows(clock: AsOf, rows: int) -> tuple[int | None, ...]:
    """Return one clock for each row.

    Raises
    ------
    StateError
        If there are not as many as rows.
    """
    if not isinstance(clock, tuple):
        return (clock,) * rows
    if len(clock) != rows:
        raise StateError(f"as_of: {len(clock)} given for {rows} rows of the batch; give one for each.")
    return clock


def refuse_no_clock(row: int, as_of: AsOf) -> NoReturn:
    """Raise for a clock that is asked for and that there is not.

    Raises
    ------
    ClockError
        Naming the row where others have one.
    """
    whose = "" if as_of is None else f" in row {row}"
    raise ClockError(
        f"as_of: the state has no clock{whose}; pass key_times to the call that makes it, or use .at()."
    )


def checked_owners(entities: Any, rows: int) -> tuple[str | None, ...] | None:
    """Return whose the rows of a state are: None for a row that is nobody's, and where no row is anybody's.

    Raises
    ------
    StateError
        If there are not as many as rows, or one is not a text.
    """
    if entities is None:
        return None
    owners = tuple(entities) if isinstance(entities, list | tuple) else None
    if (
        owners is None
        or len(owners) != rows
        or not all(name is None or isinstance(name, str) for name in owners)
    ):
        raise StateError(
            f"entities: expected {rows} names, one for each row of the batch, got {entities!r}; name them "
            "with .of()."
        )
    return owners if any(name is not None for name in owners) or not owners else None


def entity_names(entities: str | Sequence[str], rows: int) -> tuple[str, ...]:
    """Return one name for each row of the batch.

    Raises
    ------
    StateError
        If there are not as many names as rows, or one is not a text.
    """
    if not isinstance(entities, Iterable) or isinstance(entities, bytes | Mapping | set | frozenset):
        raise StateError(
            f"entities: expected {rows} names, one for each row of the batch, got {entities!r}; give a list."
        )
    names = (entities,) if isinstance(entities, str) else tuple(entities)
    if len(names) != rows or not all(isinstance(name, str) for name in names):
        raise StateError(
            f"entities: expected {rows} names, one for each row of the batch, got {len(names)}: {names[:3]}."
        )
    return names


def few(several: Sequence[object]) -> str:
    """Return the first three of several as text, and how many there are."""
    more = f", ... {len(several)} in all" if len(several) > 3 else ""
    return f"({', '.join(repr(one) for one in several[:3])}{more})"
