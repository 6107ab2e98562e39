"""Forecasts that were asked for and are not due yet."""

from __future__ import annotations

from bisect import insort
from typing import Any

from quantattn.errors import CheckpointError
from quantattn.forecasters.streaming.events.lines import ForecastRequest
from quantattn.study.replay.logs import Item


class Waiting:
    """Requests by their instants; those of one instant in the order in which they came."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    @property
    def next_at(self) -> int | None:
        """The instant of the first one, nanoseconds since the epoch, UTC; None without any."""
        return self._items[0].at if self._items else None

    @property
    def first(self) -> Item:
        """The first one."""
        return self._items[0]

    def add(self, item: Item) -> None:
        """Take one up."""
        insort(self._items, item, key=lambda one: one.at)

    def pop(self) -> None:
        """Drop the first one."""
        del self._items[0]

    def plain(self) -> list[list[Any]]:
        """Give them as plain JSON values."""
        return [
            [item.content.entity, item.at, item.place]
            for item in self._items
            if isinstance(item.content, ForecastRequest)
        ]

    @classmethod
    def of(cls, plain: list[Any]) -> Waiting:
        """Make them of plain JSON values.

        Parameters
        ----------
        plain : list
            What :meth:`plain` gave.

        Raises
        ------
        CheckpointError
            If it is something else.
        """
        made = cls()
        for one in plain:
            match one:
                case [str() | None as entity, int() as at, str() as place] if not isinstance(at, bool):
                    made.add(Item(ForecastRequest(entity, at), place))
                case _:
                    raise CheckpointError(f"the snapshot has waiting={one!r}; start without it")
        return made
