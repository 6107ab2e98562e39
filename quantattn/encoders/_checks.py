"""Checks that the encoders share: columns, cutoffs and stored states."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from quantattn.errors import CheckpointError, EncoderError
from quantattn.pit.timestamps import instants, is_visible, iso, nanoseconds_of


def column_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Read a sequence of distinct column names.

    Raises
    ------
    EncoderError
        If it is a bare text or names a column twice.
    """
    if isinstance(names, str):
        raise EncoderError(f"{argument}={names!r} is one text, not a sequence; write {argument}=({names!r},)")
    chosen = tuple(names)
    if len(set(chosen)) < len(chosen):
        twice = sorted({name for name in chosen if chosen.count(name) > 1})
        raise EncoderError(f"{argument} names {twice} more than once; name each column once")
    return chosen


def require_columns(frame: pl.DataFrame, names: Iterable[str], *, where: str) -> None:
    """Refuse a frame that lacks columns, and name the nearest that it has.

    Raises
    ------
    EncoderError
        If a column is missing.
    """
    missing = [name for name in names if name not in frame.columns]
    if not missing:
        return
    near = difflib.get_close_matches(missing[0], frame.columns, n=3)
    hint = f"did you mean {near}?" if near else f"the frame has {frame.columns}"
    raise EncoderError(f"{where} lacks the columns {missing}; {hint} Add them or fit on other columns")


def numeric_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """Give a column as Float64, its missing values null.

    Raises
    ------
    EncoderError
        If it is not numeric, or holds a NaN or an infinity.
    """
    column = frame[name]
    if column.dtype == pl.Null:
        return column.cast(pl.Float64)
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise EncoderError(
            f"column {name!r} has type {column.dtype}, which is not numeric; cast it or leave it out"
        )
    column = column.cast(pl.Float64)
    bad = (~column.is_finite()).fill_null(value=False)
    if bad.any():
        rows = bad.arg_true().head(3).to_list()
        raise EncoderError(
            f"column {name!r} is not finite in {bad.sum()} rows, first {rows} "
            f"(values {column[rows].to_list()}); use null for a missing value"
        )
    return column


def visible_before(frame: pl.DataFrame, cutoff: int, time: str) -> pl.DataFrame:
    """Keep the rows that are visible at `cutoff`: rule 1, strictly earlier.

    Raises
    ------
    EncoderError
        If the time column is missing, or nothing is visible.
    TimestampError
        If the time column is not ``Datetime("ns", "UTC")`` or holds nulls.
    """
    require_columns(frame, [time], where="the frame to fit on")
    nanoseconds_of(frame[time])
    limit = pl.lit(instants([cutoff])).first()
    visible = frame.filter(is_visible(pl.col(time), limit))
    if visible.is_empty():
        raise EncoderError(
            f"none of the {frame.height} rows has {time!r} before the cutoff {iso(cutoff)}, so there is "
            "nothing to fit on; choose a later cutoff or give earlier rows"
        )
    return visible


def state_fields(state: Any, fields: Collection[str], what: str) -> Mapping[str, Any]:
    """Check that a stored state is a mapping with exactly the expected fields.

    Raises
    ------
    CheckpointError
        If it is not.
    """
    if not isinstance(state, Mapping) or set(state) != set(fields):
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise CheckpointError(
            f"the state of {what} must hold exactly {sorted(fields)}, not {found}; fit the encoder again"
        )
    return state


def stored_int(value: Any, name: str, *, minimum: int | None = None) -> int:
    """Read a stored integer.

    Raises
    ------
    CheckpointError
        If it is not an integer, or below the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, int) or (minimum is not None and value < minimum):
        raise CheckpointError(f"stored {name}={value!r} is not a valid integer; fit the encoder again")
    return value


def stored_float(value: Any, name: str) -> float:
    """Read a stored finite number.

    Raises
    ------
    CheckpointError
        If it is not one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(f"stored {name}={value!r} is not a finite number; fit the encoder again")
    return float(value)


def stored_names(value: Any, name: str) -> tuple[str, ...]:
    """Read a stored list of distinct names.

    Raises
    ------
    CheckpointError
        If it is not one.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise CheckpointError(f"stored {name}={value!r} is not a list of names; fit the encoder again")
    if len(set(value)) < len(value):
        raise CheckpointError(f"stored {name}={value!r} holds a name twice; fit the encoder again")
    return tuple(value)
