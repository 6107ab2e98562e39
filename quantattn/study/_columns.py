"""See that the data files of a study have the columns that it names, by their headers alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from quantattn.errors import StudyError
from quantattn.study._section import Section
from quantattn.study._values import PACKAGED, nearest
from quantattn.study.config import Study
from quantattn.study.sources import IndexSource, PriceSource

_BAR_COLUMNS = ("close", "session", "event_time")
_PRICE_COLUMNS = (*_BAR_COLUMNS, "entity", "open", "high", "low", "volume")
_EVENT_COLUMNS = (
    "event_time",
    "available_at",
    "entity",
    "event_id",
    "revision",
    "kind",
    "text",
)
_DATES = ("session", "date")
_SHOWN = 12

_Named = tuple[str, tuple[str, ...]]
"""A key of the study, and the columns any of which will do."""


def check_columns(study: Study, *, source: str) -> None:
    """Read the header of each data file and look for the columns named.

    Parameters
    ----------
    study : Study
        With absolute data paths.
    source : str
        Where the study came from, for the error message.

    Raises
    ------
    StudyError
        If a file cannot be read as what its name says, or lacks a column; the message names the dotted
        key, the file and the nearest column.
    """
    for key, path, named in _files(study):
        have = _header(path, f"{source}: {key}")
        for field, accepted in named:
            if not set(accepted) & set(have):
                raise StudyError(
                    f"{source}: {key}.{field}: {path.name} has no column "
                    f"{' or '.join(map(repr, accepted))}{nearest(accepted[0], have)}; it has {_shown(have)}"
                )


def _files(study: Study) -> Iterator[tuple[str, Path, list[_Named]]]:
    data = study.data
    bars: list[tuple[str, PriceSource | IndexSource, tuple[str, ...]]] = [
        ("data.prices", data.prices, _PRICE_COLUMNS)
    ]
    if data.index is not None:
        bars.append(("data.index", data.index, _BAR_COLUMNS))
    for key, section, fields in bars:
        if not section.source.startswith(PACKAGED):
            dated = section.session is not None or section.event_time is not None
            dates: list[_Named] = [] if dated else [("session", _DATES)]
            yield key, Path(section.source), _named(section, fields) + dates
    for position, events in enumerate(data.events):
        features: list[_Named] = [(f"features[{i}]", (column,)) for i, column in enumerate(events.features)]
        yield f"data.events[{position}]", Path(events.path), _named(events, _EVENT_COLUMNS) + features


def _named(section: Section, fields: tuple[str, ...]) -> list[_Named]:
    values = ((field, getattr(section, field)) for field in fields)
    return [(field, (column,)) for field, column in values if column is not None]


def _shown(columns: list[str]) -> str:
    return ", ".join(columns[:_SHOWN]) + (", ..." if len(columns) > _SHOWN else "")


def _header(path: Path, key: str) -> list[str]:
    try:
        if path.suffix.lower() == ".parquet":
            return list(pl.read_parquet_schema(path))
        return pl.scan_csv(path, infer_schema=False).collect_schema().names()
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StudyError(
            f"{key}: {str(path)!r} cannot be read as {path.suffix} ({reason}); write it anew"
        ) from error
