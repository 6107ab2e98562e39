"""A user's own table of events, one row for each event version, in CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pandas as pd

from quantattn.errors import DataError, EventDataError
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.reasons import complain
from quantattn.pit.events.schema import feature_names
from quantattn.pit.events.stamps import DateOnly
from quantattn.pit.readers._table_files import read_table


def read_events(
    path: str | Path,
    *,
    event_time: str,
    available_at: str | None = None,
    entity: str | None = None,
    event_id: str | None = None,
    text: str | None = None,
    kind: str | None = None,
    revision: str | None = None,
    features: Sequence[str] = (),
    time_zone: str | None = None,
    date_only: DateOnly = "next_session",
    calendar: str = "XNYS",
    latency: str | timedelta | pd.Timedelta = "0s",
    scheduled: bool = False,
    strict: bool = False,
    separator: str | None = None,
    name: str | None = None,
) -> EventLog:
    """Read an event table from a file.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (UTF-8 with a header line; also with ``.gz``), ``.parquet`` or ``.pq``. Fields of
        text files are read as written: times are ISO 8601, and only an empty field is missing.
    event_time, available_at, entity, event_id, text, kind, revision, features
        Columns of the file, as in :meth:`EventLog.from_frame`. Other columns are ignored.
    time_zone, date_only, calendar, latency, scheduled, strict
        As in :meth:`EventLog.from_frame`, which says how ``available_at`` is derived.
    separator : str, optional
        The character between fields of a text file; by default a comma, or a tab in ``.tsv``.
    name : str, optional
        The instrument of a file that is about one alone; not with `entity`.

    Returns
    -------
    EventLog
        Rows that break the rules of time are in its rejects, numbered from 0 at the first data row.

    Raises
    ------
    UsageError
        If the file is missing, cannot be opened or has another suffix.
    EventDataError
        If the file is truncated, ragged or not UTF-8, lacks a column (the nearest name is given), has no
        rows, or no row of it can be used; with `strict` if any row is refused.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`.
    """
    file = Path(path)
    names = feature_names(features)
    wanted = {
        "event_time": event_time,
        "available_at": available_at,
        "entity": entity,
        "event_id": event_id,
        "text": text,
        "kind": kind,
        "revision": revision,
        **{f"features[{place}]": name for place, name in enumerate(names)},
    }
    table = read_table(file, error=EventDataError, separator=separator, wanted=wanted)
    try:
        log = EventLog.from_frame(
            table,
            event_time=event_time,
            available_at=available_at,
            entity=entity,
            event_id=event_id,
            text=text,
            kind=kind,
            revision=revision,
            features=names,
            time_zone=time_zone,
            date_only=date_only,
            calendar=calendar,
            latency=latency,
            scheduled=scheduled,
            strict=strict,
            name=name,
        )
        if not len(log):
            raise complain(log.rejects, table.height)
    except DataError as failure:
        raise type(failure)(f"{file}: {failure}") from failure
    return log
