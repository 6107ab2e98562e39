"""Running chains of every entity's information set: how many events, the latest of them, and their name.

Market-wide events go into one chain alone and reach an entity when it is looked at, as in
``quantattn.pit.dataset._chain_kernels.absorb``, so that one costs the same however many entities read it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from quantattn.pit.dataset.one_event import BASE, PRIME, chain_name, chained

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_WORD: Final = 2**64 - 1


def _powers(count: int) -> tuple[int, ...]:
    found = [1]
    while len(found) < count:
        found.append(found[-1] * BASE % PRIME)
    return tuple(found)


_POWERS: Final = _powers(1024)


class Chain:
    """The chain of an entity, or of the market.

    Attributes
    ----------
    value : int
        Of the market, its chain; of an entity, the difference to the market's when they last met.
    joined : int
        Market-wide events when they met.
    count : int
        Own events.
    newest : int
        When the latest of them became available, nanoseconds since the epoch, UTC.
    """

    __slots__ = ("count", "joined", "newest", "value")

    def __init__(self, value: int = 0, joined: int = 0, count: int = 0, newest: int = 0) -> None:
        self.value = value
        self.joined = joined
        self.count = count
        self.newest = newest


class Chains:
    """The chains of the market and of every entity that had an event of its own."""

    def __init__(self) -> None:
        self.market = Chain()
        self.own: dict[str, Chain] = {}

    def see_own(self, entity: str, digest: int, available: int) -> None:
        """Append an entity's own event."""
        market, chain = self.market, self.own.get(entity)
        if chain is None:
            chain = self.own[entity] = Chain()
        chain.value = (chained(self._current(chain), digest) - market.value) % PRIME
        chain.joined = market.count
        chain.count += 1
        chain.newest = available

    def see_market(self, digest: int, available: int) -> None:
        """Append a market-wide event."""
        market = self.market
        market.value = chained(market.value, digest)
        market.count += 1
        market.newest = available

    def see_rows(
        self, entities: list[str], codes: npt.NDArray[np.int32], times: Integers, words: Words
    ) -> None:
        """Append many events, which changes the chains as one after the other does.

        Parameters
        ----------
        entities : list of str
            Names, all different.
        codes : ndarray of int32, shape (n,)
            Places among them; -1 for market-wide events, -2 for those that nobody reads.
        times : ndarray of int64, shape (n,)
            When each became available.
        words : ndarray of uint64, shape (n, 2)
            Digests.
        """
        from quantattn.pit.dataset import _chain_kernels as kernels

        chains = [self.own.get(entity) or self.own.setdefault(entity, Chain()) for entity in entities]
        values, *counts = arrays_of([*chains, self.market])
        tables = np.zeros((3, 2**kernels.POWER_BITS, 2), dtype=np.uint64)
        kernels.fill_powers(tables)
        nobody, nowhere = np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.uint64)
        kernels.absorb(
            codes,
            np.ascontiguousarray(times),
            words,
            nobody,
            nobody.astype(np.int32),
            tables,
            values,
            *counts,
            nobody,
            nobody,
            nowhere,
        )
        for chain, *state in zip(
            [*chains, self.market], values.tolist(), *map(np.ndarray.tolist, counts), strict=True
        ):
            (low, high), chain.joined, chain.count, chain.newest = state
            chain.value = low | high << 64

    def count(self, entity: str) -> int:
        """Count the events that an entity has seen."""
        chain = self.own.get(entity)
        return self.market.count + (chain.count if chain else 0)

    def newest(self, entity: str) -> int | None:
        """Give when the latest of them became available; None if there are none."""
        market, chain = self.market, self.own.get(entity)
        if chain is None or not chain.count:
            return market.newest if market.count else None
        return max(chain.newest, market.newest) if market.count else chain.newest

    def name(self, entity: str) -> str:
        """Name them: 32 hexadecimal digits."""
        market, chain = self.market, self.own.get(entity)
        if chain is None:
            return chain_name(market.value, market.count)
        return chain_name(self._current(chain), market.count + chain.count)

    def _current(self, chain: Chain) -> int:
        since = self.market.count - chain.joined
        if not since:
            return (chain.value + self.market.value) % PRIME
        power = _POWERS[since] if since < len(_POWERS) else pow(BASE, since, PRIME)
        return (chain.value * power + self.market.value) % PRIME


def arrays_of(chains: list[Chain]) -> tuple[Words, Integers, Integers, Integers]:
    """Give chains as arrays: values (n, 2), the low word first, then joined, count and newest (n,)."""
    values = np.array([(chain.value & _WORD, chain.value >> 64) for chain in chains], dtype=np.uint64)
    rest = np.array([(chain.joined, chain.count, chain.newest) for chain in chains], dtype=np.int64)
    joined, count, newest = (np.ascontiguousarray(column) for column in rest.reshape(-1, 3).T)
    return values.reshape(-1, 2), joined, count, newest
