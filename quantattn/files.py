"""Files that are written whole or not at all, and the hashes by which they are recognised."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _fsync_directory(directory: Path) -> None:
    """Make the names inside `directory` durable where the platform allows it."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsync_file(file: Path) -> None:
    # Windows refuses to flush a file that was opened for reading alone.
    with file.open("rb" if os.name == "posix" else "rb+") as handle:
        os.fsync(handle.fileno())


def _sibling(path: Path) -> Path:
    """Give a hidden name beside `path` that nothing else uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


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

    Raises
    ------
    OSError
        If the file cannot be written or renamed, for example because the disk is full; `path` is
        untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(path)
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        _fsync_file(temporary)
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
        Where the finished folder shall be. Its parent is created.

    Yields
    ------
    Path
        The temporary folder to fill. When the body raises, it is removed and `path` is untouched.

    Raises
    ------
    NotADirectoryError
        If `path` is a file; it is untouched.
    OSError
        If the folder cannot be written or renamed; the old one is put back.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file stands where a folder shall be", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _sibling(path), _sibling(path)
    try:
        temporary.mkdir()
        yield temporary
        for entry in sorted(temporary.rglob("*")):
            if entry.is_file():
                _fsync_file(entry)
            elif entry.is_dir():
                _fsync_directory(entry)
        _fsync_directory(temporary)
        # A folder cannot be renamed over a full one: the old one steps aside and is deleted last.
        if path.exists():
            path.replace(old)
        try:
            temporary.replace(path)
        except OSError:
            if old.exists():
                old.replace(path)
            raise
        _fsync_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def exclusive_directory(path: Path) -> Iterator[None]:
    """Hold an existing folder for this process alone; a killed process lets go of it at once.

    Parameters
    ----------
    path : Path
        The folder. Nothing is written into it. On systems without ``flock`` it is not held.

    Raises
    ------
    BlockingIOError
        If another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


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
