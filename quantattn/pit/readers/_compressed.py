"""Plain, gzipped and zipped files as streams of bytes."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

from quantattn.errors import DataError

_SHOWN: Final = 5
_BROKEN: Final = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


@contextmanager
def open_bytes(path: Path, error: type[DataError]) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked if its name ends in ``.gz`` or ``.zip``.

    Parameters
    ----------
    path : Path
        An existing file; a zip archive must hold exactly one file.
    error : type of DataError
        What to raise, also for what goes wrong while it is read.

    Yields
    ------
    file object
        Of the unpacked bytes.

    Raises
    ------
    DataError
        As `error`, if the archive is damaged, encrypted, or does not hold one file.
    """
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield cast(IO[bytes], unpacked)
        elif path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, path, error)) as member:
                yield member
        else:
            with path.open("rb") as plain:
                yield plain
    except _BROKEN as failure:
        raise error(f"{path} cannot be unpacked to its end ({failure}); copy it again") from failure


def unpacked_name(path: Path, error: type[DataError]) -> str:
    """Give the lower-case name of the file that a path holds, without ``.gz``, or inside its ``.zip``.

    Raises
    ------
    DataError
        As `error`, if the archive is damaged, encrypted, or does not hold one file.
    """
    name = path.name.lower()
    if name.endswith(".gz"):
        return name.removesuffix(".gz")
    if not name.endswith(".zip"):
        return name
    try:
        with zipfile.ZipFile(path) as archive:
            return PurePosixPath(_only_member(archive, path, error).filename).name.lower()
    except zipfile.BadZipFile as failure:
        raise error(f"{path} is not a whole zip archive ({failure}); copy it again") from failure


def _only_member(archive: zipfile.ZipFile, path: Path, error: type[DataError]) -> zipfile.ZipInfo:
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) != 1:
        names = ", ".join(repr(member.filename) for member in members[:_SHOWN])
        more = ", ..." if len(members) > _SHOWN else ""
        raise error(
            f"{path} holds {len(members)} files ({names}{more}), not one; unpack it and give those meant"
        )
    if members[0].flag_bits & 1:
        raise error(f"{path} is encrypted; unpack it first")
    return members[0]
