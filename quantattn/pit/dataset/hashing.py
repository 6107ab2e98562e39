"""Names of information sets: an order-sensitive hash over exactly the visible event versions.

The hash guards against error: it tells two information sets apart that differ by accident in any value of any
event, in their order or in their number, with a chance of about ``2**-120`` to miss it. It is no guard
against somebody who designs two sets of one name, because its key is public and the chain is not one-way.
Whoever needs that compares :attr:`EventLog.fingerprint <quantattn.pit.EventLog.fingerprint>`, which is
SHA-256.

An event's digest is SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012) over its content in
little-endian words of eight bytes:

1. revision (low half) and number of features that are not null (high half); event time; available at,
2. the sizes of event id, entity, kind and text in bytes, two to a word, all ones for null,
3. these four texts in UTF-8, each filled up with zeros to a whole word,
4. for every feature that is not null, in the order of their names: the low word of the name's own hash, and
   the bits of the value.

The sizes come first, so that no two contents have the same words. A sequence of events has the chain
``h(0) = 0``, ``h(n) = h(n - 1) * b + digest(n)`` modulo ``2**127 - 1`` with ``b`` the first 128 bits of the
fraction of pi; its name is the hash of ``h(n)`` and ``n``. In such a chain two sequences can be merged
without walking through the second one again, which is what makes market-wide events cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit._tables import refuse_rows, require_columns
from quantattn.pit.dataset._arrow import Words, addresses_of
from quantattn.pit.dataset._threads import in_order
from quantattn.pit.timestamps import nanoseconds_of

DIGEST_SIZE = 16
_BLOCK = 2**17

_TIMES: Final = ("event_time", "available_at")
_KEYS: Final = ("event_id", "revision", "kind")
_TEXTS: Final = ("event_id", "entity", "kind", "text")

Digests = npt.NDArray[np.uint8]


def feature_labels(features: Sequence[str]) -> tuple[tuple[str, ...], Words]:
    """Sort feature names, and give the word that stands for each of them in a digest."""
    from quantattn.pit.dataset import _siphash_kernels as kernels

    names = tuple(sorted(features))
    labels = np.zeros(len(names), dtype=np.uint64)
    for place, name in enumerate(names):
        content = np.frombuffer(name.encode(), dtype=np.uint8)
        labels[place], _ = kernels.siphash(content, *kernels.EVENT_KEY)
    return names, labels


def digest_block(
    block: pl.DataFrame, names: Sequence[str], labels: Words, codes: npt.NDArray[np.int32] | None = None
) -> Words:
    """Hash the events of a block; rows whose code is ``UNUSED`` get no meaningful digest.

    Returns
    -------
    ndarray of uint64, shape (n, 2)
        The low word first.
    """
    from quantattn.pit.dataset import _siphash_kernels as kernels

    out = np.empty((block.height, 2), dtype=np.uint64)
    found = addresses_of(block, names, labels)
    if codes is None:
        codes = np.zeros(block.height, dtype=np.int32)
    kernels.digest_rows(codes, out, found.numbers, found.strings, found.heaps, found.firsts, found.features)
    return out


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
        SipHash-2-4 of the words that the module describes.

    Raises
    ------
    TimestampError
        If a time is missing or a column of times is not ``Datetime("ns", "UTC")``: of other units the same
        events would have other names.
    EventDataError
        If a column is missing or of another type, or an event has no id, revision or kind.
    UsageError
        If `frame` is not a polars DataFrame, or `features` is a single text.
    """
    words = event_words(frame, features)
    return words.astype("<u8", copy=False).view(np.uint8).reshape(-1, DIGEST_SIZE)


def event_words(frame: pl.DataFrame, features: Sequence[str]) -> Words:
    """Give the digests of :func:`event_digests` as words, shape (n, 2), the low one first."""
    _refuse_other_events(frame, features)
    names, labels = feature_labels(features)
    if frame.height <= _BLOCK:  # threads would cost more than they do
        return digest_block(frame, names, labels)
    blocks = frame.iter_slices(_BLOCK)
    parts = list(in_order(lambda block: digest_block(block, names, labels), blocks))
    return np.concatenate(parts)


def _refuse_other_events(frame: pl.DataFrame, features: Sequence[str]) -> None:
    """Refuse what is not the frame of an event log, before its memory is read as one."""
    if not isinstance(frame, pl.DataFrame):
        raise UsageError(
            f"frame is of type {type(frame).__name__}, not a polars DataFrame; give the frame of an EventLog"
        )
    if isinstance(features, str):
        raise UsageError(f"features={features!r} is a single text; give a sequence of names")
    wanted = (*_TEXTS, "revision", *_TIMES, *features)
    require_columns(frame, {f"column {name}": name for name in wanted}, EventDataError)
    for name in _TIMES:
        nanoseconds_of(frame[name])
    checks = (
        (_TEXTS, _is_text, "String"),
        (("revision",), _is_integer, "integers"),
        (features, _is_number, "numbers"),
    )
    for columns, fits, kind in checks:
        for name in columns:
            # A column of nulls alone may have no type at all.
            if not fits(frame.schema[name]) and frame.schema[name] != pl.Null:
                raise EventDataError(
                    f"column {name!r} has type {frame.schema[name]}, not {kind}; convert it first"
                )
    for name in _KEYS:
        refuse_rows(
            frame,
            frame[name].is_null(),
            [other for other in _KEYS if other != name],
            f"column {name!r} is null",
            "drop those rows, or give them one",
            EventDataError,
        )


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def _is_integer(dtype: pl.DataType) -> bool:
    return dtype.is_integer()


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric()


class InformationHash:
    """Running hash of a sequence of events, readable after any of them.

    The hash of a sequence depends on its events' content and order alone, so the batch and the
    streaming path can each compute it and be compared.
    """

    def __init__(self) -> None:
        self._chain = np.zeros(2, dtype=np.uint64)
        self._count = 0

    def update(self, digests: Digests) -> None:
        """Append events, given as rows of :func:`event_digests`.

        Raises
        ------
        UsageError
            If they are not rows of 16 bytes.
        """
        from quantattn.pit.dataset import _chain_kernels as kernels

        if digests.dtype != np.uint8 or digests.shape[1:] != (DIGEST_SIZE,):
            raise UsageError(
                f"digests has type {digests.dtype} and shape {digests.shape}, not uint8 and "
                f"(n, {DIGEST_SIZE}); give rows of event_digests"
            )
        words = np.frombuffer(digests.tobytes(), dtype="<u8").astype(np.uint64).reshape(-1, 2)
        kernels.chain_rows(words, self._chain)
        self._count += len(words)

    def hexdigest(self) -> str:
        """Name the sequence so far: 32 hexadecimal digits."""
        from quantattn.pit.dataset import _siphash_kernels as kernels

        digits = np.empty((1, 32), dtype=np.uint8)
        kernels.name_rows(self._chain[None], np.array([self._count]), digits)
        return digits.tobytes().decode("ascii")


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

    Raises
    ------
    TimestampError, EventDataError, UsageError
        As :func:`event_digests` does.
    """
    running = InformationHash()
    running.update(event_digests(frame, features))
    return running.hexdigest()
