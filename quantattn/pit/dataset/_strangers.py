"""Entities that have events but no labels, or labels but nothing to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quantattn.errors import EventDataError, PriceDataError
from quantattn.pit._tables import nearest_names

_LOOKED_UP: Final = 100
"""Entities for whose names near ones are searched: one such pair is enough to refuse."""


def refuse_strangers(
    with_events: set[str], market_wide: bool, entities: Sequence[str], *, own: bool, market: bool
) -> None:
    """Refuse events and labels that do not belong together.

    Parameters
    ----------
    with_events : set of str
        Entities that have events of their own.
    market_wide : bool
        Whether there are market-wide events.
    entities : sequence of str
        Those of the labels.
    own, market : bool
        Whether forecasts read their entity's own events, and the market-wide ones.

    Raises
    ------
    EventDataError
        If an entity has labels but no event to read, or none of its own while events bear a name that is
        nearly the same; or only market-wide events are read and there are none.
    PriceDataError
        If an entity has events but no labels.
    """
    if not own:
        if not market_wide:
            raise EventDataError(
                "scope='market', but no event is market-wide (entity null); "
                "use another scope or add such events"
            )
        return
    known = set(entities)
    silent, unpriced = sorted(known - with_events), sorted(with_events - known)
    if silent and not (market and market_wide):
        where = "with scope='entity' they read none; scope='market' reads the market-wide ones"
        remedy = f"{where}, or give their own events" if market_wide else "give their events"
        raise EventDataError(
            f"{len(silent)} entities have labels but no events, first {silent[:3]}"
            f"{nearest_names(silent[0], with_events)}; {remedy}, or take them out of the prices"
        )
    if silent:
        _refuse_misspelt(silent, with_events, unpriced)
    if unpriced:
        raise PriceDataError(
            f"{len(unpriced)} entities have events but no prices, first {unpriced[:3]}"
            f"{nearest_names(unpriced[0], known)}; "
            f"give their prices, or take their events out of the log{_and_silent(silent)}"
        )


def _refuse_misspelt(silent: Sequence[str], with_events: Iterable[str], unpriced: Sequence[str]) -> None:
    """Refuse a name without events that is nearly one that has them.

    One that has a price of its own, as GOOG beside GOOGL, is another name, unless they differ in nothing but
    case and space.
    """
    folded = {_folded(name): name for name in with_events}
    for name in silent:
        other = folded.get(_folded(name))
        if other is not None:
            raise _misspelt(name, f" (did you mean {other!r}?)")
    if unpriced:
        for name in silent[:_LOOKED_UP]:
            near = nearest_names(name, unpriced)
            if near:
                raise _misspelt(name, near)


def _and_silent(silent: Sequence[str]) -> str:
    """Tell of entities without events beside some without prices: they may be the same by another name."""
    if not silent:
        return ""
    return (
        f"; or name them as the prices do, in which {len(silent)} entities have labels but no events of "
        f"their own, first {list(silent[:3])}"
    )


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def _misspelt(name: str, near: str) -> EventDataError:
    return EventDataError(
        f"entity {name!r} has labels but no events of its own, and events bear nearly its name{near}; "
        "write it alike in both, or with scope='market' read the market-wide events alone"
    )
