"""Compiled hashing of one text: words found, hashed and counted in one pass over its bytes.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numba
import numpy as np

_U = np.uint64
_WORD32 = _U(0xFFFFFFFF)
_C1, _C2, _C3 = _U(0xCC9E2D51), _U(0x1B873593), _U(0xE6546B64)
_M1, _M2, _FIVE = _U(0x85EBCA6B), _U(0xC2B2AE35), _U(5)
_SIGN = _U(0x80000000)
_U8, _U13, _U15, _U16, _U17, _U19 = _U(8), _U(13), _U(15), _U(16), _U(17), _U(19)


def _compiled(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


@_compiled
def _mixed(block: Any) -> Any:
    block = (block * _C1) & _WORD32
    block = ((block << _U15) | (block >> _U17)) & _WORD32
    return (block * _C2) & _WORD32


@_compiled
def _murmur3(data: Any, first: Any, end: Any) -> Any:
    """Return MurmurHash3 x86 32 (Appleby) with seed 0 of ``data[first:end]`` as an unsigned number."""
    h = _U(0)
    size = end - first
    whole = first + (size // 4) * 4
    for at in range(first, whole, 4):
        block = _U(0)
        for i in range(4):
            block |= _U(data[at + i]) << _U(8 * i)
        h ^= _mixed(block)
        h = ((h << _U13) | (h >> _U19)) & _WORD32
        h = (h * _FIVE + _C3) & _WORD32
    tail = _U(0)
    for at in range(end - 1, whole - 1, -1):
        tail = (tail << _U8) | _U(data[at])
    h ^= _mixed(tail)
    h ^= _U(size)
    h ^= h >> _U16
    h = (h * _M1) & _WORD32
    h ^= h >> _U13
    h = (h * _M2) & _WORD32
    return h ^ (h >> _U16)


@_entry
def hash_words(data: Any, shortest: Any, longest: Any, out: Any) -> None:
    """Hash the words and runs of words of a text into signed buckets of unit length.

    Parameters
    ----------
    data : ndarray of uint8, shape (n,)
        ASCII of any kind, or words of casefolded UTF-8 with a blank between two. A word is a run of letters
        that touches neither a digit nor an underscore; bytes from 128 on are parts of letters.
    shortest, longest : int
        Words of a run.
    out : ndarray of float32, shape (width,)
        Written.
    """
    size = data.shape[0]
    joined = np.empty(size + 1, np.uint8)
    starts = np.empty(size // 2 + 1, np.int64)
    ends = np.empty(size // 2 + 1, np.int64)
    words = filled = at = 0
    while at < size:
        first = filled
        letters = True
        while at < size:
            c = data[at]
            if 65 <= c <= 90:
                c += 32
            elif 48 <= c <= 57 or c == 95:
                letters = False
            elif not (97 <= c <= 122 or c >= 128):
                break
            joined[filled] = c
            filled += 1
            at += 1
        at += 1
        if letters and filled > first:
            starts[words] = first
            ends[words] = filled
            words += 1
            joined[filled] = 32
            filled += 1
        else:
            filled = first
    width = out.shape[0]
    counts = np.zeros(width, np.float64)
    for length in range(shortest, min(longest, words) + 1):
        for word in range(words - length + 1):
            h = _murmur3(joined, starts[word], ends[word + length - 1])
            if h < _SIGN:
                counts[np.int64(h) % width] += 1.0
            else:
                counts[np.int64(_WORD32 - h + _U(1)) % width] -= 1.0
    total = 0.0
    for i in range(width):
        total += counts[i] * counts[i]
    root = math.sqrt(total) if total > 0.0 else 1.0
    for i in range(width):
        out[i] = counts[i] / root
