"""Did any forecast see something that was not available strictly before it?"""

from __future__ import annotations

from typing import Any

import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit.timestamps import is_visible

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
        at or before it, the model was fitted at or after it, or ``n_visible`` and ``max_available_at``
        contradict each other.
    """
    if forecasts.is_empty():
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "There are no forecasts.")
    empty = pl.col("max_available_at").is_null()
    faults = {
        "an event available at or after the forecast": ~is_visible(
            pl.col("max_available_at"), pl.col("forecast_time")
        ).fill_null(True),
        "a label that starts at or before the forecast": pl.col("label_start_time")
        <= pl.col("forecast_time"),
        "a label known before it ends": pl.col("label_available_at") < pl.col("label_end_time"),
        "a model fitted at or after the forecast": pl.col("fit_time") >= pl.col("forecast_time"),
        "a count that contradicts the newest event": empty != (pl.col("n_visible") == 0),
    }
    counts = forecasts.select(rule.sum().alias(name) for name, rule in faults.items()).row(0, named=True)
    found = {name: n for name, n in counts.items() if n}
    seen = forecasts.filter(~empty)
    margin = seen.select(m=(pl.col("forecast_time") - pl.col("max_available_at")).min())["m"][0]
    evidence: dict[str, Any] = {
        "rows": forecasts.height,
        "rows that saw nothing": forecasts.height - seen.height,
        "least time from the newest event to the forecast (s)": None
        if margin is None
        else margin.total_seconds(),
    }
    if found:
        what, n = max(found.items(), key=lambda item: item[1])
        first = forecasts.filter(faults[what]).head(3).select("model", "entity", "forecast_time")
        evidence["first offending rows"] = [f"{m} {e} {t.isoformat()}" for m, e, t in first.iter_rows()]
        evidence["faults"] = found
        return CheckResult(
            NAME,
            TITLE,
            "FAIL",
            f"{n} of {forecasts.height} rows have {what}.",
            {"forecast rows": 1.0},
            evidence,
        )
    smallest = "no row saw an event" if margin is None else f"the closest was {margin} before"
    return CheckResult(
        NAME,
        TITLE,
        "PASS",
        f"On all {forecasts.height} rows the newest event was available strictly before the forecast; {smallest}.",
        {"forecast rows": 1.0},
        evidence,
    )
