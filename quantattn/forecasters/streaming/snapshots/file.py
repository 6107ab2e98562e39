"""Snapshots as files: tensors and what describes them in one safetensors file, tied by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from quantattn.errors import CheckpointError
from quantattn.files import write_bytes

Arrays = dict[str, npt.NDArray[Any]]

KIND = "quantattn.streaming.snapshot"
SCHEMA = 1
_FIELD = "snapshot"
_LENGTH = 8  # bytes in which a safetensors file says how long its header is
_DTYPES = frozenset(
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
)  # fmt: skip
_REMEDY = "take an older snapshot, or replay the log from its beginning"
# What bytes that are no snapshot can raise while they are taken apart.
_UNREADABLE = (SafetensorError, KeyError, TypeError, ValueError, OverflowError, RecursionError)


def write_snapshot(path: str | Path, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays and their description, whole or not at all.

    Equal contents give equal bytes, in whatever order the arrays come.

    Parameters
    ----------
    path : str or Path
        The file; one that is there is replaced.
    arrays : mapping of str to ndarray
        Of bool, whole or floating numbers, of any shape.
    meta : mapping of str to Any
        Plain JSON values.

    Raises
    ------
    CheckpointError
        If `path` is a folder, a link or a device, an array is of another type, or `meta` is no plain JSON.
    OSError
        If the file cannot be written; an older one is untouched.
    """
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise CheckpointError(f"{path} is {_what(path)}, not a file; choose another name for the snapshot")
    stored = {name: _plain(name, array) for name, array in arrays.items()}
    try:
        described = _text({"kind": KIND, "schema": SCHEMA, "meta": dict(meta)})
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"what describes a snapshot cannot be written as JSON ({error}); give plain numbers and texts"
        ) from error
    write_bytes(path, _packed(stored, described))


def read_snapshot(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """Read what :func:`write_snapshot` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    arrays : dict of str to ndarray
        Of the types and shapes that were written; writable, and shared with nothing.
    meta : dict of str to Any
        The description.

    Raises
    ------
    CheckpointError
        If there is no file, or it is a link, cut short, altered in any bit, put together from several, of
        another kind or of another schema.
    """
    path = Path(path)
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"{path} is {_what(path)}, not the file of a snapshot; {_REMEDY}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}); {_REMEDY}") from error
    try:
        said = json.loads(_header(content)["__metadata__"][_FIELD])
        kind, schema = said["kind"], said["schema"]
    except _UNREADABLE as error:
        raise CheckpointError(
            f"{path} is no snapshot, or was cut short or altered ({type(error).__name__}: {error}); {_REMEDY}"
        ) from error
    if kind != KIND:
        raise CheckpointError(f"{path} holds {kind!r}, not a {KIND}; {_REMEDY}")
    if schema != SCHEMA or isinstance(schema, bool):
        raise CheckpointError(f"{path} has schema {schema!r}, this version reads {SCHEMA}; {_REMEDY}")
    try:
        arrays = {name: array.copy() for name, array in load(content).items()}
        described = _text({name: value for name, value in said.items() if name != "digest"})
        meta = dict(said["meta"])
        # The one way to write these contents down. Whatever differs from it, if only by a blank, was altered.
        whole = _packed(arrays, described) == content
    except _UNREADABLE as error:
        raise CheckpointError(
            f"{path} was cut short or altered ({type(error).__name__}: {error}); {_REMEDY}"
        ) from error
    if not whole:
        raise CheckpointError(
            f"{path} was altered after it was written, or its tensors and description are those of different "
            f"snapshots; {_REMEDY}"
        )
    return arrays, meta


def _packed(arrays: Mapping[str, npt.NDArray[Any]], described: str) -> bytes:
    """Give the bytes of a file: the description with a digest over itself and all arrays, and the arrays."""
    total = hashlib.sha256(described.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(_text([name, array.dtype.str, array.shape]).encode())
        total.update(array.data)
    digested = _text({**json.loads(described), "digest": total.hexdigest()})
    return save(dict(arrays), metadata={_FIELD: digested})


def _text(value: Any) -> str:
    """Give the one JSON text of a value, in ASCII: halves of surrogate pairs are no UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _header(content: bytes) -> Any:
    """Give the header of a safetensors file."""
    size = int.from_bytes(content[:_LENGTH], "little")
    if len(content) < _LENGTH or size > len(content) - _LENGTH:
        raise ValueError(f"{len(content)} bytes, with a header of {size}")
    return json.loads(content[_LENGTH : _LENGTH + size])


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=") not in _DTYPES:
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise CheckpointError(
            f"{name!r} is {kind}, and a snapshot holds arrays of bool, whole and floating numbers; encode it"
        )
    if not isinstance(name, str) or not name or name == "__metadata__":
        raise CheckpointError(f"{name!r} cannot be the name of an array; use another")
    # ascontiguousarray would make an axis where there is none.
    return np.array(array, array.dtype.newbyteorder("<"), order="C")


def _what(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    if not path.exists():
        return "missing"
    return "a folder" if path.is_dir() else "no regular file"
