"""The encoder check: was anything that an encoder learned from available only after its fold's cutoff."""

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
    newest: dict[int, int] = {}
    for (index, model, seed), forecaster in sorted(forecasters.items()):
        who = f"fold {index} {model} seed {seed}"
        fold = by_index.get(index)
        if fold is None:
            faults.append(f"{who}: there is no such fold")
            continue
        encoders = forecaster.encoders
        for part, seen in (
            ("event encoder", encoders.events.card_.training_cutoff),
            ("query scaler", encoders.queries.training_cutoff_),
        ):
            newest[index] = max(seen, newest.get(index, seen))
            if seen > fold.validation_time:
                faults.append(f"{who}: the {part} was fitted on {iso(seen)}")
        if forecaster.fit_time != fold.fit_time:
            faults.append(f"{who}: stored fit_time {iso(forecaster.fit_time)}")
    evidence: dict[str, Any] = {
        "newest event fitted on": {f"fold {index}": iso(seen) for index, seen in sorted(newest.items())},
        "validation begins after": {f"fold {fold.index}": iso(fold.validation_time) for fold in folds},
        "faults": faults,
    }
    coverage = {"folds": len(newest) / max(len(folds), 1)}
    if faults:
        summary = f"{len(faults)} faults, first: {faults[0]}."
        return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
    summary = (
        f"In all {len(newest)} folds the newest event that an encoder learned from was visible before "
        "validation began."
    )
    return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)
