"""Sets of neighbouring word pairs, and the exact search for similar sets among earlier ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

from quantattn.pit.timestamps import Nanoseconds

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Pairs:
    """Documents as sets of numbered word pairs.

    Parameters
    ----------
    starts : ndarray of int64, shape (documents + 1,)
        Where each document's numbers begin in `numbers`.
    numbers : ndarray of int64
        The pairs of each document, without repetition, ascending; rare pairs have small numbers.
    distinct : int
        How many numbers there are.
    """

    starts: Integers
    numbers: Integers
    distinct: int

    def search(
        self,
        entity: Integers,
        times: Nanoseconds,
        document: Integers,
        threshold: float,
        reach: int | None,
    ) -> tuple[Floats, Floats]:
        """Hold every row against the strictly earlier rows of its entity.

        Parameters
        ----------
        entity, times, document : ndarray of int64, shape (n,)
            Of each row, sorted by entity and within it by time; a document is of one entity.
        threshold : float
            The least similarity, in (0, 1].
        reach : int or None
            How many nanoseconds back an earlier row may lie.

        Returns
        -------
        same, near : ndarray of float64, shape (n,)
            Whether the same document came before (1 or 0), and the greatest similarity to one that came
            before; NaN below the threshold.
        """
        same, near = np.zeros(entity.size), np.full(entity.size, np.nan)
        # A shorter prefix would still do if rounding made this product too great.
        sizes = np.diff(self.starts)
        least = np.array([math.ceil(threshold * size - 1e-9) for size in range(int(sizes.max()) + 1)])
        prefix = sizes - least[sizes] + 1
        _search(
            entity,
            times,
            document,
            self.starts,
            self.numbers,
            np.minimum(prefix, sizes),
            self.distinct,
            threshold,
            _EVER if reach is None else reach,
            same,
            near,
        )
        return same, near


def word_pairs(texts: pl.Series, entity: Integers) -> Pairs:
    """Turn normalised texts into sets of numbered word pairs.

    Parameters
    ----------
    texts : polars.Series of String, shape (documents,)
        Words with one space between them, none empty.
    entity : ndarray of int64, shape (documents,)
        Only documents of one entity are compared, so the numbers of another's are others.

    Returns
    -------
    Pairs
    """
    words = pl.DataFrame({"words": texts.str.split(" ")}).with_row_index("document").explode("words")
    document = words["document"].to_numpy().astype(np.int64)
    word = (words["words"].rank("dense") - 1).to_numpy().astype(np.int64)
    last = np.append(document[1:] != document[:-1], True)
    first = np.append(True, document[1:] != document[:-1])
    vocabulary = int(word.max()) + 2
    following = np.append(word[1:], 0)
    following[last] = vocabulary - 1
    # The last word has no neighbour; only a single word stands for itself.
    kept = ~last | first
    document = document[kept]
    pair = np.unique((word * vocabulary + following)[kept], return_inverse=True)[1].astype(np.int64)
    # One number for each pair of an entity, rare ones first.
    own = entity[document] * (int(pair.max()) + 1) + pair
    document, own = _distinct(document, own)
    _, code, counts = np.unique(own, return_inverse=True, return_counts=True)
    rarity = np.empty(counts.size, dtype=np.int64)
    rarity[np.argsort(counts, kind="stable")] = np.arange(counts.size)
    numbers = rarity[code]
    order = np.lexsort((numbers, document))
    starts = np.searchsorted(document, np.arange(texts.len() + 1))
    return Pairs(starts.astype(np.int64), numbers[order], counts.size)


def _distinct(document: Integers, own: Integers) -> tuple[Integers, Integers]:
    """Drop repeated pairs of a document; the documents stay in order."""
    order = np.lexsort((own, document))
    document, own = document[order], own[order]
    new = np.append(True, (document[1:] != document[:-1]) | (own[1:] != own[:-1]))
    return document[new], own[new]


@njit(cache=True)
def _within(earlier: int, later: int, reach: int) -> bool:
    # A difference of more than 292 years turns negative.
    return reach == _EVER or 0 <= later - earlier <= reach


@njit(cache=True)
def _search(
    entity: Integers,
    times: Integers,
    document: Integers,
    starts: Integers,
    numbers: Integers,
    prefix: Integers,
    distinct: int,
    threshold: float,
    reach: int,
    same: Floats,
    near: Floats,
) -> None:
    """Fill `same` and `near`; see :meth:`Pairs.search`.

    Documents seen so far hang in a list below each of the rare pairs of their prefix: two sets that are
    similar enough share at least one pair of both prefixes.
    """
    documents = starts.size - 1
    never = -1
    head = np.full(distinct, never, dtype=np.int64)
    following = np.empty(prefix.sum(), dtype=np.int64)
    hanging = np.empty(prefix.sum(), dtype=np.int64)
    used = 0
    seen = np.zeros(documents, dtype=np.bool_)
    last_seen = np.zeros(documents, dtype=np.int64)
    asked = np.full(documents, never, dtype=np.int64)
    row = 0
    while row < entity.size:
        stop = row
        while stop < entity.size and entity[stop] == entity[row] and times[stop] == times[row]:
            stop += 1
        # All rows of one instant look before any of them is entered.
        for this in range(row, stop):
            own = document[this]
            if seen[own] and _within(last_seen[own], times[this], reach):
                same[this] = near[this] = 1.0
                continue
            begin, end = starts[own], starts[own + 1]
            best = -1.0
            for place in range(begin, begin + prefix[own]):
                link = head[numbers[place]]
                while link != never:
                    other = hanging[link]
                    link = following[link]
                    if asked[other] == this:
                        continue
                    asked[other] = this
                    if not _within(last_seen[other], times[this], reach):
                        continue
                    size, length = end - begin, starts[other + 1] - starts[other]
                    if min(size, length) < threshold * max(size, length) - 1e-9:
                        continue
                    left, right, shared, last = begin, starts[other], 0, starts[other + 1]
                    # The least overlap that reaches the threshold; most candidates soon cannot any more.
                    least = threshold / (1.0 + threshold) * (size + length) - 1e-9
                    while left < end and right < last and shared + min(end - left, last - right) >= least:
                        if numbers[left] == numbers[right]:
                            shared += 1
                            left += 1
                            right += 1
                        elif numbers[left] < numbers[right]:
                            left += 1
                        else:
                            right += 1
                    best = max(best, shared / (size + length - shared))
            if best >= threshold:
                near[this] = best
        for this in range(row, stop):
            own = document[this]
            last_seen[own] = times[this]
            if not seen[own]:
                seen[own] = True
                begin = starts[own]
                for place in range(begin, begin + prefix[own]):
                    hanging[used] = own
                    following[used] = head[numbers[place]]
                    head[numbers[place]] = used
                    used += 1
        row = stop
