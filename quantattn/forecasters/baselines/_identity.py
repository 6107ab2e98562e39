"""What a model of a user is: one hash over its code and everything that it holds."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from quantattn.files import hash_bytes

_PROCESS: Final = os.urandom(16).hex()
_NUMBERS: Final = itertools.count()
_PACKAGE: Final = __name__.partition(".")[0]
_LIBRARY: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
# What Python writes into every class, at once or at the first copy, and what depends on the source's place.
_OF_CLASS: Final = frozenset(
    {
        "_abc_impl",
        "__annotations__",
        "__dict__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__slotnames__",
        "__weakref__",
    }
)


def fingerprint(thing: object) -> str:
    """Give a hash that changes when the code or the state of a model, or of what makes it, changes.

    Functions are known by their bytecode, constants, defaults, closures and the names of their own modules
    that they read; classes by their members and those of the bases that are no installed package's; other
    objects by their class and by what they would hand to a copy. Installed packages are known by their
    version.

    Parameters
    ----------
    thing : object
        A factory, a model, or a container of such.

    Returns
    -------
    str
        Hexadecimal; a value that never comes again where some part cannot be read, such as an open file, so
        that nothing is taken for equal on a guess.
    """
    try:
        return _Walk().hash(thing)
    except Exception:  # whatever strangers' objects raise when they are read
        return hash_bytes(f"{_PROCESS} {next(_NUMBERS)}".encode())


def without_addresses(text: str) -> str:
    """Drop places in memory from the printed form of objects: they differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


class _Walk:
    """Hashes things and what they hold; what is met again inside of itself is named by its depth."""

    def __init__(self) -> None:
        # The things stay alive, or another could take the place in memory by which one is known.
        self._met: dict[int, tuple[str, object]] = {}
        self._depth = 0

    def hash(self, thing: object) -> str:
        """Give the hash of a thing."""
        if isinstance(thing, _PLAIN):
            return _joined(type(thing).__name__, repr(thing))
        if id(thing) not in self._met:
            self._met[id(thing)] = (f"around {self._depth}", thing)
            self._depth += 1
            # Equal things have equal hashes, be they one object or two: that may differ between processes.
            self._met[id(thing)] = (_joined(*self._parts(thing)), thing)
            self._depth -= 1
        return self._met[id(thing)][0]

    def _all(self, *things: object) -> list[str]:
        return [self.hash(thing) for thing in things]

    def _parts(self, thing: Any) -> list[object]:
        container = self._container(thing)
        if container is not None:
            return container
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, types.CodeType):
            return self._code(thing)
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, types.ModuleType):
            return ["module", thing.__name__, _version_or_source(thing.__name__)]
        if isinstance(thing, types.MethodType):
            return ["method", *self._all(thing.__func__, thing.__self__)]
        if isinstance(thing, functools.partial):
            return ["partial", *self._all(thing.func, thing.args, thing.keywords)]
        if isinstance(thing, staticmethod | classmethod):
            return [type(thing).__name__, *self._all(thing.__func__)]
        if isinstance(thing, property):
            return ["property", *self._all(thing.fget, thing.fset, thing.fdel)]
        if isinstance(thing, types.BuiltinFunctionType):
            owner = None if isinstance(thing.__self__, types.ModuleType) else thing.__self__
            return ["builtin", thing.__module__, thing.__qualname__, *self._all(owner)]
        return self._object(thing)

    def _container(self, thing: Any) -> list[object] | None:
        kind = type(thing)
        if kind in (list, tuple):
            return [kind.__name__, *self._all(*thing)]
        if kind in (set, frozenset):
            # Each alone, so that their order, which differs from process to process, plays no part.
            return [kind.__name__, *sorted(_Walk().hash(item) for item in thing)]
        if kind in (dict, types.MappingProxyType):
            return [kind.__name__, *(part for pair in thing.items() for part in self._all(*pair))]
        if kind is np.ndarray and thing.dtype != object:
            return [
                "array",
                thing.dtype.descr,
                thing.shape,
                hash_bytes(np.ascontiguousarray(thing).tobytes()),
            ]
        if isinstance(thing, torch.Tensor):
            values = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            return [
                kind.__name__,
                thing.dtype,
                tuple(thing.shape),
                thing.requires_grad,
                *self._all(values.numpy()),
            ]
        return None

    def _function(self, thing: types.FunctionType) -> list[object]:
        if not _own(thing.__module__):
            return ["function", thing.__module__, thing.__qualname__, _version_or_source(thing.__module__)]
        closure = [_cell(cell) for cell in thing.__closure__ or ()]
        read = {name: thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__}
        state = (thing.__defaults__, thing.__kwdefaults__, closure, read, thing.__dict__)
        return ["function", thing.__qualname__, *self._all(thing.__code__, *state)]

    def _code(self, code: types.CodeType) -> list[object]:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        table = getattr(code, "co_exceptiontable", b"")
        return [
            "code",
            counts,
            names,
            hash_bytes(code.co_code),
            hash_bytes(table),
            *self._all(code.co_consts),
        ]

    def _class(self, kind: type) -> list[object]:
        parts: list[object] = ["class", kind.__module__, kind.__qualname__]
        for base in kind.__mro__:
            if not _own(base.__module__):
                parts += [base.__module__, base.__qualname__, _version_or_source(base.__module__)]
                continue
            for name, member in sorted(vars(base).items()):
                descriptor = isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
                if name not in _OF_CLASS and not descriptor:
                    parts += [name, self.hash(member)]
        return parts

    def _object(self, thing: Any) -> list[object]:
        # Wrappers such as those of caches and compilers name their function so.
        for inside in ("__wrapped__", "py_func"):
            if isinstance(getattr(thing, inside, None), types.FunctionType):
                return ["wrapped", type(thing).__qualname__, *self._all(getattr(thing, inside))]
        reduced = thing.__reduce_ex__(4)
        if isinstance(reduced, str):
            module = str(getattr(thing, "__module__", None) or type(thing).__module__)
            return ["global", module, reduced, _version_or_source(module)]
        made, arguments, *state = reduced
        # Iterators over items come last; they are read once.
        rest = [list(part) if index else part for index, part in enumerate(state[:3]) if part is not None]
        return ["object", *self._all(type(thing), made, arguments, rest)]


def _joined(*parts: object) -> str:
    return hash_bytes("\x1f".join(str(part) for part in parts).encode("utf-8", "surrogatepass"))


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # named and not yet bound
        return "unbound"


def _names(code: types.CodeType) -> list[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return sorted({*code.co_names, *(name for names in inner for name in names)})


def _own(module: str | None) -> bool:
    """Say whether a module is a user's: not of this package, Python's own or an installed one."""
    root = (module or "__main__").partition(".")[0]
    if root in (_PACKAGE, "builtins") or root in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(module or "__main__"), "__file__", None)
    if file is None:
        return True
    place = Path(file)
    return not (_INSTALLED & set(place.parts) or any(place.is_relative_to(library) for library in _LIBRARY))


def _version_or_source(module: str) -> str:
    """Name the version of an installed module; of a user's, its text."""
    root = (module or "builtins").partition(".")[0]
    loaded = sys.modules.get(module)
    if _own(module) and loaded is not None and getattr(loaded, "__file__", None):
        return hash_bytes(Path(str(loaded.__file__)).read_bytes())
    return str(getattr(sys.modules.get(root), "__version__", ""))


def made_by(factory: Callable[..., Any], *arguments: Any) -> str:
    """Give the fingerprint of what a factory makes, or a constant if it makes nothing of these arguments."""
    try:
        made = factory(*arguments)
    except Exception:  # the factory's own, known by its code; it may refuse widths that are none
        return "nothing"
    return fingerprint(made)


def parameter_texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Give parameters as a reader wants them, one line each."""
    return {name: without_addresses(repr(value)) for name, value in parameters.items()}
