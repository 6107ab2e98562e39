"""What a stream remembers of each entity: rows of arrays that never move, so that steps know addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from quantattn.forecasters.streaming.network.kernels.plan import (
    ASKED,
    CAPACITY,
    CLOCK,
    COUNT,
    HEADER_SIZE,
    LANES,
    LAST_EVENT,
    LEAST_READ,
    LEAST_WRITTEN,
    LOGITS,
    STATE,
    VALUES,
    vectors,
)
from quantattn.forecasters.streaming.network.packing import Floats, PackedNetwork, aligned

Arrays = dict[str, np.ndarray]
Shapes = dict[str, tuple[tuple[int, ...], type]]
Header = npt.NDArray[np.int64]

_FIRST_ROWS = 8
_SLAB_BYTES = 1 << 22  # slabs double up to this size


class Memories(Protocol):
    """The memories of many entities, by number."""

    def new(self) -> int:
        """Make an empty memory and give its number."""

    def address(self, number: int) -> int:
        """Give the address of a memory's header."""

    def header(self, number: int) -> Header:
        """Give a memory's header; what is written into it is seen by the steps."""

    def make_room(self, number: int, capacity: int) -> None:
        """Make room for that many tokens."""

    def copy(self, number: int, like: int) -> None:
        """Copy another memory, but for what reads have left in its header."""

    def arrays(self, number: int) -> Arrays:
        """Give copies of what a read depends on."""

    def shapes(self, tokens: int) -> Shapes:
        """Give the shapes and types of :meth:`arrays` after that many tokens."""

    def fill(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what :meth:`arrays` gave, into a memory that has room for it."""

    def nbytes(self, number: int) -> int:
        """Give the bytes that a memory holds."""


class _Pool:
    """Rows of one size, in slabs that are never moved or given back."""

    def __init__(self, numbers: int) -> None:
        self._row = numbers  # int64 numbers, a multiple of 8: a row starts at a cache line
        self._slabs: list[Header] = []
        self._places: list[tuple[int, int]] = []
        self._free = 0

    def take(self) -> int:
        """Give the number of a row of zeros."""
        if not self._free:
            most = max(1, _SLAB_BYTES // (8 * self._row))
            rows = min(most, max(_FIRST_ROWS, len(self._places)))
            self._slabs.append(aligned(2 * rows * self._row).view(np.int64).reshape(rows, self._row))
            self._free = rows
        slab = len(self._slabs) - 1
        self._places.append((slab, len(self._slabs[slab]) - self._free))
        self._free -= 1
        return len(self._places) - 1

    def row(self, number: int) -> Header:
        """Give a row."""
        slab, place = self._places[number]
        row: Header = self._slabs[slab][place]
        return row


def _blank(header: Header) -> None:
    header[[LEAST_WRITTEN, LEAST_READ]] = np.array([np.inf, np.inf]).view(np.int64)


class LinearMemories:
    """Fixed-width states: key features against values, per layer and head.

    Parameters
    ----------
    packed : PackedNetwork
        The network that writes them.
    """

    def __init__(self, packed: PackedNetwork) -> None:
        _, _, self._width, self._heads, self._layers, _, _ = packed.sizes
        self._rank = self._width // self._heads
        self._wide = vectors(self._width)
        # float32, two to an int64; per layer the panels of sums and the sums of the key features.
        self._size = self._layers * (self._rank + 1) * self._wide * LANES
        self._pool = _Pool(HEADER_SIZE + self._size // 2)

    def new(self) -> int:
        """Make an empty memory and give its number."""
        number = self._pool.take()
        row = self._pool.row(number)
        _blank(row)
        row[STATE] = row.ctypes.data + 8 * HEADER_SIZE
        return number

    def address(self, number: int) -> int:
        """Give the address of a memory's header."""
        return int(self._pool.row(number).ctypes.data)

    def header(self, number: int) -> Header:
        """Give a memory's header."""
        return self._pool.row(number)[:HEADER_SIZE]

    def make_room(self, number: int, capacity: int) -> None:
        """Do nothing: a state has room for any number of tokens."""

    def copy(self, number: int, like: int) -> None:
        """Copy another memory, but for what reads have left in its header."""
        to, origin = self._pool.row(number), self._pool.row(like)
        to[HEADER_SIZE:] = origin[HEADER_SIZE:]
        to[[LAST_EVENT, COUNT, LEAST_WRITTEN]] = origin[[LAST_EVENT, COUNT, LEAST_WRITTEN]]

    def _parts(self, number: int) -> tuple[Floats, Floats]:
        """Give the sums, (layers, vectors, rank, lanes), and those of the features, (layers, columns)."""
        state = self._pool.row(number)[HEADER_SIZE:].view(np.float32).reshape(self._layers, -1)
        cut = self._wide * LANES * self._rank
        return state[:, :cut].reshape(self._layers, self._wide, self._rank, LANES), state[:, cut:]

    def arrays(self, number: int) -> Arrays:
        """Give copies of S (layers, heads, rank, rank), keys before values, and z (layers, heads, rank)."""
        sums, features = self._parts(number)
        columns = sums.transpose(0, 2, 1, 3).reshape(self._layers, self._rank, -1)[..., : self._width]
        by_head = columns.reshape(self._layers, self._rank, self._heads, self._rank).swapaxes(1, 2)
        features = features[:, : self._width].reshape(self._layers, self._heads, self._rank)
        return {"S": by_head.copy(), "z": features.copy()}

    def shapes(self, tokens: int) -> Shapes:
        """Give the shapes and types of :meth:`arrays`."""
        flat = (self._layers, self._heads, self._rank)
        return {"S": ((*flat, self._rank), np.float32), "z": (flat, np.float32)}

    def fill(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what :meth:`arrays` gave."""
        sums, features = self._parts(number)
        columns = np.zeros((self._layers, self._rank, self._wide * LANES), np.float32)
        columns[..., : self._width] = arrays["S"].swapaxes(1, 2).reshape(self._layers, self._rank, -1)
        sums[...] = columns.reshape(self._layers, self._rank, self._wide, LANES).transpose(0, 2, 1, 3)
        features[:, : self._width] = arrays["z"].reshape(self._layers, -1)

    def nbytes(self, number: int) -> int:
        """Give the bytes of the state."""
        return 4 * self._size


class SoftmaxMemories:
    """Growing key/value caches.

    Parameters
    ----------
    packed : PackedNetwork
        The network that writes them.
    """

    def __init__(self, packed: PackedNetwork) -> None:
        _, _, width, self._heads, self._layers, _, _ = packed.sizes
        self._rank = width // self._heads
        self._pool = _Pool(HEADER_SIZE)
        self._caches: list[tuple[Floats, Floats, npt.NDArray[np.float64], Floats]] = []

    def new(self) -> int:
        """Make an empty memory, without room yet, and give its number."""
        number = self._pool.take()
        _blank(self._pool.row(number))
        self._caches.append(self._allocate(0))
        return number

    def _allocate(self, blocks: int) -> tuple[Floats, Floats, npt.NDArray[np.float64], Floats]:
        cached = (self._layers, self._heads, blocks, self._rank, LANES)
        keys, values = (aligned(int(np.prod(cached))).reshape(cached) for _ in range(2))
        clock = aligned(2 * self._heads * blocks * LANES).view(np.float64).reshape(self._heads, -1)
        return keys, values, clock, aligned(blocks * LANES)

    def address(self, number: int) -> int:
        """Give the address of a memory's header."""
        return int(self._pool.row(number).ctypes.data)

    def header(self, number: int) -> Header:
        """Give a memory's header."""
        return self._pool.row(number)

    def make_room(self, number: int, capacity: int) -> None:
        """Make room for that many tokens, in whole blocks of 16."""
        header, old = self.header(number), self._caches[number]
        header[ASKED] = max(capacity, header[ASKED])
        if capacity <= header[CAPACITY]:
            return
        made = self._allocate(vectors(capacity))
        used = vectors(int(header[COUNT]))
        for to, origin in zip(made[:2], old[:2], strict=True):
            to[:, :, :used] = origin[:, :, :used]
        made[2][:, : used * LANES] = old[2][:, : used * LANES]
        self._caches[number] = made
        header[[STATE, VALUES, CLOCK, LOGITS]] = [part.ctypes.data for part in made]
        header[CAPACITY] = vectors(capacity) * LANES

    def copy(self, number: int, like: int) -> None:
        """Copy another memory, but for what reads have left in its header."""
        to, origin = self.header(number), self.header(like)
        self.make_room(number, int(origin[ASKED]))
        used = vectors(int(origin[COUNT]))
        for mine, other in zip(self._caches[number][:2], self._caches[like][:2], strict=True):
            mine[:, :, :used] = other[:, :, :used]
        self._caches[number][2][:, : used * LANES] = self._caches[like][2][:, : used * LANES]
        to[[LAST_EVENT, COUNT, LEAST_WRITTEN]] = origin[[LAST_EVENT, COUNT, LEAST_WRITTEN]]

    def arrays(self, number: int) -> Arrays:
        """Give copies of keys and values, (layers, heads, tokens, rank), and clock, (heads, tokens)."""
        count = int(self.header(number)[COUNT])
        keys, values, clock, _ = self._caches[number]
        used = vectors(count)

        def by_token(x: Floats) -> Floats:
            flat = x[:, :, :used].swapaxes(3, 4).reshape(self._layers, self._heads, -1, self._rank)
            return flat[:, :, :count].copy()

        return {"keys": by_token(keys), "values": by_token(values), "clock": clock[:, :count].copy()}

    def shapes(self, tokens: int) -> Shapes:
        """Give the shapes and types of :meth:`arrays` after that many tokens."""
        cached = (self._layers, self._heads, tokens, self._rank)
        return {
            "keys": (cached, np.float32),
            "values": (cached, np.float32),
            "clock": ((self._heads, tokens), np.float64),
        }

    def fill(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what :meth:`arrays` gave, into a memory that has room for it."""
        count = arrays["clock"].shape[1]
        used = vectors(count)
        for to, name in zip(self._caches[number][:2], ("keys", "values"), strict=True):
            padded = np.zeros((self._layers, self._heads, used * LANES, self._rank), np.float32)
            padded[:, :, :count] = arrays[name]
            blocks = padded.reshape(self._layers, self._heads, used, LANES, self._rank)
            to[:, :, :used] = blocks.swapaxes(3, 4)
        self._caches[number][2][:, :count] = arrays["clock"]

    def nbytes(self, number: int) -> int:
        """Give the bytes of the keys, values and clock in use."""
        keys_and_values = 2 * 4 * self._layers * self._heads * self._rank
        return (keys_and_values + 8 * self._heads) * int(self.header(number)[COUNT])
