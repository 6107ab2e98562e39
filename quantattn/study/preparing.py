"""The data stage: from a study to everything that the later stages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from quantattn.files import hash_json
from quantattn.forecasters import History, NetworkConfig, TrainingConfig, read_history
from quantattn.forecasters.baselines import EventSequences, SampleTable
from quantattn.forecasters.tokens import NANOSECONDS_PER_DAY
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import duration_nanoseconds
from quantattn.study import provenance
from quantattn.study.config import Study, study_hash
from quantattn.study.execution import Execution
from quantattn.study.history import Sources, bar_table, build_dataset, load_sources, target_kind
from quantattn.study.progress import Progress
from quantattn.study.sections import EveryConfig
from quantattn.walkforward import Fold, WalkForward
from quantattn.walkforward.retraining import Policy, Retrain, retrained_folds
from quantattn.walkforward.search import SearchConfig
from quantattn.walkforward.settings import FoldSettings


@dataclass(frozen=True)
class Prepared:
    """What the stages after the data stage share.

    Parameters
    ----------
    study : Study
        As it is run.
    execution : Execution
        How it is carried out.
    sources : Sources
        What was read.
    dataset : PointInTimeDataset
        Events, clock and labels, joined.
    history : History
        The sequences.
    table : SampleTable
        The baselines' view of the same information sets.
    folds : list of Fold
        As they are run: with the training side of the model that serves them.
    settings : FoldSettings
        What is run in every fold.
    code : str
        Hash of the package's code.
    source : str
        Hash of data, study, code, versions and processor.
    """

    study: Study
    execution: Execution
    sources: Sources
    dataset: PointInTimeDataset
    history: History
    table: SampleTable
    folds: list[Fold]
    settings: FoldSettings
    code: str
    source: str


def fold_settings(study: Study, execution: Execution | None = None) -> FoldSettings:
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
        threads=(execution or Execution()).threads_of(provenance.available_cores()),
        retrain=_retrain(study.walk_forward.retrain),
        ensemble=study.ensemble,
        search=None if study.search is None else SearchConfig(**study.search.model_dump()),
    )


def _retrain(given: str | EveryConfig) -> Retrain:
    if isinstance(given, EveryConfig):
        return Retrain("every", given.every)
    return Retrain(cast(Policy, given))


def prepare(study: Study, progress: Progress, execution: Execution | None = None) -> Prepared:
    """Read what a study names and cut it into folds.

    Parameters
    ----------
    study : Study
        As it is run.
    progress : Progress
        Shows the stage.
    execution : Execution, optional
        How it will be carried out.

    Returns
    -------
    Prepared

    Raises
    ------
    DataError
        If the data breaks its contract.
    SplitError
        If there is too little history for the folds.
    """
    how = execution or Execution()
    with progress.stage("data") as stage:
        sources = load_sources(study)
        dataset = build_dataset(study, sources)
        samples = dataset.samples
        settings = fold_settings(study, how)
        folds = retrained_folds(_splitter(study).split(samples), settings.retrain)
        history = read_history(dataset, study.encoder.text_width)
        table = SampleTable(
            samples,
            history.as_of,
            bar_table(dataset),
            target_kind(study),
            study.target.horizon,
            bool(study.target.log),
            EventSequences.of(history),
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
    return Prepared(study, how, sources, dataset, history, table, folds, settings, code, source)


def _splitter(study: Study) -> WalkForward:
    sizes = study.walk_forward
    return WalkForward(
        sizes.train_size,
        sizes.test_size,
        expand_train=sizes.expand_train,
        val_size=sizes.val_size,
        # A study file holds "label" or a count, which its type cannot say.
        purged_size=cast("Literal['label'] | int", sizes.purged_size),
        embargo_size=sizes.embargo_size,
        reduce_test=sizes.reduce_test,
    )
