"""How long updates and reads took while the test forecasts were made: whole live calls.

An update is one raw event through the streaming forecaster: its place, its text and figures encoded, the
as-of values kept, and the network stepped for every entity that reads it. A read is one forecast: as-of
values, query token, network, and the answer in units of the target. What the network takes of both, by the
length of the history, :mod:`~quantattn.evaluation.latency_curve` measures.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EvaluationError

PERCENTILES: Final = (50, 95, 99)
"""The percentiles of every latency."""


def percentiles(microseconds: npt.ArrayLike) -> dict[str, float] | None:
    """Give p50, p95 and p99 of measured times.

    Parameters
    ----------
    microseconds : array_like of float, shape (n,)
        Measured times; NaN is left out.

    Returns
    -------
    dict of str to float, or None
        Keys ``p50``, ``p95``, ``p99``, interpolated linearly; None if nothing was measured.
    """
    values = np.asarray(microseconds, dtype=np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return None
    found = np.percentile(values, PERCENTILES)
    return {f"p{percent}": float(value) for percent, value in zip(PERCENTILES, found, strict=True)}


def latency_summary(forecasts: pl.DataFrame) -> list[dict[str, Any]]:
    """Summarise the timings in a forecasts table: the backtest part of ``latency.json``.

    Parameters
    ----------
    forecasts : polars.DataFrame
        A forecasts table, or any frame with the columns `model`, `update_us` and `read_us` (microseconds):
        of each forecast the mean update of the events since the entity's forecast before, and the read. The
        percentiles of updates are of these means: the slowest single calls lie above them.

    Returns
    -------
    list of dict
        One per model that streams, in order of appearance: `model`, `n` (timed forecasts), `update_us` and
        `read_us`, each with ``p50``, ``p95`` and ``p99`` or None where that was not timed.

    Raises
    ------
    EvaluationError
        If a column is missing or a time is negative.
    """
    missing = [name for name in ("model", "update_us", "read_us") if name not in forecasts.columns]
    if missing:
        raise EvaluationError(f"forecasts lacks the columns {missing}; give the whole forecasts table")
    for name in ("update_us", "read_us"):
        rows = (forecasts[name] < 0.0).fill_null(False).arg_true()
        if len(rows):
            raise EvaluationError(
                f"column {name!r} is negative in rows {rows.head(3).to_list()}; time with a monotonic clock"
            )
    summary = []
    for model in forecasts["model"].unique(maintain_order=True).to_list():
        timed = forecasts.filter(pl.col("model") == model).select("update_us", "read_us")
        update, read = (percentiles(timed[name].drop_nulls().to_numpy()) for name in timed.columns)
        if update is None and read is None:
            continue
        n = timed.filter(~pl.all_horizontal(pl.all().is_null())).height
        summary.append({"model": model, "n": n, "update_us": update, "read_us": read})
    return summary
