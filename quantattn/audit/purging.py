"""The purging check: did any training or validation label end after the model could know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.pit.timestamps import Nanoseconds, iso, nanoseconds_of
from quantattn.walkforward import Fold

NAME = "purging"
TITLE = "Was every label known before the model that learned from it was fitted?"


def _fold_faults(fold: Fold, known: Nanoseconds, times: Nanoseconds) -> list[str]:
    faults = []
    sides = {"train": fold.train, "validation": fold.validation, "test": fold.test}
    for side, cutoff in (("train", fold.validation_time), ("validation", fold.fit_time)):
        late = known[sides[side]] > cutoff
        if late.any():
            faults.append(f"fold {fold.index}: {int(late.sum())} {side} labels known after {iso(cutoff)}")
    # A cutoff proves nothing unless it lies before what it separates.
    for side, cutoff, what in (
        ("validation", fold.validation_time, "the training cutoff"),
        ("test", fold.fit_time, "the fit"),
    ):
        early = times[sides[side]] <= cutoff
        if early.any():
            faults.append(f"fold {fold.index}: {int(early.sum())} {side} forecasts not after {what}")
    moments = {side: set(times[rows].tolist()) for side, rows in sides.items()}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = moments[one] & moments[other]
        if shared:
            faults.append(f"fold {fold.index}: {len(shared)} forecast times are in {one} and {other}")
    return faults


def _overlapping(fold: Fold, known: Nanoseconds, times: Nanoseconds) -> int:
    """Count the samples before the fold's cutoffs whose labels reach past them."""
    cutoffs = {fold.validation_time, fold.fit_time}
    return sum(int(((times <= cutoff) & (known > cutoff)).sum()) for cutoff in cutoffs)


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
    overlapping = sum(_overlapping(fold, known, times) for fold in folds)
    slack = [
        (fold.validation_time - int(known[fold.train].max())) / 3.6e12 for fold in folds if len(fold.train)
    ]
    evidence: dict[str, Any] = {
        "labels that reach past a cutoff": overlapping,
        "purged rows": sum(fold.purged.height for fold in folds),
        "closest training label before its cutoff (h)": min(slack, default=None),
        "faults": faults,
    }
    coverage = {"folds": 1.0}
    if faults:
        summary = f"{len(faults)} faults, first: {faults[0]}."
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    if not overlapping:
        summary = "No label overlapped a cutoff, so nothing had to be purged."
        return CheckResult(NAME, TITLE, "NOT EXERCISED", summary, coverage, evidence)
    summary = (
        f"In {len(folds)} folds every label was known by its cutoff; {overlapping} labels that reach past "
        "one are left out."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)
