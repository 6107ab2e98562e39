"""Sorting of more rows than memory holds: sorted runs on disk, merged block by block."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq

_RUN_BYTES: Final = 128 << 20
_BLOCK_ROWS: Final = 16_384
_FAN: Final = 64
_KEPT_ROWS: Final = 200_000


def sorted_batches(batches: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Sort rows that come in parts.

    Parameters
    ----------
    batches : iterable of polars.DataFrame
        Parts of one table, in any order.
    by : sequence of str
        The columns to sort by, ascending and without nulls; the first is a number or an instant.

    Yields
    ------
    polars.DataFrame
        The rows in order, in parts of no fixed size. Rows that are equal in all of `by` come in any order.

    Notes
    -----
    Runs of about 128 MB are sorted in memory. If there is more than one, they are kept in a temporary folder,
    where they take about the space of the table, and merged, at most 64 at once with a block of each in
    memory: memory does not grow with the table, however many rows are equal in the first column.
    """
    waiting = _runs(batches, by)
    first = next(waiting, None)
    if first is None:
        return
    second = next(waiting, None)
    if second is None:
        yield first
        return
    with tempfile.TemporaryDirectory(prefix="quantattn-sort-") as folder:
        names = (Path(folder) / f"{number}.parquet" for number in count())
        files = [_store(iter([first]), next(names)), _store(iter([second]), next(names))]
        del first, second
        files += [_store(iter([run]), next(names)) for run in waiting]
        while len(files) > _FAN:
            merged = _store(_merge(files[:_FAN], by), next(names))
            for file in files[:_FAN]:
                file.unlink()
            files = [*files[_FAN:], merged]
        yield from _merge(files, by)


@contextmanager
def kept(batches: Iterable[pl.DataFrame]) -> Iterator[Callable[[Sequence[str]], Iterator[pl.DataFrame]]]:
    """Keep parts of a table in a temporary file, to be read more than once.

    Yields
    ------
    callable
        Takes names of columns and gives these, part by part.
    """
    with tempfile.TemporaryDirectory(prefix="quantattn-keep-") as folder:
        file = _store(iter(batches), Path(folder) / "kept.parquet")

        def again(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
            if file.exists():
                for batch in pq.ParquetFile(file).iter_batches(batch_size=_KEPT_ROWS, columns=list(columns)):
                    yield pl.DataFrame(batch)

        yield again


def _runs(batches: Iterable[pl.DataFrame], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Collect batches into sorted runs of a bounded size."""
    parts: list[pl.DataFrame] = []
    size = 0
    for batch in batches:
        if batch.is_empty():
            continue
        parts.append(batch)
        size += int(batch.estimated_size())
        if size >= _RUN_BYTES:
            yield pl.concat(parts).sort(*by)
            parts, size = [], 0
    if parts:
        yield pl.concat(parts).sort(*by)


def _store(batches: Iterator[pl.DataFrame], file: Path) -> Path:
    """Write a run in small blocks, of which a merge holds one at a time."""
    writer: Any = None
    try:
        for batch in batches:
            table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema, compression="lz4", use_dictionary=False)
            writer.write_table(table, row_group_size=_BLOCK_ROWS)
    finally:
        if writer is not None:
            writer.close()
    return file


class _Run:
    """A sorted run with the block at its head in memory."""

    def __init__(self, file: Path, by: Sequence[str]) -> None:
        self._file = pq.ParquetFile(file)
        self._by = by
        self._next = 0
        self.head = pl.DataFrame()
        self.advance()

    def advance(self) -> None:
        """Read the next block, or nothing at the end."""
        if self._next >= self._file.num_row_groups:
            self.head = self.head.clear()
            self._file.close()
            return
        self.head = pl.DataFrame(self._file.read_row_group(self._next, use_threads=False))
        self._next += 1

    @property
    def last(self) -> tuple[Any, ...]:
        """The key of the last row in memory."""
        return self.head.select(self._physical(name) for name in self._by).row(-1)

    def take(self, bound: tuple[Any, ...]) -> pl.DataFrame:
        """Remove and give the rows up to a key, which is at most the next block's first."""
        first, *rest = self._by
        column = self.head[first].to_physical()
        below = column.search_sorted(bound[0], side="left")
        equal = column.search_sorted(bound[0], side="right")
        stop = equal
        if rest:
            tied = self.head[below:equal].select(
                not_above([self._physical(name) for name in rest], bound[1:]).alias("taken")
            )
            stop = below + int(tied["taken"].sum())
        taken, self.head = self.head[:stop], self.head[stop:]
        return taken

    def _physical(self, name: str) -> pl.Expr:
        # Python's datetimes have no nanoseconds.
        return pl.col(name).to_physical()


def not_above(columns: Sequence[pl.Expr], bound: Sequence[Any]) -> pl.Expr:
    """Say which rows are at most `bound`, column by column in order."""
    verdict = pl.lit(True)
    for column, value in zip(reversed(columns), reversed(bound), strict=True):
        verdict = (column < value) | ((column == value) & verdict)
    return verdict


def _merge(files: Sequence[Path], by: Sequence[str]) -> Iterator[pl.DataFrame]:
    runs = [_Run(file, by) for file in files]
    while runs:
        # Whatever is not above the least of the last keys cannot be preceded by what is still on disk.
        bound = min(run.last for run in runs)
        parts = [run.take(bound) for run in runs]
        yield pl.concat(part for part in parts if part.height).sort(*by)
        for run in runs:
            if run.head.is_empty():
                run.advance()
        runs = [run for run in runs if run.head.height]
