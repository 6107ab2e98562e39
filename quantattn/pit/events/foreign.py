"""Events in tables of any source, read part by part by the rules of an intake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from quantattn.errors import EventDataError
from quantattn.pit.events.columns import take_columns
from quantattn.pit.events.duplicates import differences
from quantattn.pit.events.intake import IntakeRules, take_rows
from quantattn.pit.events.notes import Notes
from quantattn.pit.events.parquet_files import FILE, ParquetFiles
from quantattn.pit.events.reasons import EXPLANATIONS
from quantattn.pit.events.schema import KEY, schema_of
from quantattn.pit.events.sieve import QUOTED, Sieve
from quantattn.pit.events.taken import Taken
from quantattn.pit.events.verdict import Duplicates, key_hashes

_STACK: Final = 3


@dataclass(frozen=True)
class ForeignEvents:
    """Tables of any source, read by the rules of :meth:`EventLog.from_frame`, part by part.

    Parameters
    ----------
    files : ParquetFiles
        Where they are.
    rules : IntakeRules
        How they are read.
    strict : bool
        Whether a refused row is an error.
    """

    files: ParquetFiles
    rules: IntakeRules
    strict: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns."""
        return self.rules.columns.features

    @property
    def fingerprint(self) -> str | None:
        """Not known before the events are sorted."""
        return None

    @property
    def ordered(self) -> bool:
        """Not known to be."""
        return False

    @property
    def counted(self) -> bool:
        """Whether everything was read once."""
        return "_verdict" in vars(self)

    @property
    def taken(self) -> Taken:
        """How many rows there are, and what became of them."""
        return self._verdict.taken

    @property
    def reject_counts(self) -> dict[str, int]:
        """How many rows were refused for each reason, the most frequent first."""
        return self._verdict.counts

    def batches(self) -> Iterator[pl.DataFrame]:
        """Give the good rows as events, in the order of the files.

        Raises
        ------
        EventDataError
            If the files cannot be read, entity names differ only in case or spaces, or rows are refused and
            `strict` is set.
        """
        duplicates = self._verdict.duplicates
        for part in self._read(Notes()):
            dropped = np.union1d(part.among(duplicates.conflicting), part.among(duplicates.repeated))
            if dropped.size:
                yield part.events.filter(pl.Series(~np.isin(part.good, dropped)))
            else:
                yield part.events

    def lazy(self) -> pl.LazyFrame:
        """Give a lazy table that goes through the rules when it is read."""

        def read(
            columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            left = rows
            for part in self.batches():
                # A limit comes before a filter.
                taken = part if left is None else part.head(left)
                left = None if left is None else left - taken.height
                taken = taken if predicate is None else taken.filter(predicate)
                yield taken if columns is None else taken.select(columns)
                if left == 0:
                    return

        return register_io_source(read, schema=schema_of(self.features), is_pure=True)

    def collect(self, chosen: pl.Expr) -> pl.DataFrame:
        """Read the events for which an expression holds."""
        parts = (part.filter(chosen) for part in self.batches())
        return pl.concat([pl.DataFrame(schema=schema_of(self.features)), *parts])

    def rejects(self) -> Iterator[pl.DataFrame]:
        """Give ``file, row, reason, detail`` of the refused rows; rows are counted within their file."""
        duplicates, first_rows = self._verdict.duplicates, dict[str, int]()
        said, told = self._differences(), 0
        for part in self._read(Notes()):
            named = (("conflicting_duplicate", duplicates.conflicting), ("duplicate", duplicates.repeated))
            for reason, rows in named:
                bad = np.zeros(part.sieve.table.height, dtype=bool)
                found = part.among(rows)
                bad[found - part.start] = True
                if reason == "duplicate":
                    part.sieve.refuse(bad, reason, self.rules.columns.event_id)
                    continue
                texts, told = said[told : told + found.size], told + found.size
                # Beyond those quoted, the list names the fault alone.
                texts = texts.extend_constant("", max(0, found.size - texts.len()))
                part.sieve.refuse(bad, reason, self.rules.columns.event_id, said=partial(_first, texts))
            file = part.file
            for place in np.flatnonzero(np.append(True, (file[1:] != file[:-1]).to_numpy())[: file.len()]):
                first_rows.setdefault(file[int(place)], part.start + int(place))
            fallen = part.sieve.rejects()
            names = file[fallen["row"]]
            starts = (
                names.replace_strict(first_rows, return_dtype=pl.Int64) if fallen.height else fallen["row"]
            )
            yield fallen.select(
                file=names, row=pl.col("row") + part.start - starts, reason="reason", detail="detail"
            )

    def _differences(self) -> pl.Series:
        """Say of the first contradictory rows in what they differ."""
        wanted = self._verdict.duplicates.conflicting[:QUOTED]
        if not wanted.size:
            return pl.Series([], dtype=pl.String)
        keys = pl.concat(
            part.events[np.searchsorted(part.good, part.among(wanted))].select(KEY)
            for part in self._read(Notes())
        )
        groups = (part.events.join(keys.unique(), on=list(KEY), how="semi") for part in self._read(Notes()))
        events = pl.concat([*groups, keys], how="diagonal")
        # The rows asked for stand at the end, where their content does not count.
        rows = np.arange(events.height - keys.height, events.height)
        return differences(events, rows, self.features, KEY, among=events.height - keys.height)

    @cached_property
    def _verdict(self) -> _Verdict:
        """Read everything once for what no single part can tell."""
        notes, counts = Notes(), Counter[str]()
        first: list[tuple[str, str]] = []
        read = [0, 0]

        def hashes() -> Iterator[pl.DataFrame]:
            for part in self._read(notes):
                counts.update(part.sieve.counts)
                read[0] += part.sieve.table.height
                read[1] += part.sieve.dates
                if not first and part.sieve.counts:
                    first.append(part.sieve.rejects().row(0)[1:])
                yield key_hashes(part.events, self.features, part.good)

        duplicates = Duplicates.among(hashes())
        notes.check()
        notes.warn(_STACK)
        for reason, rows in (
            ("conflicting_duplicate", duplicates.conflicting),
            ("duplicate", duplicates.repeated),
        ):
            counts[reason] += rows.size
        counted = {reason: n for reason, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])) if n}
        if self.strict and counted:
            listed = ", ".join(f"{number} {reason}" for reason, number in counted.items())
            reason, detail = first[0] if first else next((r, EXPLANATIONS[r][0]) for r in counted)
            raise EventDataError(
                f"{sum(counted.values())} event rows of {self.files} are refused ({listed}); first: {detail}"
                f"; {EXPLANATIONS[reason][1]}"
            )
        return _Verdict(duplicates, counted, Taken(read[0], sum(counted.values()), read[1]))

    def _read(self, notes: Notes) -> Iterator[_Part]:
        named = self.rules.columns.named
        columns = list(dict.fromkeys(name for name in named.values() if name is not None))
        start = 0
        for batch in self.files.batches(columns, file_names=True):
            file, table = batch[FILE], take_columns(batch.drop(FILE), named)
            events, sieve = take_rows(table, self.rules, notes)
            yield _Part(start, file, events, sieve)
            start += table.height


@dataclass(frozen=True)
class _Verdict:
    """What only the whole table can tell."""

    duplicates: Duplicates
    counts: dict[str, int]
    taken: Taken


@dataclass(frozen=True)
class _Part:
    """Some rows of the table: the number of the first, their files, the events and the refusals."""

    start: int
    file: pl.Series
    events: pl.DataFrame
    sieve: Sieve

    @property
    def good(self) -> npt.NDArray[np.int64]:
        """The row numbers of the events."""
        return np.flatnonzero(self.sieve.good) + self.start

    def among(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Give those of some sorted row numbers that are in this part."""
        first, last = np.searchsorted(rows, [self.start, self.start + self.sieve.table.height])
        return rows[first:last]


def _first(texts: pl.Series, quoted: npt.NDArray[np.intp]) -> pl.Series:
    return texts.head(quoted.size)
