"""Values as they stood, apart for each kind of event; see :mod:`.as_of` for the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EventDataError

_Rows = npt.NDArray[np.int64]


def bearers(frame: pl.LazyFrame, features: Sequence[str]) -> list[tuple[str, str]]:
    """Give each kind with each feature that one of its events has, sorted by kind, then as `features` are."""
    there = (
        frame.group_by("kind")
        .agg(pl.col(name).is_not_null().any().alias(f"has:{name}") for name in features)
        .sort("kind")
        .collect(engine="streaming")
    )
    return [
        (kind, name)
        for kind, *has in there.iter_rows()
        for name, found in zip(features, has, strict=True)
        if found
    ]


def column_names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Name the column of each kind and feature, and refuse two of one name.

    Raises
    ------
    EventDataError
        If, for example, kind ``a`` has a feature ``b_c`` and kind ``a_b`` a feature ``c``.
    """
    named: dict[str, tuple[str, str]] = {}
    for pair in pairs:
        column = f"asof_{pair[0]}_{pair[1]}"
        if column in named:
            (kind, feature), (other, twin) = named[column], pair
            raise EventDataError(
                f"{column!r} would be the name of two columns: of kind {kind!r} and feature {feature!r}, and "
                f"of kind {other!r} and feature {twin!r}; rename one of them"
            )
        named[column] = pair
    return list(named)


def frames_of_kinds(frame: pl.DataFrame, kinds: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Give, for each kind, the events that ever bore it, in the order of the frame.

    A version of another kind is among them only where it belongs to such an event: it may supersede the one
    that bears the kind.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns of events, ``kind`` included.
    kinds : sequence of str
        Kinds that occur.
    """
    numbered = frame.select("kind", row=pl.int_range(pl.len(), dtype=pl.Int64)).group_by("kind").agg("row")
    rows: dict[str, _Rows] = {
        kind: places.to_numpy() for kind, places in zip(numbered["kind"], numbered["row"], strict=True)
    }
    wanderers = _wanderers(frame)
    for kind in kinds:
        mine = rows[kind]
        if wanderers is not None:
            events = wanderers.filter(pl.col("kind") == kind)["event_id"].unique()
            others = wanderers.filter(pl.col("event_id").is_in(events.implode()))["row"].to_numpy()
            mine = np.union1d(mine, others)
        yield frame[mine]


def _wanderers(frame: pl.DataFrame) -> pl.DataFrame | None:
    """Give the versions of events whose kind changes between versions; None if there are none."""
    later = frame["revision"] > 0
    if not later.any():
        return None
    ids = frame["event_id"].filter(later).unique()
    found = (
        frame.select("event_id", "kind", row=pl.int_range(pl.len(), dtype=pl.Int64))
        .filter(pl.col("event_id").is_in(ids.implode()))
        .filter(pl.col("kind").n_unique().over("event_id") > 1)
    )
    return None if found.is_empty() else found
