"""The study as a whole: its sections in one frozen object, its one YAML text and its hash."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from quantattn.files import hash_json
from quantattn.study._section import Section
from quantattn.study._values import DISTINCT, LISTED, REGISTRY, Line, Model, Name, Seed
from quantattn.study._yaml import write_yaml
from quantattn.study.sections import (
    AuditConfig,
    ClockConfig,
    EncoderConfig,
    EvaluationConfig,
    LatencyConfig,
    NetworkConfig,
    QuickConfig,
    SearchConfig,
    TargetConfig,
    TrainingConfig,
    WalkForwardConfig,
    leaves_training,
)
from quantattn.study.sources import DataConfig

NEED_BARS: Final = frozenset({"ewma", "har", "garch"})
"""The package's models that read the bar events of the instrument."""

OF_DIRECTIONS: Final = frozenset({"events_logistic"})
"""The package's models that forecast directions alone."""


class Study(Section):
    """A whole study, checked; :func:`quantattn.study.load_study` reads one from a file."""

    name: Name
    """Names the study and its run folders: letters, digits, '_', '-' and '.'."""
    description: Line = ""
    """One line for people."""
    seeds: Annotated[tuple[Seed, ...], LISTED, DISTINCT, Field(min_length=1, max_length=1000)] = (0,)
    """Whatever depends on chance, such as the attention networks, is trained once for each seed."""
    ensemble: bool = False
    """Average the forecasts of a model's seeds into one more model."""
    data: DataConfig
    clock: ClockConfig = ClockConfig()
    target: TargetConfig = TargetConfig(log=True)
    walk_forward: WalkForwardConfig = WalkForwardConfig()
    models: Annotated[tuple[Model, ...], LISTED, DISTINCT, Field(min_length=1)] = (
        "linear",
        "softmax",
        "mean",
        "ewma",
        "har",
        "ridge",
        "gradient_boosting",
    )
    """What is compared: the linear twin, its softmax twin, and the baselines."""
    encoder: EncoderConfig = EncoderConfig()
    network: NetworkConfig = NetworkConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig | None = None
    """Hyper-parameters of the networks to choose inside each fold: trials, epochs, and what to search, such
    as learning_rate or width; null for none."""
    evaluation: EvaluationConfig = EvaluationConfig()
    audit: AuditConfig = AuditConfig()
    latency: LatencyConfig = LatencyConfig()
    quick_run: QuickConfig = QuickConfig()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        needy = [name for name in self.models if _needs_bars(name)]
        if needy and self.data.market_events is None:
            raise ValueError(
                f"models {needy} read the volatility of the bar events; set data.market_events: true or "
                "leave these models out"
            )
        if needy and self.data.scope == "market":
            raise ValueError(
                f"models {needy} read the bars of each instrument, which data.scope: market leaves out; set "
                "data.scope: entity+market or leave these models out"
            )
        signs = [name for name in self.models if name in OF_DIRECTIONS]
        if signs and self.target.name != "direction":
            raise ValueError(
                f"models {signs} forecast directions, and target.name is {self.target.name}; set it to "
                "direction, or leave these models out"
            )
        end, start = self.data.end, self.quick_run.start
        if start is not None and end is not None and start >= end:
            raise ValueError(f"quick_run.start {start} is not before data.end {end}; give an earlier one")
        self._agree_on_search()
        spans = self._quick_spans()
        if not leaves_training(spans["train_size"], spans["val_size"]):
            raise ValueError(
                f"quick_run: val_size {spans['val_size']} leaves nothing of train_size {spans['train_size']} "
                "to train on; give both sizes in quick_run"
            )
        return self

    def _agree_on_search(self) -> None:
        if self.search is None:
            return
        if self.walk_forward.val_size is None:
            raise ValueError(
                "search judges its trials on validation forecasts, and walk_forward.val_size is null; set it"
            )
        uneven = [width for width in self.search.width or () if width % self.network.heads]
        if uneven:
            raise ValueError(
                f"search.width {uneven} is no multiple of network.heads {self.network.heads}; leave it out"
            )
        if self.search.sizes and self.walk_forward.retrain == "warm_start":
            raise ValueError(
                f"search of {', '.join(self.search.sizes)} with walk_forward.retrain: warm_start: the "
                "weights of one size cannot begin another; search other things, or retrain every_fold"
            )

    def quick(self) -> Study:
        """Give the reduced study that ``--quick`` runs.

        Returns
        -------
        Study
            With fewer instruments, later start, fewer epochs and shorter measurements, as :attr:`quick_run`
            says; a study that is already reduced comes back unchanged.
        """
        less = self.quick_run
        most = min(less.max_entities, self.data.max_entities or less.max_entities)
        starts = [day for day in (self.data.start, less.start) if day is not None]
        shorter = tuple(length for length in self.latency.histories if length <= less.longest_history)
        return self._with(
            data={"max_entities": most, "start": max(starts, default=None)},
            walk_forward=self._quick_spans(),
            training={"epochs": min(less.epochs, self.training.epochs)},
            audit={"truncation_instants": min(less.truncation_instants, self.audit.truncation_instants)},
            latency={
                "histories": shorter or self.latency.histories[:1],
                "repeats": min(less.repeats, self.latency.repeats),
            },
        )

    def with_seeds(self, *seeds: int) -> Study:
        """Give the same study with other seeds.

        Parameters
        ----------
        *seeds : int
            Distinct seeds from 0 to 2147483647.

        Returns
        -------
        Study
        """
        return Study.model_validate(self.model_dump() | {"seeds": seeds})

    def _quick_spans(self) -> dict[str, int | str | None]:
        less, splits = self.quick_run, self.walk_forward
        return {
            "train_size": less.train_size or splits.train_size,
            "val_size": splits.val_size and (less.val_size or splits.val_size),
            "test_size": less.test_size or splits.test_size,
        }

    def _with(self, **changes: dict[str, Any]) -> Study:
        values = self.model_dump()
        for section, change in changes.items():
            values[section] |= change
        return Study.model_validate(values)


def _needs_bars(model: str) -> bool:
    if model in NEED_BARS:
        return True
    registry = sys.modules.get(REGISTRY)
    known = registry is not None and model in registry.BASELINES
    return bool(known and registry is not None and registry.baseline_traits(model).needs_bars)


def resolved_yaml(study: Study) -> str:
    """Give the one YAML text of a study, every default written out.

    Parameters
    ----------
    study : Study
        Any study.

    Returns
    -------
    str
        Loading it gives an equal study; equal studies give equal bytes.
    """
    return write_yaml(study.model_dump())


def results_settings(study: Study) -> dict[str, Any]:
    """Give everything in a study that can alter its results, as plain JSON values.

    Parameters
    ----------
    study : Study
        As it is run: for ``--quick``, the reduced one.

    Returns
    -------
    dict
        All sections but the description and what ``--quick`` would reduce.
    """
    return study.model_dump(mode="json", exclude={"description", "quick_run"})


def study_hash(study: Study) -> str:
    """Give the SHA-256 of :func:`results_settings`.

    Parameters
    ----------
    study : Study
        As it is run: for ``--quick``, the reduced one.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    return hash_json(results_settings(study))
