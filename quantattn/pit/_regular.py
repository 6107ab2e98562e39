"""Files that can be read to their end: no pipe or device, which a reader would wait for without end."""

from __future__ import annotations

import stat
from pathlib import Path

from quantattn.errors import UsageError


def refuse_unreadable(path: Path) -> None:
    """Refuse a path that cannot be opened, or is neither a file nor a folder.

    Raises
    ------
    UsageError
        If it is missing, a folder, a pipe, a device, a loop of links, or not permitted.
    """
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UsageError(f"{path} is a pipe or a device, not a file; write its content to a file first")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise UsageError(f"{path} cannot be read ({reason}); check the path and its permissions") from failure
