"""From figures to positions, and the round figures that stand along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from quantattn.report import formatting
from quantattn.report.formatting import NumberColumn

DAY = 86_400_000_000_000
"""Nanoseconds in a day."""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where, and what it says (empty for an unlabelled one)."""

    value: float
    label: str


@dataclass(frozen=True)
class Scale:
    """A map from values between `low` and `high` to positions between `start` and `end`.

    Attributes
    ----------
    low, high : float
        The domain; ``low < high``, both positive when `logarithmic`.
    start, end : float
        The positions of `low` and `high`; an upward axis has ``start > end``.
    logarithmic : bool
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Give the position of a value."""
        if self.logarithmic:
            low = math.log(self.low)
            part = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Say whether a value lies inside the domain."""
        return self.low <= value <= self.high

    def clamped(self, value: float) -> float:
        """Give the position of a value, or of the nearer end of the domain."""
        return self(min(max(value, self.low), self.high))


def padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Give a domain that holds all values and leaves `share` of its length free on either side."""
    known = [v for v in values if math.isfinite(v)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if low == high:
        margin = abs(low) * 0.1 or 1.0
        return low - margin, high + margin
    margin = (high - low) * share
    return low - margin, high + margin


def padded_log(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Give a domain on a logarithmic scale that holds all positive values."""
    logs = [math.log10(v) for v in values if math.isfinite(v) and v > 0]
    low, high = padded(logs, share)
    if logs and min(logs) == max(logs):
        low, high = logs[0] - 0.5, logs[0] + 0.5
    # Far beyond any latency, but still inside what a float holds.
    return 10 ** max(low, -300.0), 10 ** min(high, 300.0)


def round_step(length: float, most: int) -> float:
    """Give the step of 1, 2, 2.5 or 5 times a power of ten that cuts a length into at most `most` parts."""
    raw = length / max(most, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    for factor in (1.0, 2.0, 2.5, 5.0):
        if raw <= factor * power * (1 + 1e-9):
            return factor * power
    return 10.0 * power


def number_ticks(low: float, high: float, most: int = 6) -> tuple[list[Tick], NumberColumn]:
    """Give round ticks between two values, and the way their labels are written.

    Returns
    -------
    ticks : list of Tick
    column : NumberColumn
        Its `unit` belongs in the axis title.
    """
    step = round_step(high - low, most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    values = [i * step for i in range(first, last + 1)]
    biggest = max((abs(v) for v in values), default=step) or step
    magnitude = math.floor(math.log10(biggest))
    exponent = 3 * math.floor(magnitude / 3) if magnitude < -3 or magnitude > 5 else 0
    shown = step / 10.0**exponent
    decimals = max(0, -math.floor(math.log10(shown) + 1e-9))
    if abs(shown * 10**decimals - round(shown * 10**decimals)) > 1e-6:
        decimals += 1
    column = NumberColumn(exponent, decimals)
    return [Tick(v, column.text(v)) for v in values], column


def decade_ticks(low: float, high: float) -> list[Tick]:
    """Give ticks at 1, 2 and 5 times the powers of ten; the 2s and 5s are labelled on a short axis only."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    few = math.log10(high) - math.log10(low) < 2.6
    ticks: list[Tick] = []
    for power in range(first, last + 1):
        for factor in (1, 2, 5):
            value = factor * 10.0**power
            if low <= value <= high:
                ticks.append(Tick(value, formatting.latency_tick(value) if factor == 1 or few else ""))
    return ticks


def at_least_a_day(low: int, high: int) -> tuple[int, int]:
    """Give a span of time that a plot can show: a day longer where it has no length.

    A float cannot tell two instants a nanosecond apart, so less would be no length at all.
    """
    return low, max(high, low + DAY)


def time_ticks(low: int, high: int, most: int = 8) -> list[Tick]:
    """Give ticks at round dates between two instants (nanoseconds since the epoch).

    Years where the span allows it, else months, else days.
    """
    start, end = formatting.utc_datetime(low), formatting.utc_datetime(high)
    span_days = (high - low) / DAY
    for months in (1, 2, 3, 6, 12, 24, 60, 120, 240, 600):
        if span_days / (30.44 * months) <= most:
            break
    if months == 1 and span_days < 75:
        return _day_ticks(low, high, most)
    ticks = []
    index = start.year * 12 + start.month - 1
    index = -(-index // months) * months
    while index // 12 < end.year + 1:
        moment = datetime(index // 12, index % 12 + 1, 1, tzinfo=UTC)
        value = int(moment.timestamp()) * 1_000_000_000
        if low <= value <= high:
            label = str(moment.year) if months >= 12 else formatting.month(value)
            ticks.append(Tick(value, label))
        index += months
    return ticks


def _day_ticks(low: int, high: int, most: int) -> list[Tick]:
    days = next((d for d in (1, 2, 7, 14) if (high - low) / DAY / d <= most), 28)
    # Day 4 of the epoch was a Monday: weekly ticks fall on Mondays.
    first = -(-(low - 4 * DAY) // (days * DAY)) * days * DAY + 4 * DAY
    values = range(first, high + 1, days * DAY)
    return [Tick(v, formatting.date(v)) for v in values]
