"""Many small memories as few large arrays: a snapshot of 10,000 entities holds no 10,000 tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import CheckpointError

Arrays = dict[str, npt.NDArray[Any]]
_ALTERED = "the snapshot was written by another version, or altered"


def pooled(prefix: str, memories: Sequence[Mapping[str, npt.NDArray[Any]]]) -> Arrays:
    """Stack the arrays of several memories by name.

    Parameters
    ----------
    prefix : str
        What the names of the result begin with.
    memories : sequence of mapping of str to ndarray
        All with the same names, and the same types and numbers of axes under each.

    Returns
    -------
    dict of str to ndarray
        ``<prefix>.<name>`` with a new first axis where all shapes are equal; otherwise
        ``<prefix>.<name>.flat``, the numbers of all, and ``<prefix>.<name>.shapes``, int64, a row for each.
        Nothing for no memories.

    Raises
    ------
    CheckpointError
        If memories differ in more than their shapes.
    """
    together: Arrays = {}
    names = {name for memory in memories for name in memory}
    for name in sorted(names):
        parts = [memory[name] for memory in memories if name in memory]
        kinds = {(part.dtype.str, part.ndim) for part in parts}
        if len(parts) < len(memories) or len(kinds) > 1:
            raise CheckpointError(
                f"memories differ in {name!r} ({sorted(kinds)}); they are not of one network"
            )
        if len({part.shape for part in parts}) == 1:
            together[f"{prefix}.{name}"] = np.stack(parts)
        else:
            together[f"{prefix}.{name}.flat"] = np.concatenate([part.ravel() for part in parts])
            together[f"{prefix}.{name}.shapes"] = np.array([part.shape for part in parts], np.int64)
    return together


def separated(prefix: str, arrays: Mapping[str, npt.NDArray[Any]], count: int) -> list[Arrays]:
    """Take apart what :func:`pooled` put together.

    Parameters
    ----------
    prefix : str
        As then.
    arrays : mapping of str to ndarray
        Among others those of the prefix.
    count : int
        How many memories there are.

    Returns
    -------
    list of dict of str to ndarray
        Views into `arrays`.

    Raises
    ------
    CheckpointError
        If there are not that many, or shapes do not go with numbers.
    """
    memories: list[Arrays] = [{} for _ in range(count)]
    own = {
        key.removeprefix(f"{prefix}."): array for key, array in arrays.items() if key.startswith(f"{prefix}.")
    }
    if count and not own:
        raise CheckpointError(f"there are no arrays of {prefix!r} for {count} memories; {_ALTERED}")
    for name in sorted({key.removesuffix(".flat").removesuffix(".shapes") for key in own}):
        stacked, flat, shapes = own.get(name), own.get(f"{name}.flat"), own.get(f"{name}.shapes")
        parts: Sequence[npt.NDArray[Any]]
        if stacked is not None and flat is None and shapes is None and stacked.ndim:
            parts = list(stacked)
        elif stacked is None and flat is not None and shapes is not None:
            parts = _split(f"{prefix}.{name}", flat, shapes)
        else:
            raise CheckpointError(f"'{prefix}.{name}' is not whole, or there twice; {_ALTERED}")
        if len(parts) != count:
            raise CheckpointError(
                f"'{prefix}.{name}' is of {len(parts)} memories, expected {count}; {_ALTERED}"
            )
        for memory, part in zip(memories, parts, strict=True):
            memory[name] = np.asarray(part)
    return memories


def _split(key: str, flat: npt.NDArray[Any], shapes: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    if shapes.dtype != np.int64 or shapes.ndim != 2 or (shapes < 0).any() or flat.ndim != 1:
        raise CheckpointError(f"{key!r} has no shapes beside it; {_ALTERED}")
    sizes = [math.prod(shape) for shape in shapes.tolist()]
    if sum(sizes) != len(flat):
        raise CheckpointError(f"{key!r} has {len(flat)} numbers for shapes of {sum(sizes)}; {_ALTERED}")
    ends = np.cumsum([0, *sizes])
    return [flat[ends[i] : ends[i + 1]].reshape(shape) for i, shape in enumerate(shapes)]


def packed_json(value: Any) -> npt.NDArray[np.uint8]:
    """Give a JSON value as the bytes of its text, for lists that would swell a description."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return np.frombuffer(text.encode(), np.uint8).copy()


def unpacked_json(name: str, array: npt.NDArray[Any]) -> Any:
    """Read what :func:`packed_json` gave.

    Raises
    ------
    CheckpointError
        If it is not the bytes of a JSON text; `name` is named.
    """
    try:
        if array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError(f"{array.dtype} of shape {array.shape}")
        return json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name!r} is not the bytes of a JSON text ({error}); {_ALTERED}") from error
