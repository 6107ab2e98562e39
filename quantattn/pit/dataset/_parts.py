"""Refusal of arguments of another type, before they fail somewhere inside."""

from __future__ import annotations

import inspect

import numpy as np

from quantattn.errors import UsageError
from quantattn.pit.clock import ForecastClock
from quantattn.pit.events.log import EventLog
from quantattn.pit.labels import Labels
from quantattn.pit.universe import Universe

_OF_A_SCAN = ("features", "frame", "batches", "between")


def refuse_other_types(events: object, clock: object, labels: object, universe: object) -> None:
    """Refuse parts of a dataset that are of another type.

    Raises
    ------
    UsageError
        Naming the part, its type and what makes one.
    """
    # What has the methods of a scan will do: it need not be ours.
    if not isinstance(events, EventLog) and not all(_has(events, name) for name in _OF_A_SCAN):
        raise _other(
            "events", events, "EventLog or EventScan", "EventLog.from_frame or EventLog.scan makes one"
        )
    if not isinstance(clock, ForecastClock):
        raise _other(
            "clock", clock, "ForecastClock", "ForecastClock.sessions or ForecastClock.explicit makes one"
        )
    if not isinstance(labels, Labels):
        raise _other("labels", labels, "Labels", "log_return or realised_variance measures some")
    if universe is not None and not isinstance(universe, Universe):
        raise _other("universe", universe, "Universe", "Universe.from_frame makes one")


def is_whole(number: object) -> bool:
    """Say whether something is a whole number; True and False are none."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _has(thing: object, name: str) -> bool:
    # Asked in the plain way, a scan would read its files for an answer.
    return inspect.getattr_static(thing, name, None) is not None


def _other(name: str, value: object, wanted: str, remedy: str) -> UsageError:
    return UsageError(f"{name} is of type {type(value).__name__}, not {wanted}; {remedy}")
