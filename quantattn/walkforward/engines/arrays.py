"""Arrays in one safetensors file that several processes map into memory at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from quantattn.errors import CheckpointError

_ALIGNED: Final = 64
_NAMES: Final = {"float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8"}
_TYPES: Final = {short: np.dtype(name) for name, short in _NAMES.items()}

Arrays = Mapping[str, npt.NDArray[Any]]


def pack_arrays(arrays: Arrays) -> bytes:
    """Give arrays as the bytes of a safetensors file.

    Every array begins at a multiple of 64 bytes, as vector instructions like it; what fills the gaps is
    written out as arrays of its own, for the format knows no gaps.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Of float32, float64, int64 or uint8, any shape.

    Returns
    -------
    bytes
    """
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    place = 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        end = place + len(content)
        header[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [place, end],
        }
        parts.append(content)
        gap = -end % _ALIGNED
        if gap:
            header[f".gap{len(header)}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            parts.append(bytes(gap))
        place = end + gap
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def map_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Map the arrays of a file into memory, each process its own to write to.

    Parameters
    ----------
    path : Path
        A file that :func:`pack_arrays` made.

    Returns
    -------
    dict of str to ndarray
        What is written to one is seen in this process alone and never reaches the file.

    Raises
    ------
    CheckpointError
        If the file is no such file.
    """
    try:
        whole: npt.NDArray[Any] = np.memmap(path, np.uint8, mode="c").view(np.ndarray)
        return unpack_arrays(whole)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} holds no arrays ({error}); run again with --resume") from error


def unpack_arrays(whole: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Give the arrays in the bytes of a file, as views.

    Parameters
    ----------
    whole : ndarray of uint8, shape (n,)
        What :func:`pack_arrays` gave.

    Returns
    -------
    dict of str to ndarray
    """
    length = int.from_bytes(whole[:8].tobytes(), "little")
    header = json.loads(whole[8 : 8 + length].tobytes())
    data = whole[8 + length :]
    found = {}
    for name, entry in header.items():
        if not name.startswith("."):
            begin, end = entry["data_offsets"]
            found[name] = data[begin:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found
