"""Snapshots of a replay: those of its forecaster, and how far the log and the clock have come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from quantattn.errors import CheckpointError
from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.streaming.snapshots.snapshot import (
    ADDED,
    read_snapshot,
    restore_into,
    snapshot_of,
    write_snapshot,
)

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "log": (dict,),
    "first": (int, type(None)),
    "done": (int, type(None)),
    "entities": (list, type(None)),
    "waiting": (list,),
}


def keep_state(path: Path, forecaster: StreamingForecaster, more: Mapping[str, Any]) -> None:
    """Write a snapshot, whole or not at all.

    Parameters
    ----------
    path : Path
        The file; one that is there is replaced.
    forecaster : StreamingForecaster
        What runs.
    more : mapping
        What the replay adds, as plain JSON values: ``log`` (its position), ``first`` and ``done`` (the first
        and the last instant of the clock's forecasts so far), ``entities`` (None for all), ``waiting`` (what
        was asked for and is not due yet).

    Raises
    ------
    OSError
        If it cannot be written; an older one is untouched.
    """
    arrays, meta = snapshot_of(forecaster)
    write_snapshot(path, arrays, {**meta, ADDED: dict(more)})


def read_state(path: Path, forecaster: StreamingForecaster) -> dict[str, Any]:
    """Read a snapshot into a forecaster.

    Parameters
    ----------
    path : Path
        The file.
    forecaster : StreamingForecaster
        Of the same weights and options.

    Returns
    -------
    dict
        What the replay added to it; of a snapshot that no replay wrote, that the clock has come as far as its
        last event.

    Raises
    ------
    CheckpointError
        If it is not whole, or is one of another forecaster.
    """
    arrays, meta = read_snapshot(path)
    more = meta.pop(ADDED, None)
    restore_into(forecaster, arrays, meta)
    if more is None:
        return {"log": {}, "first": None, "done": forecaster.as_of, "entities": None, "waiting": []}
    if not isinstance(more, dict) or more.keys() != _KINDS.keys():
        raise CheckpointError(f"{path} tells nothing of the replay that wrote it; start without it")
    for name, kinds in _KINDS.items():
        if not isinstance(more[name], kinds) or isinstance(more[name], bool):
            raise CheckpointError(f"{path} has {name}={more[name]!r}; start without it")
    return more
