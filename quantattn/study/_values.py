"""The kinds of value that a study file may hold, each checked where it is read.

A check raises ``ValueError`` with what is wrong and the remedy; :mod:`quantattn.study._explain` puts the
dotted key in front.
"""

from __future__ import annotations

import re
import sys
import zoneinfo
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from quantattn.errors import TimestampError
from quantattn.pit.timestamps import duration_nanoseconds

PACKAGED: Final = "packaged:"
DATA_SUFFIXES: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")
MODELS: Final = (
    "linear",
    "softmax",
    "mean",
    "ewma",
    "har",
    "garch",
    "ridge",
    "gradient_boosting",
    "events_ridge",
    "events_logistic",
    "gru",
    "softmax_window",
)
"""The package's own models: the twins and the baselines."""

REGISTRY: Final = "quantattn.forecasters.baselines"
RETRAIN: Final = ("every_fold", "warm_start", "frozen")
MAX_SEED: Final = 2**31 - 1
"""Seeds are stored as Int32 in the forecasts table."""

MAX_COUNT: Final = 10_000_000
"""Far beyond any study; what is larger is a slip, and would only fail after hours or for lack of memory."""

_SIZE_REMEDY = "write a count of forecast times, or a span of time such as '365D'"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_WALL_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def nearest(name: str, known: Iterable[str]) -> str:
    """Give `` (did you mean 'x'?)`` for the known name nearest to `name`, or nothing."""
    by_lower = {entry.lower(): entry for entry in sorted(known, reverse=True)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.55)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} cannot name a run folder; use at most 64 letters, digits, '_', '-' and '.', "
            "beginning with a letter or digit"
        )
    return value


def _writable(value: Any) -> Any:
    """Refuse half a character: YAML can name it, but no file can hold it."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{value!r} has a lone surrogate, which no file can hold; take it out")
    return value


def _duration(value: str) -> str:
    try:
        duration_nanoseconds(value, argument="duration")
    except TimestampError as error:
        raise ValueError(str(error).removeprefix("duration=")) from error
    return value


def _not_negative(value: str) -> str:
    if duration_nanoseconds(_duration(value), argument="duration") < 0:
        raise ValueError(f"{value!r} is negative; write a duration of zero or more, for example '60s'")
    return value


def _positive(value: str) -> str:
    if duration_nanoseconds(_duration(value), argument="duration") <= 0:
        raise ValueError(f"{value!r} is not longer than zero; write for example '5D'")
    return value


def _size(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"{value} is less than 1; {_SIZE_REMEDY}")
        if value > MAX_COUNT:
            raise ValueError(f"more than {MAX_COUNT} forecast times; {_SIZE_REMEDY}")
        return value
    if isinstance(value, str) and _goes_forward(value):
        return value
    raise ValueError(f"{value!r} is not a size above zero; {_SIZE_REMEDY}")


def _goes_forward(span: str) -> bool:
    try:
        return duration_nanoseconds(span, argument="size") > 0
    except TimestampError:
        pass
    try:  # a calendar offset such as "QS" has no fixed length
        offset = pd.tseries.frequencies.to_offset(span)
    except ValueError:
        return False
    start = pd.Timestamp("2000-01-03")
    return offset is not None and start + offset > start


def _purge(value: Any) -> int | str:
    if value == "label":
        return "label"
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    raise ValueError(f"{value!r} is neither 'label' nor a count of forecast times; write label")


def _model(value: str) -> str:
    # Whoever registered a baseline has loaded the registry; without one, nothing heavy need be loaded.
    registry = sys.modules.get(REGISTRY)
    known = tuple(dict.fromkeys((*MODELS, *getattr(registry, "BASELINES", ()))))
    if value not in known:
        raise ValueError(
            f"{value!r} is unknown{nearest(value, known)}; known: {', '.join(known)}, and what "
            "register_baseline has been given"
        )
    return value


def _retrain(value: Any) -> Any:
    every = value.get("every") if isinstance(value, Mapping) else getattr(value, "every", None)
    alone = not isinstance(value, Mapping) or set(value) == {"every"}
    if isinstance(value, str) and value in RETRAIN:
        return value
    if alone and isinstance(every, int) and not isinstance(every, bool) and 1 <= every <= MAX_COUNT:
        return value
    raise ValueError(
        f"{value!r} is no way to retrain; write every_fold, warm_start, frozen, or every: and a number "
        "of folds, for example {every: 4}"
    )


def _bounds(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 2 or not 0 < values[0] < values[1]:
        raise ValueError(
            f"{list(values)} is no range; write two positive numbers, the least first, for example "
            "[0.0003, 0.03]"
        )
    return values


def _wall_time(value: str) -> str:
    if value not in ("open", "close") and not _WALL_TIME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a time of day; write 'open', 'close' or 'HH:MM', for example '15:45'"
        )
    return value


def _zone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"{value!r} is not a time zone{nearest(value, zoneinfo.available_timezones())}; "
            "write for example 'UTC' or 'America/New_York'"
        ) from error
    return value


@cache
def _calendar_names() -> frozenset[str]:
    # Imported late: it takes longer than reading the rest of a study file.
    import exchange_calendars

    return frozenset(exchange_calendars.get_calendar_names(include_aliases=True))


def _calendar(value: str) -> str:
    if value not in _calendar_names():
        raise ValueError(
            f"no trading calendar is called {value!r}{nearest(value, _calendar_names())}; "
            "write a name of exchange_calendars, for example 'XNYS' or 'XLON'"
        )
    return value


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is not a date; write YYYY-MM-DD, for example 2000-01-31") from error


def _entity(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not the name of an entity; put it in quotes if it is one")
    if not value or value != value.strip():
        raise ValueError(f"{value!r} is empty or has space at its ends; write the name as it is in the data")
    _writable(value)
    return value


def _separator(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value in '\r\n"':
        raise ValueError(f"{value!r} is not one ASCII character; write for example ';' or \"\\t\"")
    return value


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands there more than once; name each once")
    return values


def _ascending(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise ValueError(f"{list(values)} does not ascend; write each value once, the smallest first")
    return values


def _data_file(value: str, info: ValidationInfo) -> str:
    """Resolve a path against the folder of the study file, and see that it is there."""
    _writable(value)
    if not value.lower().endswith(DATA_SUFFIXES):
        raise ValueError(f"{value!r} is no data file; convert it to one of {', '.join(DATA_SUFFIXES)}")
    context: dict[str, Any] = info.context or {}
    if "folder" not in context:
        return value
    path = Path(context["folder"], Path(value).expanduser()).resolve()
    if context.get("check_files", True) and not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(f"{str(path)!r} {what}; relative paths start at the study file's folder")
    return str(path)


def source_of(packaged: Iterable[str]) -> AfterValidator:
    """Accept ``packaged:NAME`` for one of the names in `packaged`, or the path of a data file."""
    names = tuple(packaged)

    def check(value: str, info: ValidationInfo) -> str:
        if not value.startswith(PACKAGED):
            return _data_file(value, info)
        name = value.removeprefix(PACKAGED)
        if name not in names:
            known = ", ".join(PACKAGED + entry for entry in names)
            raise ValueError(f"no packaged data is called {name!r}{nearest(name, names)}; there are {known}")
        return value

    return AfterValidator(check)


Name = Annotated[str, AfterValidator(_name)]
"""Names a study, and with it its run folders."""

Line = Annotated[str, BeforeValidator(_writable)]
"""Any text that a file can hold."""

Text = Annotated[str, Field(min_length=1), BeforeValidator(_writable)]
"""Any text but the empty one; names of columns."""

Duration = Annotated[str, AfterValidator(_duration)]
"""A duration with unit, maybe negative: ``"-15min"``."""

Latency = Annotated[str, AfterValidator(_not_negative)]
"""A duration of zero or more."""

HalfLife = Annotated[str, AfterValidator(_positive)]
"""A duration of more than zero."""

Size = Annotated[int | str, BeforeValidator(_size)]
"""A count of forecast times, a duration of more than zero, or a calendar offset."""

Purge = Annotated[int | str, BeforeValidator(_purge)]
"""``"label"``, or a count of forecast times."""

WallTime = Annotated[str, AfterValidator(_wall_time)]
"""``"open"``, ``"close"`` or ``"HH:MM"``."""

Zone = Annotated[str, AfterValidator(_zone)]
"""An IANA time zone."""

Calendar = Annotated[str, AfterValidator(_calendar)]
"""A trading calendar of ``exchange_calendars``."""

Day = Annotated[date, BeforeValidator(_date)]
"""A date, plain or as ISO text."""

Entity = Annotated[str, BeforeValidator(_entity)]
"""The name of an instrument as it stands in the data."""

DataFile = Annotated[str, AfterValidator(_data_file)]
"""The path of a text or Parquet table; absolute once a study file has been loaded."""

Model = Annotated[str, AfterValidator(_model)]
"""The name of a model: of the package's own, or of a registered baseline."""

Separator = Annotated[str, AfterValidator(_separator)]
"""One ASCII character."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""A whole number from 1 to ten million."""

Sessions = Annotated[int, Field(ge=1, le=2520)]
"""A number of sessions, ten years of them at most."""

Width = Annotated[int, Field(ge=1, le=4096)]
"""The width of a vector."""

Layers = Annotated[int, Field(ge=1, le=64)]
"""A number of layers."""

Rounds = Annotated[int, Field(ge=1, le=100_000)]
"""How often something slow is done."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
"""The seed of every random draw."""

PositiveFloat = Annotated[float, Field(gt=0)]
"""A number above zero."""

NonNegativeFloat = Annotated[float, Field(ge=0)]
"""A number of zero or more."""

Share = Annotated[float, Field(gt=0, lt=1)]
"""A number between 0 and 1, both excluded."""

DISTINCT: Final = AfterValidator(_distinct)
ASCENDING: Final = AfterValidator(_ascending)
LISTED: Final = Field(strict=False)
"""Lets a YAML list fill a tuple without letting its items change type."""

RETRAINING: Final = BeforeValidator(_retrain)
BOUNDS: Final = AfterValidator(_bounds)
