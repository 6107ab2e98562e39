"""The sections of a study besides its data: clock, target, folds, models, evaluation and checks."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from quantattn.study._section import Section
from quantattn.study._values import (
    ASCENDING,
    BOUNDS,
    DISTINCT,
    LISTED,
    RETRAINING,
    Count,
    Day,
    Duration,
    HalfLife,
    Latency,
    Layers,
    NonNegativeFloat,
    PositiveFloat,
    Purge,
    Rounds,
    Sessions,
    Share,
    Size,
    WallTime,
    Width,
    Zone,
)

TargetName = Literal["realised_variance", "simple_return", "log_return", "direction"]


class ClockConfig(Section):
    """When forecasts are made."""

    at: WallTime = "close"
    """`open` or `close` of the session (official, half days included), or a wall time HH:MM."""
    offset: Duration = "-15min"
    """Added to it; `-15min` before the close means that the day's own bar is not visible."""
    every: Literal["session", "week", "month"] = "week"
    """Each session, or the last one of each week or month."""
    time_zone: Zone | None = None
    """Zone of a wall time; null for the exchange's own."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.time_zone is not None and self.at in ("open", "close"):
            raise ValueError(f"time_zone has no meaning with at: {self.at}; make it null")
        return self


class TargetConfig(Section):
    """What is forecast; it begins strictly after the forecast."""

    name: TargetName = "realised_variance"
    """`realised_variance`, `simple_return`, `log_return` or `direction`."""
    horizon: Sessions = 5
    """Sessions that the target covers."""
    log: bool | None = None
    """Natural logarithm of the realised variance; null for every other target."""
    execution_lag: Latency = "0s"
    """The entry price is the first close strictly after the forecast and this lag."""
    dead_band: NonNegativeFloat | None = None
    """Returns within it have direction 0; null for every other target."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        name = given.get("name", cls.model_fields["name"].default)
        if name == "realised_variance" and given.get("log") is None:
            return given | {"log": True}
        if name == "direction" and given.get("dead_band") is None:
            return given | {"dead_band": 0.0}
        return given

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.log is not None and self.name != "realised_variance":
            raise ValueError(f"log has no meaning for {self.name}; set it to null")
        if self.dead_band is not None and self.name != "direction":
            raise ValueError(f"dead_band has no meaning for {self.name}; set it to null")
        return self


def leaves_training(train_size: int | str | None, val_size: int | str | None) -> bool:
    """Say whether validation, the end of the training span, leaves something before it.

    Parameters
    ----------
    train_size, val_size : int, str or None
        As in :class:`WalkForwardConfig`.

    Returns
    -------
    bool
        True also where the two cannot be compared, one being a count and the other a duration.
    """
    return not (isinstance(train_size, int) and isinstance(val_size, int)) or val_size < train_size


class EveryConfig(Section):
    """Training in every so manieth fold."""

    every: Count
    """Number of folds that one training serves."""


class WalkForwardConfig(Section):
    """Walk-forward folds: sizes count forecast times, or are durations such as `365D`."""

    train_size: Size = 416
    """Training span, validation included; with expand_train, that of the first fold."""
    val_size: Size | None = 52
    """End of the training span, by which training is stopped; null for none."""
    test_size: Size = 196
    """Test span of each fold."""
    expand_train: bool = True
    """Keep all earlier history in training instead of a moving window."""
    purged_size: Purge = "label"
    """`label` purges by when each label became known; a count drops that many more forecast times."""
    embargo_size: Latency = "0D"
    """How long before training a label must have been known, on top of the purge."""
    reduce_test: bool = True
    """Let the last test span be shorter, so that it reaches the end of the data."""
    retrain: Annotated[str | EveryConfig, RETRAINING] = "every_fold"
    """`every_fold`; `{every: 4}` for every fourth fold; `frozen` for the first alone; `warm_start` for
    every fold, networks going on from the weights of the fold before."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if not leaves_training(self.train_size, self.val_size):
            raise ValueError(
                f"val_size {self.val_size} leaves nothing of train_size {self.train_size} to train on, for "
                "validation is the end of the training span; make train_size larger"
            )
        return self


class EncoderConfig(Section):
    """How events become numbers."""

    text_width: Width = 32
    """Width of the hashed text vector."""


class NetworkConfig(Section):
    """Size of the attention network; the linear and the softmax twin share it."""

    width: Width = 32
    """Width of a token; a multiple of heads."""
    heads: Width = 4
    """Attention heads."""
    layers: Layers = 2
    """Layers."""
    feed_forward: Annotated[int, Field(ge=1, le=16_384)] = 64
    """Width of the layer between attention layers."""
    feature_map: Literal["elu1"] = "elu1"
    """Feature map of the linear twin."""
    half_lives: Annotated[tuple[HalfLife | None, ...], LISTED] | None = ("7D", "30D", "91D", None)
    """Half-life of each head's memory, null for a head that never forgets; null for no decay at all."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}; change one")
        if self.half_lives is not None and len(self.half_lives) != self.heads:
            raise ValueError(
                f"half_lives has {len(self.half_lives)} entries for {self.heads} heads; give one per head"
            )
        return self


class TrainingConfig(Section):
    """How the two attention networks are trained."""

    epochs: Rounds = 10
    """Most passes over the training entities."""
    learning_rate: PositiveFloat = 0.003
    """Step size of the optimiser."""
    weight_decay: NonNegativeFloat = 0.01
    """Pull of the weights towards zero."""
    batch_entities: Rounds = 4
    """Entities in one optimiser step, each with its whole history."""
    patience: Rounds = 6
    """Epochs without a better validation loss before training stops."""
    gradient_clip: PositiveFloat = 1.0
    """Largest norm of a gradient."""
    interval: Share = 0.9
    """Share of outcomes that the forecast interval aims to hold."""


Range = Annotated[tuple[PositiveFloat, ...], LISTED, BOUNDS]
"""Two positive numbers, the least first; searched evenly in the logarithm."""


class SearchConfig(Section):
    """Hyper-parameters of the networks, chosen inside each fold by its validation loss; needs optuna."""

    trials: Rounds = 20
    """Settings that are tried for each fold, network and seed."""
    epochs: Rounds | None = None
    """Most epochs of a trial; null for those of training."""
    learning_rate: Range | None = None
    """Least and largest value; null leaves that of training."""
    weight_decay: Range | None = None
    """Least and largest value; null leaves that of training."""
    gradient_clip: Range | None = None
    """Least and largest value; null leaves that of training."""
    width: Annotated[tuple[Width, ...], LISTED, DISTINCT, Field(min_length=1)] | None = None
    """Values to choose from, multiples of network.heads; null leaves that of network."""
    layers: Annotated[tuple[Layers, ...], LISTED, DISTINCT, Field(min_length=1)] | None = None
    """Values to choose from; null leaves that of network."""
    feed_forward: (
        Annotated[tuple[Annotated[int, Field(ge=1, le=16_384)], ...], LISTED, DISTINCT, Field(min_length=1)]
        | None
    ) = None
    """Values to choose from; null leaves that of network."""
    batch_entities: Annotated[tuple[Rounds, ...], LISTED, DISTINCT, Field(min_length=1)] | None = None
    """Values to choose from; null leaves that of training."""

    @property
    def sizes(self) -> tuple[str, ...]:
        """Which sizes of the network are searched."""
        return tuple(name for name in ("width", "layers", "feed_forward") if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        others = [name for name in type(self).model_fields if name not in ("trials", "epochs")]
        if all(getattr(self, name) is None for name in others):
            raise ValueError(f"nothing is searched; give one of {', '.join(others)}, or search: null")
        return self


class EvaluationConfig(Section):
    """How forecasts are judged."""

    confidence: Share = 0.95
    """Confidence of the intervals around every figure."""
    alpha: Share = 0.05
    """Level of the tests."""
    margin: PositiveFloat = 0.02
    """Non-inferiority margin of linear against softmax, as a share of the softmax twin's mean loss."""


class AuditConfig(Section):
    """How hard the leakage checks look."""

    truncation_instants: Rounds = 5
    """Instants in each fold at which forecasts are made again from data cut there."""


class LatencyConfig(Section):
    """Latency against history length."""

    histories: Annotated[tuple[Count, ...], LISTED, ASCENDING, Field(min_length=1)] = (
        100,
        300,
        1_000,
        3_000,
        10_000,
        30_000,
    )
    """History lengths, in events."""
    repeats: Rounds = 200
    """Timed repeats at each length."""


class QuickConfig(Section):
    """What `--quick` reduces; it never makes a study larger."""

    start: Day | None = None
    """Later first session; null keeps data.start."""
    max_entities: Count = 6
    """Most instruments."""
    train_size: Size | None = None
    """Training span; null keeps that of walk_forward."""
    val_size: Size | None = None
    """Validation span; null keeps that of walk_forward."""
    test_size: Size | None = None
    """Test span; null keeps that of walk_forward."""
    epochs: Rounds = 8
    """Most epochs."""
    truncation_instants: Rounds = 2
    """Most truncation instants in each fold."""
    longest_history: Count = 3_000
    """Longest history whose latency is measured."""
    repeats: Rounds = 100
    """Most timed repeats."""
