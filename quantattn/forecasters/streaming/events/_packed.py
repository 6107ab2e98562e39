"""Rows of texts and numbers as plain arrays, as snapshots hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quantattn.errors import StateError

Arrays = dict[str, npt.NDArray[Any]]


def pack(name: str, kinds: str, rows: Sequence[Sequence[Any]]) -> Arrays:
    """Give rows as arrays, one or two for each column.

    Parameters
    ----------
    name : str
        What the names of the arrays begin with.
    kinds : str
        Of each column: ``"t"`` for texts, ``"i"`` for whole numbers.
    rows : sequence of sequences
        The rows.

    Returns
    -------
    dict of str to ndarray
        ``<name>_<column>``: int64 numbers, or the sizes of the texts in bytes, whose UTF-8 (uint8) stands in
        ``<name>_<column>_utf8``.
    """
    arrays: Arrays = {}
    for place, kind in enumerate(kinds):
        column = [row[place] for row in rows]
        if kind == "i":
            arrays[f"{name}_{place}"] = np.array(column, np.int64)
            continue
        texts = [text.encode() for text in column]
        arrays[f"{name}_{place}"] = np.array([len(text) for text in texts], np.int64)
        arrays[f"{name}_{place}_utf8"] = np.frombuffer(b"".join(texts), np.uint8).copy()
    return arrays


def unpack(name: str, kinds: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[tuple[Any, ...]]:
    """Give the rows that :func:`pack` took.

    Raises
    ------
    StateError
        If an array is missing, of another type, or they do not fit each other.
    """
    columns = [_column(arrays, f"{name}_{place}", texts=kind == "t") for place, kind in enumerate(kinds)]
    if len({len(column) for column in columns}) > 1:
        raise StateError(
            f"columns of {name!r} have {[len(column) for column in columns]} rows; take another snapshot"
        )
    return list(zip(*columns, strict=True))


def _column(arrays: Mapping[str, npt.NDArray[Any]], name: str, *, texts: bool) -> list[Any]:
    numbers = _array(arrays, name, np.int64)
    plain: list[Any] = numbers.tolist()
    if not texts:
        return plain
    data = _array(arrays, f"{name}_utf8", np.uint8).tobytes()
    ends = np.cumsum(numbers)
    if (numbers < 0).any() or (int(ends[-1]) if ends.size else 0) != len(data):
        raise StateError(f"sizes of {name!r} do not add up to its {len(data)} bytes; take another snapshot")
    try:
        return [data[end - size : end].decode() for end, size in zip(ends.tolist(), plain, strict=True)]
    except UnicodeDecodeError as error:
        raise StateError(f"texts of {name!r} are not UTF-8 ({error}); take another snapshot") from error


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
    found = arrays.get(name)
    if found is None or found.ndim != 1 or found.dtype != kind:
        what = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise StateError(
            f"array {name!r} is {what}, expected a row of {np.dtype(kind)}; take another snapshot"
        )
    return found
