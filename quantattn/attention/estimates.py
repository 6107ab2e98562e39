"""Figures with their uncertainty, for the reports of this package."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from torch import Tensor

from quantattn.errors import ShapeError

MOST_CONFIDENT = 0.999999
"""Level beyond which the quantiles of a few seeds say nothing, and end in rounding."""


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval over seeds; the interval is None where nothing is random."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return value, low and high."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def columns(self, name: str) -> dict[str, float | None]:
        """Return value and interval as flat columns: ``name``, ``name_low`` and ``name_high``."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def __str__(self) -> str:
        """Return the value, with its interval where there is one."""
        if self.low is None or self.high is None:
            return f"{self.value:.3g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def check_confidence(confidence: float) -> float:
    """Return the level, above zero and at most :data:`MOST_CONFIDENT`.

    Raises
    ------
    ShapeError
        For anything else.
    """
    number = isinstance(confidence, numbers.Real) and not isinstance(confidence, bool)
    if not number or not 0 < confidence <= MOST_CONFIDENT:
        raise ShapeError(
            f"confidence: expected a number between 0 and 1, at most {MOST_CONFIDENT}, got {confidence!r}; "
            "try 0.95."
        )
    return float(confidence)


def check_whole(number: Any, name: str, least: int) -> int:
    """Return a whole number of at least so much.

    Raises
    ------
    ShapeError
        For anything else.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ShapeError(f"{name}: expected a whole number from {least} up, got {number!r}.")
    return number


def check_wholes(several: Any, name: str) -> tuple[int, ...]:
    """Return several positive whole numbers, at least one.

    Raises
    ------
    ShapeError
        For anything else.
    """
    given = tuple(several) if isinstance(several, Iterable) and not isinstance(several, str | bytes) else ()
    if not given or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in given):
        raise ShapeError(f"{name}: expected positive whole numbers, such as (16, 64), got {several!r}.")
    return given


def t_quantile(confidence: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's t, by its expansion in ``1 / freedom`` (Fisher, 1925).

    Exact for one and two degrees of freedom; at the 95% level good to 0.8% from three and to 0.2% from six.
    """
    if freedom == 1:
        return math.tan(math.pi * confidence / 2)
    if freedom == 2:
        return confidence * math.sqrt(2 / (1 - confidence**2))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def mean_estimate(values: Sequence[float], confidence: float, *, highest: float = math.inf) -> Estimate:
    """Return the mean of one figure for each seed, with the interval of Student's t.

    The figure lies between zero and `highest`, and so does the interval.
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    reach = t_quantile(confidence, count - 1) * spread
    return Estimate(mean, max(mean - reach, 0.0), min(mean + reach, highest))


def proportion_estimate(shares: Sequence[float], trials: int, confidence: float) -> Estimate:
    """Return the mean of one share for each seed, each out of `trials`, with Wilson's interval.

    Trials of one seed may be alike, so the interval is that of an effective number of trials: as many as
    would spread as the seeds do, and never more than there are (Korn & Graubard, 1998), with the quantile of
    Student's t. Unlike the mean's, it does not shrink to a point where all seeds agree: eight histories of
    one pair, all recalled, give ``[0.59, 1]``.

    Parameters
    ----------
    shares : sequence of floats
        One for each seed, from 0 to 1; at least two.
    trials : int
        Trials of each seed.
    confidence : float
        Level of the interval.
    """
    count = len(shares)
    mean = math.fsum(shares) / count
    spread = math.fsum((share - mean) ** 2 for share in shares) / (count - 1) / count
    number = float(count * trials)
    if spread > 0:
        number = min(number, mean * (1 - mean) / spread)
    t = t_quantile(confidence, count - 1)
    centre = (mean + t**2 / (2 * number)) / (1 + t**2 / number)
    reach = t * math.sqrt(mean * (1 - mean) / number + (t / (2 * number)) ** 2) / (1 + t**2 / number)
    return Estimate(mean, min(max(centre - reach, 0.0), mean), max(min(centre + reach, 1.0), mean))


def bias_estimate(gram: Tensor, confidence: float) -> Estimate:
    r"""Return the size of the mean error, from the inner products of every two seeds' errors.

    The squared size is estimated without the seeds' own variance, which would pass for bias: the mean of
    :math:`\langle e_s, e_{s'} \rangle` over pairs of different seeds is unbiased for :math:`|E e|^2`. Its
    interval is the jackknife's over seeds.

    Parameters
    ----------
    gram : Tensor
        ``(S, S)`` float64: inner products of errors, in units of the squared size of the truth.
    confidence : float
        Level of the interval.
    """
    count = gram.shape[0]
    if count == 1:
        return Estimate(math.sqrt(float(gram)))
    total, own = gram.sum(), gram.diagonal()
    squared = float((total - own.sum()) / (count * (count - 1)))
    if count == 2:
        return Estimate(math.sqrt(max(squared, 0.0)))
    without = (total - 2 * gram.sum(-1) + own - (own.sum() - own)) / ((count - 1) * (count - 2))
    spread = float(((without - without.mean()).square().sum() * (count - 1) / count).sqrt())
    reach = t_quantile(confidence, count - 1) * spread
    low, value, high = (math.sqrt(max(x, 0.0)) for x in (squared - reach, squared, squared + reach))
    return Estimate(value, low, high)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[object] = ()) -> str:
    """Return rows of text in aligned columns, with a blank line wherever the group of a row is another."""
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]
    for place in range(len(groups) - 1, 0, -1):
        if groups[place] != groups[place - 1]:
            lines.insert(place + 1, "")
    return "\n".join(lines)
