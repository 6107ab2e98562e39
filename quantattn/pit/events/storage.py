"""Event logs as Parquet files: one file in canonical order that says what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from quantattn.errors import EventDataError, UsageError
from quantattn.files import atomic_path
from quantattn.pit.events.fingerprint import Fingerprint
from quantattn.pit.events.reasons import checked_path, checked_target
from quantattn.pit.events.schema import check_schema, schema_of
from quantattn.pit.events.taken import Taken

VERSION: Final = 1
ENTRY: Final = "quantattn"
"""Where in the metadata of a file it says what it is."""

_ROW_GROUP: Final = 131_072
# Columns of few values; a dictionary of ids or texts would be built for nothing.
_FEW: Final = ("entity", "kind")


def write_log(
    events: pl.DataFrame, features: tuple[str, ...], path: str | Path, taken: Taken | None = None
) -> None:
    """Write events that are in canonical order to one file; see :func:`write_batches`."""
    write_batches(iter([events]), features, path, taken)


def write_batches(
    batches: Iterable[pl.DataFrame],
    features: tuple[str, ...],
    path: str | Path,
    taken: Taken | None = None,
) -> str:
    """Write events that come in canonical order, part by part, to one Parquet file.

    Parameters
    ----------
    batches : iterable of polars.DataFrame
        Events with the log's columns, each batch later in canonical order than the one before.
    features : tuple of str
        The feature columns.
    path : str or Path
        The file, written whole or not at all. Equal content gives equal bytes, however it was cut up.
    taken : Taken, optional
        What the intake did with its rows, to be kept in the file.

    Returns
    -------
    str
        The fingerprint, which is in the file's metadata as well.

    Raises
    ------
    UsageError
        If `path` is no path, or a folder.
    """
    file = checked_target(path)
    running, rows = Fingerprint(features), 0
    empty = pl.DataFrame(schema=schema_of(features))
    schema = _arrow(empty).schema
    with (
        atomic_path(file) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=list(_FEW)) as writer,
    ):
        for group in in_groups(batches, _ROW_GROUP):
            writer.write_table(_arrow(group), row_group_size=_ROW_GROUP)
            running.update(group)
            rows += group.height
        fingerprint = running.hexdigest()
        entry = {
            "version": VERSION,
            "features": list(features),
            "fingerprint": fingerprint,
            "order": "canonical",
            "events": rows,
        } | ({} if taken is None else {"intake": taken.to_dict()})
        writer.add_key_value_metadata({ENTRY: json.dumps(entry, sort_keys=True)})
    return fingerprint


def in_groups(batches: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Cut batches anew, so that all but the last have `rows` rows."""
    waiting: list[pl.DataFrame] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.height - start >= rows:
            stop = start + rows - count
            yield pl.concat([*waiting, batch[start:stop]])
            waiting, count, start = [], 0, stop
        if start < batch.height:
            waiting.append(batch[start:])
            count += batch.height - start
    if waiting:
        yield pl.concat(waiting)


def read_log(path: str | Path) -> tuple[pl.DataFrame, tuple[str, ...], Taken | None]:
    """Read a file that :func:`write_log` made.

    Returns
    -------
    events : polars.DataFrame
    features : tuple of str
    taken : Taken or None

    Raises
    ------
    UsageError
        If the file is missing or cannot be opened.
    EventDataError
        If it is truncated, was made by something else, or was altered since.
    """
    file = checked_path(path)
    entry = stored_entry(file)
    features = tuple(entry["features"])
    try:
        events = pl.read_parquet(file, glob=False, hive_partitioning=False)
    except pl.exceptions.PolarsError as failure:
        raise not_whole(file, failure) from failure
    check_schema(events.schema, features)
    running = Fingerprint(features)
    running.update(events)
    if running.hexdigest() != entry["fingerprint"]:
        raise altered(file, entry["fingerprint"])
    return events, features, taken_of(entry)


def taken_of(entry: dict[str, Any]) -> Taken | None:
    """Give what the intake of a file's events did, if the file says so."""
    return Taken.from_dict(entry["intake"]) if "intake" in entry else None


def altered(file: str | Path, fingerprint: str) -> EventDataError:
    """Give the error for a file whose events are not those that were written."""
    return EventDataError(
        f"{file} was altered since it was written: its events do not have the fingerprint {fingerprint}; "
        "restore it or read it anew with EventLog.from_frame"
    )


def stored_entry(file: Path) -> dict[str, Any]:
    """Give what a file says of itself.

    Raises
    ------
    UsageError
        If the file is missing or cannot be opened.
    EventDataError
        If it is no whole Parquet file or was not made by :func:`write_log`.
    """
    entry = find_entry(file)
    if entry is None:
        raise EventDataError(
            f"{file} was not written by EventLog.write; read it with EventLog.from_frame or EventLog.scan, "
            "naming its columns (event_time=, available_at=, ...)"
        )
    return entry


def find_entry(file: Path) -> dict[str, Any] | None:
    """Give what a file says of itself; None if it is some other Parquet file."""
    text = (parquet_file(file).metadata.metadata or {}).get(ENTRY.encode())
    return None if text is None else parse_entry(text, file)


def parse_entry(text: str | bytes, file: str | Path) -> dict[str, Any]:
    """Read what a file says of itself.

    Raises
    ------
    EventDataError
        If it is of another version or makes no sense.
    """
    try:
        entry = json.loads(text)
        known = isinstance(entry, dict) and entry["order"] == "canonical" and entry["version"] == VERSION
        if known:
            taken_of(entry)
        if known and isinstance(entry["features"], list) and isinstance(entry["fingerprint"], str):
            return dict(entry)
        said = f"says version {entry['version']} of the format, not {VERSION}"
    except (ValueError, KeyError, TypeError) as failure:
        said = f"describes itself wrongly ({failure!r})"
    raise EventDataError(f"{file} {said}; write it again with this version of quantattn")


def parquet_file(file: Path) -> Any:
    """Open a Parquet file and read its footer.

    Raises
    ------
    UsageError
        If the file is missing or cannot be opened.
    EventDataError
        If it is no whole Parquet file.
    """
    try:
        with file.open("rb"):
            pass
    except OSError as failure:
        raise UsageError(
            f"{file} cannot be read ({failure.strerror}); check the path and its permissions"
        ) from failure
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as failure:
        raise not_whole(file, failure) from failure


def not_whole(file: str | Path, failure: Exception) -> EventDataError:
    """Give the error for a Parquet file that cannot be read to its end."""
    said = " ".join(str(failure).split())[:300]
    return EventDataError(f"{file} is not a whole Parquet file ({said}); copy or write it again")


def _arrow(events: pl.DataFrame) -> pa.Table:
    return events.to_arrow(compat_level=pl.CompatLevel.oldest())
