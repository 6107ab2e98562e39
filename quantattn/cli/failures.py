"""How a command can end: exit codes, and at most one line of error."""

from __future__ import annotations

import errno
from typing import Any, Final

import typer

from quantattn.errors import QuantAttnError, UsageError, printable

FAILED: Final = 1
WRONG_REQUEST: Final = 2
INTERRUPTED: Final = 130

NOTHING_KEPT: Final = "nothing of the run was kept"
"""A note on a failure after which there is nothing to resume."""

# Typer's own complaints about a command line; older versions take them from click, newer ones carry them.
_COMMAND_LINE_ERRORS = tuple(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind is not Exception
)
_FULL_DISK = ("No space left on device", "StorageFull", "Disk quota exceeded")


class Interrupted(Exception):
    """Ctrl-C, with what the user can do next; typer would swallow a KeyboardInterrupt."""


def verdict(error: Exception) -> tuple[int, str]:
    """Give the exit code and the message of a failure."""
    if isinstance(error, UsageError):
        return WRONG_REQUEST, str(error)
    if isinstance(error, QuantAttnError):
        return FAILED, str(error)
    if isinstance(error, Interrupted):
        return INTERRUPTED, str(error)
    if isinstance(error, _COMMAND_LINE_ERRORS):
        return WRONG_REQUEST, _command_line_fault(error)
    if any(sign in str(error) for sign in _FULL_DISK) or getattr(error, "errno", None) == errno.ENOSPC:
        where = getattr(error, "filename", None)
        then = "run again" if NOTHING_KEPT in getattr(error, "__notes__", ()) else "add --resume"
        return FAILED, f"the disk is full{f': {where}' if where else ''}; free some space, then {then}"
    if isinstance(error, MemoryError):
        return FAILED, "out of memory; use fewer instruments or a later data.start, or try --quick"
    if isinstance(error, OSError) and error.strerror:
        return FAILED, f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    text = " ".join(str(error).split())
    return FAILED, f"unexpected {type(error).__name__}{f': {text}' if text else ''}; run again with --debug"


def _command_line_fault(error: Exception) -> str:
    message: Any = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "quantattn"
    return f"{' '.join(str(message).split()).rstrip('.')}; see `{command} --help`"


def complain(message: str) -> None:
    """Print the lines of a failure on standard error."""
    # Last of all, for what is no error of ours: an argument or a file's name may hold anything.
    for line in printable(message).splitlines():
        typer.echo(f"Error: {line}", err=True)
