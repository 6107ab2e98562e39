"""Files that are written whole or not at all, and the hashes by which they are recognised."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _fsync_directory(directory: Path) -> None:
    """Make a rename inside `directory` durable where the platform allows it."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on a clean exit, fsync it and rename it to `path`.

    Parameters
    ----------
    path : Path
        Where the finished file shall be. Its folder is created.

    Yields
    ------
    Path
        The temporary path to write to. When the body raises, it is removed and `path` is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
        _fsync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`; on a clean exit, rename it to `path`, replacing it.

    Parameters
    ----------
    path : Path
        Where the finished folder shall be.

    Yields
    ------
    Path
        The temporary folder to fill. When the body raises, it is removed and `path` is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        temporary.chmod(0o755)
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
        _fsync_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write `content` to `path` as UTF-8, whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def canonical_json(value: Any) -> str:
    """Give the one JSON text of `value`: sorted keys, two-space indent, no NaN or infinity.

    Raises
    ------
    ValueError
        If `value` holds a NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as canonical JSON, whole or not at all."""
    write_text(path, canonical_json(value))


def hash_bytes(content: bytes) -> str:
    """Give the SHA-256 of `content` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def hash_json(value: Any) -> str:
    """Give the SHA-256 of the canonical JSON of `value`."""
    return hash_bytes(canonical_json(value).encode("utf-8"))


def hash_file(path: Path) -> str:
    """Give the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
