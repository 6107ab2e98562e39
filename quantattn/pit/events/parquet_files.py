"""Parquet files, folders and object stores as one lazy table, with the broken file named."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from quantattn.errors import EventDataError, UsageError
from quantattn.pit._tables import require_columns
from quantattn.pit.events.arrow_zones import in_known_zones, unknown_zones
from quantattn.pit.events.storage import not_whole, parquet_file

FILE: Final = "\x00file"
"""The column that says which file a row is from; no column of a user is called so."""

_SHOWN: Final = 3
_PART_ROWS: Final = 200_000
_SUFFIX: Final = ".parquet"
_HIDDEN: Final = (".", "_")


@dataclass(frozen=True)
class ParquetFiles:
    """Where the rows are.

    Parameters
    ----------
    paths : tuple of str
        Files, folders (whose ``name=value`` subfolders are columns), patterns or URLs that polars reads.
    storage_options : mapping of str to str, optional
        Access to an object store, as polars takes it.
    """

    paths: tuple[str, ...]
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, path: str | Path | Sequence[str | Path], storage_options: Mapping[str, str] | None = None
    ) -> ParquetFiles:
        """Check that what lies on this machine exists.

        Raises
        ------
        UsageError
            If there is no path, or a local one leads to nothing.
        EventDataError
            If a local file is empty.
        """
        paths = [path] if isinstance(path, str | Path) else list(path) if isinstance(path, Sequence) else []
        if not paths or not all(isinstance(one, str | Path) and one != "" for one in paths):
            raise UsageError("path names no file; give one or more Parquet files, folders or URLs")
        for one in paths:
            if not is_remote(one) and not local_files(one):
                raise UsageError(
                    f"{one} holds no Parquet file; give a .parquet file, a folder of them, a pattern or a URL"
                )
            # Polars passes over files without any content.
            empty = [] if is_remote(one) else [file for file in local_files(one) if not file.stat().st_size]
            if empty:
                raise not_whole(empty[0], EOFError("it is empty"))
        return cls(tuple(str(one) for one in paths), storage_options)

    def __str__(self) -> str:
        """Name the first paths."""
        more = len(self.paths) - _SHOWN
        return ", ".join(self.paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

    @property
    def local(self) -> list[Path]:
        """The files that lie on this machine, in order."""
        return [file for path in self.paths if not is_remote(path) for file in local_files(path)]

    def lazy(self, *, file_names: bool = False) -> pl.LazyFrame:
        """Give all columns as a lazy table; with `file_names`, that of the file in `FILE`."""
        sources: list[str] = []
        keys: set[str] = set()
        for path in self.paths:
            if is_remote(path):
                sources.append(path)
                continue
            if Path(path).is_dir():
                sources.append(str(Path(glob.escape(path), "**", f"*{_SUFFIX}")))
            else:
                # Files found here are names, not patterns, even with brackets in them.
                sources += [glob.escape(str(file)) for file in local_files(path)]
            keys |= _keys(path)
        return pl.scan_parquet(
            sources,
            hidden_file_prefix=list(_HIDDEN),
            hive_partitioning=True if keys or any(Path(path).is_dir() for path in self.paths) else None,
            # As text: a number that names an entity would lose its leading zeros.
            hive_schema=dict.fromkeys(sorted(keys), pl.String) if keys else None,
            storage_options=None if self.storage_options is None else dict(self.storage_options),
            include_file_paths=FILE if file_names else None,
        )

    def require(self, wanted: Mapping[str, str | None]) -> None:
        """Refuse a table that lacks a column which an argument names.

        Raises
        ------
        EventDataError
            With the nearest names, or if the files cannot be read.
        """
        if self._unzoned:
            names = self._arrow_names()
        else:
            try:
                names = self.lazy().collect_schema().names()
            except (pl.exceptions.PolarsError, OSError) as failure:
                raise self.diagnose(failure, ()) from failure
        require_columns(pl.DataFrame(schema=dict.fromkeys(names, pl.Null())), wanted, EventDataError)

    def batches(self, columns: Sequence[str], *, file_names: bool = False) -> Iterator[pl.DataFrame]:
        """Give the rows in the order of the files, in parts of bounded size.

        Raises
        ------
        EventDataError
            If a file is not whole, or holds text that is not UTF-8.
        """
        try:
            if self._unzoned:
                yield from self._arrow_batches(columns, file_names=file_names)
                return
            lazy = self.lazy(file_names=file_names).select(*columns, *([FILE] if file_names else []))
            yield from lazy.collect_batches(
                chunk_size=_PART_ROWS, maintain_order=True, lazy=True, engine="streaming"
            )
        except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as failure:
            raise self.diagnose(failure, columns) from failure

    @cached_property
    def _unzoned(self) -> bool:
        """Whether a column, named or not, is of a zone that polars does not know and dies of."""
        return any(unknown_zones(parquet_file(file).schema_arrow) for file in self.local)

    def _keyed(self) -> Iterator[tuple[Path, dict[str, str]]]:
        for path in self.paths:
            if is_remote(path):
                raise EventDataError(
                    f"{self} mixes files on this machine, which have a column of a zone that nobody knows, "
                    "with others; scan them apart"
                )
            keys = sorted(_keys(path))
            for file in local_files(path):
                parts = dict(part.split("=", 1) for part in file.parts[:-1] if "=" in part)
                yield file, {name: unquote(parts[name]) for name in keys if name in parts}

    def _arrow_names(self) -> list[str]:
        """Name the columns that all files have."""
        found = [[*parquet_file(file).schema_arrow.names, *keys] for file, keys in self._keyed()]
        return [name for name in found[0] if all(name in names for names in found)]

    def _arrow_batches(self, columns: Sequence[str], *, file_names: bool) -> Iterator[pl.DataFrame]:
        """Read the named columns alone; instants of a zone that polars does not know become UTC."""
        for file, keys in self._keyed():
            opened = parquet_file(file)
            held = [name for name in columns if name not in keys]
            for batch in opened.iter_batches(batch_size=_PART_ROWS, columns=held):
                table = in_known_zones(pa.Table.from_batches([batch]))
                part = pl.DataFrame(table).with_columns(
                    **{name: pl.lit(value, dtype=pl.String) for name, value in keys.items()},
                    **({FILE: pl.lit(str(file))} if file_names else {}),
                )
                yield part.select(*columns, *([FILE] if file_names else []))

    def diagnose(self, failure: Exception, columns: Iterable[str]) -> EventDataError:
        """Find the file, and for text the rows, that made reading fail."""
        for file in self.local:
            try:
                opened = parquet_file(file)
            except EventDataError as error:
                return error
            present = [name for name in columns if name in opened.schema_arrow.names]
            try:
                garbled = _find_garbled(opened, present)
            except (pa.ArrowException, OSError) as error:
                return not_whole(file, error)
            if garbled is not None:
                name, rows = garbled
                return EventDataError(
                    f"column {name!r} of {file} holds bytes that are not UTF-8, first in rows {rows}; write "
                    "it again in UTF-8, or as binary, of which only the faulty rows are refused"
                )
        said = " ".join(str(failure).split())[:300]
        return EventDataError(
            f"{self} cannot be read ({said}); check that its files are whole and of one schema"
        )


def is_remote(path: str | Path) -> bool:
    """Say whether a path is a URL."""
    return "://" in str(path)


def local_files(path: str | Path) -> list[Path]:
    """List the Parquet files that a path, folder or pattern on this machine stands for, sorted."""
    place = Path(path)
    if place.is_dir():
        found = place.rglob(f"*{_SUFFIX}")
        return sorted(file for file in found if file.is_file() and not file.name.startswith(_HIDDEN))
    if place.exists():
        return [place]
    if place.is_absolute():
        pattern, root = str(place.relative_to(place.anchor)), Path(place.anchor)
    else:
        pattern, root = str(place), Path()
    return sorted(file for file in root.glob(pattern) if file.is_file())


def _keys(path: str | Path) -> set[str]:
    """Name the columns that ``name=value`` folders stand for; none for a plain file."""
    if Path(path).is_file():
        return set()
    files = local_files(path)
    return {part.partition("=")[0] for file in files for part in file.parts[:-1] if "=" in part}


def _find_garbled(opened: Any, columns: Sequence[str]) -> tuple[str, list[int]] | None:
    """Read a file to its end; give the first column with text that is not UTF-8, and its first rows."""
    start = 0
    for batch in opened.iter_batches(columns=list(columns)) if columns else ():
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                continue
            raw = column.cast(pa.large_binary())
            rows = [start + row for row, value in enumerate(raw.to_pylist()) if not _is_utf8(value)]
            if rows:
                return name, rows[:_SHOWN]
        start += batch.num_rows
    return None


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def stored_metadata(path: str, storage_options: Mapping[str, str] | None) -> Mapping[str, str]:
    """Read the footer of a remote file.

    Raises
    ------
    EventDataError
        If it cannot be read.
    """
    try:
        return pl.read_parquet_metadata(
            path, storage_options=None if storage_options is None else dict(storage_options)
        )
    except (pl.exceptions.PolarsError, OSError) as failure:
        said = " ".join(str(failure).split())[:300]
        raise EventDataError(
            f"{path} cannot be read ({said}); check the address, storage_options= and that the file is whole"
        ) from failure
