"""Figures as people read them: significant digits, units, dates, and a dash where there is nothing."""

from __future__ import annotations

import datetime as calendar
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

MINUS = "\N{MINUS SIGN}"
MISSING = "\N{EN DASH}"
NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
SPACE = "\N{NO-BREAK SPACE}"

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FOLD = re.compile(r"(\b[Ff]old )(\d{1,6})\b")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|µs|ms|s)(?!\w))")
_AROUND_P = re.compile(r"(?<=\bp) ([=<]) (?=\d)")
# Bidirectional controls can make shown text differ from stored text; C0 and C1 controls show as nothing.
_INVISIBLE = dict.fromkeys(
    (
        *(code for code in range(0x20) if code not in (0x09, 0x0A, 0x0D)),
        *range(0x7F, 0xA0),
        0x061C,
        *range(0x200E, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
        *range(0xD800, 0xE000),
    ),
    "\N{REPLACEMENT CHARACTER}",
)


def visible_text(text: str) -> str:
    """Give untrusted text with its invisible control characters made visible as U+FFFD."""
    return text.translate(_INVISIBLE)


def number(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """Give a number with a fixed count of decimals, a true minus sign and grouped thousands.

    Parameters
    ----------
    value : float or None
        The number; None or a non-finite number gives a dash.
    decimals : int
        Digits after the point.
    signed : bool
        Whether a positive number gets a plus sign.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{abs(value):,.{decimals}f}"
    if not any(digit in "123456789" for digit in text):
        return text
    if value < 0:
        return MINUS + text
    return f"+{text}" if signed else text


def significant(value: float | None, digits: int = 3) -> str:
    """Give a number with `digits` significant digits; very small or large ones in powers of ten."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    exponent = int(power)
    if exponent < -4 or exponent > 8:
        return (
            f"{number(float(mantissa), digits - 1)}{SPACE}×{SPACE}10{str(exponent).translate(_SUPERSCRIPTS)}"
        )
    return number(value, max(0, digits - 1 - exponent))


def count(value: int | float | None) -> str:
    """Give a whole number with grouped thousands."""
    return number(value, 0)


def percent(share: float | None, decimals: int = 1) -> str:
    """Give a share of 0 to 1 in percent."""
    if share is None or not math.isfinite(share):
        return MISSING
    return f"{number(100 * share, decimals)}{NARROW_SPACE}%"


def share(value: float | None) -> str:
    """Give a coverage in percent, rounded down so that only a whole one reads as 100 %."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value >= 1 or value <= 0:
        return percent(value, 0)
    return percent(math.floor(value * 1000) / 1000, 1)


def p_value(value: float | None) -> str:
    """Give a p-value: three decimals, or "< 0.001"."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"<{SPACE}0.001" if value < 0.001 else number(value, 3)


def interval(low: float | None, high: float | None, decimals: int, *, signed: bool = False) -> str:
    """Give an interval as "low to high", or nothing where either end is missing."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{number(low, decimals, signed=signed)} to {number(high, decimals, signed=signed)}"


def microseconds(value: float | None) -> str:
    """Give a latency in µs, ms or s with three significant digits."""
    if value is None or not math.isfinite(value):
        return MISSING
    for limit, factor, unit in ((999.5, 1.0, "µs"), (999.5e3, 1e3, "ms")):
        if abs(value) < limit:
            return f"{significant(value / factor)}{SPACE}{unit}"
    return f"{significant(value / 1e6)}{SPACE}s"


def latency_tick(value: float) -> str:
    """Give a round latency as an axis label: "1 ms", "200 µs"."""
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if value < limit * (1 - 1e-9):
            return f"{value / factor:g}{SPACE}{unit}"
    return f"{value / 1e6:g}{SPACE}s"


def seconds(value: float | None) -> str:
    """Give a duration in seconds, minutes or hours."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 1:
        return microseconds(1e6 * value)
    if value < 59.95:
        return f"{significant(value)}{SPACE}s"
    if value < 3600:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes}{SPACE}min {rest:02d}{SPACE}s"
    hours, rest = divmod(round(value / 60), 60)
    return f"{hours}{SPACE}h {rest:02d}{SPACE}min"


def byte_size(value: float | None) -> str:
    """Give a size in bytes, KiB, MiB or GiB."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 1024:
        return f"{count(value)}{SPACE}B"
    for unit in ("KiB", "MiB"):
        value /= 1024
        if value < 1023.5:
            return f"{significant(value)}{SPACE}{unit}"
    return f"{significant(value / 1024)}{SPACE}GiB"


def utc_datetime(nanoseconds: int) -> datetime:
    """Give an instant (nanoseconds since the epoch) as a UTC datetime, cut to microseconds."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)


def date(nanoseconds: int | None) -> str:
    """Give the UTC date of an instant, such as "3 Jan 2010"."""
    if nanoseconds is None:
        return MISSING
    return day(utc_datetime(nanoseconds))


def day(value: calendar.date) -> str:
    """Give a calendar date, such as "3 Jan 2010"."""
    return f"{value.day}{SPACE}{_MONTHS[value.month - 1]}{SPACE}{value.year}"


def month(nanoseconds: int) -> str:
    """Give the month and year of an instant, such as "Jan 2010"."""
    moment = utc_datetime(nanoseconds)
    return f"{_MONTHS[moment.month - 1]}{SPACE}{moment.year}"


def instant(nanoseconds: int | None) -> str:
    """Give an instant to the second in UTC; the last nanosecond before a minute is said in words."""
    if nanoseconds is None:
        return MISSING
    if (nanoseconds + 1) % 1_000_000_000 == 0:
        return f"just before {instant(nanoseconds + 1)}"
    moment = utc_datetime(nanoseconds)
    clock = f"{moment:%H:%M}" if moment.second == 0 else f"{moment:%H:%M:%S}"
    return f"{date(nanoseconds)}, {clock}{SPACE}UTC"


def elapsed(nanoseconds: int | None) -> str:
    """Give a length of time such as "2 days 3 h" or "14 min"."""
    if nanoseconds is None:
        return MISSING
    whole = nanoseconds / 1e9
    if whole < 3600:
        return seconds(whole) if whole % 60 or whole < 60 else f"{whole / 60:.0f}{SPACE}min"
    hours = round(whole / 3600)
    if hours < 48:
        return f"{significant(whole / 3600)}{SPACE}h"
    days, rest = divmod(hours, 24)
    return f"{days}{SPACE}days" + (f" {rest}{SPACE}h" if rest else "")


def words(items: Sequence[str]) -> str:
    """Give a list in words: "a", "a and b", "a, b and c"."""
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def sentence(text: str) -> str:
    """Give a text with a capital at its start."""
    return text[:1].upper() + text[1:]


def plural(n: int, one: str, many: str | None = None) -> str:
    """Give a count with its noun: "1 fold", "5 folds"."""
    return f"{count(n)} {one if n == 1 else (many or one + 's')}"


def ordinal(fold: int) -> str:
    """Give the number of a fold as people count: the files count from 0, a page from 1."""
    return str(fold + 1)


def people_folds(text: str) -> str:
    """Give a text that names folds as the files do with folds numbered from 1."""
    return _FOLD.sub(lambda found: f"{found[1]}{ordinal(int(found[2]))}", text)


def bound(text: str) -> str:
    """Give a sentence in which no line breaks between a figure and its unit."""
    return _BEFORE_UNIT.sub(SPACE, _AROUND_P.sub(rf"{SPACE}\1{SPACE}", text))


def plain(value: object) -> str:
    """Give a JSON leaf as text for people."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else count(value)
    if isinstance(value, float):
        return count(value) if value.is_integer() and abs(value) < 1e8 else significant(value, 4)
    return str(value)


@dataclass(frozen=True)
class NumberColumn:
    """One way of writing all figures of a column or an axis: a power of ten and a count of decimals.

    Attributes
    ----------
    exponent : int
        Figures are shown divided by ``10 ** exponent``; zero or a multiple of three.
    decimals : int
        Digits after the point.
    """

    exponent: int
    decimals: int

    def scaled(self, value: float | None) -> float | None:
        """Give `value` in the column's unit."""
        return None if value is None else value / 10.0**self.exponent

    def text(self, value: float | None, *, signed: bool = False) -> str:
        """Give one figure of the column."""
        return number(self.scaled(value), self.decimals, signed=signed)

    def range_text(self, low: float | None, high: float | None, *, signed: bool = False) -> str:
        """Give one interval of the column, or nothing where an end is missing."""
        return interval(self.scaled(low), self.scaled(high), self.decimals, signed=signed)

    @property
    def unit(self) -> str:
        """The power of ten in words, to stand in a heading; empty where there is none."""
        return f"×{SPACE}10{str(self.exponent).translate(_SUPERSCRIPTS)}" if self.exponent else ""

    def with_unit(self, value: float | None, *, signed: bool = False) -> str:
        """Give one figure that must stand alone, its power of ten beside it."""
        text = self.text(value, signed=signed)
        return f"{text}{SPACE}{self.unit}" if self.unit and text != MISSING else text


def number_column(
    values: Iterable[float | None],
    widths: Iterable[float | None] = (),
    *,
    most_decimals: int = 4,
    plain_from: float = 1e-3,
) -> NumberColumn:
    """Choose how a column of figures is written: two digits of its uncertainty, or three of its size.

    Parameters
    ----------
    values : iterable of float or None
        The figures (and the ends of their intervals).
    widths : iterable of float or None
        Interval widths, where there are any.
    most_decimals : int
        Never more decimals than this.
    plain_from : float
        A column whose largest figure is below this is written in a power of ten; 0 for never.
    """
    sizes = [abs(v) for v in values if v is not None and math.isfinite(v) and v != 0]
    if not sizes:
        return NumberColumn(0, 2)
    # No power of ten below the smallest one that a float holds exactly enough to divide by.
    biggest = max(math.floor(math.log10(max(sizes))), -300)
    exponent = 3 * math.floor(biggest / 3) if max(sizes) < plain_from or biggest > 5 else 0
    spreads = [w / 2 for w in widths if w is not None and math.isfinite(w) and w > 0]
    if spreads:
        decimals = 1 - math.floor(math.log10(median(spreads))) + exponent
    else:
        decimals = 2 - math.floor(math.log10(median(sizes))) + exponent
    return NumberColumn(exponent, min(max(decimals, 0), most_decimals))
