"""What whoever reads results of a dataset should know of how its parts fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from quantattn.pit.dataset._sources import Scan
from quantattn.pit.events.log import EventLog
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of
from quantattn.pit.universe import Universe

_SHOWN: Final = 3
_NAMED: Final = 10

NO_UNIVERSE: Final = (
    "No universe was given: an entity is in whenever it has a label. If the prices hold only names that "
    "survived, so do the samples; .survivorship tells which entities begin late or end early."
)


def notes_of(
    events: EventLog | Scan,
    entities: Sequence[str],
    *,
    without_universe: bool,
    unpriced: tuple[Sequence[str], int],
    silent: Sequence[str],
    readers: int,
    own: bool,
    market: bool,
) -> tuple[str, ...]:
    """Gather the notes of a dataset.

    Parameters
    ----------
    events : EventLog or EventScan
        Its events.
    entities : sequence of str
        Those of the labels.
    without_universe : bool
        Whether there is none.
    unpriced : tuple of (sequence of str, int)
        What :func:`members_without_prices` gives.
    silent : sequence of str
        Entities with samples that have no events of their own, where there are market-wide ones.
    readers : int
        How many entities have samples.
    own, market : bool
        Whether entities' own and market-wide events are read.
    """
    told: list[str | None] = [NO_UNIVERSE] if without_universe else []
    if unpriced[0]:
        told.append(note_on_members(*unpriced))
    if silent and own and market:
        told.append(note_on_silent(silent, readers))
    told.append(note_on_kinds(events.frame.lazy(), events.features, entities, own=own, market=market))
    return tuple(note for note in told if note is not None)


def members_without_prices(
    universe: Universe, times: Nanoseconds, priced: Sequence[str]
) -> tuple[list[str], int]:
    """Give the members that never have prices, sorted, and how many members there are.

    Parameters
    ----------
    universe : Universe
        Whose spells count if they hold a forecast time.
    times : ndarray of int64
        Forecast times, rising.
    priced : sequence of str
        Entities that have prices.
    """
    spells = universe.frame
    # A member at its start, and none at its end.
    first = np.searchsorted(times, nanoseconds_of(spells["start"]), side="left")
    open_end = spells["end"].is_null().to_numpy()
    stops = nanoseconds_of(spells["end"].fill_null(spells["start"]))
    last = np.where(open_end, times.size, np.searchsorted(times, stops, side="left"))
    members = set(spells["entity"].filter(pl.Series(first < last, dtype=pl.Boolean)).to_list())
    return sorted(members - set(priced)), len(members)


def note_on_members(missing: Sequence[str], members: int) -> str:
    """Tell of members that never have prices."""
    named = ", ".join(missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
    return (
        f"{len(missing)} of {members} members of the universe never have prices: {named}. No forecast is "
        "made for them, so results are of those that have prices: if these are the survivors, the universe "
        "does not help. Add the prices of the missing, to their end."
    )


def note_on_silent(silent: Sequence[str], entities: int) -> str:
    """Tell of entities that read market-wide events alone."""
    named = ", ".join(map(repr, silent[:_SHOWN])) + (", ..." if len(silent) > _SHOWN else "")
    return (
        f"{len(silent)} of {entities} entities have no events of their own and read the market-wide ones "
        f"alone, first {named}; with scope='market' all do."
    )


def note_on_kinds(
    events: pl.LazyFrame, features: Sequence[str], entities: Sequence[str], *, own: bool, market: bool
) -> str | None:
    """Tell where as-of features are taken from events of several kinds; None where none is.

    Parameters
    ----------
    events : polars.LazyFrame
        ``entity``, ``kind`` and the features.
    features, entities : sequence of str
        Feature columns, and whose events are read.
    own, market : bool
        Whether entities' own and market-wide events are read.
    """
    if not features:
        return None
    mine = pl.col("entity").is_in(list(entities)).fill_null(False) & pl.lit(own)
    wide = pl.col("entity").is_null() & pl.lit(market)
    borne = (
        events.filter(mine | wide)
        .group_by("entity", "kind")
        .agg(pl.col(name).is_not_null().any().alias(f"has:{name}") for name in features)
        .collect(engine="streaming")
    )
    told = []
    for name in features:
        there = borne.filter(pl.col(f"has:{name}")).group_by("entity").agg(pl.col("kind").sort())
        mixed = there.filter(pl.col("kind").list.len() > 1)
        if mixed.is_empty():
            continue
        most = mixed.sort(pl.col("kind").list.len(), "entity", descending=[True, False], nulls_last=True)
        entity, kinds = most.row(0)
        shown = ", ".join(map(repr, kinds[:_SHOWN])) + (", ..." if len(kinds) > _SHOWN else "")
        whose = "the market" if entity is None else repr(entity)
        told.append(f"asof_{name} is taken from {len(kinds)} kinds of events of {whose} ({shown})")
    if not told:
        return None
    more = f", and so are {len(told) - _SHOWN} more features" if len(told) > _SHOWN else ""
    return (
        f"{'; '.join(told[:_SHOWN])}{more}: the value is that of whichever happened last, so one column "
        "holds different quantities in turn. as_of_features(by='kind') gives a column for each kind."
    )
