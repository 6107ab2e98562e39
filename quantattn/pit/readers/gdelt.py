"""GDELT 2 event and mention files, one of each every fifteen minutes.

Source: The GDELT Event Database Data Format Codebook V2.0 (2015-02-19),
http://data.gdeltproject.org/documentation/GDELT-Event_Codebook-V2.0.pdf.

Files: ``20150218230000.export.CSV.zip`` (61 columns) and ``20150218230000.mentions.CSV.zip`` (16
columns): separated by tabs in spite of their name, unquoted, without a header line; also unpacked, and
with a header line as databases export them.

Zone: UTC throughout.

How ``available_at`` is derived: ``DATEADDED`` of an event and ``MentionTimeDate`` of a mention
(``YYYYMMDDHHMMSS``, the update in which it first stood) plus ``latency``, by default ``15min``: the stamp
names an update, whose file appears some minutes later; by the next update it is there.

Events: ``event_time`` is the beginning of ``SQLDATE`` in UTC, the day on which the event is *said* to
have happened, which may lie years back. It is never a time of knowledge. ``kind`` is ``cameo_`` and the
root code. The text is the names of the actors and of the place. Features: ``is_root_event``,
``quad_class``, ``goldstein_scale``, ``num_mentions``, ``num_sources``, ``num_articles``, ``avg_tone``.
The four last count the fifteen minutes in which the event was first seen, and are final (they are not
revised; what comes later stands in the mentions).

Mentions: ``kind`` is ``mention``; features are ``confidence``, ``mention_doc_len``, ``mention_doc_tone``,
``in_raw_text``, ``sentence_id``. They are market-wide.

Entity: GDELT names countries and actors, not stocks. All is market-wide, or with ``entity=`` of the actor
or country named; where it names none, the row is refused unless ``untagged="market"``.

Traps: an event whose ``SQLDATE`` lies after its ``DATEADDED`` is a misread date and is refused. Files of
GDELT 1 (58 columns) have a date as ``DATEADDED`` and are refused. The same happening is coded again and
again, with new ids. ``SOURCEURL`` is one of many sources and may change its content.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.reasons import MARKET
from quantattn.pit.readers._compressed import open_bytes
from quantattn.pit.readers._inputs import Fault, Paths, paths_of, wrong_format
from quantattn.pit.readers._news import (
    Untagged,
    check_choice,
    make_log,
    match_columns,
    read_columns,
    stack,
    untagged_fault,
)
from quantattn.pit.readers._table_files import read_table
from quantattn.pit.readers.registry import reader

Table = Literal["events", "mentions"]

_FORMAT: Final = "gdelt"
_ACTOR: Final = (
    *("Code", "Name", "CountryCode", "KnownGroupCode", "EthnicCode", "Religion1Code", "Religion2Code"),
    *("Type1Code", "Type2Code", "Type3Code"),
)
_PLACE: Final = ("Type", "FullName", "CountryCode", "ADM1Code", "ADM2Code", "Lat", "Long", "FeatureID")
_EVENTS: Final = (
    *("GLOBALEVENTID", "SQLDATE", "MonthYear", "Year", "FractionDate"),
    *(f"Actor1{part}" for part in _ACTOR),
    *(f"Actor2{part}" for part in _ACTOR),
    *("IsRootEvent", "EventCode", "EventBaseCode", "EventRootCode", "QuadClass", "GoldsteinScale"),
    *("NumMentions", "NumSources", "NumArticles", "AvgTone"),
    *(f"{place}_{part}" for place in ("Actor1Geo", "Actor2Geo", "ActionGeo") for part in _PLACE),
    *("DATEADDED", "SOURCEURL"),
)
_MENTIONS: Final = (
    *("GLOBALEVENTID", "EventTimeDate", "MentionTimeDate", "MentionType", "MentionSourceName"),
    *("MentionIdentifier", "SentenceID", "Actor1CharOffset", "Actor2CharOffset", "ActionCharOffset"),
    *("InRawText", "Confidence", "MentionDocLen", "MentionDocTone", "MentionDocTranslationInfo", "Extras"),
)
_COLUMNS: Final[dict[Table, tuple[str, ...]]] = {"events": _EVENTS, "mentions": _MENTIONS}
_FEATURES: Final[dict[Table, dict[str, str]]] = {
    "events": {
        "is_root_event": "IsRootEvent",
        "quad_class": "QuadClass",
        "goldstein_scale": "GoldsteinScale",
        "num_mentions": "NumMentions",
        "num_sources": "NumSources",
        "num_articles": "NumArticles",
        "avg_tone": "AvgTone",
    },
    "mentions": {
        "confidence": "Confidence",
        "mention_doc_len": "MentionDocLen",
        "mention_doc_tone": "MentionDocTone",
        "in_raw_text": "InRawText",
        "sentence_id": "SentenceID",
    },
}
_USED: Final[dict[Table, tuple[str, ...]]] = {
    "events": (
        *("GLOBALEVENTID", "SQLDATE", "DATEADDED", "Actor1Code", "Actor1Name", "Actor1CountryCode"),
        *("Actor2Code", "Actor2Name", "Actor2CountryCode", "EventRootCode"),
        *("ActionGeo_FullName", "ActionGeo_CountryCode"),
    ),
    "mentions": (
        *("GLOBALEVENTID", "MentionTimeDate", "MentionIdentifier"),
        *("Actor1CharOffset", "Actor2CharOffset", "ActionCharOffset"),
    ),
}
_ENTITIES: Final = {
    "market": None,
    "actor1": "Actor1Code",
    "actor2": "Actor2Code",
    "actor1_country": "Actor1CountryCode",
    "actor2_country": "Actor2CountryCode",
    "action_country": "ActionGeo_CountryCode",
}
_STAMPS: Final[dict[Table, str]] = {"events": "DATEADDED", "mentions": "MentionTimeDate"}
_GDELT_1: Final = 58
_HEAD: Final = 1 << 16


@reader(
    _FORMAT,
    title="GDELT 2 events and mentions (tab-separated)",
    gives="events",
    files="*.export.CSV, *.mentions.CSV, also .zip, .gz",
)
def read_gdelt(
    paths: Paths,
    *,
    entity: Literal[
        "market", "actor1", "actor2", "actor1_country", "actor2_country", "action_country"
    ] = "market",
    untagged: Untagged = "reject",
    latency: str = "15min",
    strict: bool = False,
) -> EventLog:
    """Read GDELT 2 files; the module's documentation says how events and mentions are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files of events, or of mentions; the two have other features and are not mixed.
    entity : str
        ``"market"`` makes all market-wide; ``"actor1"``, ``"actor2"``, ``"actor1_country"``,
        ``"actor2_country"`` (CAMEO codes) and ``"action_country"`` (FIPS code) take the entity from events.
    untagged : {"reject", "market"}
        Whether an event without that code is refused or market-wide.
    latency : str
        From the stamp of the update until this system has its file.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Rows are numbered file by file, from 0. Event ids are ``GLOBALEVENTID``; those of mentions add the
        time, the document and the place in it.

    Raises
    ------
    UsageError
        If a file is missing or an option unknown, or `entity` is asked of mentions.
    EventDataError
        If a file is not of this format, ragged, truncated or not UTF-8, events and mentions are mixed, or no
        row can be used.
    TimestampError
        If `latency` is no duration or negative.
    """
    check_choice("entity", entity, tuple(_ENTITIES))
    check_choice("untagged", untagged, ("reject", "market"))
    files = paths_of(paths)
    kinds = {path: _table_of(path) for path in files}
    table = kinds[files[0]]
    other = next((path for path in files if kinds[path] != table), None)
    if other is not None:
        raise EventDataError(
            f"{files[0]} holds {table} and {other} {kinds[other]}; read them apart and join the logs with "
            "EventLog.concat"
        )
    column = _ENTITIES[entity]
    if table == "mentions" and column is not None:
        raise UsageError(
            f"entity={entity!r} is a column of events, and {files[0]} holds mentions; leave it out"
        )
    rows = stack(files, lambda path: _read_file(path, table))
    rows = _of_events(rows, column, untagged) if table == "events" else _of_mentions(rows)
    stamp = _STAMPS[table]
    return make_log(
        rows,
        files,
        strict=strict,
        faults=[_no_update(stamp), *([untagged_fault(column)] if column is not None else [])],
        event_time="SQLDATE" if table == "events" else stamp,
        available_at=stamp,
        entity="entity" if column is not None else None,
        event_id="event_id",
        kind="kind",
        text="text" if table == "events" else None,
        features=list(_FEATURES[table]),
        latency=latency,
    )


def _table_of(path: Path) -> Table:
    """Tell events from mentions by the number of columns, or by the header line."""
    with open_bytes(path, EventDataError) as stream:
        head = stream.read(_HEAD).decode("utf-8", errors="replace").lstrip("\ufeff")
    line = head.split("\n", 1)[0]
    if not line.strip():
        raise EventDataError(f"{path} is empty; give a file with data")
    if _has_header(line):
        return "mentions" if "mentiontimedate" in line.lower() else "events"
    fields = line.count("\t") + 1
    found: Table | None = next((name for name, columns in _COLUMNS.items() if len(columns) == fields), None)
    if found is None:
        known = f"events have {len(_EVENTS)} and mentions {len(_MENTIONS)}"
        if fields in (_GDELT_1 - 1, _GDELT_1):
            known += "; GDELT 1 files tell no time of day at which an event was added"
        raise wrong_format(path, _FORMAT, f"its first line has {fields} columns, and {known}", EventDataError)
    return found


def _has_header(line: str) -> bool:
    return line.strip().strip('"').lower().startswith("globaleventid")


def _read_file(path: Path, table: Table) -> pl.DataFrame:
    wanted = (*_USED[table], *_FEATURES[table].values())
    with open_bytes(path, EventDataError) as stream:
        head = stream.read(_HEAD).decode("utf-8", errors="replace").lstrip("\ufeff")
    if _has_header(head):
        separator = "\t" if "\t" in head.split("\n", 1)[0] else ","
        columns = match_columns(path, format=_FORMAT, needed=wanted, separator=separator)
        return read_columns(path, columns, separator=separator)
    return read_table(
        path,
        error=EventDataError,
        separator="\t",
        header=_COLUMNS[table],
        wanted={name: name for name in wanted},
    )


def _of_events(rows: pl.DataFrame, entity: str | None, untagged: Untagged) -> pl.DataFrame:
    day = pl.col("SQLDATE").str.strip_chars()
    spelled = pl.format("{}-{}-{}T00:00:00Z", day.str.slice(0, 4), day.str.slice(4, 2), day.str.slice(6, 2))
    names = [pl.col(name) for name in ("Actor1Name", "Actor2Name", "ActionGeo_FullName")]
    text = pl.concat_str(names, separator="; ", ignore_nulls=True)
    named = pl.lit(None, dtype=pl.String) if entity is None else pl.col(entity).str.strip_chars()
    named = pl.when(named != "").then(named)
    return rows.select(
        "file",
        "number",
        _update("DATEADDED"),
        event_id="GLOBALEVENTID",
        SQLDATE=pl.when(day.str.contains(r"^[0-9]{8}$")).then(spelled).otherwise("SQLDATE"),
        entity=named.fill_null(MARKET) if untagged == "market" else named,
        kind=pl.format("cameo_{}", pl.col("EventRootCode").str.strip_chars()),
        text=pl.when(text != "").then(text),
        **_FEATURES["events"],
        # For the message of a row that names no entity.
        **({} if entity is None else {entity: entity}),
    )


def _of_mentions(rows: pl.DataFrame) -> pl.DataFrame:
    places = ("SentenceID", "Actor1CharOffset", "Actor2CharOffset", "ActionCharOffset")
    return rows.select(
        "file",
        "number",
        _update("MentionTimeDate"),
        event_id=pl.concat_str(
            "GLOBALEVENTID",
            "MentionTimeDate",
            *(pl.col(name).fill_null("") for name in (*places, "MentionIdentifier")),
            separator="/",
        ),
        kind=pl.lit("mention"),
        **_FEATURES["mentions"],
    )


def _update(column: str) -> pl.Expr:
    """Write ``YYYYMMDDHHMMSS`` as ISO 8601; what is something else stays as it is."""
    stamp = pl.col(column).str.strip_chars()
    cuts = ((0, 4), (4, 2), (6, 2), (8, 2), (10, 2), (12, 2))
    spelled = pl.format("{}-{}-{}T{}:{}:{}Z", *(stamp.str.slice(start, size) for start, size in cuts))
    return pl.when(stamp.str.contains(r"^[0-9]{14}$")).then(spelled).otherwise(column).alias(column)


def _no_update(column: str) -> Fault:
    """Refuse what is no time of an update: the intake would take eight digits for a date."""
    meaning = "not the time of an update, YYYYMMDDHHMMSS"
    return Fault(~pl.col(column).str.ends_with("Z"), "unreadable_time", column, meaning)
