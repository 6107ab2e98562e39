"""Health of a stream while it runs: what is measured, where the limits are, and what a breach does.

Three figures can have a limit. The *least denominator* is the smallest sum of similarities that any write or
read of an entity has divided by so far: near zero, a ratio is rounding. The *state norm* is the size of an
entity's memory now. The *drift* is the largest difference between the numbers of the head in float32 and in
the float64 :class:`~quantattn.forecasters.streaming.health.shadow.Shadow`, in units of the scaled targets.
Limits are checked at every forecast, so none goes out from beyond them unmarked; writes are not slowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import polars as pl

from quantattn.errors import UsageError

OnBreach = Literal["raise", "flag"]
LIMITS = ("least_denominator", "largest_state_norm", "largest_drift")
"""Names of the limits."""


@dataclass(frozen=True)
class HealthPolicy:
    """Limits of a stream's health; none by default.

    Parameters
    ----------
    least_denominator : float, optional
        A smaller denominator in any write or read of an entity is a breach, from then on.
    largest_state_norm : float, optional
        A larger root of the sum of squares of an entity's memory is a breach.
    largest_drift : float, optional
        A larger difference from the float64 shadow, in units of the scaled targets, is a breach. Only the
        entities of `shadow` have one.
    on_breach : {"raise", "flag"}, default "raise"
        Whether a forecast beyond a limit is an error, or given with a flag that says so.
    shadow : tuple of str, default ``()``
        Entities whose float64 twin runs along, at some hundred microseconds an event.

    Raises
    ------
    UsageError
        If a limit is not a positive, finite number, `on_breach` is unknown, names are no tuple of distinct
        texts, or a drift is limited that nothing measures.
    """

    least_denominator: float | None = None
    largest_state_norm: float | None = None
    largest_drift: float | None = None
    on_breach: OnBreach = "raise"
    shadow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the limits and the names."""
        for name in LIMITS:
            limit = getattr(self, name)
            if limit is not None and not _is_limit(limit):
                raise UsageError(f"{name}={limit!r} must be a positive, finite number, or None for no limit")
        if self.on_breach not in get_args(OnBreach):
            raise UsageError(f"on_breach={self.on_breach!r} is not known; use 'raise' or 'flag'")
        names = self.shadow
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
            raise UsageError(f"shadow={names!r}; give a tuple of entities, such as ('AAPL',)")
        odd = [name for name in names if not _is_name(name)]
        if odd:
            raise UsageError(
                f"shadow names {odd[0]!r}, which no entity can be called: it holds NUL or half of a "
                "surrogate pair; give the names that the events have"
            )
        if len(set(names)) < len(names):
            raise UsageError(f"shadow={names!r} holds an entity twice; give each once")
        if self.largest_drift is not None and not names:
            raise UsageError(
                f"largest_drift={self.largest_drift} without a shadow to measure it by; name the entities to "
                "watch, such as shadow=('AAPL',)"
            )


def _is_limit(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _is_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


@dataclass(frozen=True)
class EntityHealth:
    """The health of one entity's memory.

    Parameters
    ----------
    entity : str
        The entity.
    events : int
        Events written.
    least_denominator : float
        Smallest denominator that a write or a read met; infinity before any.
    state_norm : float
        Root of the sum of squares of its memory.
    non_finite : int
        Numbers of its memory that are not finite.
    drift : float
        Largest difference of a forecast from the float64 shadow so far, in units of the scaled targets; NaN
        where there is no shadow, or none was read.
    breaches : tuple of str
        What is beyond a limit of the policy, or not finite.
    """

    entity: str
    events: int
    least_denominator: float
    state_norm: float
    non_finite: int
    drift: float
    breaches: tuple[str, ...]


@dataclass(frozen=True)
class HealthReport:
    """The health of a stream.

    Parameters
    ----------
    rows : tuple of EntityHealth
        By entity.
    policy : HealthPolicy
        The limits.
    as_of : int or None
        The latest event written, in nanoseconds since the epoch, UTC; None before any.
    """

    rows: tuple[EntityHealth, ...]
    policy: HealthPolicy
    as_of: int | None

    @property
    def healthy(self) -> bool:
        """Whether nothing is beyond a limit and everything finite."""
        return not any(row.breaches for row in self.rows)

    @property
    def breaches(self) -> dict[str, tuple[str, ...]]:
        """What is wrong, by the entities of which something is."""
        return {row.entity: row.breaches for row in self.rows if row.breaches}

    def frame(self) -> pl.DataFrame:
        """Give the rows as a frame; breaches are one text, empty where there are none."""
        names = [field.name for field in fields(EntityHealth)]
        kinds = [pl.String, pl.Int64, pl.Float64, pl.Float64, pl.Int64, pl.Float64, pl.String]
        columns = {name: [getattr(row, name) for row in self.rows] for name in names}
        columns["breaches"] = ["; ".join(row.breaches) for row in self.rows]
        return pl.DataFrame(columns, schema=dict(zip(names, kinds, strict=True)))


def beyond(
    policy: HealthPolicy, least: float | None, norm: float | None, drift: float | None
) -> dict[str, str]:
    """Say which limits the figures are beyond, by the name of the limit.

    Parameters
    ----------
    policy : HealthPolicy
        The limits.
    least, norm, drift : float or None
        Least denominator, state norm and drift; None where not measured, which is beyond nothing. A figure
        that is not a number is beyond any limit, and one that equals it is within.

    Returns
    -------
    dict of str to str
        Empty where all is well.
    """
    said = {}
    limit = policy.least_denominator
    if limit is not None and least is not None and not least >= limit:
        said["least_denominator"] = f"the least denominator {least:.6g} is below least_denominator={limit:g}"
    limit = policy.largest_state_norm
    if limit is not None and norm is not None and not norm <= limit:
        said["largest_state_norm"] = f"the state norm {norm:.6g} is above largest_state_norm={limit:g}"
    limit = policy.largest_drift
    if limit is not None and drift is not None and not drift <= limit:
        said["largest_drift"] = f"the drift {drift:.6g} from float64 is above largest_drift={limit:g}"
    return said
