"""One pass over the events in canonical order: what every forecast has seen when its turn comes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from quantattn.errors import EventDataError
from quantattn.pit.dataset._arrow import Words
from quantattn.pit.dataset._threads import in_order
from quantattn.pit.dataset.hashing import digest_block, feature_labels
from quantattn.pit.timestamps import Nanoseconds, instants, iso, nanoseconds_of, visible_counts

BLOCK = 2**17
"""Rows that one thread hashes at a time."""

Codes = npt.NDArray[np.int32]


class Seen(NamedTuple):
    """What each of m forecasts has seen.

    Attributes
    ----------
    n_visible : ndarray of int64, shape (m,)
        Events.
    max_available_at : polars.Series of Datetime("ns", "UTC"), length m
        When the latest of them became available; null where there are none.
    info_hash : polars.Series of String, length m
        Their name.
    """

    n_visible: Nanoseconds
    max_available_at: pl.Series
    info_hash: pl.Series


class _Block(NamedTuple):
    codes: Codes
    available: Nanoseconds
    digests: Words


def entity_codes(column: pl.Series, entities: Sequence[str], market: int, unknown: int) -> Codes:
    """Give the place of each name among `entities`, `market` for null and `unknown` for any other."""
    places = column.cast(pl.Enum(entities), strict=False).to_physical().cast(pl.Int32)
    if places.null_count():
        wide = column.is_null()
        places = pl.select(
            pl.when(wide).then(pl.lit(market, pl.Int32)).otherwise(places.fill_null(unknown))
        ).to_series()
    return places.to_numpy(writable=True)


def counts_at(available: Nanoseconds, times: Nanoseconds) -> Nanoseconds:
    """Count what each forecast sees of sorted events; forecasts that share a time are counted once."""
    distinct, place = np.unique(times, return_inverse=True)
    return visible_counts(available, distinct)[place]


def blocks_of(batches: Iterable[pl.DataFrame], rows: int = BLOCK) -> Iterator[pl.DataFrame]:
    """Cut frames into blocks of at most `rows`."""
    for batch in batches:
        yield from batch.iter_slices(rows)


def read_visible(
    batches: Iterable[pl.DataFrame],
    features: Sequence[str],
    entities: Sequence[str],
    readers: Codes,
    times: Nanoseconds,
    *,
    own: bool,
    market: bool,
    rows: int = BLOCK,
) -> Seen:
    """Pass over the events once and name what each forecast has seen.

    Takes time linear in events and forecasts, and memory for the forecasts, the entities and a few blocks: a
    market-wide event costs no more than any other, however many entities read it.

    Parameters
    ----------
    batches : iterable of polars.DataFrame
        Frames with the columns of :class:`~quantattn.pit.events.EventLog`, in canonical order.
    features : sequence of str
        Their feature columns.
    entities : sequence of str
        Names, all different.
    readers : ndarray of int32, shape (m,)
        The place of each forecast's entity among them.
    times : ndarray of int64, shape (m,)
        Forecast times, nondecreasing.
    own, market : bool
        Whether forecasts read their entity's own events, and the market-wide ones.
    rows : int
        Rows that are worked on at a time.

    Returns
    -------
    Seen

    Raises
    ------
    EventDataError
        If a batch goes back in time.
    """
    from quantattn.pit.dataset import _chain_kernels as kernels

    names, labels = feature_labels(features)
    wide = kernels.MARKET if market else kernels.UNUSED

    def prepare(block: pl.DataFrame) -> _Block:
        codes = entity_codes(block["entity"], entities, wide, kernels.UNUSED)
        if not own:
            codes[codes >= 0] = kernels.UNUSED
        available = nanoseconds_of(block["available_at"])
        return _Block(codes, available, digest_block(block, names, labels, codes))

    walk = _Walk(len(entities), readers, times)
    for block in in_order(prepare, blocks_of(batches, rows)):
        walk.over(block)
    return walk.finish()


class _Walk:
    """The state of a pass: the chains of the entities, and how far the forecasts have been answered."""

    def __init__(self, entities: int, readers: Codes, times: Nanoseconds) -> None:
        from quantattn.pit.dataset import _chain_kernels, _siphash_kernels

        self._absorb, self._name = _chain_kernels.absorb, _siphash_kernels.name_rows
        self._readers = readers
        first = np.flatnonzero(np.diff(times, prepend=times[0] - 1 if times.size else 0))
        self._distinct = times[first]
        self._bounds = np.append(first, times.size)
        """Forecasts of the i-th distinct time are those from ``bounds[i]`` to ``bounds[i + 1]``."""
        self._answered = 0
        self._tables = np.zeros((3, 2**_chain_kernels.POWER_BITS, 2), dtype=np.uint64)
        _chain_kernels.fill_powers(self._tables)
        self._state = (
            np.zeros((entities + 1, 2), dtype=np.uint64),
            *(np.zeros(entities + 1, dtype=np.int64) for _ in range(3)),
        )
        self._seen = np.zeros(times.size, dtype=np.int64)
        self._last = np.zeros(times.size, dtype=np.int64)
        self._names = np.zeros((times.size, 32), dtype=np.uint8)
        self._before: int | None = None

    def over(self, block: _Block) -> None:
        """Answer the forecasts whose turn comes within a block, and take in all of its events."""
        if not block.available.size:
            return
        first, last = int(block.available[0]), int(block.available[-1])
        if self._before is not None and first < self._before:
            raise EventDataError(
                f"events go back in time from {iso(self._before)} to {iso(first)} between two batches; "
                "sort them in canonical order first"
            )
        self._before = last
        waiting = self._distinct[self._answered :]
        newest = block.available[-1:]
        # Whoever sees the block's last event may see events of the next block too, and waits for it.
        ready = bisect_left(
            range(waiting.size), 1, key=lambda place: visible_counts(newest, waiting[place : place + 1])[0]
        )
        self._take_in(block, visible_counts(block.available, waiting[:ready]))

    def finish(self) -> Seen:
        """Answer the forecasts that see all events."""
        empty = np.zeros(0, dtype=np.int64)
        nothing = _Block(empty.astype(np.int32), empty, np.zeros((0, 2), dtype=np.uint64))
        self._take_in(nothing, np.zeros(self._distinct.size - self._answered, dtype=np.int64))
        newest = pl.DataFrame({"n": self._seen, "at": instants(self._last)}).select(
            pl.when(pl.col("n") > 0).then(pl.col("at")).alias("max_available_at")
        )
        return Seen(self._seen, newest.to_series(), _texts("info_hash", self._names))

    def _take_in(self, block: _Block, stops: Nanoseconds) -> None:
        begin, end = self._answered, self._answered + stops.size
        first, last = int(self._bounds[begin]), int(self._bounds[end])
        chains = np.empty((last - first, 2), dtype=np.uint64)
        self._absorb(
            block.codes,
            np.ascontiguousarray(block.available),
            block.digests,
            np.repeat(stops, np.diff(self._bounds[begin : end + 1])),
            self._readers[first:last],
            self._tables,
            *self._state,
            self._seen[first:last],
            self._last[first:last],
            chains,
        )
        self._name(chains, self._seen[first:last], self._names[first:last])
        self._answered = end


def _texts(name: str, characters: npt.NDArray[np.uint8]) -> pl.Series:
    """Give rows of ASCII characters as a column of texts."""
    rows, width = characters.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    array = pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(characters))
    return pl.Series(name, array, dtype=pl.String)
