"""Reporting periods: days, weeks, months, quarters and years, numbered one after the other."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

Stamped = Literal["start", "end", "within"]

WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
FREQUENCIES: Final = ("D", *(f"W-{day}" for day in WEEKDAYS), "M", "Q", "A")
"""Days, weeks (named by the day on which they end), months, quarters and years of the calendar."""

_THURSDAY: Final = 3
_MONTHS: Final = {"M": 1, "Q": 3, "A": 12}

Integers = npt.NDArray[np.int64]


def number_periods(days: Integers, frequency: str) -> tuple[Integers, Integers, Integers]:
    """Give the periods that dates lie in.

    Parameters
    ----------
    days : ndarray of int64, shape (n,)
        Days since 1970-01-01.
    frequency : str
        One of `FREQUENCIES`.

    Returns
    -------
    number : ndarray of int64, shape (n,)
        Of the period; the next one has the next number.
    first, following : ndarray of int64, shape (n,)
        The first day of the period and of the next one, in days since 1970-01-01.
    """
    if frequency == "D":
        return days, days, days + 1
    if frequency.startswith("W-"):
        # 1970-01-01 was a Thursday.
        shift = (_THURSDAY - WEEKDAYS.index(frequency[2:]) - 1) % 7
        number = (days + shift) // 7
        return number, number * 7 - shift, number * 7 - shift + 7
    span = _MONTHS[frequency]
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    number = months // span
    first, following = (
        (edge * span).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for edge in (number, number + 1)
    )
    return number, first, following


def spell_frequency(written: pl.Series) -> pl.Series:
    """Give frequencies in capitals, FRED's and pandas' other names for them too; null where unknown."""
    plain = written.cast(pl.String).str.strip_chars().str.to_uppercase()
    plain = plain.replace({"ANNUAL": "A", "Y": "A", "MONTHLY": "M", "QUARTERLY": "Q", "DAILY": "D"})
    return pl.select(pl.when(plain.is_in(FREQUENCIES)).then(plain)).to_series().alias(written.name)
