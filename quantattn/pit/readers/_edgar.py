"""When EDGAR filings became public: what both readers derive from acceptance stamps and filing dates."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl

from quantattn.pit._zones import DAY, SECOND, Mask, localise
from quantattn.pit.readers._inputs import Fault
from quantattn.pit.timestamps import Nanoseconds, instants

Zone = Literal["utc", "eastern"]

EASTERN: Final = "America/New_York"
POSTING_BEGINS: Final = 6 * 3600
"""Seconds after midnight in New York at which EDGAR begins to post what it held back overnight."""

RELEASED_LATER: Final = ("UPLOAD", "CORRESP", "LETTER", "DRS", "DRSLTR", "DOS", "DOSLTR")
"""Letters to and from the staff, and drafts of registration and offering statements: accepted at once, made
public weeks or months later. Their amendments bear ``/A``."""

_WALL: Final = r"^(?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?$"
_FILED: Final = r"^\s*(?:19|20|21)[0-9]{2}-"
_HOUR: Final = 3600 * SECOND


def with_stamps(table: pl.DataFrame, *, accepted: str, filed: str, zone: Zone | None) -> pl.DataFrame:
    """Add the instants at which filings were accepted and became public, as text for the intake.

    Parameters
    ----------
    table : polars.DataFrame
        One row for each filing.
    accepted : str
        Column of acceptance stamps without a zone, ``2024-02-02T18:01:30.000``; null where there is none.
    filed : str
        Column of filing dates, ``2024-02-02``.
    zone : {"utc", "eastern"} or None
        What clock the stamps are of; None takes the later reading of both, row by row.

    Returns
    -------
    polars.DataFrame
        With ``accepted_at`` and ``public_at`` (String: an instant with ``Z``, or a bare date where the stamp
        is a midnight or is missing, which says no more than the day), and the marks ``#unreadable``,
        ``#ambiguous``, ``#skipped`` and ``#undated`` (Boolean) for :func:`stamp_faults`.
    """
    text = pl.col(accepted).str.strip_chars()
    read = table.select(
        wall=pl.when(text.str.contains(_WALL)).then(
            text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="ns", strict=False)
        ),
        given=text.fill_null("") != "",
        filed=pl.when(pl.col(filed).str.contains(_FILED)).then(
            pl.col(filed).str.strip_chars().str.to_date("%Y-%m-%d", strict=False)
        ),
    )
    wall = read["wall"].to_physical().fill_null(0).to_numpy()
    moment, ambiguous, skipped = _moments(wall, zone)
    local = instants(moment).dt.convert_time_zone(EASTERN).dt.replace_time_zone(None)
    dated = read.with_columns(
        pl.Series("moment", instants(moment)),
        pl.Series("local", local),
        pl.Series("midnight", _midnights(wall, zone)),
        pl.Series("ambiguous", ambiguous),
        pl.Series("skipped", skipped),
    ).with_columns(
        midnight=pl.col("midnight") | pl.col("wall").is_null(),
        day=pl.max_horizontal(pl.col("local").dt.date(), pl.col("wall").dt.date()),
    )
    posted = _posting(dated["filed"])
    dated = dated.with_columns(pl.Series("posted", posted)).with_columns(
        public=pl.max_horizontal("moment", "posted"),
        wall_day=pl.when(pl.col("wall").is_null()).then("filed").otherwise("day"),
    )
    is_wall = pl.col("wall").is_not_null()
    marks = dated.select(
        pl.when("midnight")
        .then(_date_text("wall_day"))
        .otherwise(_instant_text("moment"))
        .alias("accepted_at"),
        pl.when("midnight")
        .then(_date_text(pl.max_horizontal("wall_day", "filed")))
        .otherwise(_instant_text("public"))
        .alias("public_at"),
        (~is_wall & pl.col("given")).alias("#unreadable"),
        (is_wall & pl.col("ambiguous")).alias("#ambiguous"),
        (is_wall & pl.col("skipped")).alias("#skipped"),
        pl.col("filed").is_null().alias("#undated"),
    )
    return pl.concat([table, marks], how="horizontal")


def stamp_faults(accepted: str, filed: str, form: str) -> list[Fault]:
    """Give the reasons to refuse rows of :func:`with_stamps`, quoting the source's own columns."""
    return [
        Fault(pl.col("#unreadable"), "unreadable_time", accepted, "not a stamp of EDGAR"),
        Fault(pl.col("#ambiguous"), "ambiguous_time", accepted, "occurs twice when the clocks go back"),
        Fault(pl.col("#skipped"), "nonexistent_time", accepted, "skipped by the clocks of its zone"),
        Fault(pl.col("#undated"), "missing_time", filed, "no filing date, so not when it was made public"),
        Fault(
            pl.col(form).str.strip_chars().str.strip_suffix("/A").is_in(RELEASED_LATER),
            "released_later",
            form,
            "made public long after its acceptance, on a day that the file does not give",
        ),
    ]


def _moments(wall: Nanoseconds, zone: Zone | None) -> tuple[Nanoseconds, Mask, Mask]:
    """Read stamps in a declared zone, or as the later of both readings."""
    nothing = np.zeros(wall.size, dtype=np.bool_)
    if zone == "utc":
        return wall, nothing, nothing
    eastern, ambiguous, skipped = localise(wall, EASTERN)
    if zone == "eastern":
        return np.where(ambiguous | skipped, 0, eastern), ambiguous, skipped
    # The later one of an hour that comes twice; an hour that never was leaves the reading as UTC.
    later = np.where(ambiguous, eastern + _HOUR, eastern)
    return np.where(skipped, wall, np.maximum(later, wall)), nothing, nothing


def _midnights(wall: Nanoseconds, zone: Zone | None) -> Mask:
    """Mark stamps that are a midnight in New York under any reading allowed: dates in disguise."""
    written: Mask = wall % DAY == 0
    local = instants(wall).dt.convert_time_zone(EASTERN).dt.replace_time_zone(None).to_physical().to_numpy()
    shifted: Mask = local % DAY == 0
    if zone is None:
        return np.logical_or(written, shifted)
    return shifted if zone == "utc" else written


def _posting(filed: pl.Series) -> pl.Series:
    """Give 06:00 in New York of filing dates."""
    walls = filed.cast(pl.Datetime("ns")).to_physical().fill_null(0).to_numpy() + POSTING_BEGINS * SECOND
    return instants(localise(walls, EASTERN)[0])


def _instant_text(column: str) -> pl.Expr:
    return pl.col(column).dt.to_string("%Y-%m-%dT%H:%M:%S%.9fZ")


def _date_text(column: str | pl.Expr) -> pl.Expr:
    return (pl.col(column) if isinstance(column, str) else column).dt.to_string("%Y-%m-%d")
