"""Stretches of a fold on the time line, and the account of where every sample went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit.timestamps import TIME, iso

Rows = npt.NDArray[np.int64]

REASONS = ("label", "embargo", "purged_size")
"""Why a row is dropped, in the order in which the rules are applied."""

_SUMMARY_SCHEMA: dict[str, pl.DataType] = {
    "side": pl.String(),
    "reason": pl.String(),
    "n_rows": pl.Int64(),
    "start": TIME,
    "end": TIME,
}


class Stretch(NamedTuple):
    """Neighbouring forecast times that have rows of one side and one reason.

    Attributes
    ----------
    side : str
        ``"train"``, ``"validation"`` or ``"test"``.
    reason : str
        ``"kept"``, or why the rows were dropped: ``"label"``, ``"embargo"`` or ``"purged_size"``.
    start, end : int
        First and last forecast time, nanoseconds since the epoch, UTC.
    n_rows : int
        How many rows.
    """

    side: str
    reason: str
    start: int
    end: int
    n_rows: int


def dropped_counts(purged: pl.DataFrame) -> dict[str, int]:
    """Count dropped rows by reason, in the order of the rules; reasons without a row are left out."""
    counts = dict(purged["reason"].value_counts().iter_rows())
    return {reason: int(counts[reason]) for reason in REASONS if counts.get(reason)}


def account(
    kept: Iterable[tuple[str, int, tuple[int, int] | None]],
    purged: pl.DataFrame,
    n_before: int,
    n_after: int,
    n_between: int = 0,
) -> pl.DataFrame:
    """Say where every sample went, one row per side and reason.

    Parameters
    ----------
    kept : iterable of (side, number of rows, first and last forecast time or None)
        The sides, in order.
    purged : polars.DataFrame
        The dropped rows.
    n_before, n_after : int
        Rows earlier and later than everything that the fold looks at.
    n_between : int, default 0
        Rows between its fit and its test.

    Returns
    -------
    polars.DataFrame
        `side`, `reason`, `n_rows`, `start`, `end`.
    """
    rows: list[tuple[str | None, str, int, int | None, int | None]] = []
    for side, n_rows, span in kept:
        rows.append((side, "kept", n_rows, *(span or (None, None))))
        for reason in REASONS:
            gone = purged.filter((pl.col("side") == side) & (pl.col("reason") == reason))["forecast_time"]
            if len(gone):
                times = gone.to_physical()
                rows.append((side, reason, len(gone), int(times.min()), int(times.max())))  # type: ignore[arg-type]
    rows += [
        (None, name, n, None, None)
        for name, n in (("before", n_before), ("between", n_between), ("after", n_after))
        if n
    ]
    numbers = {name: pl.Int64() if dtype == TIME else dtype for name, dtype in _SUMMARY_SCHEMA.items()}
    frame = pl.DataFrame(rows, schema=numbers, orient="row")
    stamps = pl.col("start", "end").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return frame.with_columns(stamps)


def described(rows: list[dict[str, int | None]]) -> pl.DataFrame:
    """Give one row per fold as a frame: counts, and instants in ``*_start``, ``*_end`` and ``*_time``."""
    frame = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.Int64()))
    stamps = [name for name in frame.columns if name.endswith(("_start", "_end", "_time"))]
    return frame.with_columns(pl.col(stamps).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def moment(nanoseconds: int) -> str:
    """Give an instant as ISO text, a midnight as its date alone."""
    return iso(nanoseconds).removesuffix("T00:00:00Z")


def side_words(side: str, n_rows: int, span: tuple[int, int] | None) -> str:
    """Say how many rows a side has and from when to when."""
    rows = f"{side} {n_rows} {'row' if n_rows == 1 else 'rows'}"
    return rows if span is None else f"{rows} ({moment(span[0])} to {moment(span[1])})"


def dropped_words(purged: pl.DataFrame) -> str:
    """Say how many rows were dropped and why."""
    counts = dropped_counts(purged)
    if not counts:
        return "dropped none"
    listed = ", ".join(f"{reason} {n}" for reason, n in counts.items())
    return f"dropped {sum(counts.values())} ({listed})"
