"""Rows of one event and version: the same again, contradictory, or versions still to be numbered."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.events.schema import KEY, repeated

CONTENT: Final = ("entity", "event_time", "available_at", "kind", "text")
"""What versions of one key must agree in, beside their features, to be the same row again."""

Rows = npt.NDArray[np.int64]


def find_duplicates(events: pl.DataFrame, features: tuple[str, ...]) -> tuple[Rows, Rows]:
    """Find rows that repeat or contradict another row of their ``event_id`` and ``revision``.

    Parameters
    ----------
    events : polars.DataFrame
        Events in input order.
    features : tuple of str
        The feature columns.

    Returns
    -------
    conflicting : ndarray of int64
        Places of rows that contradict those of their key which were available first. If these differ among
        themselves, every row of the key is one.
    repeated : ndarray of int64
        Places of rows that repeat an earlier row in everything.

    Notes
    -----
    What was available first stays whatever comes later: a later contradiction cannot take back an event that
    was known before it.
    """
    return _judge(events, KEY, (*CONTENT, *features))


def number_by_availability(events: pl.DataFrame, features: tuple[str, ...]) -> tuple[pl.Series, Rows, Rows]:
    """Give the versions of each event the numbers 0, 1, 2 by the order in which they became available.

    The number of a version depends on nothing that became available later. Rows of one event that became
    available at the same instant have no order: if they differ, none of them is kept.

    Returns
    -------
    revision : polars.Series of Int32
        For every row; meaningless in the rows that are not kept.
    conflicting, repeated : ndarray of int64
        As for :func:`find_duplicates`, within one instant.
    """
    key = ("event_id", "available_at")
    conflicting, repeated = _judge(events, key, (*CONTENT, *features))
    kept = np.ones(events.height, dtype=bool)
    kept[conflicting] = False
    kept[repeated] = False
    stamp = pl.when("kept").then("available_at").rank("dense").over("event_id")
    numbered = events.select("event_id", "available_at", kept=pl.Series(kept)).select(
        revision=(stamp.cast(pl.Int32) - 1).fill_null(0)
    )
    return numbered.to_series(), conflicting, repeated


def _judge(events: pl.DataFrame, key: tuple[str, ...], content: tuple[str, ...]) -> tuple[Rows, Rows]:
    doubtful = repeated(events, key)
    if doubtful.is_empty():
        none = np.zeros(0, dtype=np.int64)
        return none, none
    known = pl.col("available_at")
    rows = events[doubtful].with_columns((known == known.min().over(key)).alias("#first"))
    torn = pl.col("#first") & (pl.struct(content).n_unique().over(*key, "#first") > 1)
    judged = rows.with_columns(torn.alias("#torn")).select(
        conflicting=~pl.col("#first") | pl.col("#torn").any().over(key),
        later=~pl.struct(*key, "#first").is_first_distinct(),
    )
    places = doubtful.to_numpy().astype(np.int64)
    conflicting, later = (judged[name].to_numpy() for name in ("conflicting", "later"))
    return places[conflicting], places[later & ~conflicting]


def differences(
    events: pl.DataFrame,
    conflicting: Rows,
    features: tuple[str, ...],
    key: tuple[str, ...],
    *,
    among: int | None = None,
) -> pl.Series:
    """Say of rows that contradict others of their key in what these differ, and what may be behind it.

    Parameters
    ----------
    events : polars.DataFrame
        Events, with all rows of the keys asked for.
    conflicting : ndarray of int64
        The rows asked for.
    features : tuple of str
        The feature columns.
    key : tuple of str
        What the rows share.
    among : int, optional
        How many of the first rows are compared; by default all.

    Returns
    -------
    polars.Series of String
        Such as ``" (in text)"``, one for each row asked for.
    """
    asked = events[conflicting].select(key)
    content = [name for name in (*CONTENT, *features) if name not in key]
    group = events.head(events.height if among is None else among).join(
        asked.unique(), on=list(key), how="semi"
    )
    judged = group.group_by(key).agg(pl.col(content).n_unique() > 1)
    said = [
        _hint([name for name in content if row[name]]) for row in judged.select(content).iter_rows(named=True)
    ]
    told = judged.select(key).with_columns(pl.Series("#said", said, dtype=pl.String))
    return asked.join(told, on=list(key), how="left", maintain_order="left")["#said"]


def _hint(names: list[str]) -> str:
    listed = f" (in {', '.join(names)})"
    if "entity" in names:
        return f"{listed}; if one item is listed for several entities, make its ids unique, as id and ticker"
    if "available_at" in names:
        return f"{listed}; if it is a later edit, number the versions with revision= or number_revisions=True"
    return listed
