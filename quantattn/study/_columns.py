"""See that the data files of a study have the columns that it names, by their headers alone."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import polars as pl

from quantattn.errors import DataError, StudyError, UsageError
from quantattn.study._ingested import holds_events, holds_prices
from quantattn.study._section import Section
from quantattn.study._values import PACKAGED, nearest
from quantattn.study.config import Study
from quantattn.study.sources import EventSource, IndexSource, PriceSource

_BAR_COLUMNS = ("session", "close")
_PRICE_COLUMNS = (*_BAR_COLUMNS, "entity", "open", "high", "low", "volume")
_EVENT_COLUMNS = ("event_time", "available_at", "entity", "event_id", "revision", "kind", "text")
_SHOWN = 12


class _File(NamedTuple):
    """A data file, and the columns that the study names in it, each with its key."""

    key: str
    path: Path
    separator: str | None
    named: list[tuple[str, str]]


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
    _check_ingested(study, source)
    for file in _files(study):
        have = _header(file, source)
        for field, column in file.named:
            if column not in have:
                lone = "; give separator if its fields are not parted by commas" if len(have) == 1 else ""
                raise StudyError(
                    f"{source}: {file.key}.{field}: {file.path.name} has no column {column!r}"
                    f"{nearest(column, have)}; it has {_shown(have)}{lone}"
                )


def _files(study: Study) -> Iterator[_File]:
    data = study.data
    bars: list[tuple[str, PriceSource | IndexSource, tuple[str, ...]]] = [
        ("data.prices", data.prices, _PRICE_COLUMNS)
    ]
    if data.index is not None:
        bars.append(("data.index", data.index, _BAR_COLUMNS))
    for key, bar, columns in bars:
        if not bar.source.startswith(PACKAGED) and not _says_itself(bar.source, holds_prices):
            yield _File(key, Path(bar.source), bar.separator, _named(bar, columns))
    for position, events in enumerate(data.events):
        if events.event_time is None:
            continue
        features = [(f"features[{number}]", column) for number, column in enumerate(events.features)]
        named = _named(events, _EVENT_COLUMNS) + features
        yield _File(f"data.events[{position}]", Path(events.path), events.separator, named)


def _check_ingested(study: Study, source: str) -> None:
    """See that files whose columns are not named say themselves what they hold."""
    for position, events in enumerate(study.data.events):
        key = f"{source}: data.events[{position}]"
        if _says_itself(events.path, holds_prices):
            raise StudyError(
                f"{key}.path: {Path(events.path).name} holds prices, not events; name it in data.prices"
            )
        if events.event_time is not None:
            continue
        if not _says_itself(events.path, holds_events):
            raise StudyError(
                f"{key}.event_time: is missing; add it ({Path(events.path).name} was not written by "
                "`quantattn ingest`)"
            )
        fields = {name: field for name, field in EventSource.model_fields.items() if name != "path"}
        given = [name for name, field in fields.items() if getattr(events, name) != field.default]
        if given:
            raise StudyError(
                f"{key}.{given[0]}: belongs to files whose columns are named; leave it out or add event_time "
                "(what `quantattn ingest` wrote says itself what it holds)"
            )
    for key, bars in (("prices", study.data.prices), ("index", study.data.index)):
        if bars is not None and _says_itself(bars.source, holds_events):
            raise StudyError(
                f"{source}: data.{key}: {Path(bars.source).name} holds events, not prices; "
                "list it in data.events"
            )
    prices = study.data.prices
    if prices.name is not None and _says_itself(prices.source, holds_prices):
        raise StudyError(
            f"{source}: data.prices.name: {Path(prices.source).name} was written by `quantattn ingest` and "
            "names its entities itself; leave it out"
        )


def _says_itself(path: str, holds: Callable[[str], bool]) -> bool:
    """Say whether a file says what it holds; whoever reads its header reports one that cannot be read."""
    try:
        return holds(path)
    except (DataError, UsageError):
        return False


def _named(section: Section, fields: tuple[str, ...]) -> list[tuple[str, str]]:
    values = ((field, getattr(section, field)) for field in fields)
    return [(field, column) for field, column in values if column is not None]


def _shown(columns: list[str]) -> str:
    return ", ".join(columns[:_SHOWN]) + (", ..." if len(columns) > _SHOWN else "")


def _open_text(path: Path) -> TextIO:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _header(file: _File, source: str) -> list[str]:
    name = file.path.name.lower()
    try:
        if name.endswith((".parquet", ".pq")):
            return list(pl.read_parquet_schema(file.path))
        separator = file.separator or ("\t" if ".tsv" in file.path.suffixes[-2:] else ",")
        with _open_text(file.path) as text:
            return next(csv.reader(text, delimiter=separator))
    except StopIteration:
        reason = "it is empty"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (pl.exceptions.PolarsError, gzip.BadGzipFile, EOFError, csv.Error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    raise StudyError(f"{source}: {file.key}: {str(file.path)!r} cannot be read ({reason}); write it anew")
