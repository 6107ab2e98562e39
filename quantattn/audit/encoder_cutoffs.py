"""Was anything that an encoder learned from available only after its fold's cutoff?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quantattn.audit.result import CheckResult
from quantattn.forecasters import FittedForecaster
from quantattn.pit.timestamps import iso
from quantattn.walkforward import Fold

NAME = "encoder_cutoffs"
TITLE = "Were encoders and scalers fitted before their fold's validation began?"


def check_encoder_cutoffs(
    folds: Sequence[Fold], forecasters: Mapping[tuple[int, str, int], FittedForecaster]
) -> CheckResult:
    """Hold the newest event that each stored encoder was fitted on against its fold's cutoff.

    Parameters
    ----------
    folds : sequence of Fold
        The folds that were run.
    forecasters : mapping of (fold, model, seed) to FittedForecaster
        As stored in the run directory.

    Returns
    -------
    CheckResult
    """
    if not forecasters:
        return CheckResult(NAME, TITLE, "NOT EXERCISED", "No model of this study has fitted encoders.")
    by_index = {fold.index: fold for fold in folds}
    faults: list[str] = []
    newest: dict[str, str] = {}
    for (index, model, seed), forecaster in sorted(forecasters.items()):
        fold = by_index[index]
        cutoffs = (
            forecaster.encoders.events.card_.training_cutoff,
            forecaster.encoders.queries.training_cutoff_,
        )
        for cutoff in cutoffs:
            if cutoff is not None and cutoff > fold.validation_time:
                faults.append(f"fold {index} {model} seed {seed}: fitted on {iso(cutoff)}")
        latest = max((cutoff for cutoff in cutoffs if cutoff is not None), default=None)
        newest[f"fold {index}"] = "nothing" if latest is None else iso(latest)
        if forecaster.fit_time != fold.fit_time:
            faults.append(f"fold {index} {model} seed {seed}: stored fit_time {iso(forecaster.fit_time)}")
    evidence: dict[str, Any] = {
        "newest event fitted on": newest,
        "validation begins after": {f"fold {fold.index}": iso(fold.validation_time) for fold in folds},
        "faults": faults,
    }
    coverage = {"folds": len({index for index, _, _ in forecasters}) / max(len(folds), 1)}
    if faults:
        return CheckResult(
            NAME, TITLE, "FAIL", f"{len(faults)} faults, first: {faults[0]}.", coverage, evidence
        )
    return CheckResult(
        NAME,
        TITLE,
        "PASS",
        f"In all {len(newest)} folds the newest event that an encoder learned from was visible before validation "
        "began.",
        coverage,
        evidence,
    )
