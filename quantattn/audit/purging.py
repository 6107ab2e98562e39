"""Did any training or validation label end after the model could know it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit.timestamps import iso, nanoseconds_of
from quantattn.walkforward import Fold

NAME = "purging"
TITLE = "Was every label known before the model that learned from it was fitted?"


def _fold_faults(fold: Fold, label_known: Any, forecast_times: Any) -> list[str]:
    faults = []
    sides = {"train": fold.train, "validation": fold.validation, "test": fold.test}
    for side, cutoff in (("train", fold.validation_time), ("validation", fold.fit_time)):
        late = label_known[sides[side]] > cutoff
        if late.any():
            faults.append(f"fold {fold.index}: {int(late.sum())} {side} labels known after {iso(cutoff)}")
    early = forecast_times[fold.test] <= fold.fit_time
    if early.any():
        faults.append(f"fold {fold.index}: {int(early.sum())} test forecasts not after the fit")
    times = {side: set(forecast_times[rows].tolist()) for side, rows in sides.items()}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = times[one] & times[other]
        if shared:
            faults.append(f"fold {fold.index}: {len(shared)} forecast times are in {one} and {other}")
    return faults


def check_purging(samples: pl.DataFrame, folds: Sequence[Fold]) -> CheckResult:
    """Recompute, from the samples alone, that every fold's sides keep their cutoffs.

    Parameters
    ----------
    samples : polars.DataFrame
        The dataset's samples.
    folds : sequence of Fold
        The folds that were run.

    Returns
    -------
    CheckResult
        NOT EXERCISED where no label reaches past a later cutoff, so that purging had nothing to do.
    """
    if not folds:
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "There are no folds.")
    known, times = nanoseconds_of(samples["label_available_at"]), nanoseconds_of(samples["forecast_time"])
    faults = [fault for fold in folds for fault in _fold_faults(fold, known, times)]
    purged = sum(fold.purged.height for fold in folds)
    evidence: dict[str, Any] = {
        "purged rows": purged,
        "closest training label before its cutoff (h)": min(
            (fold.validation_time - int(known[fold.train].max())) / 3.6e12
            for fold in folds
            if len(fold.train)
        ),
        "faults": faults,
    }
    coverage = {"folds": 1.0}
    if faults:
        return CheckResult(
            NAME, TITLE, "FAIL", f"{len(faults)} faults, first: {faults[0]}.", coverage, evidence
        )
    if purged == 0:
        return CheckResult(
            NAME,
            TITLE,
            "NOT EXERCISED",
            "No label overlapped a cutoff, so nothing had to be purged.",
            coverage,
            evidence,
        )
    return CheckResult(
        NAME,
        TITLE,
        "PASS",
        f"In {len(folds)} folds every label was known by its cutoff; {purged} rows that were not are left out.",
        coverage,
        evidence,
    )
