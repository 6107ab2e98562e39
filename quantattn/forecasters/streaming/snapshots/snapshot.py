"""Snapshots of a streaming forecaster: everything that it remembers, and whose memory it is.

A snapshot and the rest of the log give what an uninterrupted run gives, bit for bit. It holds the memory of
every entity and of the market, the last keys and reads, the information sets, the ids that are remembered,
the late events, the float64 shadows, and counts. The weights stay where they are and are named by their hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from quantattn.errors import CheckpointError, QuantAttnError, StateError
from quantattn.files import hash_bytes, hash_json
from quantattn.forecasters.network import DENOMINATOR
from quantattn.forecasters.streaming.events.late import Late
from quantattn.forecasters.streaming.snapshots._pooling import packed_json, pooled, separated, unpacked_json
from quantattn.forecasters.streaming.snapshots.file import Arrays, read_snapshot, write_snapshot

if TYPE_CHECKING:
    from quantattn.forecasters.fitted import FittedForecaster
    from quantattn.forecasters.streaming.forecaster import StreamingForecaster

__all__ = ["read_snapshot", "restore_into", "snapshot_of", "write_snapshot"]

_META = ("as_of", "entities", "events_written", "forecaster")
ADDED = "replay"
"""Where ``quantattn replay`` keeps how far log and clock have come; a forecaster passes over it."""
_REMEDY = "load it into the forecaster that it was taken of, with the same options, or replay the log"
_ALTERED = "take an older snapshot, or replay the log from its beginning"
# What arrays of the wrong kind or size can raise while the parts are put together.
_UNFIT = (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError)


def snapshot_of(forecaster: StreamingForecaster) -> tuple[Arrays, dict[str, Any]]:
    """Give everything that a forecaster remembers.

    Parameters
    ----------
    forecaster : StreamingForecaster
        The forecaster; nothing of it is changed.

    Returns
    -------
    arrays : dict of str to ndarray
        A fixed number of arrays, however many entities there are.
    meta : dict of str to Any
        ``as_of`` (nanoseconds since the epoch, UTC, or None), ``events_written``, the number of ``entities``
        with a memory, and what the ``forecaster`` is.
    """
    stream, monitor = forecaster.stream, forecaster.monitor
    names = list(stream.entities)
    shadows, drifts = monitor.memory(), monitor.drifts
    arrays: Arrays = {
        "entities": packed_json(names),
        "least_denominators": np.array([monitor.least(stream, name) for name in names], np.float64),
        "shadowed": packed_json(list(shadows)),
        "drifted": packed_json(list(drifts)),
        "drifts": np.array(list(drifts.values()), np.float64),
        **pooled("network", [stream.memory(name) for name in names]),
        **pooled("shadow", list(shadows.values())),
        **_prefixed("ledger", forecaster.ledger.memory()),
        **_prefixed("information", forecaster.information.memory()),
    }
    meta = {
        "as_of": forecaster.as_of,
        "events_written": forecaster.events_written,
        "entities": len(names),
        "forecaster": identity_of(forecaster),
    }
    return arrays, meta


def restore_into(
    forecaster: StreamingForecaster, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Put back what :func:`snapshot_of` gave, in place of everything that a forecaster remembers.

    Parameters
    ----------
    forecaster : StreamingForecaster
        Of the same weights, encoders, scope and options. Its health policy may be another, and so may what
        it does with late events, unless it refuses them and the snapshot has some.
    arrays, meta
        What :func:`snapshot_of` gave.

    Raises
    ------
    StateError
        If the snapshot is that of another forecaster, naming what differs with both values, or the numbers
        of a memory cannot be one. The forecaster is unchanged then.
    CheckpointError
        If arrays are missing, left over or do not fit. The forecaster is unchanged then.
    """
    if set(meta) - {ADDED} != set(_META) or not isinstance(meta["forecaster"], Mapping):
        raise CheckpointError(f"the snapshot says {sorted(meta)}, expected {sorted(_META)}; {_ALTERED}")
    own = identity_of(forecaster)
    refuse_another(_with_late_of(own, meta["forecaster"], arrays), own)
    try:
        fresh = _restored(forecaster, arrays, meta)
    except QuantAttnError:
        raise
    except _UNFIT as error:
        raise CheckpointError(
            f"the arrays of the snapshot do not fit together ({type(error).__name__}: {error}); {_ALTERED}"
        ) from error
    forecaster._become(fresh)


def _restored(
    forecaster: StreamingForecaster, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> StreamingForecaster:
    """Give a new forecaster with what the snapshot holds."""
    fresh = forecaster._emptied()
    left = dict(arrays)

    def own(prefix: str) -> Arrays:
        keys = [key for key in left if key.startswith(f"{prefix}.")]
        return {key.removeprefix(f"{prefix}."): left.pop(key) for key in keys}

    names, shadowed = _names(left, "entities"), _names(left, "shadowed")
    if len(names) != meta["entities"]:
        raise CheckpointError(f"the snapshot holds {len(names)} entities of {meta['entities']}; {_ALTERED}")
    memories = separated("network", _prefixed("network", own("network")), len(names))
    for name, memory in zip(names, memories, strict=True):
        fresh.stream.restore(name, memory)
    ledger, information = own("ledger"), own("information")
    _refuse_keys("ledger", ledger, fresh.ledger.memory())
    fresh.ledger.restore(ledger)
    fresh.information.restore(information)
    shadows = separated("shadow", _prefixed("shadow", own("shadow")), len(shadowed))
    drifted = _names(left, "drifted")
    fresh.monitor.restore(
        fresh.stream,
        dict(zip(shadowed, shadows, strict=True)),
        dict(zip(names, _figures(left, "least_denominators", len(names)), strict=True)),
        dict(zip(drifted, _figures(left, "drifts", len(drifted)), strict=True)),
    )
    if left:
        raise CheckpointError(f"the snapshot holds {sorted(left)}, which nothing here remembers; {_ALTERED}")
    fresh._resume(meta["as_of"], meta["events_written"])
    return fresh


def _with_late_of(
    own: Mapping[str, Any], stored: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> Mapping[str, Any]:
    """Give what a snapshot says of its forecaster, with the policy of another one where that can go on.

    Raises
    ------
    StateError
        If late events were written, and the other one refuses them.
    """
    policies = get_args(Late)
    if stored.get("late") not in policies or own["late"] not in policies:
        return stored
    moved = arrays.get("ledger.moved_market")
    if own["late"] == "refuse" != stored["late"] and moved is not None and moved.size:
        raise StateError(
            f"the snapshot was taken of a forecaster with late='queue', which wrote {moved.size} late "
            "events, and this one has 'refuse'; load it with late='queue', or replay the log"
        )
    return {**stored, "late": own["late"]}


def identity_of(forecaster: StreamingForecaster) -> dict[str, Any]:
    """Say what a forecaster is, as plain JSON values: what its memory can only go on with."""
    fitted = forecaster.fitted
    return {
        "denominator": DENOMINATOR.to_dict(),
        "network": fitted.network.config.to_dict(),
        "event_width": fitted.network.event_width,
        "query_width": fitted.network.query_width,
        "scope": fitted.scope,
        "features": list(fitted.encoders.events.features_),
        "as_of_columns": list(fitted.encoders.queries.columns_),
        "late": forecaster.ledger.late,
        "book_depth": forecaster.information.depth,
        "encoders_sha256": _encoders_hash(fitted),
        "weights_sha256": _weights_hash(fitted),
    }


def refuse_another(stored: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse the snapshot of a forecaster that is another one.

    Parameters
    ----------
    stored, own : mapping of str to Any
        What the snapshot says, and what :func:`identity_of` says.

    Raises
    ------
    StateError
        Naming the first thing that differs, with both values.
    """
    for name in [*own, *sorted(stored.keys() - own.keys())]:
        difference = _difference(name, stored.get(name), own.get(name))
        if difference is not None:
            place, theirs, ours = difference
            raise StateError(
                f"the snapshot was taken of a forecaster with {place}={_short(theirs)}, this one has "
                f"{_short(ours)}; {_REMEDY}"
            )


def _difference(place: str, theirs: Any, ours: Any) -> tuple[str, Any, Any] | None:
    """Give the innermost place at which two JSON values differ, and both values there."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in sorted(theirs.keys() | ours.keys()):
            inner = _difference(f"{place}.{name}", theirs.get(name), ours.get(name))
            if inner is not None:
                return inner
        return None
    # True equals 1, and is another thing.
    return None if theirs == ours and type(theirs) is type(ours) else (place, theirs, ours)


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 160 else f"{told[:157]}..."


def _weights_hash(fitted: FittedForecaster) -> str:
    """Give the hash of the weights, the one that stands in a stored forecaster."""
    return hash_bytes(save({name: value.numpy() for name, value in fitted.network.state_dict().items()}))


def _encoders_hash(fitted: FittedForecaster) -> str:
    encoders = fitted.encoders
    return hash_json({"events": encoders.events.to_dict(), "queries": encoders.queries.to_dict()})


def _prefixed(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _names(arrays: Arrays, key: str) -> list[str]:
    if key not in arrays:
        raise CheckpointError(f"the snapshot lacks {key!r}; {_ALTERED}")
    names = unpacked_json(key, arrays.pop(key))
    fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not fits or len(set(names)) < len(names):
        raise CheckpointError(f"{key!r} of the snapshot is no list of distinct names; {_ALTERED}")
    return list(names)


def _figures(arrays: Arrays, key: str, count: int) -> list[float]:
    array = arrays.pop(key, None)
    if array is None or array.dtype != np.float64 or array.shape != (count,):
        said = "missing" if array is None else f"{array.dtype} of shape {array.shape}"
        raise CheckpointError(f"{key!r} of the snapshot is {said}, expected {count} figures; {_ALTERED}")
    figures: list[float] = array.tolist()
    return figures


def _refuse_keys(what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    if found.keys() != wanted.keys():
        missing, unknown = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
        raise CheckpointError(f"of the {what}, {missing} are missing and {unknown} unknown; {_ALTERED}")
