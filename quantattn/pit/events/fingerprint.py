"""The name of a log's content: one hash, whether it is read at once or in parts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.events.schema import schema_of

_BLOCK_ROWS: Final = 1_000_000


class Fingerprint:
    """A running hash over events in canonical order, column by column.

    Parameters
    ----------
    features : sequence of str
        The feature columns, in the order of the frame.

    Notes
    -----
    Every column has a SHA-256 of its own, fed in blocks of a fixed number of rows, so that the result does
    not depend on how the events were cut into parts.
    """

    def __init__(self, features: Sequence[str]) -> None:
        self._digests = {
            name: hashlib.sha256(f"{name}:{dtype}:".encode()) for name, dtype in schema_of(features).items()
        }
        self._rows = 0
        self._waiting: list[pl.DataFrame] = []
        self._waiting_rows = 0

    def update(self, events: pl.DataFrame) -> None:
        """Append events, which have the log's columns."""
        self._rows += events.height
        while self._waiting_rows + events.height >= _BLOCK_ROWS:
            room = _BLOCK_ROWS - self._waiting_rows
            self._feed(pl.concat([*self._waiting, events.head(room)]))
            self._waiting, self._waiting_rows = [], 0
            events = events.slice(room)
        if events.height:
            self._waiting.append(events)
            self._waiting_rows += events.height

    def hexdigest(self) -> str:
        """Give the 64 hexadecimal digits; nothing can be appended afterwards."""
        if self._waiting:
            self._feed(pl.concat(self._waiting))
            self._waiting, self._waiting_rows = [], 0
        whole = hashlib.sha256(f"quantattn.EventLog/2:{self._rows}".encode())
        for digest in self._digests.values():
            whole.update(digest.digest())
        return whole.hexdigest()

    def _feed(self, block: pl.DataFrame) -> None:
        for name, digest in self._digests.items():
            column = block[name]
            digest.update(np.packbits(column.is_null().to_numpy()).tobytes())
            if column.dtype == pl.String:
                lengths, letters = _written(column.fill_null(""))
                digest.update(lengths.astype("<u4").tobytes())
                digest.update(letters)
            elif column.dtype == pl.Float64:
                digest.update(column.fill_null(0.0).to_numpy().astype("<f8").tobytes())
            else:
                digest.update(column.to_physical().fill_null(0).to_numpy().astype("<i8").tobytes())


def _written(column: pl.Series) -> tuple[npt.NDArray[np.int64], memoryview]:
    """Give the lengths in bytes of texts, and all of them one after the other in UTF-8."""
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, edges, letters = array.buffers()
    offsets = np.frombuffer(edges, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = memoryview(b"") if letters is None else memoryview(letters)
    return np.diff(offsets), text[offsets[0] : offsets[-1]]


def fingerprint_of(events: pl.DataFrame, features: Sequence[str]) -> str:
    """Give the fingerprint of events that are all at hand, in canonical order."""
    running = Fingerprint(features)
    running.update(events)
    return running.hexdigest()
