"""Events in files that a log wrote, checked while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit.events.fingerprint import Fingerprint
from quantattn.pit.events.parquet_files import ParquetFiles, is_remote, stored_metadata
from quantattn.pit.events.schema import check_content, check_schema, schema_of
from quantattn.pit.events.storage import ENTRY, altered, parse_entry, stored_entry, taken_of
from quantattn.pit.events.taken import Taken, sum_of
from quantattn.pit.events.verdict import Duplicates, key_hashes


@dataclass(frozen=True)
class StoredEvents:
    """Files that :meth:`EventLog.write` or :meth:`EventScan.sort_to` made.

    Parameters
    ----------
    files : ParquetFiles
        Where they are.
    features : tuple of str
        The feature columns, which all files share.
    written : tuple of (str, str)
        Each file with the fingerprint that it was written with.
    taken : Taken or None
        What the intake of all the events did with its rows, if the files say so.
    """

    files: ParquetFiles
    features: tuple[str, ...]
    written: tuple[tuple[str, str], ...]
    taken: Taken | None = None

    @classmethod
    def of(cls, files: ParquetFiles) -> StoredEvents:
        """Read what the files say of themselves.

        Raises
        ------
        EventDataError
            If a file is truncated or foreign, or the files differ in their features.
        """
        entries = {str(file): stored_entry(file) for file in files.local}
        for path in filter(is_remote, files.paths):
            text = stored_metadata(path, files.storage_options).get(ENTRY)
            if text is None:
                raise EventDataError(
                    f"{path} was not written by EventLog.write; name its columns (event_time=, ...)"
                )
            entries[path] = parse_entry(text, path)
        (first, entry), *others = entries.items()
        for name, other in others:
            if other["features"] != entry["features"]:
                raise EventDataError(
                    f"{first} has the features {entry['features']}, but {name} has {other['features']}; "
                    "scan them apart, or write them with the same features"
                )
        features = tuple(entry["features"])
        check_schema(files.lazy().select(pl.all()).collect_schema(), features)
        written = tuple((name, one["fingerprint"]) for name, one in entries.items())
        return cls(files, features, written, sum_of(taken_of(one) for one in entries.values()))

    @property
    def fingerprint(self) -> str | None:
        """That of the one file, held against its events; None if there are several files.

        Raises
        ------
        EventDataError
            If the file was altered since it was written.
        """
        return self.written[0][1] if self.ordered and self._verified else None

    @property
    def ordered(self) -> bool:
        """Whether there is one file; several are not looked into."""
        return len(self.written) == 1

    @property
    def counted(self) -> bool:
        """What was refused before the files were written is not listed here."""
        return False

    @property
    def reject_counts(self) -> dict[str, int]:
        """Nothing: what a log wrote was valid."""
        return {}

    def rejects(self) -> Iterator[pl.DataFrame]:
        """Give nothing."""
        yield from ()

    def batches(self) -> Iterator[pl.DataFrame]:
        """Give the events in the order of the files.

        Raises
        ------
        EventDataError
            If a file was altered, which may show at its end only, or several files hold the same
            (event_id, revision).
        """
        if not self.ordered:
            self._refuse_shared_keys()
        yield from self._checked_parts()

    def lazy(self) -> pl.LazyFrame:
        """Give the files as polars reads them, after they were read once and found unaltered.

        Raises
        ------
        EventDataError
            If a file was altered, or several files hold the same (event_id, revision).
        """
        if self._verified and not self.ordered:
            self._refuse_shared_keys()
        return self.files.lazy()

    def collect(self, chosen: pl.Expr) -> pl.DataFrame:
        """Read the events for which an expression holds, without parts that cannot hold any.

        Raises
        ------
        EventDataError
            If what is read has null keys or times, features that are not finite or repeated keys, or several
            files hold the same (event_id, revision).
        """
        if not self.ordered:
            self._refuse_shared_keys()
        # What has no time belongs nowhere, and must not go by unseen.
        lazy = self.files.lazy().filter(chosen | pl.col("available_at").is_null())
        try:
            found = lazy.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as failure:
            raise self.files.diagnose(failure, schema_of(self.features)) from failure
        check_content(found, self.features)
        return found

    @cached_property
    def _verified(self) -> bool:
        """Read everything once; true, unless it raises."""
        for _ in self._checked_parts():
            pass
        return True

    def _checked_parts(self) -> Iterator[pl.DataFrame]:
        for name, fingerprint in self.written:
            running = Fingerprint(self.features)
            for part in self._parts(ParquetFiles((name,), self.files.storage_options)):
                check_content(part, self.features, keys=False)
                running.update(part)
                yield part
            if running.hexdigest() != fingerprint:
                raise altered(name, fingerprint)

    def _parts(self, files: ParquetFiles) -> Iterator[pl.DataFrame]:
        yield from files.batches(schema_of(self.features).names())

    def _refuse_shared_keys(self) -> None:
        if self._shared_keys:
            raise EventDataError(
                f"the files of {self.files} share {self._shared_keys} versions (event_id, revision); "
                "give each version once, or merge them with EventLog.concat, which keeps each once"
            )

    @cached_property
    def _shared_keys(self) -> int:
        found = Duplicates.among(
            key_hashes(part, self.features, np.zeros(part.height, dtype=np.int64))
            for part in self._parts(self.files)
        )
        return found.conflicting.size + found.repeated.size
