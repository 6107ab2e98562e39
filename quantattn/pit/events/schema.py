"""The columns of an event log, their checks and their canonical order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit.timestamps import CANONICAL_ORDER, TIME

Moment = datetime | np.datetime64 | pd.Timestamp | int

COLUMNS: Final = pl.Schema(
    {
        "event_id": pl.String(),
        "revision": pl.Int32(),
        "entity": pl.String(),
        "event_time": TIME,
        "available_at": TIME,
        "kind": pl.String(),
        "text": pl.String(),
    }
)
"""The columns that every event log has, before its features."""

REJECTS: Final = pl.Schema({"row": pl.Int64(), "reason": pl.String(), "detail": pl.String()})
"""The columns of a list of refused rows."""

KEY: Final = ("event_id", "revision")
_NEVER_NULL: Final = ("event_id", "revision", "event_time", "available_at", "kind")


def feature_names(features: Sequence[str]) -> tuple[str, ...]:
    """Check the names of feature columns.

    Raises
    ------
    EventDataError
        If `features` is a bare text, names a column twice, or uses a name of the log's own columns.
    """
    if isinstance(features, str):
        raise EventDataError(f"features={features!r} is one text; write features=[{features!r}]")
    # The order of a set is no order of columns.
    listed = isinstance(features, Iterable) and not isinstance(features, bytes | Set)
    names = tuple(features) if listed else ()
    if not listed or not all(isinstance(name, str) for name in names):
        raise EventDataError(f"features={features!r} is no list of columns; write features=['name']")
    taken = [name for name in names if name in COLUMNS]
    if taken:
        raise EventDataError(f"features {taken} have names of the log's own columns; rename them")
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise EventDataError(f"features names {twice} more than once; name each column once")
    return names


def schema_of(features: Sequence[str]) -> pl.Schema:
    """Give the whole schema of a log with these features."""
    return pl.Schema({**COLUMNS, **dict.fromkeys(features, pl.Float64())})


def check_schema(schema: pl.Schema, features: tuple[str, ...]) -> None:
    """Refuse columns that are missing, superfluous or of another type.

    Raises
    ------
    EventDataError
        Naming the columns.
    """
    expected = schema_of(features)
    missing = [name for name in expected if name not in schema]
    if missing:
        raise EventDataError(f"events lack the columns {missing}; they have {schema.names()}; add them")
    extra = [name for name in schema if name not in expected]
    if extra:
        raise EventDataError(
            f"events have columns {extra} that are not declared; drop them or list them in features"
        )
    for name, dtype in expected.items():
        if schema[name] != dtype:
            raise EventDataError(
                f"column {name!r} of the events has type {schema[name]}, not {dtype}; cast it"
            )


def check_content(frame: pl.DataFrame, features: tuple[str, ...], *, keys: bool = True) -> None:
    """Refuse null keys and times, negative revisions, features that are not finite and repeated keys.

    Parameters
    ----------
    frame : polars.DataFrame
        Of the log's schema.
    features : tuple of str
        The feature columns.
    keys : bool
        Whether to look for an (event_id, revision) that occurs twice.

    Raises
    ------
    EventDataError
        Quoting the first rows.
    """
    for name in _NEVER_NULL:
        if frame[name].null_count():
            fault = f"column {name!r} of the events is null"
            _refuse(frame, pl.col(name).is_null(), fault, "drop or fill those rows")
    fault = "column 'revision' of the events is negative"
    _refuse(frame, pl.col("revision") < 0, fault, "count revisions from 0")
    for name in features:
        fault = f"feature {name!r} is not finite"
        _refuse(frame, ~pl.col(name).is_finite(), fault, "use null for a missing value")
    if keys:
        _complain(frame, repeated(frame, KEY), f"{KEY} occurs more than once", "number the revisions")


def repeated(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Give the numbers of the rows that share their values in some columns with another row.

    Rows are compared by a hash first, which takes a fraction of the memory that a table of all keys does.
    """
    hashes = frame.select(columns).hash_rows().to_numpy()
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    rows = pl.Series(np.flatnonzero(np.isin(hashes, shared)) if shared.size else [], dtype=pl.UInt32)
    return rows.filter(frame[rows].select(pl.struct(columns).is_duplicated()).to_series())


def _refuse(frame: pl.DataFrame, condition: pl.Expr, fault: str, remedy: str) -> None:
    _complain(frame, frame.select(condition.fill_null(False).arg_true()).to_series(), fault, remedy)


def _complain(frame: pl.DataFrame, rows: pl.Series, fault: str, remedy: str) -> None:
    if rows.len():
        examples = frame[rows.head(3)].select("event_id", "revision").rows()
        raise EventDataError(
            f"{fault} in {rows.len()} rows, first {rows.head(3).to_list()} "
            f"(event_id, revision: {examples}); {remedy}"
        )


def in_canonical_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort events by ``available_at, event_time, event_id, revision``.

    Only rows that share both times need their ids compared, so the two times are sorted first.
    """
    if is_canonical(frame):
        return frame
    ordered = frame.sort("available_at", "event_time")
    tied = _same_as_neighbour(ordered)
    rows = np.flatnonzero(tied)
    if rows.size == 0:
        return ordered
    # The rows of one tie lie together, so sorting all tied rows leaves every tie in its place.
    places = np.arange(ordered.height)
    within = ordered[rows].select(pl.arg_sort_by(CANONICAL_ORDER)).to_series().to_numpy()
    places[rows] = rows[within]
    return ordered[places]


def is_canonical(frame: pl.DataFrame) -> bool:
    """Say whether events are in canonical order already."""
    if frame.height < 2:
        return True
    known, happened = (frame[name].to_physical().to_numpy() for name in CANONICAL_ORDER[:2])
    backwards = (known[1:] < known[:-1]) | ((known[1:] == known[:-1]) & (happened[1:] < happened[:-1]))
    if bool(backwards.any()):
        return False
    rows = np.flatnonzero((known[1:] == known[:-1]) & (happened[1:] == happened[:-1]))
    if rows.size == 0:
        return True
    names, following = frame["event_id"][rows], frame["event_id"][rows + 1]
    numbers, next_numbers = frame["revision"][rows], frame["revision"][rows + 1]
    return not bool(((following < names) | ((following == names) & (next_numbers < numbers))).any())


def _same_as_neighbour(frame: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Mark the rows that share both times with the row before or after."""
    known, happened = (frame[name].to_physical().to_numpy() for name in CANONICAL_ORDER[:2])
    same = (known[1:] == known[:-1]) & (happened[1:] == happened[:-1])
    tied = np.zeros(frame.height, dtype=bool)
    tied[1:] |= same
    tied[:-1] |= same
    return tied
