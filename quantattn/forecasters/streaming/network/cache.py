"""How the key/value cache of a softmax forecaster grows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from quantattn.errors import StateError, UsageError

_MOST_AT_FIRST: Final = 2**24
_MOST_GROWTH: Final = 100.0


@dataclass(frozen=True)
class CachePolicy:
    """Room for the events of one entity in a softmax forecaster; a linear forecaster needs none.

    Parameters
    ----------
    initial : int, default 1024
        Events to make room for at first; at most 2**24, as every entity gets that room.
    growth : float, default 2.0
        Factor by which a full cache grows; above 1, and at most 100.
    limit : int or None, default None
        Most events that an entity may have. One more is a :class:`~quantattn.errors.StateError`: a cache that
        quietly forgot its oldest events would be another information set. None is no limit.

    Raises
    ------
    UsageError
        If a number is another one.
    """

    initial: int = 1024
    growth: float = 2.0
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not _is_count(self.initial) or self.initial > _MOST_AT_FIRST:
            raise UsageError(
                f"initial={self.initial!r} must be a whole number of events from 1 to {_MOST_AT_FIRST}"
            )
        growth = self.growth
        number = isinstance(growth, int | float) and not isinstance(growth, bool)
        if not number or not 1.0 < growth <= _MOST_GROWTH:
            raise UsageError(f"growth={growth!r} must be a factor above 1, and at most {_MOST_GROWTH}")
        if self.limit is not None and not _is_count(self.limit):
            raise UsageError(
                f"limit={self.limit!r} must be a whole number of events from 1, or None for no limit"
            )

    def capacity(self, needed: int, present: int = 0) -> int:
        """Give the events to make room for where `needed` do not fit into `present`.

        Parameters
        ----------
        needed : int
            Events that must fit.
        present : int, default 0
            Room that there is; 0 before the first event.

        Returns
        -------
        int
            At least `needed`.
        """
        grown = math.ceil(present * self.growth) if present else self.initial
        grown = grown if self.limit is None else min(grown, self.limit)
        return max(needed, grown)

    def allow(self, entity: str, events: int) -> None:
        """Refuse more events of an entity than the limit.

        Parameters
        ----------
        entity : str
            The entity.
        events : int
            Events that it would have.

        Raises
        ------
        StateError
            If they are more than the limit.
        """
        if self.limit is not None and events > self.limit:
            raise StateError(
                f"entity {entity!r} would have {events} events, and its key/value cache may hold "
                f"{self.limit}; raise the limit of the CachePolicy, or use the linear forecaster, whose "
                "memory does not grow"
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
