"""The manifest of a run: from what, by what and how it was made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from quantattn.study import provenance
from quantattn.study.config import study_hash
from quantattn.study.forecasting import windowed_models
from quantattn.study.preparing import Prepared
from quantattn.study.progress import Progress

MANIFEST_SCHEMA: Final = 1


def manifest(
    prepared: Prepared,
    *,
    started: datetime,
    quick: bool,
    command: str,
    progress: Progress,
    remarks: list[str],
) -> dict[str, Any]:
    """Give the content of ``manifest.json``.

    Parameters
    ----------
    prepared : Prepared
        What was run.
    started : datetime
        When, with zone UTC.
    quick : bool
        Whether it is the reduced study.
    command : str
        The command line.
    progress : Progress
        With the timings of the stages.
    remarks : list of str
        What was done again, and what could not be tracked.

    Returns
    -------
    dict
    """
    study, dataset = prepared.study, prepared.dataset
    return {
        "schema": MANIFEST_SCHEMA,
        "quantattn": provenance.versions()["quantattn"],
        "created": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": study.seeds[0],
        "seeds": list(study.seeds),
        "study": study.name,
        "description": study.description,
        "study_hash": study_hash(study),
        "quick": quick,
        "data": prepared.sources.hashes,
        "ingested": provenance.ingested_records(prepared.sources.ingested),
        "code_hash": prepared.code,
        "versions": provenance.versions(),
        "engine": prepared.execution.engine,
        "workers": prepared.execution.workers,
        "threads": prepared.settings.threads,
        "retrain": prepared.settings.retrain.words(),
        "machine": provenance.machine(prepared.settings.threads),
        "command": command,
        "folds": provenance.fold_records(prepared.folds),
        "events": provenance.event_counts(dataset, prepared.sources.rejected),
        "samples": {"n": dataset.samples.height, "dropped": dataset.dropped_counts},
        "stages": [
            {"stage": timing.stage, "seconds": round(timing.seconds, 2)} for timing in progress.timings
        ],
        "peak_memory_gib": provenance.peak_memory_gib(),
        "caveats": [
            *provenance.caveats(list(prepared.sources.hashes), universe=dataset.universe is not None),
            *provenance.price_caveats(
                prepared.sources.prices, prepared.sources.index, list(prepared.sources.hashes)
            ),
            *provenance.ingest_caveats(prepared.sources.ingested),
            *provenance.index_caveats(prepared.sources.prices, prepared.sources.index),
            *run_caveats(prepared),
        ],
        "remarks": remarks,
    }


def run_caveats(prepared: Prepared) -> list[str]:
    """Say what a reader must know of how the models were trained and what they saw."""
    policy, found = prepared.settings.retrain, []
    if policy.policy == "warm_start":
        found.append(
            "Warm start: in every fold but the first the networks began from the weights of the fold before, "
            "so that their folds are not trainings of their own; the baselines were fitted anew."
        )
    if policy.policy == "every":
        found.append(
            f"Models were trained once for every {policy.every} folds, in the first of them; the others were "
            "forecast by that model, whose own fit_time stands in the forecasts table."
        )
    if policy.policy == "frozen":
        found.append(
            "Models were trained once, for the first fold, and forecast all folds; that fit_time stands in "
            "the forecasts table."
        )
    search = prepared.settings.search
    if search is not None:
        found.append(
            f"The networks' {' and '.join(search.searched)} were searched inside each fold, {search.trials} "
            "trials judged on its validation side: the values in the study's settings are not those used. "
            "Each fold's choice and all of its trials are in folds/N/MODEL-SEED/log.json."
        )
    for name, window in windowed_models(prepared).items():
        found.append(
            f"{name} reads the last {window} events alone: another information set, so that it stands in the "
            "forecasts table and, apart from the others, in metrics.json, and is compared with no model."
        )
    return found
