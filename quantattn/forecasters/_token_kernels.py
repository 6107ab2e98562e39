"""Compiled parts of tokens: one arithmetic for a row that comes live and for a table of a backtest.

The logarithm, sine and cosine are written out in sums and products, which IEEE 754 rounds in one way alone. A
library's own differ by a bit between processors, and between the one row and the many that a loop takes at
once.

What an entry needs stands in this file, because numba compiles a stored program anew only when the file of
its entry has changed. Entries release the interpreter's lock.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numba
import numpy as np

DAY = 86_400_000_000_000.0
"""Nanoseconds."""
YEAR = 365.2425
"""Days of the Gregorian year, on average."""

_SQUARE_ROOT_OF_HALF = 0.7071067811865476
_LOG_2 = 0.6931471805599453
_TWO_PI = 6.283185307179586


def _compiled(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def _entry(function: Any) -> Any:
    return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


@_compiled
def _log1p(x: Any) -> Any:
    """Return log(1 + x) of a number that is not negative, to a few units of the last place."""
    y = 1.0 + x
    m, power = math.frexp(y)
    if m < _SQUARE_ROOT_OF_HALF:
        m *= 2.0
        power -= 1
    # log m = 2 artanh f, with f at most 0.1716 in size: the term left out is below 2e-18.
    f = (m - 1.0) / (m + 1.0)
    square = f * f
    series = 1.0 / 21.0
    for odd in (19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = series * square + 1.0 / odd
    # What rounding took from 1 + x counts where x is small.
    return power * _LOG_2 + (2.0 * f * series + (x - (y - 1.0)) / y)


@_compiled
def _elapsed(days: Any) -> Any:
    """Encode elapsed days: log(1 + hours) / 5."""
    return np.float32(_log1p(max(days, 0.0) * 24.0) / 5.0)


@_compiled
def _days(at: Any, before: Any) -> Any:
    return np.float64(at - before) / DAY


@_compiled
def _season(at: Any) -> Any:
    """Give sine and cosine of the year's phase at an instant."""
    turn = ((np.float64(at) / DAY) % YEAR) / YEAR
    quarter = math.floor(turn * 4.0 + 0.5)
    angle = (turn - quarter * 0.25) * _TWO_PI  # at most an eighth of a turn
    square = angle * angle
    sine = cosine = 1.0
    for i in range(8, 0, -1):
        sine = 1.0 - sine * square / (2.0 * i * (2.0 * i + 1.0))
        cosine = 1.0 - cosine * square / (2.0 * i * (2.0 * i - 1.0))
    sine *= angle
    place = int(quarter) % 4
    if place == 1:
        sine, cosine = cosine, -sine
    elif place == 2:
        sine, cosine = -sine, -cosine
    elif place == 3:
        sine, cosine = -cosine, sine
    return np.float32(sine), np.float32(cosine)


@_compiled
def _scaled(value: Any, mean: Any, scale: Any, clip: Any) -> Any:
    """Scale one figure as :class:`~quantattn.encoders.NumericScaler` does; NaN stands for none."""
    if value != value or scale <= 0.0:
        return np.float32(0.0)
    return np.float32(min(max((value - mean) / scale, -clip), clip))


@_entry
def elapsed_rows(days: Any, out: Any) -> None:
    """Encode elapsed days ``(n,)`` into `out`, ``(n,)``."""
    for i in range(days.shape[0]):
        out[i] = _elapsed(days[i])


@_entry
def elapsed_since(times: Any, before: Any, out: Any) -> None:
    """Encode the time from `before` ``(n,)`` to `times` ``(n,)``, nanoseconds, into `out`, ``(n,)``."""
    for i in range(times.shape[0]):
        out[i] = _elapsed(_days(times[i], before[i]))


@_entry
def season_rows(times: Any, out: Any) -> None:
    """Encode the season at instants ``(n,)`` into `out`, ``(n, 2)``."""
    for i in range(times.shape[0]):
        out[i, 0], out[i, 1] = _season(times[i])


@_entry
def event_row(
    text: Any, values: Any, scales: Any, clip: Any, kind: Any, at: Any, before: Any, token: Any
) -> None:
    """Write one event token: text, scaled features, one-hot kind, elapsed time.

    Parameters
    ----------
    text : ndarray of float32, shape (t,)
        Hashed text.
    values : ndarray of float64, shape (k,)
        Features; NaN where the event has none.
    scales : ndarray of float64, shape (2, k)
        Mean and standard deviation.
    clip : float
        The largest scaled value.
    kind : int
        Column of the event's kind in the token, or -1.
    at, before : int
        When this event and the one before it became available, nanoseconds.
    token : ndarray of float32, shape (w,)
        Written.
    """
    wide, many = text.shape[0], values.shape[0]
    for i in range(wide):
        token[i] = text[i]
    for i in range(many):
        token[wide + i] = _scaled(values[i], scales[0, i], scales[1, i], clip)
    last = token.shape[0] - 1
    for i in range(wide + many, last):
        token[i] = 0.0
    if kind >= 0:
        token[kind] = 1.0
    token[last] = _elapsed(_days(at, before))


@_entry
def event_row_for_each(token: Any, at: Any, before: Any, tokens: Any) -> None:
    """Copy an event token for n entities, each with the time since its own event before, ``(n,)``."""
    last = token.shape[0] - 1
    for row in range(tokens.shape[0]):
        for i in range(last):
            tokens[row, i] = token[i]
        tokens[row, last] = _elapsed(_days(at, before[row]))


@_entry
def query_rows(values: Any, scales: Any, clip: Any, at: Any, before: Any, tokens: Any) -> None:
    """Write query tokens: scaled as-of features, elapsed time, season.

    Parameters
    ----------
    values : ndarray of float64, shape (n, k)
        As-of features; NaN where there is none.
    scales, clip
        As in :func:`event_row`.
    at : int
        The forecast time, nanoseconds.
    before : ndarray of int64, shape (n,)
        When the last visible event became available; the forecast time where there is none.
    tokens : ndarray of float32, shape (n, k + 3)
        Written.
    """
    many = values.shape[1]
    sine, cosine = _season(at)
    for row in range(values.shape[0]):
        for i in range(many):
            tokens[row, i] = _scaled(values[row, i], scales[0, i], scales[1, i], clip)
        tokens[row, many] = _elapsed(_days(at, before[row]))
        tokens[row, many + 1] = sine
        tokens[row, many + 2] = cosine
