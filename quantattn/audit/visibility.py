"""The visibility check: did any forecast see something that was not available strictly before it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit.timestamps import is_visible, iso

NAME = "visibility"
TITLE = "Was everything that a forecast read available strictly before it?"


def check_visibility(forecasts: pl.DataFrame) -> CheckResult:
    """Hold the newest event, the label and the fit of every row against its forecast time.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The forecasts table.

    Returns
    -------
    CheckResult
        FAIL if on any row ``max_available_at`` is not strictly before ``forecast_time``, the label starts
        at or before it, the model was fitted at or after it, ``n_visible`` and ``max_available_at``
        contradict each other, or one of these times is missing.
    """
    if forecasts.is_empty():
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "There are no forecasts.")
    empty = pl.col("max_available_at").is_null()
    late = ~is_visible(pl.col("max_available_at"), pl.col("forecast_time"))
    # A time that is missing proves nothing, so it counts against the row.
    faults = {
        "an event available at or after the forecast": ~empty & late.fill_null(True),
        "a label that starts at or before the forecast": ~is_visible(
            pl.col("forecast_time"), pl.col("label_start_time")
        ).fill_null(False),
        "a label known before it ends": (pl.col("label_available_at") < pl.col("label_end_time")).fill_null(
            True
        ),
        "a model fitted at or after the forecast": ~is_visible(
            pl.col("fit_time"), pl.col("forecast_time")
        ).fill_null(False),
        "a count that contradicts the newest event": (empty != (pl.col("n_visible") == 0)).fill_null(True),
    }
    counts = forecasts.select(rule.sum().alias(name) for name, rule in faults.items()).row(0, named=True)
    found = {name: n for name, n in counts.items() if n}
    seen = forecasts.filter(~empty)
    margin = seen.select(
        (pl.col("forecast_time") - pl.col("max_available_at")).min().dt.total_nanoseconds()
    ).item()
    evidence: dict[str, Any] = {
        "rows": forecasts.height,
        "rows that saw nothing": forecasts.height - seen.height,
        "least time from the newest event to the forecast (s)": None if margin is None else margin / 1e9,
    }
    coverage = {"forecast rows": 1.0}
    if found:
        what, n = max(found.items(), key=lambda item: item[1])
        evidence["first offending rows"] = _shown(forecasts.filter(faults[what]).head(3))
        evidence["faults"] = found
        summary = f"{n} of {forecasts.height} rows have {what}."
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    if margin is None:
        return CheckResult(
            NAME,
            TITLE,
            "NOT EXERCISED",
            "No forecast saw any event, so nothing was tested.",
            coverage,
            evidence,
        )
    summary = (
        f"On all {forecasts.height} rows the newest event was available strictly before the forecast; the "
        f"closest was {pd.Timedelta(margin, unit='ns')} before."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)


def _shown(rows: pl.DataFrame) -> list[str]:
    times = rows["forecast_time"].to_physical()
    return [
        f"{model} {entity} {'no time' if at is None else iso(at)}"
        for model, entity, at in zip(rows["model"], rows["entity"], times, strict=True)
    ]
