"""Many events into the books at once: those that cannot matter are passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.forecasters.streaming.information._books import Books, Version
from quantattn.pit.timestamps import nanoseconds_of

MARKET, NOBODY = -1, -2
"""Codes of market-wide events, and of those that nobody reads."""

_BLOCK = 2**16

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def see_rows(
    books: Books, frame: pl.DataFrame, features: Sequence[str], entities: list[str], codes: Codes, depth: int
) -> None:
    """Take the rows of a frame, which leaves the books as taking one after the other does.

    Parameters
    ----------
    books : Books
        They are changed.
    frame : polars.DataFrame
        Columns of :class:`~quantattn.pit.EventLog`, in canonical order; features may be missing.
    features : sequence of str
        Features, in the order of the books.
    entities : list of str
        Names, all different.
    codes : ndarray of int32, shape (n,)
        The place of each row's entity among them, ``MARKET`` or ``NOBODY``.
    depth : int
        How many events the books keep for each feature.
    """
    revised = _slots_with_versions(books, frame["event_id"], frame["revision"], entities, codes)
    chosen = np.isin(codes, revised) & (codes != NOBODY)
    plain = np.where(chosen, NOBODY, codes)
    kept = _latest(frame, features, plain, len(entities), depth)
    for code in np.unique(plain[(plain != NOBODY) & ~kept]).tolist():
        (books.market if code == MARKET else books.open(entities[code])).dropped = True
    rows = np.flatnonzero(chosen | kept)
    for code, version in zip(codes[rows].tolist(), _versions(frame, features, rows), strict=True):
        if code == MARKET:
            books.see_market(version)
        else:
            books.see_own(entities[code], version)


def _slots_with_versions(
    books: Books, ids: pl.Series, revisions: pl.Series, entities: list[str], codes: Codes
) -> npt.NDArray[np.int64]:
    """Give the codes of those whose events have several versions, or versions that were seen before."""
    several = set(ids.filter(revisions > 0).to_list())
    if books.holders or books.market.events:
        here = set(ids.to_list())
        several |= (here & books.holders.keys()) | (here & books.market.events.keys())
    if not several:
        return np.zeros(0, dtype=np.int64)
    found = set(codes[ids.is_in(list(several)).to_numpy()].tolist())
    place = {id(books.own[entity]): code for code, entity in enumerate(entities) if entity in books.own}
    for event_id in several:
        found.update(place[id(book)] for book in books.holders.get(event_id, ()) if id(book) in place)
    # What the market remembers at each moment matters to whoever has revisions.
    return np.array([*found, MARKET], dtype=np.int64)


def _latest(frame: pl.DataFrame, features: Sequence[str], codes: Codes, wide: int, depth: int) -> Mask:
    """Mark the rows of each slot that its book may keep, or forget last."""
    from quantattn.forecasters.streaming.information._kernels import choose_latest

    chosen = np.zeros(codes.size, dtype=np.bool_)
    if (codes == NOBODY).all():
        return chosen
    slots = np.where(codes == MARKET, wide, codes).astype(np.int64)
    happened = np.ascontiguousarray(nanoseconds_of(frame["event_time"]))
    bare = np.ones(codes.size, dtype=np.bool_)
    for name in features:
        if name in frame.columns:
            there = frame[name].is_not_null().to_numpy()
            bare &= ~there
            # One more than is kept: the greatest of those forgotten is the floor.
            choose_latest(slots, happened, there, wide + 1, depth + 1, chosen)
    choose_latest(slots, np.arange(codes.size), bare, wide + 1, depth, chosen)
    return chosen


def _versions(frame: pl.DataFrame, features: Sequence[str], rows: npt.NDArray[np.int64]) -> Iterator[Version]:
    for begin in range(0, rows.size, _BLOCK):
        part = frame[rows[begin : begin + _BLOCK]]
        values: list[dict[int, float]] = [{} for _ in range(part.height)]
        for place, name in enumerate(features):
            if name in part.columns:
                column = part[name].cast(pl.Float64)
                there = column.is_not_null().arg_true().to_list()
                for row, value in zip(there, column.drop_nulls().to_list(), strict=True):
                    values[row][place] = value
        yield from map(
            Version,
            part["event_id"].to_list(),
            part["revision"].to_list(),
            nanoseconds_of(part["event_time"]).tolist(),
            nanoseconds_of(part["available_at"]).tolist(),
            values,
        )
