"""A SQL query against a database, from a file that holds the query.

Columns and times are those of the query, which you name as for format ``events``; see
:mod:`quantattn.pit.readers.sql` for connections and drivers. ``connection=env:NAME`` takes the URI out of an
environment variable, so that no password stands in a command line.

How ``available_at`` is derived: from the column ``available_at`` of the query, else from ``event_time``, plus
``latency``. Naive timestamps, which most databases hand out, need ``time_zone``.

Traps: a table that was updated in place holds only the latest revision of each row; select from the history
table, with its revision and load time.
"""

from __future__ import annotations

from typing import Literal

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._inputs import Paths, paths_of, read_text
from quantattn.pit.readers.registry import reader
from quantattn.pit.readers.sql import read_sql
from quantattn.pit.readers.tables import named_columns


@reader("sql", title="A query against a SQL database (ADBC or SQLAlchemy)", gives="events", files=".sql")
def read_sql_files(
    paths: Paths,
    *,
    connection: str,
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
) -> EventLog:
    """Run the query of a file and read its rows as events.

    Parameters
    ----------
    paths : str, Path or sequence of them
        One file with one SELECT.
    connection : str
        A URI such as sqlite:///news.db, or env:NAME for the environment variable that holds it.
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

    Returns
    -------
    EventLog

    Raises
    ------
    UsageError
        If there is not one file, or as :func:`read_sql`.
    EventDataError, TimestampError, CalendarError
        As :func:`read_sql`.
    """
    files = paths_of(paths)
    if len(files) != 1:
        raise UsageError(f"{len(files)} query files are given; give one, and join tables in its query")
    return read_sql(
        read_text(files[0], EventDataError),
        connection,
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
    )
