"""RavenPack Analytics: CSV files of RPNA 4 (News Analytics) and RPA 1.0.

Source: the files and the mapping that RavenPack's own interfaces deliver,
https://github.com/RavenPack/python-api and
https://rdrr.io/github/RavenPack/r-api/man/RP_APIFullHistory.html (yearly archives of monthly CSV files:
unpack them); its user guides are not public. WRDS delivers the same columns in lower case.

Columns, in either case of letters: ``TIMESTAMP_UTC`` and ``RP_ENTITY_ID``; used where present:
``RP_STORY_ID``, ``RP_STORY_EVENT_INDEX``, ``CATEGORY``, ``HEADLINE``, and as features, with their names
in lower case, ``RELEVANCE``, ``CSS``, ``NIP`` of both, ``ESS`` (0 to 100, 50 neutral), ``ENS`` of RPNA 4,
and ``EVENT_SENTIMENT_SCORE`` (-1 to 1), ``EVENT_RELEVANCE``, ``EVENT_SIMILARITY_DAYS`` of RPA 1.0. The
scales of the two editions differ, so they are not mixed in one log.

Zone: UTC, without saying so, with up to nine decimals (``2011-01-03 14:05:00.123456``).

How ``available_at`` is derived: the later of ``TIMESTAMP_UTC`` and ``launch``, plus ``latency``.
``launch`` has no default: history from before the day on which an edition went live was computed by it
*afterwards* from an archive, and bears the old stamps of the stories. No column tells such rows. Give the
date (known from the next session's open) or the instant at which the edition that made the file went
live, or ``"trust_stamps"``, which takes the scores of a later model as known with the story.

One event for each row; ``event_id`` joins story, entity and index. A story that speaks of many entities
stands once for each.

Entity: ``RP_ENTITY_ID``, a name that does not change. With ``mapping=`` (RavenPack's entity mapping file:
``RP_ENTITY_ID``, ``DATA_TYPE``, ``DATA_VALUE``, ``RANGE_START``, ``RANGE_END``) it is the value of
``data_type=`` that held on the day of the stamp, the first and the last day of a range included; if
several held, the one that began last. A row whose entity had none, or two that began on one day, is
refused.

Traps: the mapping file is today's, and names of dead companies may be missing. ``RELEVANCE`` below 90 is
a passing mention. ``AES`` and ``AEV`` are sums over 91 days of the package as it is now, and ``G_ENS``
spans packages: not read. Files are often in Latin-1: ``encoding="latin-1"``. ``EVENT_START_DATE_UTC`` may
lie in the future and is not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.stamps import TimeRules
from quantattn.pit.readers._inputs import Fault, Paths, paths_of
from quantattn.pit.readers._news import check_choice, make_log, match_columns, read_columns, stack
from quantattn.pit.readers._stamp_text import instant_text, published
from quantattn.pit.readers.registry import reader
from quantattn.pit.timestamps import nanoseconds_of

_FORMAT: Final = "ravenpack"
_TRUST: Final = "trust_stamps"
_NEEDED: Final = ("TIMESTAMP_UTC", "RP_ENTITY_ID")
_KEYS: Final = ("RP_STORY_ID", "RP_STORY_EVENT_INDEX")
_WORDS: Final = ("CATEGORY", "HEADLINE")
_BOTH: Final = ("RELEVANCE", "CSS", "NIP")
_RPNA_4: Final = ("ESS", "ENS")
_RPA_1: Final = ("EVENT_SENTIMENT_SCORE", "EVENT_RELEVANCE", "EVENT_SIMILARITY_DAYS")
_MAPPING: Final = ("RP_ENTITY_ID", "DATA_TYPE", "DATA_VALUE", "RANGE_START", "RANGE_END")
_ENCODINGS: Final = {"utf-8": "utf8", "latin-1": "latin1"}
_NAIVE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?$"
_UNMAPPED: Final = "unmapped_entity"
_AMBIGUOUS: Final = "ambiguous_entity"


@reader(
    _FORMAT,
    title="RavenPack Analytics, RPNA 4 and RPA 1.0 (CSV)",
    gives="events",
    files="RPNA_*.csv, RPA_*.csv, also .gz, .zip and Parquet",
)
def read_ravenpack(
    paths: Paths,
    *,
    launch: str,
    mapping: str | None = None,
    data_type: str = "TICKER",
    encoding: Literal["utf-8", "latin-1"] = "utf-8",
    latency: str = "0s",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read RavenPack Analytics; the module's documentation says why `launch` has to be given.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files of one edition.
    launch : str
        When the edition that made the files went live, a date or an instant with its offset, or
        ``"trust_stamps"``.
    mapping : str, optional
        RavenPack's entity mapping file.
    data_type : str
        What the mapping gives, for example ``"TICKER"``, ``"ISIN"``, ``"CUSIP"``.
    encoding : {"utf-8", "latin-1"}
        Of text files.
    latency : str
        From the stamp until this system has the row.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        The kind is the category, ``event`` where there is none. Rows are numbered file by file, from 0.

    Raises
    ------
    UsageError
        If a file is missing, or an option unknown.
    EventDataError
        If a file is not of this format, ragged, truncated or of another encoding, editions are mixed, or no
        row can be used.
    TimestampError, CalendarError
        As in :meth:`EventLog.from_frame`.
    """
    check_choice("encoding", encoding, tuple(_ENCODINGS))
    live = None if launch == _TRUST else _instant_of(launch, calendar)
    files = paths_of(paths)
    text = _ENCODINGS[encoding]
    table = stack(files, lambda path: _read_file(path, text))
    if "ESS" in table.columns and "EVENT_SENTIMENT_SCORE" in table.columns:
        raise EventDataError(
            f"{files[0]} and the others are of two editions (ESS of RPNA 4, EVENT_SENTIMENT_SCORE of RPA "
            "1.0), whose scales differ; read them apart and join the logs with EventLog.concat"
        )
    stamp = pl.col("TIMESTAMP_UTC").str.strip_chars()
    table = table.with_columns(
        TIMESTAMP_UTC=pl.when(stamp.str.contains(_NAIVE)).then(pl.format("{}Z", stamp)).otherwise(stamp)
    )
    faults = []
    entity = pl.col("RP_ENTITY_ID").str.strip_chars()
    if mapping is not None:
        table = _mapped(table, _read_mapping(Path(mapping), data_type, text))
        faults = [
            Fault(pl.col(reason), reason, "RP_ENTITY_ID", f"mapped to {number} {data_type} on its day")
            for reason, number in ((_UNMAPPED, "no"), (_AMBIGUOUS, "more than one"))
        ]
        entity = pl.col("mapped")
    present = [name for name in (*_BOTH, *_RPNA_4, *_RPA_1) if name in table.columns]
    keys = [name for name in ("RP_STORY_ID", "RP_ENTITY_ID", "RP_STORY_EVENT_INDEX") if name in table.columns]
    table = table.with_columns(
        entity=entity,
        known=table["TIMESTAMP_UTC"] if live is None else _not_before(table["TIMESTAMP_UTC"], live, calendar),
        event_id=pl.concat_str(keys, separator="/"),
        **{name.lower(): name for name in present},
    )
    return make_log(
        table,
        files,
        strict=strict,
        faults=faults,
        event_time="TIMESTAMP_UTC",
        available_at="known",
        entity="entity",
        event_id="event_id" if all(name in keys for name in _KEYS) else None,
        text="HEADLINE" if "HEADLINE" in table.columns else None,
        kind="CATEGORY" if "CATEGORY" in table.columns else None,
        features=[name.lower() for name in present],
        latency=latency,
        calendar=calendar,
    )


def _instant_of(launch: str, calendar: str) -> pl.Series:
    """Give the instant at which an edition was certainly live."""
    live = published(pl.Series([launch], dtype=pl.String), TimeRules(calendar=calendar))
    if live.null_count():
        raise UsageError(
            f"launch={launch!r} is neither a date nor an instant with its offset; write '2018-04-16', "
            f"'2018-04-16T14:00:00Z' or {_TRUST!r}"
        )
    return live


def _read_file(path: Path, encoding: str) -> pl.DataFrame:
    optional = (*_KEYS, *_WORDS, *_BOTH, *_RPNA_4, *_RPA_1)
    columns = match_columns(path, format=_FORMAT, needed=_NEEDED, optional=optional, encoding=encoding)
    table = read_columns(path, columns, encoding=encoding)
    words = (*_NEEDED, *_KEYS, *_WORDS)
    return table.with_columns(pl.col(name).cast(pl.String) for name in words if name in columns)


def _not_before(stamps: pl.Series, live: pl.Series, calendar: str) -> pl.Series:
    """Give the later of each stamp and the launch; what cannot be read stays as it is."""
    frame = pl.DataFrame({"stamp": stamps, "at": published(stamps, TimeRules(calendar=calendar))})
    # As integers: a Python datetime would lose the nanoseconds.
    early = (pl.col("at").to_physical() < int(nanoseconds_of(live)[0])).fill_null(False)
    return frame.select(pl.when(early).then(pl.lit(instant_text(live)[0])).otherwise("stamp")).to_series()


def _read_mapping(path: Path, data_type: str, encoding: str) -> pl.DataFrame:
    """Give ``RP_ENTITY_ID, value, start, end`` of the names of one type."""
    columns = match_columns(path, format="ravenpack", needed=_MAPPING, encoding=encoding)
    names = read_columns(path, columns, encoding=encoding).select(pl.all().cast(pl.String).str.strip_chars())
    chosen = names.filter(pl.col("DATA_TYPE").str.to_uppercase() == data_type.strip().upper())
    if chosen.is_empty():
        types = ", ".join(repr(name) for name in sorted(names["DATA_TYPE"].drop_nulls().unique())[:12])
        raise UsageError(f"data_type={data_type!r} does not occur in {path}; use one of {types}")
    dates = [pl.col(name).str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False) for name in _MAPPING[3:]]
    ranged = chosen.select("RP_ENTITY_ID", value="DATA_VALUE", start=dates[0], end=dates[1])
    return ranged.drop_nulls(["RP_ENTITY_ID", "value"])


def _mapped(table: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Add the name that an entity had on the day of the stamp, and whether it had none or several."""
    keyed = table.with_row_index("#row").with_columns(
        pl.col("RP_ENTITY_ID").str.strip_chars(),
        day=pl.col("TIMESTAMP_UTC").str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False),
    )
    day, start, end = pl.col("day"), pl.col("start"), pl.col("end")
    holds = (start.is_null() | (start <= day)) & (end.is_null() | (day <= end))
    latest = start.eq_missing(start.last())
    held = (
        keyed.select("#row", "RP_ENTITY_ID", "day")
        .join(names, on="RP_ENTITY_ID")
        .filter(holds)
        .sort("#row", "start", nulls_last=False)
        .group_by("#row", maintain_order=True)
        .agg(mapped=pl.col("value").last(), rivals=pl.col("value").filter(latest).n_unique())
    )
    joined = keyed.join(held, on="#row", how="left", maintain_order="left")
    named = pl.col("RP_ENTITY_ID").is_not_null() & pl.col("day").is_not_null()
    return joined.with_columns(
        (named & pl.col("mapped").is_null()).alias(_UNMAPPED),
        (pl.col("rivals") > 1).alias(_AMBIGUOUS),
    ).drop("#row", "day", "rivals")
