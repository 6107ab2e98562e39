"""Compiled hashing: SipHash-2-4 over the words of an event.

Written from J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012); the 128-bit
output is that of their reference code. All numbers are unsigned words of 64 bits: beside signed ones numba
would compute in floats. Words are read as they lie in memory, low byte first, as on every platform that
polars has wheels for.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

UNUSED = -2
"""Code of an event that no forecast reads."""

ir: Any = vars(cgutils)["ir"]

_U = np.uint64
_0, _1, _2, _3, _4, _7, _8, _12 = (_U(n) for n in (0, 1, 2, 3, 4, 7, 8, 12))
_16, _32, _56, _64, _LOW32 = _U(16), _U(32), _U(56), _U(64), _U(2**32 - 1)
# Keys say what is hashed: b"quantattn.events" and b"quantattn.sample".
EVENT_KEY = (_U(int.from_bytes(b"quantatt", "little")), _U(int.from_bytes(b"n.events", "little")))
NAME_KEY = (_U(int.from_bytes(b"quantatt", "little")), _U(int.from_bytes(b"n.sample", "little")))


def _compiled(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


def _built_in(function: Any) -> Any:
    return cast(Any, intrinsic(function))


@_built_in
def _word_at(typing: Any, address: Any) -> Any:
    """Return the eight bytes at an address, which need not be aligned, as a word."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        place = builder.inttoptr(operands[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(types.uint64), code


@_built_in
def _byte_at(typing: Any, address: Any) -> Any:
    """Return the byte at an address as a word."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        place = builder.inttoptr(operands[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(place, align=1), ir.IntType(64))

    return types.uint64(types.uint64), code


# --- SipHash ----------------------------------------------------------------------------------------


@_compiled
def _turned(word: Any, bits: Any) -> Any:
    return (word << bits) | (word >> (_64 - bits))


@_compiled
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v1 = _turned(v1, _U(13)) ^ v0
    v0 = _turned(v0, _32)
    v2 += v3
    v3 = _turned(v3, _U(16)) ^ v2
    v0 += v3
    v3 = _turned(v3, _U(21)) ^ v0
    v2 += v1
    v1 = _turned(v1, _U(17)) ^ v2
    v2 = _turned(v2, _32)
    return v0, v1, v2, v3


@_compiled
def _begin(key: Any) -> Any:
    return (
        key[0] ^ _U(0x736F6D6570736575),
        key[1] ^ _U(0x646F72616E646F6D) ^ _U(0xEE),
        key[0] ^ _U(0x6C7967656E657261),
        key[1] ^ _U(0x7465646279746573),
    )


@_compiled
def _with_word(v: Any, word: Any) -> Any:
    v0, v1, v2, v3 = _round(v[0], v[1], v[2], v[3] ^ word)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@_compiled
def _ended(v: Any, last: Any) -> Any:
    """Return both words of the hash; `last` is the rest of the message with its size in the top byte."""
    v0, v1, v2, v3 = _with_word(v, last)
    v2 ^= _U(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _U(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@_entry
def siphash(message: Any, key_low: Any, key_high: Any) -> Any:
    """Return the 128-bit SipHash-2-4 of bytes, an array of uint8, as two words."""
    v = _begin((key_low, key_high))
    whole = message.size // 8 * 8
    for at in range(0, whole, 8):
        word = _0
        for place in range(8):
            word |= _U(message[at + place]) << _U(8 * place)
        v = _with_word(v, word)
    last = _U(message.size) << _56
    for place in range(message.size - whole):
        last |= _U(message[whole + place]) << _U(8 * place)
    return _ended(v, last)


@_compiled
def _hash_of_words(message: Any, key: Any) -> Any:
    v = _begin(key)
    words = np.frombuffer(message, np.uint64)
    for place in range(words.size):
        v = _with_word(v, words[place])
    return _ended(v, (_8 * _U(words.size)) << _56)


@_entry
def digest_words(message: Any) -> Any:
    """Return the digest of one event, of which `message` holds the words as bytes, as two words."""
    return _hash_of_words(message, EVENT_KEY)


@_entry
def name_words(message: Any) -> Any:
    """Return the name of a chain, of which `message` holds both words and the count, as two words."""
    return _hash_of_words(message, NAME_KEY)


# --- the digest of an event -------------------------------------------------------------------------


@_compiled
def _is_there(bitmap: Any, place: Any) -> Any:
    """Look a row up in an Arrow bitmap; address zero means that no row is null."""
    return bitmap == _0 or (_byte_at(bitmap + (place >> _3)) >> (place & _7)) & _1 == _1


@_compiled
def _with_text(v: Any, view: Any, size: Any, heaps: Any, first: Any) -> Any:
    """Add a text of `size` bytes in words, the last one filled up with zeros."""
    begin, end = _word_at(view), _word_at(view + _8)
    if size <= _12:  # Arrow keeps short texts inside the view itself.
        head, tail = (begin >> _32) | (end << _32), end >> _32
        if size > _8:
            v = _with_word(v, head)
            v = _with_word(v, tail & ((_1 << (_8 * (size - _8))) - _1))
        elif size == _8:
            v = _with_word(v, head)
        elif size > _0:
            v = _with_word(v, head & ((_1 << (_8 * size)) - _1))
        return v
    address = heaps[first + np.int64(end & _LOW32)] + (end >> _32)
    for at in range(size >> _3):
        v = _with_word(v, _word_at(address + _8 * _U(at)))
    rest = size & _7
    if rest:  # Read backwards from the end: nothing behind a text is ours to read.
        v = _with_word(v, _word_at(address + size - _8) >> (_8 * (_8 - rest)))
    return v


@_entry
def digest_rows(
    codes: Any, out: Any, numbers: Any, strings: Any, heaps: Any, firsts: Any, features: Any
) -> Any:
    """Write the digests of rows into `out`, an array ``(n, 2)``; rows with code ``UNUSED`` are left alone.

    `numbers` holds the addresses of revision, event time and available at (all int64); `strings` of every
    text column the addresses of views and bitmap and the first bit; `heaps` the addresses of all texts too
    long for a view, from `firsts` on for each column; `features` label, addresses of values and bitmap, and
    first bit.
    """
    for i in range(codes.size):
        if codes[i] == UNUSED:
            continue
        row = _U(i)
        count = _0
        for f in range(features.shape[0]):
            if _is_there(features[f, 2], features[f, 3] + row):
                count += _1
        v = _begin(EVENT_KEY)
        v = _with_word(v, (_word_at(numbers[0] + _8 * row) & _LOW32) | (count << _32))
        v = _with_word(v, _word_at(numbers[1] + _8 * row))
        v = _with_word(v, _word_at(numbers[2] + _8 * row))
        words = _U(5) + _2 * count
        # Sizes come first, so that no two contents have the same words; none means null.
        for pair in range(2):
            word = _0
            for half in range(2):
                s = 2 * pair + half
                size = _LOW32
                if _is_there(strings[s, 1], strings[s, 2] + row):
                    size = _word_at(strings[s, 0] + _U(16) * row) & _LOW32
                    words += (size + _7) >> _3
                word |= size << (_32 * _U(half))
            v = _with_word(v, word)
        for s in range(4):
            if _is_there(strings[s, 1], strings[s, 2] + row):
                view = strings[s, 0] + _U(16) * row
                v = _with_text(v, view, _word_at(view) & _LOW32, heaps, firsts[s])
        for f in range(features.shape[0]):
            if _is_there(features[f, 2], features[f, 3] + row):
                v = _with_word(v, features[f, 0])
                v = _with_word(v, _word_at(features[f, 1] + _8 * row))
        out[i, 0], out[i, 1] = _ended(v, (_8 * words) << _56)


@_entry
def name_rows(chains: Any, counts: Any, out: Any) -> None:
    """Write the names of chains ``(n, 2)`` of so many events as hexadecimal digits, uint8 ``(n, 32)``."""
    for row in range(counts.size):
        v = _with_word(_begin(NAME_KEY), chains[row, 0])
        v = _with_word(_with_word(v, chains[row, 1]), _U(counts[row]))
        low, high = _ended(v, _U(24) << _56)
        for place in range(32):
            word = low if place < 16 else high
            digit = (word >> _U(8 * (place % 16 // 2) + (0 if place % 2 else 4))) & _U(15)
            out[row, place] = digit + (_U(ord("0")) if digit < _U(10) else _U(ord("a") - 10))
