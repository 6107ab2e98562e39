"""The stages that judge forecasts: metrics and comparisons, latency, and the audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from quantattn.audit import (
    CheckResult,
    TruncationInputs,
    audit_table,
    check_encoder_cutoffs,
    check_gradient,
    check_information_sets,
    check_purging,
    check_streaming,
    check_truncation,
    check_visibility,
)
from quantattn.errors import InformationSetError
from quantattn.evaluation import check_information_sets as refuse_different_information
from quantattn.evaluation import comparisons_table, latency_summary, metrics_table
from quantattn.evaluation.latency_curve import crossover_history, latency_curve
from quantattn.files import write_json
from quantattn.forecasters import FittedForecaster
from quantattn.pit import PointInTimeDataset
from quantattn.study import provenance
from quantattn.study.forecasting import network_units, windowed_models
from quantattn.study.history import rebuild_dataset, target_description
from quantattn.study.keeping import kept, result_inputs
from quantattn.study.preparing import Prepared
from quantattn.study.progress import Progress
from quantattn.walkforward import Fold
from quantattn.walkforward.ensembles import ENSEMBLE
from quantattn.walkforward.fitting import fit_unit
from quantattn.walkforward.networks import FoldTokens, fold_tokens
from quantattn.walkforward.settings import NETWORKS
from quantattn.walkforward.threads import limited_threads
from quantattn.walkforward.units import Unit, read_log

Forecasters = dict[tuple[int, str, int], FittedForecaster]


def comparable(prepared: Prepared, forecasts: pl.DataFrame) -> pl.DataFrame:
    """Give the forecasts of the models that see all that is visible, which alone may be compared."""
    windowed = list(windowed_models(prepared))
    return forecasts.filter(~pl.col("model").is_in(windowed)) if windowed else forecasts


def evaluate(
    prepared: Prepared, forecasts: pl.DataFrame, out: Path, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write and give metrics and comparisons.

    Raises
    ------
    InformationSetError
        If models that should have seen the same events did not; the audit says so too.
    """
    study = prepared.study
    compared = comparable(prepared, forecasts)
    with progress.stage("evaluate"):
        try:
            refuse_different_information(compared)
        except InformationSetError:
            # The audit reports the rows; nothing may be compared.
            write_json(out / "audit.json", audit_table([check_information_sets(compared, prepared.dataset)]))
            raise
        metrics = _metrics(prepared, compared)
        apart = [
            _metrics(prepared, rows)["models"][0] | {"window": window}
            for name, window in windowed_models(prepared).items()
            if (rows := forecasts.filter(pl.col("model") == name)).height
        ]
        reference = "linear" if "linear" in study.models else compared["model"][0]
        comparisons = comparisons_table(
            compared,
            reference=reference,
            alpha=study.evaluation.alpha,
            margin=study.evaluation.margin,
            seed=study.seeds[0],
        )
        # Beside the others and not among them: these models saw less.
        write_json(out / "metrics.json", metrics | ({"apart": apart} if apart else {}))
        write_json(out / "comparisons.json", comparisons)
    return metrics, comparisons


def _metrics(prepared: Prepared, forecasts: pl.DataFrame) -> dict[str, Any]:
    study = prepared.study
    return metrics_table(
        forecasts,
        target=study.target.name,
        kind=prepared.table.kind,
        description=target_description(study),
        confidence=study.evaluation.confidence,
        seed=study.seeds[0],
        log=study.target.log is not False,
    )


def _training_records(prepared: Prepared, out: Path) -> list[dict[str, Any]]:
    records = []
    for unit in network_units(prepared):
        log = read_log(unit, out)
        if "trained_in_fold" in log:
            continue
        records.append(
            {
                "model": unit.model,
                "fold": unit.fold,
                "seed": unit.seed,
                "seconds": log["seconds"],
                "epochs": len(log["epochs"]),
                "tokens": log["tokens"],
                "tokens_per_second": log["tokens"] / log["seconds"] if log["seconds"] > 0 else None,
            }
        )
    return records


def latency(
    prepared: Prepared,
    forecasts: pl.DataFrame,
    forecasters: Forecasters,
    out: Path,
    resume: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Measure what an update and a read take against the length of the history; empty without networks."""
    settings = prepared.study.latency
    last = prepared.folds[-1]
    seed = prepared.settings.seeds[0]
    measured = {
        model: forecasters[last.index, model, seed]
        for model in NETWORKS
        if (last.index, model, seed) in forecasters
    }
    if not measured:
        return {}
    # Lengths double as the progress total: every model is measured at every length.
    with progress.stage("latency", total=len(measured) * len(settings.histories)) as stage:

        def measure() -> dict[str, Any]:
            with limited_threads(1):
                inputs = fold_tokens(prepared.history, last, prepared.settings.text_width)
                tokens = max(inputs.side(last.test), key=lambda sequence: len(sequence.events))
                curve = latency_curve(
                    measured,
                    tokens,
                    histories=settings.histories,
                    repeats=settings.repeats,
                    on_point=stage.advance,
                )
            return {
                "machine": provenance.machine(1),
                "curve": curve,
                "backtest": latency_summary(forecasts),
                "training": _training_records(prepared, out),
                "crossover_history": crossover_history(curve),
            }

        return kept(out / "latency.json", result_inputs(out, prepared.source), resume, measure)


def audit(
    prepared: Prepared,
    forecasts: pl.DataFrame,
    forecasters: Forecasters,
    out: Path,
    resume: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Make every leakage check and give what came out."""
    study, settings = prepared.study, prepared.settings
    compared = comparable(prepared, forecasts)
    with progress.stage("audit", total=7) as stage:

        def run() -> dict[str, Any]:
            checks: list[CheckResult] = []

            def add(check: CheckResult) -> None:
                checks.append(check)
                stage.advance()

            with limited_threads(settings.threads):
                add(check_visibility(forecasts))
                add(check_purging(prepared.dataset.samples, prepared.folds))
                add(check_information_sets(compared, prepared.dataset))
                add(check_streaming(forecasts, prepared.dataset.samples, _streaming_records(prepared, out)))
                add(check_encoder_cutoffs(prepared.folds, forecasters))
                add(check_gradient(forecasters, _test_tokens(prepared)))
                add(
                    check_truncation(
                        _truncation_inputs(prepared, forecasts, forecasters),
                        instants_per_fold=study.audit.truncation_instants,
                    )
                )
            return audit_table(checks)

        found = kept(out / "audit.json", result_inputs(out, prepared.source), resume, run)
        stage.note(str(found["verdict"]))
    return found


def _streaming_records(prepared: Prepared, out: Path) -> dict[tuple[int, str, int], dict[str, Any] | None]:
    """Give what every network unit's log says of its streaming path beside the batch path."""
    return {
        (unit.fold, unit.model, unit.seed): read_log(unit, out).get("streaming")
        for unit in network_units(prepared)
    }


def _truncation_inputs(
    prepared: Prepared, forecasts: pl.DataFrame, forecasters: Forecasters
) -> TruncationInputs:
    settings = prepared.settings
    return TruncationInputs(
        # An ensemble is arithmetic on rows that are all compared themselves.
        forecasts=forecasts.filter(~pl.col("model").str.ends_with(ENSEMBLE)),
        history=prepared.history,
        table=prepared.table,
        folds=prepared.folds,
        forecasters=forecasters,
        baselines=[model for model in settings.models if model not in NETWORKS],
        rebuild=_rebuilder(prepared),
        text_width=settings.text_width,
        training=settings.training,
        threads=settings.threads,
        refit=None if settings.search is None else _refitter(prepared),
    )


def _rebuilder(prepared: Prepared) -> Callable[[int], PointInTimeDataset]:
    """Give what rebuilds the dataset from raw data that was available strictly before an instant."""

    def rebuild(moment: int) -> PointInTimeDataset:
        return rebuild_dataset(prepared.study, prepared.sources, prepared.dataset, moment)

    return rebuild


def _refitter(
    prepared: Prepared,
) -> Callable[[tuple[int, str, int], Fold, FoldTokens, np.ndarray], FittedForecaster]:
    """Give what fits a network of the first fold anew, its search included."""

    def refit(
        key: tuple[int, str, int], fold: Fold, tokens: FoldTokens, target: np.ndarray
    ) -> FittedForecaster:
        return fit_unit(Unit(*key), fold, tokens, target, prepared.settings)[0]

    return refit


def _test_tokens(prepared: Prepared) -> dict[int, Any]:
    """Encode, for each fold, the test sequences of the entities that the gradient check looks at."""
    if not network_units(prepared):
        return {}
    tokens = {}
    for fold in prepared.folds:
        inputs = fold_tokens(prepared.history, fold, prepared.settings.text_width)
        tokens[fold.index] = {sequence.entity: sequence for sequence in inputs.side(fold.test)}
    return tokens
