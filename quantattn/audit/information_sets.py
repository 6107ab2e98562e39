"""The information-set check: did all models see the same, and is it what the events say."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit import PointInTimeDataset, information_hash
from quantattn.pit.timestamps import instants, is_visible, iso, nanoseconds_of

NAME = "information_sets"
TITLE = "Did every model forecast from the same events, and from exactly those that were visible?"
KEY = ("entity", "forecast_time", "horizon")
STATED = ("n_visible", "max_available_at", "info_hash")
"""What a row of the forecasts table says of its information set."""


def _recount(dataset: PointInTimeDataset, entity: str, moment: int) -> tuple[int, int | None, str]:
    """Name a forecast's information set again by filtering the events, without the dataset's counts."""
    events = dataset.events.frame
    own = (pl.col("entity") == entity).fill_null(False)
    market = pl.col("entity").is_null()
    in_scope = {"entity+market": own | market, "entity": own, "market": market}[dataset.scope]
    at = pl.lit(instants([moment])).first()
    visible = events.filter(in_scope & is_visible(pl.col("available_at"), at))
    newest = None if visible.is_empty() else int(nanoseconds_of(visible["available_at"]).max())
    return visible.height, newest, information_hash(visible, dataset.events.features)


def _differing(forecasts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give one row for each forecast, and those of them on which the models disagree."""
    sets = forecasts.group_by(KEY, maintain_order=True).agg(
        pl.struct(STATED).n_unique().alias("sets"),
        pl.struct("model", "seed").n_unique().alias("runs"),
        pl.col(STATED).first(),
    )
    runs = forecasts.select(pl.struct("model", "seed").n_unique()).item()
    return sets, sets.filter((pl.col("sets") > 1) | (pl.col("runs") != runs))


def _strange(forecasts: pl.DataFrame, dataset: PointInTimeDataset) -> pl.DataFrame:
    """Give the forecasts that state another information set than the dataset does, or that it lacks."""
    true = dataset.samples.select(*KEY, pl.struct(STATED).alias("true"), pl.lit(True).alias("known"))
    stated = forecasts.select(*KEY, pl.struct(STATED).alias("stated"))
    joined = stated.join(true, on=KEY, how="left", maintain_order="left")
    wrong = joined["known"].is_null() | joined["stated"].ne_missing(joined["true"])
    return joined.filter(wrong).unique(KEY, maintain_order=True)


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
        FAIL if models differ on any forecast, if any row states another information set than the dataset
        does, or if one named again from the events differs. NOT EXERCISED with a single model.
    """
    if forecasts.is_empty():
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "There are no forecasts.")
    sets, differing = _differing(forecasts)
    strange = _strange(forecasts, dataset)
    chosen = sets[np.unique(np.linspace(0, sets.height - 1, min(recounted, sets.height)).astype(int))]
    wrong = [_name(chosen, row) for row in range(chosen.height) if not _agrees(chosen, row, dataset)]
    runs = forecasts.select(pl.struct("model", "seed").n_unique()).item()
    models = forecasts["model"].n_unique()
    coverage = {"forecasts compared": 1.0, "information sets recomputed": chosen.height / sets.height}
    evidence: dict[str, Any] = {
        "models": models,
        "models and seeds": runs,
        "forecasts": sets.height,
        "distinct information sets": sets["info_hash"].n_unique(),
        "recomputed from the events": chosen.height,
        "differing": [_name(differing, row) for row in range(min(3, differing.height))],
        "other than the dataset's": [_name(strange, row) for row in range(min(3, strange.height))],
        "recomputed otherwise": wrong[:3],
    }
    if differing.height or strange.height or wrong:
        summary = (
            f"{differing.height} of {sets.height} forecasts were made from different events by different "
            f"models, {strange.height} state another information set than the dataset's, and {len(wrong)} of "
            f"{chosen.height} recomputed from the events differ."
        )
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    if models == 1:
        summary = "There is only one model, so nothing to compare."
        return CheckResult(NAME, TITLE, "NOT EXERCISED", summary, coverage, evidence)
    summary = (
        f"All {models} models saw the same events on each of {sets.height} forecasts; {chosen.height} "
        "information sets recomputed from the events agree."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)


def _agrees(rows: pl.DataFrame, row: int, dataset: PointInTimeDataset) -> bool:
    newest = rows["max_available_at"].to_physical()[row]
    stated = (rows["n_visible"][row], newest, rows["info_hash"][row])
    return _recount(dataset, rows["entity"][row], int(rows["forecast_time"].to_physical()[row])) == stated


def _name(rows: pl.DataFrame, row: int) -> str:
    return f"{rows['entity'][row]} {iso(rows['forecast_time'].to_physical()[row])}"
