"""Messages of readers, which name arguments of Python, in the words of the command line."""

from __future__ import annotations

import re
from typing import Final

from quantattn.pit.readers import Reader

# Quoted rows hold values of columns, which may be named like options.
_QUOTED: Final = re.compile(r"(row \d+ \([^)]*\))")
_ARGUMENT: Final = re.compile(
    r"(?<![\w.'\"-])(?<!--set )([a-z_]+)=('[^']*'|\"[^\"]*\"|True|False|[\w.:/-]*\w)?"
)
_FLAG: Final = "strict"
# Arguments of Python that no format offers: tables.
_PYTHON_ONLY: Final = ("halts", "actions", "delistings", "universe")


def in_command_words(message: str, reader: Reader) -> str:
    """Write ``missing_bars='no_trade'`` as ``--set missing_bars=no_trade``, for the options of a reader.

    Parameters
    ----------
    message : str
        Of a reader.
    reader : Reader
        Whose options are meant.

    Returns
    -------
    str
        Arguments that are no option of the reader stay as they are, or are said to be of Python.
    """

    def spelled(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or ""
        if name in _PYTHON_ONLY and name not in reader.options:
            return f"{found[0]} (in Python alone)"
        if name not in reader.options:
            return found[0]
        if name == _FLAG:
            return "--strict"
        plain = value.lower() if value in ("True", "False") else value[1:-1] if value[:1] in "'\"" else value
        return f"--set {name}={_shell(plain)}"

    pieces = _QUOTED.split(message)
    return "".join(
        piece
        if place % 2
        else _ARGUMENT.sub(spelled, piece).replace("leave strict out", "leave --strict out")
        for place, piece in enumerate(pieces)
    )


def _shell(value: str) -> str:
    return f"'{value}'" if re.search(r"[^\w.:/,+-]", value) else value
