"""The main job: from a study to its report, stage by stage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import polars as pl

from quantattn.audit import (
    TruncationInputs,
    audit_table,
    check_encoder_cutoffs,
    check_gradient,
    check_information_sets,
    check_purging,
    check_truncation,
    check_visibility,
)
from quantattn.errors import InformationSetError, OutputDirectoryError
from quantattn.evaluation import (
    check_information_sets as refuse_different_information,
)
from quantattn.evaluation import (
    comparisons_table,
    findings,
    latency_summary,
    metrics_table,
    validate_forecasts,
)
from quantattn.evaluation.latency_curve import crossover_history, latency_curve
from quantattn.files import atomic_path, exclusive_directory, hash_file, hash_json, write_json
from quantattn.forecasters import FittedForecaster, History, NetworkConfig, TrainingConfig, read_history
from quantattn.forecasters.baselines import SampleTable
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import duration_nanoseconds
from quantattn.report import write_report
from quantattn.study import provenance
from quantattn.study.config import Study, study_hash
from quantattn.study.headline import headline
from quantattn.study.history import (
    Sources,
    bar_table,
    build_dataset,
    load_sources,
    rebuild_dataset,
    target_description,
    target_kind,
)
from quantattn.study.progress import Progress
from quantattn.walkforward import Fold, WalkForward
from quantattn.walkforward.engine import fold_tokens, limited_threads, plan_units, run_folds, unit_steps
from quantattn.walkforward.settings import NETWORKS, FoldSettings
from quantattn.walkforward.table import parquet_bytes
from quantattn.walkforward.units import RECORD, Unit, read_log

MANIFEST_SCHEMA = 1
FORECASTS = "forecasts.parquet"
MADE_FROM_FORECASTS = (
    "metrics.json",
    "comparisons.json",
    "latency.json",
    "audit.json",
    "findings.json",
    "manifest.json",
    "report.html",
)
"""What belongs to one forecasts table and to no other."""


@dataclass(frozen=True)
class RunSummary:
    """What a finished run has to say.

    Parameters
    ----------
    report : Path
        The report.
    headline : str
        The answer in one sentence.
    findings : list of str
        The three findings that matter.
    """

    report: Path
    headline: str
    findings: list[str]


@dataclass(frozen=True)
class _Prepared:
    """What the stages after the data stage share."""

    study: Study
    sources: Sources
    dataset: PointInTimeDataset
    history: History
    table: SampleTable
    folds: list[Fold]
    settings: FoldSettings
    code: str
    source: str


def fold_settings(study: Study) -> FoldSettings:
    """Give what a study runs in every fold."""
    network, training = study.network, study.training
    lives: tuple[float | None, ...] = (None,) * network.heads
    if network.half_lives is not None:
        lives = tuple(
            None if life is None else duration_nanoseconds(life, argument="half_lives") / NANOSECONDS_PER_DAY
            for life in network.half_lives
        )
    sizes: dict[str, Any] = {
        "width": network.width,
        "heads": network.heads,
        "layers": network.layers,
        "feed_forward": network.feed_forward,
        "feature_map": network.feature_map,
        "half_lives": lives,
    }
    return FoldSettings(
        study=study.name,
        models=tuple(study.models),
        seeds=tuple(study.seeds),
        networks={
            "linear": NetworkConfig(attention="linear", **sizes),
            "softmax": NetworkConfig(attention="softmax", **sizes),
        },
        training=TrainingConfig(**training.model_dump()),
        text_width=study.encoder.text_width,
        threads=provenance.available_cores(),
    )


def run_study(
    study: Study, *, out: Path, quick: bool, resume: bool, progress: Progress, command: str
) -> RunSummary:
    """Run a study from its files to its report.

    Every finished piece of work is kept as soon as it is there; a killed run, resumed, ends with the same
    forecasts, byte for byte but for the timings.

    Parameters
    ----------
    study : Study
        As it is run: for a quick run, the reduced one.
    out : Path
        The run directory, which holds ``study.yaml`` already.
    quick : bool
        Whether this is the reduced study; kept in the manifest.
    resume : bool
        Whether work found in `out` may be used again where it matches.
    progress : Progress
        Shows the stages.
    command : str
        The command line, for the manifest.

    Returns
    -------
    RunSummary
    """
    try:
        with exclusive_directory(out):
            return _run(study, out=out, quick=quick, resume=resume, progress=progress, command=command)
    except BlockingIOError as error:
        raise OutputDirectoryError(
            f"another run is at work in {str(out)!r}; wait for it to end, or name another folder with --out"
        ) from error


def _run(
    study: Study, *, out: Path, quick: bool, resume: bool, progress: Progress, command: str
) -> RunSummary:
    started = datetime.now(UTC)
    _sweep(out)
    prepared = _prepare(study, progress)
    forecasts, remarks = _forecast(prepared, out, progress)
    evaluated = _evaluate(prepared, forecasts, out, progress)
    forecasters = _stored_forecasters(prepared, out)
    latency = _latency(prepared, forecasts, forecasters, out, resume, progress)
    audit = _audit(prepared, forecasts, forecasters, out, resume, progress)
    said = findings(evaluated[0], evaluated[1], latency)
    answer = headline(evaluated[0], evaluated[1], latency, audit)
    write_json(out / "findings.json", {"headline": answer, "findings": said})
    manifest = _manifest(prepared, started=started, quick=quick, command=command, progress=progress)
    write_json(out / "manifest.json", {**manifest, "remarks": remarks})
    with progress.stage("report"):
        report = write_report(out)
    return RunSummary(report, answer, said)


def _sweep(out: Path) -> None:
    """Remove what a killed run left half-written."""
    for leftover in [*out.glob(".*.tmp"), *out.glob("folds/*/.*.tmp"), *out.glob("folds/*/*/.*.tmp")]:
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _drop_unplanned(out: Path, units: list[Unit]) -> None:
    """Remove pieces of work that this study does not have: its data once made more folds."""
    planned = {unit.folder(out) for unit in units}
    for folder in out.glob("folds/*/*"):
        # Only what a run wrote is a run's to remove.
        if folder not in planned and (folder / RECORD).is_file():
            shutil.rmtree(folder)
    for fold in out.glob("folds/*"):
        with suppress(OSError):  # it still holds something
            fold.rmdir()


def _write_forecasts(forecasts: pl.DataFrame, out: Path) -> None:
    """Write the forecasts table; results that were made from another one go first."""
    path = out / FORECASTS
    with atomic_path(path) as temporary:
        temporary.write_bytes(parquet_bytes(forecasts))
        if path.exists() and hash_file(path) != hash_file(temporary):
            for name in MADE_FROM_FORECASTS:
                (out / name).unlink(missing_ok=True)


def _prepare(study: Study, progress: Progress) -> _Prepared:
    with progress.stage("data") as stage:
        sources = load_sources(study)
        dataset = build_dataset(study, sources)
        samples = dataset.samples
        sizes = study.walk_forward
        folds = WalkForward(
            sizes.train_size,
            sizes.test_size,
            expand_train=sizes.expand_train,
            val_size=sizes.val_size,
            # A study file holds "label" or a count, which its type cannot say.
            purged_size=cast("Literal['label'] | int", sizes.purged_size),
            embargo_size=sizes.embargo_size,
            reduce_test=sizes.reduce_test,
        ).split(samples)
        history = read_history(dataset, study.encoder.text_width)
        table = SampleTable(
            samples,
            history.as_of,
            bar_table(dataset),
            target_kind(study),
            study.target.horizon,
            bool(study.target.log),
        )
        note = (
            f"{len(dataset.events):,} events, {samples.height:,} forecasts of {len(dataset.entities)} "
            f"instruments, {len(folds)} folds"
        )
        if sources.rejected:
            refused = ", ".join(f"{reason} {n:,}" for reason, n in sources.rejected.items())
            note += f"; {sum(sources.rejected.values()):,} rows of event files refused: {refused}"
        stage.note(note)
    code = provenance.code_hash()
    source = hash_json(
        {
            "data": sources.hashes,
            "study": study_hash(study),
            "code": code,
            "versions": provenance.versions(),
            "processor": provenance.processor(),
        }
    )
    return _Prepared(study, sources, dataset, history, table, list(folds), fold_settings(study), code, source)


def _forecast(prepared: _Prepared, out: Path, progress: Progress) -> tuple[pl.DataFrame, list[str]]:
    settings = prepared.settings
    units = plan_units(prepared.folds, settings)
    _drop_unplanned(out, units)
    steps = sum(unit_steps(unit, settings) for unit in units)
    with progress.stage("train and forecast", total=steps) as stage:
        outcome = run_folds(
            prepared.history,
            prepared.table,
            prepared.folds,
            settings,
            run=out,
            source=prepared.source,
            watcher=stage,
        )
        forecasts = validate_forecasts(outcome.forecasts)
        _write_forecasts(forecasts, out)
        remarks = [
            f"fold {unit.fold} {unit.model} seed {unit.seed} was done again: {why}"
            for unit, why in outcome.redone.items()
        ]
        note = f"{forecasts.height:,} forecasts"
        if outcome.reused:
            note += f", {len(outcome.reused)} pieces of work used again"
        if remarks:
            note += f", {len(remarks)} done again ({next(iter(outcome.redone.values()))})"
        stage.note(note)
    return forecasts, remarks


def _evaluate(
    prepared: _Prepared, forecasts: pl.DataFrame, out: Path, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    study = prepared.study
    with progress.stage("evaluate"):
        try:
            refuse_different_information(forecasts)
        except InformationSetError:
            # The audit reports the rows; nothing may be compared.
            write_json(out / "audit.json", audit_table([check_information_sets(forecasts, prepared.dataset)]))
            raise
        metrics = metrics_table(
            forecasts,
            target=study.target.name,
            kind=prepared.table.kind,
            description=target_description(study),
            confidence=study.evaluation.confidence,
            seed=study.seeds[0],
            log=study.target.log is not False,
        )
        reference = "linear" if "linear" in study.models else study.models[0]
        comparisons = comparisons_table(
            forecasts,
            reference=reference,
            alpha=study.evaluation.alpha,
            margin=study.evaluation.margin,
            seed=study.seeds[0],
        )
        write_json(out / "metrics.json", metrics)
        write_json(out / "comparisons.json", comparisons)
    return metrics, comparisons


def _network_units(prepared: _Prepared) -> list[Unit]:
    return [unit for unit in plan_units(prepared.folds, prepared.settings) if unit.model in NETWORKS]


def _stored_forecasters(prepared: _Prepared, out: Path) -> dict[tuple[int, str, int], FittedForecaster]:
    return {
        (unit.fold, unit.model, unit.seed): FittedForecaster.load(unit.folder(out))
        for unit in _network_units(prepared)
    }


def _inputs(prepared: _Prepared, out: Path) -> str:
    """Name everything that latencies and audit depend on: forecasts with their timings, data and code."""
    return hash_json({"forecasts": hash_file(out / FORECASTS), "source": prepared.source})


def _reusable(path: Path, inputs: str) -> dict[str, Any] | None:
    """Read a result file that was made from the same inputs; None if there is none."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(stored, dict) and stored.pop("sha256", None) == hash_json(stored)
    except (OSError, ValueError, RecursionError):
        return None
    return stored if whole and stored.get("inputs") == inputs else None


def _kept(path: Path, inputs: str, resume: bool, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Use a stored result again on resuming, or make and store it."""
    stored = _reusable(path, inputs) if resume else None
    if stored is None:
        stored = {**make(), "inputs": inputs}
        # By its hash a result that was altered or stands under another's name is known and made again.
        write_json(path, {**stored, "sha256": hash_json(stored)})
    return stored


def _training_records(prepared: _Prepared, out: Path) -> list[dict[str, Any]]:
    records = []
    for unit in _network_units(prepared):
        log = read_log(unit, out)
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


def _latency(
    prepared: _Prepared,
    forecasts: pl.DataFrame,
    forecasters: dict[tuple[int, str, int], FittedForecaster],
    out: Path,
    resume: bool,
    progress: Progress,
) -> dict[str, Any]:
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

        return _kept(out / "latency.json", _inputs(prepared, out), resume, measure)


def _rebuilder(prepared: _Prepared) -> Callable[[int], PointInTimeDataset]:
    """Give what rebuilds the dataset from raw data that was available strictly before an instant."""

    def rebuild(moment: int) -> PointInTimeDataset:
        return rebuild_dataset(prepared.study, prepared.sources, prepared.dataset, moment)

    return rebuild


def _audit(
    prepared: _Prepared,
    forecasts: pl.DataFrame,
    forecasters: dict[tuple[int, str, int], FittedForecaster],
    out: Path,
    resume: bool,
    progress: Progress,
) -> dict[str, Any]:
    study, settings = prepared.study, prepared.settings
    with progress.stage("audit", total=6) as stage:

        def run() -> dict[str, Any]:
            checks = []

            def add(check: Any) -> None:
                checks.append(check)
                stage.advance()

            with limited_threads(settings.threads):
                add(check_visibility(forecasts))
                add(check_purging(prepared.dataset.samples, prepared.folds))
                add(check_information_sets(forecasts, prepared.dataset))
                add(check_encoder_cutoffs(prepared.folds, forecasters))
                add(check_gradient(forecasters, _test_tokens(prepared)))
                add(
                    check_truncation(
                        TruncationInputs(
                            forecasts=forecasts,
                            history=prepared.history,
                            table=prepared.table,
                            folds=prepared.folds,
                            forecasters=forecasters,
                            baselines=[model for model in settings.models if model not in NETWORKS],
                            rebuild=_rebuilder(prepared),
                            text_width=settings.text_width,
                            training=settings.training,
                            threads=settings.threads,
                        ),
                        instants_per_fold=study.audit.truncation_instants,
                    )
                )
            return audit_table(checks)

        audit = _kept(out / "audit.json", _inputs(prepared, out), resume, run)
        stage.note(str(audit["verdict"]))
    return audit


def _test_tokens(prepared: _Prepared) -> dict[int, Any]:
    """Encode, for each fold, the test sequences of the entities that the gradient check looks at."""
    if not _network_units(prepared):
        return {}
    tokens = {}
    for fold in prepared.folds:
        inputs = fold_tokens(prepared.history, fold, prepared.settings.text_width)
        tokens[fold.index] = {sequence.entity: sequence for sequence in inputs.side(fold.test)}
    return tokens


def _manifest(
    prepared: _Prepared, *, started: datetime, quick: bool, command: str, progress: Progress
) -> dict[str, Any]:
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
        "threads": prepared.settings.threads,
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
        ],
    }
