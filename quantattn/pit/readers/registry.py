"""The readers by name, for the command line and for whoever wants the list of formats."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from quantattn.errors import UsageError
from quantattn.pit._tables import nearest_names

if TYPE_CHECKING:
    from quantattn.pit.events import EventLog
    from quantattn.pit.prices import PriceHistory

Gives = Literal["events", "prices"]
ReadFunction = Callable[..., "EventLog | PriceHistory"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PLAIN: Final = (str, bool, int, float)
_READERS: dict[str, Reader] = {}


@dataclass(frozen=True)
class ReaderOption:
    """One keyword of a reader.

    Parameters
    ----------
    name : str
        The keyword.
    type : type
        ``str``, ``bool``, ``int`` or ``float``.
    default : object
        Its default; None where it may be left out without one.
    required : bool
        Whether it must be given.
    choices : tuple of str
        What a text may be; empty if anything.
    """

    name: str
    type: type
    default: object
    required: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reader:
    """A registered reader.

    Parameters
    ----------
    name : str
        What users call the format.
    title : str
        One line that says what it reads.
    gives : {"events", "prices"}
        Whether :attr:`read` gives an :class:`EventLog` or a :class:`PriceHistory`.
    read : callable
        ``read(paths, *, ...)`` with a path or a sequence of them, and keywords of plain types.
    documentation : str
        Columns, zone, how ``available_at`` is derived, and the traps: the docstring of its module.
    files : str
        What the files are called and end in.
    """

    name: str
    title: str
    gives: Gives
    read: ReadFunction
    documentation: str
    files: str = ""

    @property
    def options(self) -> Mapping[str, ReaderOption]:
        """The keywords of :attr:`read` by name, in its order."""
        return MappingProxyType({option.name: option for option in _options(self.name, self.read)})


def reader(name: str, *, title: str, gives: Gives, files: str) -> Callable[[_F], _F]:
    """Make a reader known by name: a decorator of its function.

    Parameters
    ----------
    name : str
        Lower-case, not yet taken.
    title : str
        One line that says what it reads.
    gives : {"events", "prices"}
        What the function returns.
    files : str
        What the files are called and end in, for the help text.

    Returns
    -------
    callable
        Registers the function and returns it as it is.

    Raises
    ------
    UsageError
        If the name is empty, not lower-case or taken by another function, `gives` is something else, the
        function does not take ``paths`` and otherwise keywords of plain types, or nothing documents it.
    """
    if not name or name != name.strip().lower():
        raise UsageError(f"name={name!r} is not a reader's name; give lower-case text")
    if gives not in ("events", "prices"):
        raise UsageError(f"gives={gives!r} is unknown; use 'events' or 'prices'")

    def register(read: _F) -> _F:
        taken = _READERS.get(name)
        # A module that is loaded anew registers the same function again.
        if taken is not None and _address(taken.read) != _address(read):
            raise UsageError(f"a reader named {name!r} is registered already; choose another name")
        documentation = inspect.cleandoc(
            getattr(sys.modules.get(read.__module__), "__doc__", None) or read.__doc__ or ""
        )
        if not documentation:
            raise UsageError(
                f"reader {name!r} documents neither its columns nor its times; write a docstring"
            )
        _options(name, read)
        _READERS[name] = Reader(name, title, gives, read, documentation, files)
        return read

    return register


def readers() -> Mapping[str, Reader]:
    """Give the registered readers by name, sorted.

    Returns
    -------
    mapping of str to Reader
        Read-only.
    """
    return MappingProxyType(dict(sorted(_READERS.items())))


def find_reader(name: str) -> Reader:
    """Find a reader by its name, whatever its case.

    Parameters
    ----------
    name : str
        One of :func:`readers`.

    Returns
    -------
    Reader

    Raises
    ------
    UsageError
        If the name is unknown; the message suggests the nearest.
    """
    found = _READERS.get(str(name).strip().lower())
    if found is None:
        said = str(name).strip().lower()
        alike = sorted(known for known in _READERS if len(said) > 2 and said in known)
        hint = (
            f" (did you mean {' or '.join(map(repr, alike))}?)"
            if alike
            else nearest_names(str(name), _READERS)
        )
        raise UsageError(f"format {name!r} is unknown{hint}; known are {', '.join(sorted(_READERS))}")
    return found


def _address(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _options(name: str, read: Callable[..., Any]) -> list[ReaderOption]:
    parameters = list(inspect.signature(read).parameters.values())
    if not parameters or parameters[0].name != "paths" or parameters[0].kind is parameters[0].KEYWORD_ONLY:
        raise UsageError(f"reader {name!r} does not take paths first; write read(paths, *, ...)")
    hints = typing.get_type_hints(read)
    return [_option(name, parameter, hints.get(parameter.name)) for parameter in parameters[1:]]


def _option(name: str, parameter: inspect.Parameter, hint: Any) -> ReaderOption:
    kinds = [part for part in _parts(hint) if part is not type(None)]
    choices: tuple[str, ...] = ()
    if len(kinds) == 1 and typing.get_origin(kinds[0]) is Literal:
        choices = typing.get_args(kinds[0])
        kinds = [str] if all(isinstance(choice, str) for choice in choices) else []
    if parameter.kind is not parameter.KEYWORD_ONLY or len(kinds) != 1 or kinds[0] not in _PLAIN:
        raise UsageError(
            f"option {parameter.name!r} of reader {name!r} is not a keyword of a plain type; annotate it "
            "with str, bool, int, float or a Literal of texts, alone or with None, after a '*'"
        )
    required = parameter.default is parameter.empty
    return ReaderOption(
        parameter.name, kinds[0], None if required else parameter.default, required, tuple(choices)
    )


def _parts(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)
