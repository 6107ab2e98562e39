"""From a foreign table to valid event rows, each refused row with its reason."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit._columns import as_numbers, as_revisions, as_text, take_columns
from quantattn.pit._stamps import Stamps, TimeRules, read_stamps
from quantattn.pit.timestamps import instants, nanoseconds_of

MARKET: Final = "*"
"""The entity that marks a market-wide event in a column that otherwise names instruments."""

_SHOWN: Final = 3
_CONTENT: Final = ("entity", "event_time", "available_at", "kind", "text")

EXPLANATIONS: Final = {
    "missing_time": ("no time", "date those rows or drop them"),
    "unreadable_time": (
        "not an ISO 8601 date or time",
        "write 2024-11-29 or 2024-11-29T13:00:00-05:00, or parse the column first",
    ),
    "naive_time": (
        "no time zone",
        "declare the zone of the source, for example time_zone='America/New_York'; cast bare dates to Date",
    ),
    "ambiguous_time": ("occurs twice when the clocks go back", "give those stamps their UTC offset"),
    "nonexistent_time": ("skipped by the clocks of its zone", "give those stamps their UTC offset"),
    "leap_second": (
        "a leap second, which UTC nanoseconds cannot hold",
        "move those stamps to the next second",
    ),
    "out_of_range": ("outside 1677-09-21 to 2262-04-11", "correct those stamps"),
    "date_only": ("a date without a time", "pass date_only='next_session' or give the times"),
    "outside_calendar": (
        "no session of the calendar is known after that date",
        "choose a calendar that covers the dates, or drop the rows",
    ),
    "available_before_event": (
        "available before it happened",
        "swap the columns if they are the wrong way round, or pass scheduled=True for announced events",
    ),
    "null_event_id": ("no event id", "fill the ids, or leave event_id out to derive them from the content"),
    "null_entity": ("no entity", f"name the entity, or write {MARKET!r} for a market-wide event"),
    "bad_revision": ("not a whole number from 0 on", "number the versions of each event 0, 1, 2"),
    "bad_feature": ("not a number", "correct the value or leave it empty"),
    "infinite_feature": ("not finite", "correct the value or leave it empty"),
    "duplicate": (
        "repeats an earlier row with the same event id and revision",
        "drop the repetitions, or map event_id if they are different events",
    ),
    "conflicting_duplicate": (
        "shares its event id and revision with a row of other content",
        "number the versions with a revision column, or make the ids unique, for example id and ticker",
    ),
}
"""What each reason means and what to do about it."""


@dataclass(frozen=True)
class ColumnMap:
    """Which column of the table plays which part; None where there is none."""

    event_time: str
    available_at: str | None
    entity: str | None
    event_id: str | None
    text: str | None
    kind: str | None
    revision: str | None
    features: tuple[str, ...]

    @property
    def named(self) -> dict[str, str | None]:
        """Argument name to column name."""
        parts = ("event_time", "available_at", "entity", "event_id", "text", "kind", "revision")
        listed: dict[str, str | None] = {part: getattr(self, part) for part in parts}
        return listed | {f"features[{place}]": name for place, name in enumerate(self.features)}


class _Sieve:
    """The rows that are still good, and why the others are not: each row falls for its first fault."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.table = table
        self.good = np.ones(table.height, dtype=bool)
        self._fallen: list[pl.DataFrame] = []

    def refuse(self, bad: pl.Series, reason: str, column: str | None) -> None:
        rows = np.flatnonzero(bad.fill_null(True).to_numpy() & self.good)
        if not rows.size:
            return
        self.good[rows] = False
        meaning = EXPLANATIONS[reason][0]
        detail = pl.lit(meaning)
        if column is not None:
            shown = self.table[column][rows].cast(pl.String, strict=False).str.slice(0, 80)
            # One line, and nothing that a terminal would obey.
            shown = shown.str.replace_all(r"[\x00-\x1f\x7f-\x9f]", "\ufffd")
            value = pl.when(shown.is_null()).then(pl.lit("null")).otherwise(pl.format("'{}'", shown))
            detail = pl.format("column '{}' is {}: {}", pl.lit(column), value, pl.lit(meaning))
        self._fallen.append(
            pl.DataFrame({"row": rows.astype(np.int64)}).with_columns(
                reason=pl.lit(reason), detail=detail.cast(pl.String)
            )
        )

    def rejects(self) -> pl.DataFrame:
        empty = pl.DataFrame(schema={"row": pl.Int64, "reason": pl.String, "detail": pl.String})
        return pl.concat([empty, *self._fallen]).sort("row")


def take_in(
    frame: object, columns: ColumnMap, rules: TimeRules, *, latency: int, scheduled: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a table of events.

    Parameters
    ----------
    frame : object
        A polars or pandas frame or an Arrow table.
    columns : ColumnMap
        Which column plays which part.
    rules : TimeRules
        How to read stamps that are not instants.
    latency : int
        Nanoseconds from the publication stamp to the moment when this system has the event.
    scheduled : bool
        Whether events may be known before they happen.

    Returns
    -------
    events : polars.DataFrame
        The good rows with the columns of an event log, in input order.
    rejects : polars.DataFrame
        ``row, reason, detail`` of the others, by row.
    """
    table = take_columns(frame, columns.named)
    sieve = _Sieve(table)
    event_time, published = _read_times(sieve, columns, rules, scheduled=scheduled)
    late = published.to_physical() > np.iinfo(np.int64).max - latency
    sieve.refuse(late.fill_null(False), "out_of_range", columns.available_at or columns.event_time)

    entity = _entities(sieve, columns.entity)
    kind = _texts(sieve, columns.kind)
    events = {
        "event_time": event_time,
        "entity": entity,
        "kind": pl.select(
            pl.when(kind.str.strip_chars() != "").then(kind).otherwise(pl.lit("event"))
        ).to_series(),
        "text": _texts(sieve, columns.text),
    }
    event_id = None if columns.event_id is None else _texts(sieve, columns.event_id)
    if event_id is not None:
        sieve.refuse(event_id.str.strip_chars().fill_null("") == "", "null_event_id", columns.event_id)
    revision = pl.repeat(0, table.height, dtype=pl.Int32, eager=True)
    if columns.revision is not None:
        revision, bad = as_revisions(table[columns.revision])
        sieve.refuse(bad | revision.is_null(), "bad_revision", columns.revision)
    features = {name: _feature(sieve, name) for name in columns.features}

    taken = pl.DataFrame({**events, "published": published, "revision": revision, **features})
    taken = taken.with_row_index("row").filter(sieve.good)
    stamp = nanoseconds_of(taken["published"])
    ids = _content_ids(taken, columns.features) if event_id is None else event_id.filter(sieve.good)
    taken = taken.with_columns(event_id=ids, available_at=instants(stamp + latency))
    taken = _drop_duplicates(sieve, taken.drop("published"), columns)
    return taken.drop("row"), sieve.rejects()


def complain(rejects: pl.DataFrame, height: int) -> EventDataError:
    """Give the error that a strict intake raises, quoting the first rejects of a table of `height` rows."""
    first = [f"row {row}: {detail}" for row, _, detail in rejects.head(_SHOWN).iter_rows()]
    counts = rejects.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    counted = ", ".join(f"{number} {reason}" for reason, number in counts.iter_rows())
    remedy = EXPLANATIONS[rejects["reason"][0]][1]
    return EventDataError(
        f"{rejects.height} of {height} event rows are refused ({counted}); first {'; '.join(first)}; {remedy}"
    )


def _read_times(
    sieve: _Sieve, columns: ColumnMap, rules: TimeRules, *, scheduled: bool
) -> tuple[pl.Series, pl.Series]:
    """Give the event times and the publication stamps, both TIME and null where refused."""
    happened = read_stamps(sieve.table[columns.event_time], rules)
    _refuse_stamps(sieve, happened, columns.event_time)
    if columns.available_at is None:
        _warn_of_midnights(happened, columns.event_time)
        return happened.time, happened.published
    known = read_stamps(sieve.table[columns.available_at], rules)
    _refuse_stamps(sieve, known, columns.available_at)
    _warn_of_midnights(known, columns.available_at)
    if not scheduled:
        early = (known.published < happened.time).fill_null(False)
        sieve.refuse(early, "available_before_event", columns.available_at)
    return happened.time, known.published


def _refuse_stamps(sieve: _Sieve, stamps: Stamps, column: str) -> None:
    for reason in stamps.reason.drop_nulls().unique().sort():
        sieve.refuse((stamps.reason == reason).fill_null(False), reason, column)


def _warn_of_midnights(stamps: Stamps, column: str) -> None:
    if stamps.zoned_midnights:
        warnings.warn(
            f"most zoned stamps of column {column!r} are midnights and are taken at their word: if they are "
            "dates, news of the day leaks into its morning; cast the column to Date",
            UserWarning,
            stacklevel=5,
        )


def _texts(sieve: _Sieve, column: str | None) -> pl.Series:
    if column is None:
        return pl.repeat(None, sieve.table.height, dtype=pl.String, eager=True)
    return as_text(sieve.table[column])


def _entities(sieve: _Sieve, column: str | None) -> pl.Series:
    """Give entity names without spaces around them; null is market-wide."""
    names = _texts(sieve, column).str.strip_chars()
    if column is None:
        return names
    sieve.refuse(names.fill_null("") == "", "null_entity", column)
    spelled = names.filter(sieve.good).unique().sort()
    twins = spelled.filter(spelled.str.to_lowercase().is_duplicated()).to_list()
    if twins:
        same = [name for name in twins if name.lower() == twins[0].lower()]
        raise EventDataError(
            f"column {column!r} has entity names that differ only in case: {', '.join(map(repr, same))}; "
            "give one entity one spelling, and rename those that are really different"
        )
    return pl.select(pl.when(names != MARKET).then(names)).to_series()


def _feature(sieve: _Sieve, name: str) -> pl.Series:
    values, unreadable = as_numbers(sieve.table[name])
    sieve.refuse(unreadable, "bad_feature", name)
    sieve.refuse(values.is_infinite().fill_null(False), "infinite_feature", name)
    return values


def _content_ids(events: pl.DataFrame, features: tuple[str, ...]) -> pl.Series:
    """Name each row by a hash of its content, so that the same row has the same id in every file."""
    texts = [
        pl.when(pl.col(name).is_null())
        .then(pl.lit("-"))
        .otherwise(pl.format("{}:{}", pl.col(name).str.len_bytes(), pl.col(name)))
        for name in ("entity", "kind", "text")
    ]
    times = [pl.col(name).to_physical().cast(pl.String) for name in ("event_time", "published")]
    bits = [
        pl.Series(events[name].fill_null(float("nan")).to_numpy().view(np.int64)).cast(pl.String)
        for name in features
    ]
    rows = events.select(pl.concat_str(*times, *texts, *bits, separator="|")).to_series()
    digests = [hashlib.blake2b(row.encode(), digest_size=16).hexdigest() for row in rows]
    return pl.Series("event_id", digests, dtype=pl.String)


def _drop_duplicates(sieve: _Sieve, events: pl.DataFrame, columns: ColumnMap) -> pl.DataFrame:
    """Keep the first of identical rows with one key, and none of the rows that contradict each other."""
    key = ("event_id", "revision")
    repeated = events.filter(pl.struct(key).is_duplicated())
    if repeated.is_empty():
        return events
    contents = pl.struct(*_CONTENT, *columns.features)
    judged = repeated.with_columns(
        conflicting=contents.n_unique().over(key) > 1, later=~pl.struct(key).is_first_distinct()
    )
    for reason, chosen in (
        ("conflicting_duplicate", judged.filter("conflicting")),
        ("duplicate", judged.filter("later")),
    ):
        bad = np.zeros(sieve.table.height, dtype=bool)
        bad[chosen["row"].to_numpy()] = True
        sieve.refuse(pl.Series(bad), reason, columns.event_id)
    return events.filter(pl.Series(sieve.good[events["row"].to_numpy()]))
