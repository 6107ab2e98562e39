"""Did all models see the same information, and is it the information that the events say?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit import PointInTimeDataset, information_hash
from quantattn.pit.timestamps import is_visible

NAME = "information_sets"
TITLE = "Did every model forecast from the same events, and from exactly those that were visible?"
KEY = ("entity", "forecast_time", "horizon")


def _recount(dataset: PointInTimeDataset, row: dict[str, Any]) -> tuple[int, str]:
    """Name a forecast's information set again by filtering the events, without the dataset's counts."""
    events = dataset.events.frame
    own = pl.col("entity") == row["entity"]
    market = pl.col("entity").is_null()
    in_scope = {"entity+market": own | market, "entity": own, "market": market}[dataset.scope]
    visible = events.filter(
        in_scope
        & is_visible(pl.col("available_at"), pl.lit(row["forecast_time"], dtype=events["available_at"].dtype))
    )
    return visible.height, information_hash(visible, dataset.events.features)


def check_information_sets(
    forecasts: pl.DataFrame, dataset: PointInTimeDataset, *, recounted: int = 24
) -> CheckResult:
    """Compare the information sets of all models on every row, and recompute some from the events.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The forecasts table.
    dataset : PointInTimeDataset
        The dataset that the forecasts were made on.
    recounted : int, default 24
        Forecasts, spread evenly over the table, whose information set is named again by filtering events.

    Returns
    -------
    CheckResult
    """
    if forecasts.is_empty():
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "There are no forecasts.")
    sets = forecasts.group_by(KEY, maintain_order=True).agg(
        pl.col("info_hash").n_unique().alias("hashes"),
        pl.struct("model", "seed").n_unique().alias("runs"),
        pl.col("info_hash").first(),
        pl.col("n_visible").first(),
    )
    runs = forecasts.select(pl.struct("model", "seed").n_unique()).item()
    differing = sets.filter((pl.col("hashes") > 1) | (pl.col("runs") != runs))
    chosen = sets[np.unique(np.linspace(0, sets.height - 1, min(recounted, sets.height)).astype(int))]
    wrong = [
        row
        for row in chosen.iter_rows(named=True)
        if _recount(dataset, row) != (row["n_visible"], row["info_hash"])
    ]
    coverage = {"forecasts compared": 1.0, "information sets recomputed": chosen.height / sets.height}
    evidence: dict[str, Any] = {
        "models and seeds": runs,
        "forecasts": sets.height,
        "distinct information sets": sets["info_hash"].n_unique(),
        "recomputed from the events": chosen.height,
        "differing": [
            f"{row['entity']} {row['forecast_time'].isoformat()}" for row in differing.head(3).to_dicts()
        ],
        "recomputed otherwise": [f"{row['entity']} {row['forecast_time'].isoformat()}" for row in wrong[:3]],
    }
    if differing.height or wrong:
        summary = (
            f"{differing.height} of {sets.height} forecasts were made from different events by different models, "
            f"and {len(wrong)} of {chosen.height} recomputed information sets differ."
        )
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    if runs == 1:
        return CheckResult(
            NAME,
            TITLE,
            "NOT EXERCISED",
            "There is only one model, so nothing to compare.",
            coverage,
            evidence,
        )
    return CheckResult(
        NAME,
        TITLE,
        "PASS",
        f"All {runs} models saw the same events on each of {sets.height} forecasts; {chosen.height} information sets "
        "recomputed from the events agree.",
        coverage,
        evidence,
    )
