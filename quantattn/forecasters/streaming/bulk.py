"""Many events at once: encoded as a table, written in rounds, or as one sequence for each entity."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from quantattn.attention.backends._threads import share_out, thread_count
from quantattn.forecasters.streaming.coder import sequence_tokens, tokens_since
from quantattn.forecasters.streaming.health.monitor import HealthMonitor
from quantattn.forecasters.streaming.network.stream import NetworkStream
from quantattn.forecasters.tokens import Floats, Integers
from quantattn.pit.dataset._visible import entity_codes

BLOCK = 2**17
"""Events that are encoded at a time."""

FEW = 16
"""Memories that get no more events than this are written by rounds: one event of each in one call."""

_NOBODY = -1


@dataclass(frozen=True)
class Rows:
    """The events of a table by the sequences that they go into.

    Parameters
    ----------
    market : ndarray of int64
        Rows of market-wide events.
    own : dict of str to ndarray of int64
        Rows of each entity that has some, in the order of their first.
    """

    market: Integers
    own: Mapping[str, Integers]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Rows:
        """Sort the rows of a frame by their entity."""
        names = frame["entity"].drop_nulls().unique(maintain_order=True).to_list()
        codes = entity_codes(frame["entity"], names, _NOBODY, _NOBODY)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes + 1, minlength=len(names) + 1)).tolist()
        own = {name: order[first:last] for name, first, last in zip(names, ends[:-1], ends[1:], strict=True)}
        return cls(order[: ends[0]], own)

    def sequence(self, entity: str) -> Integers:
        """Give the rows of an entity's sequence: its own and the market-wide ones, in order."""
        own = self.own.get(entity)
        if own is None:
            return self.market
        return np.sort(np.concatenate([own, self.market])) if self.market.size else own


def blocks_of(frame: pl.DataFrame, text: Floats | None) -> Iterator[tuple[pl.DataFrame, Floats | None]]:
    """Cut a table, and its hashed text if it is at hand, into blocks."""
    for start in range(0, frame.height, BLOCK):
        yield frame[start : start + BLOCK], None if text is None else text[start : start + BLOCK]


def write_rounds(
    network: NetworkStream,
    monitor: HealthMonitor,
    encoded: Floats,
    times: Integers,
    names: Mapping[str, Integers],
    lasts: Integers,
) -> None:
    """Write few events to each of many memories, in rounds of one event of each that has some left.

    Parameters
    ----------
    network : NetworkStream
        Has a memory under each name.
    monitor : HealthMonitor
        Is told of the writes.
    encoded : ndarray of float32, shape (n, k)
        Coded events, without the elapsed time.
    times : ndarray of int64, shape (n,)
        Their ``available_at``.
    names : mapping of str to ndarray of int64
        The memories to write to, and the rows that each takes, at least one.
    lasts : ndarray of int64, shape (m,)
        When the event before them became available to each memory; the instant of its first row where there
        is none.
    """
    lengths = np.array([rows.size for rows in names.values()], np.int64)
    starts = np.cumsum(lengths) - lengths
    rows = np.concatenate(list(names.values()))
    at = times[rows]
    before = np.empty_like(at)
    before[1:] = at[:-1]
    before[starts] = lasts
    tokens = tokens_since(encoded[rows], at, before)
    order = np.argsort(-lengths, kind="stable")
    known = list(names)
    ordered = [known[place] for place in order.tolist()]
    for turn in range(int(lengths.max())):
        some = int((lengths > turn).sum())
        chosen = starts[order[:some]] + turn
        taken = np.ascontiguousarray(tokens[chosen]), np.ascontiguousarray(at[chosen])
        network.write_each(ordered[:some], *taken)
        monitor.wrote_each(ordered[:some], *taken)


def write_sequences(
    network: NetworkStream,
    encoded: Floats,
    times: Integers,
    names: Mapping[str, Integers],
    keep: Collection[str] = (),
) -> dict[str, tuple[Floats, Integers]]:
    """Write many events to each memory, each memory's as one sequence.

    Parameters
    ----------
    network, encoded, times, names
        As for :func:`write_rounds`.
    keep : collection of str
        Memories whose tokens are wanted.

    Returns
    -------
    dict of str to tuple of ndarray
        Of each memory to keep: the tokens that were written, and when they became available.
    """
    waiting = list(names.items())
    kept: dict[str, tuple[Floats, Integers]] = {}

    def write(first: int, last: int) -> None:
        for name, rows in waiting[first:last]:
            at = times[rows]
            tokens = sequence_tokens(encoded[rows], at, network.last_event(name))
            network.write_sequence(name, tokens, at)
            if name in keep:
                kept[name] = tokens, at

    # Memories share nothing, so threads change no bit.
    share_out(write, len(waiting), thread_count())
    return kept


def shorter_and_longer(names: Sequence[str], rows: Rows) -> tuple[dict[str, Integers], dict[str, Integers]]:
    """Give the rows of each memory, of those that take few and of those that take many."""
    shorter: dict[str, Integers] = {}
    longer: dict[str, Integers] = {}
    # A round of few memories costs as much as a sequence.
    few = min(FEW, len(names))
    for name in names:
        sequence = rows.sequence(name)
        (shorter if sequence.size <= few else longer)[name] = sequence
    return shorter, longer
