"""Where the columns of a block of events lie in memory, for compiled code that reads them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Words = npt.NDArray[np.uint64]

_NUMBERS = ("revision", "event_time", "available_at")
_STRINGS = ("event_id", "entity", "kind", "text")


class Addresses(NamedTuple):
    """Addresses of the columns of a block; see ``digest_rows`` in :mod:`._siphash_kernels`."""

    numbers: Words
    strings: Words
    heaps: Words
    firsts: npt.NDArray[np.int64]
    features: Words
    alive: list[Any]
    """What owns the memory: nothing may be read once this is gone."""


def addresses_of(block: pl.DataFrame, names: Sequence[str], labels: Words) -> Addresses:
    """Find the columns of a block of events; only revisions, and columns of other types, are copied.

    Parameters
    ----------
    block : polars.DataFrame
        Columns of :class:`~quantattn.pit.events.EventLog`.
    names : sequence of str
        Its feature columns.
    labels : ndarray of uint64, shape (f,)
        What stands for the name of each.
    """
    alive: list[Any] = []
    numbers = np.zeros(len(_NUMBERS), dtype=np.uint64)
    for place, name in enumerate(_NUMBERS):
        numbers[place], *_ = _values(block[name].to_physical().cast(pl.Int64), alive)
    strings = np.zeros((len(_STRINGS), 3), dtype=np.uint64)
    heaps: list[int] = []
    firsts = np.zeros(len(_STRINGS), dtype=np.int64)
    for place, name in enumerate(_STRINGS):
        firsts[place] = len(heaps)
        array = _arrow(block[name].cast(pl.String), alive)
        bitmap, views, *rest = array.buffers()
        address = 0 if views is None else views.address
        strings[place] = address + 16 * array.offset, *_bitmap(array, bitmap)
        heaps += [0 if heap is None else heap.address for heap in rest]
    features = np.zeros((len(names), 4), dtype=np.uint64)
    for place, name in enumerate(names):
        features[place] = labels[place], *_values(block[name].cast(pl.Float64), alive)
    return Addresses(numbers, strings, np.array(heaps or [0], dtype=np.uint64), firsts, features, alive)


def _values(column: pl.Series, alive: list[Any]) -> tuple[int, int, int]:
    """Give the addresses of eight-byte values and of their bitmap (0 for none), and the first bit in it."""
    array = _arrow(column, alive)
    bitmap, values = array.buffers()
    return (0 if values is None else values.address + 8 * array.offset, *_bitmap(array, bitmap))


def _bitmap(array: Any, bitmap: Any) -> tuple[int, int]:
    return (0, 0) if bitmap is None else (bitmap.address, array.offset)


def _arrow(column: pl.Series, alive: list[Any]) -> Any:
    # The newest level hands texts over as the views that polars itself holds.
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    alive.append(array)
    return array
