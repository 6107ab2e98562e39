"""What a streaming forecaster is asked with: options, files, hashed text; refused before anything is done."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from quantattn.errors import UsageError
from quantattn.forecasters.streaming.events.event import nearest
from quantattn.forecasters.streaming.health.policy import HealthPolicy
from quantattn.forecasters.streaming.network.cache import CachePolicy

OPTIONS: Final = ("late", "health", "cache", "remember", "book_depth")
"""The options of a streaming forecaster."""

_POLICIES: Final = {"health": HealthPolicy, "cache": CachePolicy}


def refuse_unknown(unknown: Mapping[str, Any]) -> None:
    """Refuse options that a streaming forecaster does not have.

    Parameters
    ----------
    unknown : mapping of str to Any
        What is none of :data:`OPTIONS`.

    Raises
    ------
    UsageError
        If there is one, with where it belongs or the nearest option.
    """
    for name in unknown:
        for option, policy in _POLICIES.items():
            if name in {field.name for field in fields(policy)}:
                raise UsageError(f"{name} belongs in {option}={policy.__name__}({name}=...)")
        raise UsageError(
            f"{name!r} is no option of a streaming forecaster{nearest(name, OPTIONS)}; use "
            f"{', '.join(OPTIONS)}"
        )


def refuse_other(value: Any, kind: type, argument: str) -> None:
    """Refuse an option that is of another kind.

    Raises
    ------
    UsageError
        Naming the option and what it must be.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{argument}={value!r}: give a {kind.__name__}, or leave it out for the default")


def path_of(path: Any) -> Path:
    """Give what names a file as a path.

    Raises
    ------
    UsageError
        If it is no text or path, or no file can have that name.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise UsageError(f"path={path!r}: give the name of a file, as a text or a Path")
    try:
        os.lstat(path)
    except ValueError as error:  # NUL, or half of a surrogate pair
        raise UsageError(f"path={path!r} is the name of no file ({error}); give another") from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            raise UsageError(
                f"path={os.fspath(path)[:80]!r} is the name of no file ({error.strerror})"
            ) from error
    return Path(path)


def refuse_other_text(text: Any, events: int, width: int, what: str) -> None:
    """Refuse hashed text that is not that of so many events.

    Raises
    ------
    UsageError
        If it is no float32 array of one row for each event, and as wide as the encoders hash.
    """
    if text is None:
        return
    if not isinstance(text, np.ndarray):
        raise UsageError(f"text is a {type(text).__name__}; give what encode_text() of the encoders gave")
    if text.ndim != 2 or len(text) != events:
        rows = len(text) if text.ndim else 0
        raise UsageError(f"text has {rows} rows and {what} {events}; hash the text of the same rows")
    if text.dtype != np.float32 or text.shape[1] != width:
        raise UsageError(
            f"text is {text.dtype} of {text.shape[1]} columns, and the encoders hash to {width} of float32; "
            "give what their encode_text() gave"
        )
