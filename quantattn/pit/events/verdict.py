"""Repeated and contradictory rows among more rows than memory holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.events.duplicates import CONTENT
from quantattn.pit.events.external import sorted_batches
from quantattn.pit.events.schema import KEY
from quantattn.pit.timestamps import nanoseconds_of

Rows = npt.NDArray[np.int64]


def key_hashes(events: pl.DataFrame, features: tuple[str, ...], rows: Rows) -> pl.DataFrame:
    """Hash the key (128 bits) and the content (64 bits) of events beside their instants and row numbers."""
    key, content = events.select(KEY), events.select(*CONTENT, *features)
    return pl.DataFrame(
        {
            "high": key.hash_rows(seed=1),
            "low": key.hash_rows(seed=2),
            "known": nanoseconds_of(events["available_at"]),
            "content": content.hash_rows(seed=3),
            "row": rows,
        }
    )


@dataclass(frozen=True)
class Duplicates:
    """Row numbers, ascending.

    Parameters
    ----------
    conflicting : ndarray of int64
        Rows that contradict those of their key which were available first, or share a key with such ones.
    repeated : ndarray of int64
        Rows that repeat an earlier one in everything.
    """

    conflicting: Rows
    repeated: Rows

    @classmethod
    def among(cls, hashes: Iterable[pl.DataFrame]) -> Duplicates:
        """Find them among the parts that :func:`key_hashes` gives."""
        conflicting, repeated = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for group in _whole_groups(sorted_batches(hashes, ("high", "low", "known", "row"))):
            high, low, known, content, row = (
                group[name].to_numpy() for name in ("high", "low", "known", "content", "row")
            )
            first = np.append(True, (high[1:] != high[:-1]) | (low[1:] != low[:-1]))
            if first.all():
                continue
            number = np.cumsum(first) - 1
            # Sorted, so that the first row of a key is one of those available first.
            tied = known == known[first][number]
            differs = tied & (content != content[first][number])
            contradicted = ~tied | (np.bincount(number, weights=differs)[number] > 0)
            conflicting.append(row[contradicted])
            repeated.append(row[~first & ~contradicted])
        return cls(np.sort(np.concatenate(conflicting)), np.sort(np.concatenate(repeated)))


def _whole_groups(batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Cut sorted parts so that rows of one key stay together."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        if batch.is_empty():
            continue
        last = batch.select("high", "low").row(-1)
        tail = batch.filter((pl.col("high") == last[0]) & (pl.col("low") == last[1]))
        head = batch[: batch.height - tail.height]
        if head.height:
            yield pl.concat([*held, head])
            held = []
        elif held and held[-1].select("high", "low").row(-1) != last:
            yield pl.concat(held)
            held = []
        held.append(tail)
    if held:
        yield pl.concat(held)
