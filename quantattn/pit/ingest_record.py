"""What an ingested file says of how it was made: its format, the options, and the rows that were refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from quantattn.errors import DataError
from quantattn.files import atomic_path
from quantattn.pit._regular import refuse_unreadable

ENTRY: Final = b"quantattn.ingest"
"""Where in the metadata of a Parquet file the record stands."""
VERSION: Final = 1

_ARROW: Final = b"ARROW:schema"
"""What the writer makes itself."""
_SECRET: Final = "connection"
_SAFE: Final = "env:"
# Columns of few values; a dictionary of ids or texts would be built for nothing.
_FEW: Final = ("entity", "kind")


@dataclass(frozen=True)
class IngestRecord:
    """How a file was made by ``quantattn ingest``.

    Parameters
    ----------
    format : str
        The name of the reader.
    options : mapping of str to object
        The options that were set.
    rejected : mapping of str to int
        How many rows were refused, by reason.
    notes : tuple of str
        What the reader warned of.
    """

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def kept_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Give options as a file may keep them: of a connection, which may hold a password, its scheme alone."""
    kept = dict(options)
    given = str(kept.get(_SECRET, _SAFE))
    if not given.startswith(_SAFE):
        kept[_SECRET] = given.partition(":")[0] if ":" in given else "hidden"
    return kept


def add_record(file: Path, record: IngestRecord) -> None:
    """Write a record into the metadata of a Parquet file; its rows and other metadata stay.

    Parameters
    ----------
    file : Path
        The file, which is written anew group by group, whole or not at all.
    record : IngestRecord
        What to add.
    """
    with pq.ParquetFile(file) as source, atomic_path(file) as temporary:
        entry = json.dumps(asdict(record) | {"version": VERSION}, sort_keys=True)
        schema = source.schema_arrow
        known = {_ARROW, *(schema.metadata or {})}
        others = {name: text for name, text in (source.metadata.metadata or {}).items() if name not in known}
        few = [name for name in _FEW if name in schema.names]
        with pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=few) as writer:
            for group in range(source.num_row_groups):
                table = source.read_row_group(group)
                writer.write_table(table, row_group_size=max(1, table.num_rows))
            writer.add_key_value_metadata(dict(sorted((others | {ENTRY: entry.encode()}).items())))


def find_record(file: Path) -> IngestRecord | None:
    """Read the record of a Parquet file; None if it has none.

    Raises
    ------
    UsageError
        If the file is missing or cannot be opened.
    DataError
        If it is no whole Parquet file, or its record is of another version or makes no sense.
    """
    refuse_unreadable(file)
    try:
        text = (pq.read_metadata(file).metadata or {}).get(ENTRY)
    except (pa.ArrowException, OSError) as failure:
        said = " ".join(str(failure).split())[:300]
        raise DataError(f"{file} is not a whole Parquet file ({said}); copy or write it again") from failure
    if text is None:
        return None
    try:
        entry = json.loads(text)
        if entry.pop("version") == VERSION:
            rejected = {str(reason): int(number) for reason, number in entry["rejected"].items()}
            notes = tuple(map(str, entry["notes"]))
            return IngestRecord(str(entry["format"]), dict(entry["options"]), rejected, notes)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DataError(f"{file} describes its ingest in another way; ingest it again with this version")
