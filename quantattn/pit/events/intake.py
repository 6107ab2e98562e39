"""From a foreign table to valid event rows, each refused row with its reason."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.events.columns import as_numbers, as_revisions, as_text, decoded, take_columns
from quantattn.pit.events.duplicates import differences, find_duplicates, number_by_availability
from quantattn.pit.events.notes import Notes
from quantattn.pit.events.reasons import MARKET as MARKET
from quantattn.pit.events.reasons import complain as complain
from quantattn.pit.events.schema import COLUMNS, KEY
from quantattn.pit.events.sieve import Sieve
from quantattn.pit.events.stamps import REASONS, Stamps, TimeRules, read_stamps
from quantattn.pit.events.taken import Taken
from quantattn.pit.timestamps import instants

_HASHED: Final = 250_000


@dataclass(frozen=True)
class ColumnMap:
    """Which column plays which part; None where there is none. `name` is the entity of all rows."""

    event_time: str
    available_at: str | None
    entity: str | None
    event_id: str | None
    text: str | None
    kind: str | None
    revision: str | None
    features: tuple[str, ...]
    name: str | None = None

    @property
    def named(self) -> dict[str, str | None]:
        """Argument name to column name."""
        parts = ("event_time", "available_at", "entity", "event_id", "text", "kind", "revision")
        listed: dict[str, str | None] = {part: getattr(self, part) for part in parts}
        return listed | {f"features[{place}]": name for place, name in enumerate(self.features)}


@dataclass(frozen=True)
class IntakeRules:
    """How a table of events is read.

    Parameters
    ----------
    columns : ColumnMap
        Which column plays which part.
    times : TimeRules
        How to read stamps that are not instants.
    latency : int
        Nanoseconds from the publication stamp to the moment when this system has the event.
    scheduled : bool
        Whether events may be known before they happen.
    now : int, optional
        Nanoseconds since the epoch at which the table was made: later publication stamps are refused.
    """

    columns: ColumnMap
    times: TimeRules
    latency: int = 0
    scheduled: bool = False
    now: int | None = None


def take_in(
    frame: object, rules: IntakeRules, *, number_revisions: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame, Taken]:
    """Read a whole table of events.

    Parameters
    ----------
    frame : object
        A polars or pandas frame or an Arrow table.
    rules : IntakeRules
        How to read it.
    number_revisions : bool
        Whether to number the versions of each event by the order in which they became available.

    Returns
    -------
    events : polars.DataFrame
        The good rows with the columns of an event log, in input order.
    rejects : polars.DataFrame
        ``row, reason, detail`` of the others, by row.
    taken : Taken
        How many rows there were, and what became of them.
    """
    columns, notes = rules.columns, Notes()
    table = take_columns(frame, columns.named)
    events, sieve = take_rows(table, rules, notes)
    notes.check()
    notes.warn(stacklevel=3)
    dates = sieve.dates
    if number_revisions:
        key: tuple[str, ...] = ("event_id", "available_at")
        numbers, conflicting, repeated = number_by_availability(events, columns.features)
        events = events.with_columns(numbers)
    else:
        key = KEY
        conflicting, repeated = find_duplicates(events, columns.features)
    if conflicting.size or repeated.size:
        rows = np.flatnonzero(sieve.good)
        for reason, places in (("conflicting_duplicate", conflicting), ("duplicate", repeated)):
            bad = np.zeros(table.height, dtype=bool)
            bad[rows[places]] = True
            told = None
            if reason == "conflicting_duplicate":
                told = partial(_told, events, columns.features, key, rows)
            sieve.refuse(bad, reason, columns.event_id, said=told)
        events = events.filter(pl.Series(sieve.good[rows]))
    rejects = sieve.rejects()
    return events, rejects, Taken(table.height, rejects.height, dates, rejects.height)


def _told(
    events: pl.DataFrame,
    features: tuple[str, ...],
    key: tuple[str, ...],
    rows: npt.NDArray[np.intp],
    quoted: npt.NDArray[np.intp],
) -> pl.Series:
    """Say in what the quoted rows of a table differ; `rows` are those of the events."""
    return differences(events, np.searchsorted(rows, quoted), features, key)


def take_rows(table: pl.DataFrame, rules: IntakeRules, notes: Notes) -> tuple[pl.DataFrame, Sieve]:
    """Apply the rules that concern one row alone.

    Parameters
    ----------
    table : polars.DataFrame
        The columns that the rules name; a whole table or a part of one.
    rules : IntakeRules
        How to read it.
    notes : Notes
        What is to be said of the whole table; this part is added to it.

    Returns
    -------
    events : polars.DataFrame
        The good rows with the columns of an event log, in input order; keys may occur twice.
    sieve : Sieve
        Which rows are good, and why the others are not.
    """
    columns, sieve = rules.columns, Sieve(table)
    happened, published = _read_times(sieve, rules, notes)
    entity = _entities(sieve, columns, notes)
    kind = _texts(sieve, columns.kind)
    text = _texts(sieve, columns.text)
    event_id = None if columns.event_id is None else _texts(sieve, columns.event_id)
    if event_id is not None:
        blank = event_id.str.strip_chars().fill_null("") == ""
        sieve.refuse(blank.to_numpy(), "null_event_id", columns.event_id)
    revision = pl.repeat(0, table.height, dtype=pl.Int32, eager=True)
    if columns.revision is not None:
        revision, bad = as_revisions(table[columns.revision])
        sieve.refuse((bad | revision.is_null()).to_numpy(), "bad_revision", columns.revision)
    features = {name: _feature(sieve, name) for name in columns.features}

    taken = pl.DataFrame(
        {
            "revision": revision,
            "entity": entity,
            "event_time": instants(happened),
            "available_at": instants(published),
            "kind": pl.select(
                pl.when(kind.str.strip_chars() != "").then(kind).otherwise(pl.lit("event"))
            ).to_series(),
            "text": text,
            **features,
        }
    )
    if event_id is not None:
        taken.insert_column(0, event_id.alias("event_id"))
    if not sieve.good.all():
        taken = taken.filter(pl.Series(sieve.good))
    if event_id is None:
        taken = taken.insert_column(0, _content_ids(taken, columns.features))
    if rules.latency:
        moved = taken["available_at"].to_physical() + rules.latency
        taken = taken.with_columns(available_at=instants(moved.to_numpy()))
    return taken.select(*COLUMNS, *columns.features).rechunk(), sieve


def _read_times(
    sieve: Sieve, rules: IntakeRules, notes: Notes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give the event times and the publication stamps in nanoseconds, 0 where refused."""
    columns = rules.columns
    happened = known = _stamps(sieve, columns.event_time, rules, notes, last=columns.available_at is None)
    named = columns.available_at or columns.event_time
    if columns.available_at is not None:
        known = _stamps(sieve, columns.available_at, rules, notes, last=True)
    sieve.dated = known.dated
    if columns.available_at is not None and not rules.scheduled:
        sieve.refuse(known.published < happened.time, "available_before_event", columns.available_at)
    if not rules.scheduled:
        if rules.now is None:
            notes.count_future(sieve, known.time, named)
        else:
            # What was known only later cannot be in a table that was made by then.
            sieve.refuse(known.time > rules.now, "in_the_future", named)
    sieve.refuse(known.published > np.iinfo(np.int64).max - rules.latency, "out_of_range", named)
    return happened.time, known.published


def _stamps(sieve: Sieve, column: str, rules: IntakeRules, notes: Notes, *, last: bool) -> Stamps:
    written, garbled = decoded(sieve.table[column])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", column)
    # Event times alone say nothing of when an event was known.
    stamps = read_stamps(written, rules.times, notes.midnights(written, rules.times) if last else None)
    for code in np.flatnonzero(np.bincount(stamps.fault, minlength=1)):
        if code:
            sieve.refuse(stamps.fault == code, REASONS[code], column)
    return stamps


def _texts(sieve: Sieve, column: str | None) -> pl.Series:
    if column is None:
        return pl.repeat(None, sieve.table.height, dtype=pl.String, eager=True)
    values, garbled = decoded(sieve.table[column])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", column)
    return as_text(values)


def _entities(sieve: Sieve, columns: ColumnMap, notes: Notes) -> pl.Series:
    """Give entity names without spaces around them; null is market-wide."""
    column = columns.entity
    if column is None and columns.name is not None:
        return pl.repeat(columns.name, sieve.table.height, dtype=pl.String, eager=True)
    names = _texts(sieve, column).str.strip_chars()
    if column is None:
        return names
    sieve.refuse((names.fill_null("") == "").to_numpy(), "null_entity", column)
    notes.spell(names.filter(pl.Series(sieve.good)), column)
    return pl.select(pl.when(names != MARKET).then(names)).to_series()


def _feature(sieve: Sieve, name: str) -> pl.Series:
    column, garbled = decoded(sieve.table[name])
    if garbled is not None:
        sieve.refuse(garbled.to_numpy(), "not_utf8", name)
    values, unreadable = as_numbers(column)
    sieve.refuse(unreadable.to_numpy(), "bad_feature", name)
    sieve.refuse(values.is_infinite().fill_null(False).to_numpy(), "infinite_feature", name)
    return values


def _content_ids(events: pl.DataFrame, features: tuple[str, ...]) -> pl.Series:
    """Name each row by a hash of its content, so that the same row has the same id in every file."""
    parts = [pl.Series("event_id", [], dtype=pl.String)]
    for start in range(0, events.height, _HASHED):
        rows = _written_out(events.slice(start, _HASHED).rechunk(), features)
        digests = [hashlib.blake2b(row.encode(), digest_size=16).hexdigest() for row in rows]
        parts.append(pl.Series("event_id", digests, dtype=pl.String))
    return pl.concat(parts)


def _written_out(events: pl.DataFrame, features: tuple[str, ...]) -> pl.Series:
    texts = [
        pl.when(pl.col(name).is_null())
        .then(pl.lit("-"))
        .otherwise(pl.format("{}:{}", pl.col(name).str.len_bytes(), pl.col(name)))
        for name in ("entity", "kind", "text")
    ]
    times = [pl.col(name).to_physical().cast(pl.String) for name in ("event_time", "available_at")]
    bits = [
        pl.Series(events[name].fill_null(float("nan")).to_numpy().view(np.int64)).cast(pl.String)
        for name in features
    ]
    return events.select(pl.concat_str(*times, *texts, *bits, separator="|")).to_series()
