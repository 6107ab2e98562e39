"""A digest of all that compiled programs are made from, for their entries to close over.

numba compiles a stored entry anew when the entry's own file has changed, and does not look at what it calls
or reads elsewhere. What an entry closes over counts among what names a stored program, so an entry whose call
tree leaves its file closes over this digest. Entries that call nothing outside of their file need none.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core import types

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, types.Type)


def digest_of(factory: Any) -> int:
    """Digest the sources of all that the functions made by `factory` call, and the constants that they read.

    Parameters
    ----------
    factory : function
        Defines the entries. What stands in other packages than its own is left out.

    Returns
    -------
    int
        Never zero. Another one where a file that a called function or used class stands in has changed, a
        constant that is read (wherever it stands), or an option that a function is compiled with.
    """
    package = factory.__module__.partition(".")[0]
    # Objects are kept while their ids stand for them. Everything is met in one order in every process.
    met: dict[int, Any] = {}
    parts: list[bytes] = []
    waiting = [("", factory)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, _CONSTANTS):
            parts.append(f"{name} = {value!r}".encode())
        elif isinstance(value, np.ndarray):
            parts.append(f"{name} = {value.dtype} {value.shape} ".encode() + value.tobytes())
        elif isinstance(value, tuple):
            waiting += [(f"{name}[{place}]", item) for place, item in enumerate(value)]
        elif id(value) not in met:
            met[id(value)] = value
            home = _home(value)
            if home.partition(".")[0] == package:
                parts.append(f"{home}\n".encode() + Path(str(sys.modules[home].__file__)).read_bytes())
                waiting += _behind(value)
    content = b"".join(hashlib.sha256(part).digest() for part in parts)
    return 1 + int.from_bytes(hashlib.sha256(content).digest()[:4], "little")


def _home(value: Any) -> str:
    """Return the name of the module that a thing stands in."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")


def _behind(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what a function, class or compiled function calls and reads, with names."""
    if isinstance(value, FunctionType):
        yield from _behind_function(value)
    elif isinstance(value, type):
        yield from (("", base) for base in value.__bases__)
        for name, item in vars(value).items():
            function = getattr(item, "fget", None) or getattr(item, "__func__", None) or item
            if isinstance(function, FunctionType) or not name.startswith("__"):
                yield f"{value.__qualname__}.{name}", function
    elif not isinstance(value, ModuleType):
        # Compiled functions and intrinsics hold the function that they are made from.
        held = getattr(value, "__dict__", {})
        yield from (("", held[name]) for name in ("py_func", "__wrapped__") if name in held)
        for name, option in sorted(held.get("targetoptions", {}).items()):
            several = isinstance(option, (set, frozenset))
            yield f"{value.__qualname__}({name})", tuple(sorted(option)) if several else option


def _behind_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in sorted(names & function.__globals__.keys()):
        found = function.__globals__[name]
        yield f"{function.__module__}.{name}", found
        if isinstance(found, ModuleType):
            inside = vars(found)
            yield from ((f"{found.__name__}.{each}", inside[each]) for each in sorted(names & inside.keys()))
    own = function.__qualname__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"{own}:{name}", cell.cell_contents
    yield from ((f"{own}({place})", item) for place, item in enumerate(function.__defaults__ or ()))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Give a function's code and that of the functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
