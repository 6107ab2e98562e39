"""Names of information sets: an order-sensitive hash over exactly the visible event versions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.timestamps import Nanoseconds

DIGEST_SIZE = 16
_STRINGS = ("event_id", "entity", "kind", "text")
_INTEGERS = ("revision", "event_time", "available_at")

Digests = npt.NDArray[np.uint8]


def event_digests(frame: pl.DataFrame, features: Sequence[str]) -> Digests:
    """Hash the whole content of each event version.

    A feature enters by its name and the bits of its value where it is not null, so neither the order of
    the feature columns nor a column that is null in an event changes that event's digest.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns of :class:`~quantattn.pit.events.EventLog`, in any order of rows.
    features : sequence of str
        Feature columns.

    Returns
    -------
    ndarray of uint8, shape (n, 16)
    """
    n = frame.height
    present, packed = _packed_features(frame, sorted(features))
    lengths = [frame[name].str.len_bytes().cast(pl.Int64).fill_null(-1).to_numpy() for name in _STRINGS]
    whole = [frame[name].to_physical().cast(pl.Int64).to_numpy() for name in _INTEGERS]
    # Lengths (-1 for null) and counts come first, so that no two contents share one serialisation.
    heads = np.column_stack([*whole, *lengths, present]).astype("<i8").tobytes()
    width = 8 * (len(whole) + len(lengths) + 1)
    texts = frame.select(pl.concat_str(pl.col(_STRINGS).fill_null(""))).to_series().to_list()
    stops = (np.cumsum(present) * 16).tolist()
    out = bytearray()
    start = 0
    for row, (text, stop) in enumerate(zip(texts, stops, strict=True)):
        content = heads[row * width : (row + 1) * width] + packed[start:stop] + text.encode()
        out += hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()
        start = stop
    return np.frombuffer(bytes(out), dtype=np.uint8).reshape(n, DIGEST_SIZE)


def _packed_features(frame: pl.DataFrame, names: list[str]) -> tuple[Nanoseconds, bytes]:
    """Give the count of non-null features of each row, and (name, bits) pairs of all rows in one buffer."""
    if not names or not frame.height:
        return np.zeros(frame.height, dtype=np.int64), b""
    pairs = np.empty((frame.height, len(names), 2), dtype="<u8")
    present = np.empty((frame.height, len(names)), dtype=bool)
    for place, name in enumerate(names):
        label = hashlib.blake2b(name.encode(), digest_size=8).digest()
        pairs[:, place, 0] = np.frombuffer(label, dtype="<u8")[0]
        pairs[:, place, 1] = frame[name].fill_null(0.0).to_numpy().astype("<f8").view("<u8")
        present[:, place] = frame[name].is_not_null().to_numpy()
    return present.sum(axis=1, dtype=np.int64), pairs[present].tobytes()


class InformationHash:
    """Running hash of a sequence of events, readable after any of them.

    The hash of a sequence depends on its events' content and order alone, so the batch and the
    streaming path can each compute it and be compared.
    """

    def __init__(self) -> None:
        self._state = hashlib.blake2b(digest_size=DIGEST_SIZE)

    def update(self, digests: Digests) -> None:
        """Append events, given as rows of :func:`event_digests`."""
        self._state.update(digests.tobytes())

    def hexdigest(self) -> str:
        """Name the sequence so far: 32 hexadecimal digits."""
        return self._state.copy().hexdigest()


def information_hash(frame: pl.DataFrame, features: Sequence[str]) -> str:
    """Name one information set.

    Parameters
    ----------
    frame : polars.DataFrame
        The visible event versions in canonical order, with the columns of
        :class:`~quantattn.pit.events.EventLog`.
    features : sequence of str
        Feature columns.

    Returns
    -------
    str
        32 hexadecimal digits; of an empty frame, the hash of the empty sequence.
    """
    running = InformationHash()
    running.update(event_digests(frame, features))
    return running.hexdigest()


def prefix_hashes(digests: Digests, counts: Nanoseconds) -> list[str]:
    """Name the information set of each forecast over one sequence.

    Parameters
    ----------
    digests : ndarray of uint8, shape (n, 16)
        Of the sequence, in canonical order.
    counts : ndarray of int64, shape (m,)
        How many leading events each forecast sees, in any order.

    Returns
    -------
    list of str, length m
    """
    names = [""] * counts.size
    running = InformationHash()
    done = 0
    for place in np.argsort(counts, kind="stable").tolist():
        count = int(counts[place])
        if count > done:
            running.update(digests[done:count])
            done = count
        names[place] = running.hexdigest()
    return names
