"""Tables of your own: a row for each event version, in CSV, TSV or Parquet.

Columns: you name those that play a part; others are ignored. ``event_time`` says when something happened (or
the period that it describes), ``available_at`` when it was published; times are ISO 8601, zoned or naive,
with up to nine decimals, or bare dates, also mixed. ``revision`` numbers the versions of an ``event_id``.

How ``available_at`` is derived: from the column ``available_at``, else from ``event_time``, plus ``latency``.
Naive stamps need ``time_zone``; without it they are refused. A bare date, and with ``time_zone`` a naive
midnight, is known at the next session's open.

Traps: a column of *load* times of a table that was filled later is no time of publication, but later and so
safe; a column of the *period* described is not a time of knowledge at all. Rows that cannot be dated are
rejected and listed. With several files, rows are numbered in each of them, and details name the file; what
two files hold is kept once.
"""

from __future__ import annotations

from typing import Literal

from quantattn.errors import UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._inputs import Paths, paths_of
from quantattn.pit.readers.events_table import read_events
from quantattn.pit.readers.registry import reader


@reader(
    "events",
    title="A table of your own, one row for each event version",
    gives="events",
    files=".csv, .tsv (also .gz), .parquet",
)
def read_event_tables(
    paths: Paths,
    *,
    event_time: str,
    available_at: str | None = None,
    entity: str | None = None,
    event_id: str | None = None,
    text: str | None = None,
    kind: str | None = None,
    revision: str | None = None,
    features: str | None = None,
    time_zone: str | None = None,
    date_only: Literal["next_session", "reject"] = "next_session",
    calendar: str = "XNYS",
    latency: str = "0s",
    scheduled: bool = False,
    strict: bool = False,
    separator: str | None = None,
    name: str | None = None,
) -> EventLog:
    """Read event tables of one layout.

    Parameters
    ----------
    paths : str, Path or sequence of them
        The files.
    event_time : str
        Column: when it happened, or the period that it describes.
    available_at : str, optional
        Column: when it was published. By default when it happened.
    entity : str, optional
        Column of the instrument, ``*`` for market-wide. By default all events are market-wide.
    event_id : str, optional
        Column that identifies an event across its revisions. By default a hash of the content.
    text : str, optional
        Column of the text.
    kind : str, optional
        Column of the kind.
    revision : str, optional
        Column that numbers the versions of an event from 0.
    features : str, optional
        Columns of numbers, parted by commas.
    time_zone : str, optional
        Zone of naive stamps and of dates, such as America/New_York.
    date_only : {"next_session", "reject"}
        What a date without a time means.
    calendar : str
        The trading calendar of ``date_only``.
    latency : str
        From publication until this system has the event.
    scheduled : bool
        Whether events may be published before they happen.
    strict : bool
        Whether to raise when a row is refused.
    separator : str, optional
        One character between the fields of text files.
    name : str, optional
        The instrument of files that are about one alone, instead of ``entity``.

    Returns
    -------
    EventLog

    Raises
    ------
    UsageError, EventDataError, TimestampError, CalendarError
        As :func:`read_events`.
    """
    files = paths_of(paths)
    logs = [
        read_events(
            file,
            event_time=event_time,
            available_at=available_at,
            entity=entity,
            event_id=event_id,
            text=text,
            kind=kind,
            revision=revision,
            features=named_columns(features),
            time_zone=time_zone,
            date_only=date_only,
            calendar=calendar,
            latency=latency,
            scheduled=scheduled,
            strict=strict,
            separator=separator,
            name=name,
        )
        for file in files
    ]
    return logs[0] if len(logs) == 1 else EventLog.concat(logs, names=[str(file) for file in files])


def named_columns(listed: str | None) -> list[str]:
    """Take a list of column names apart that is parted by commas.

    Raises
    ------
    UsageError
        If a name is empty.
    """
    names = [] if listed is None else [name.strip() for name in listed.split(",")]
    if "" in names:
        raise UsageError(f"features={listed!r} has an empty name; write names parted by single commas")
    return names
