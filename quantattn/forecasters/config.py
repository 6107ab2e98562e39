"""The sizes of a forecaster and the way it is trained, as frozen configuration."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from quantattn.errors import UsageError
from quantattn.forecasters.heads import POINT, HeadConfig

Attention = Literal["linear", "softmax"]
Schedule = Literal["one_cycle", "constant", "cosine"]
Batching = Literal["random", "by_length"]

DECAY_CAP = 32.0
"""A gap takes off at most this many half-lives, so that a long silence cannot underflow the state.

What came before is then worth 2 ** -32 of the next event; the ratio of two older events is unchanged.
"""


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network; the twin differs in `attention` alone.

    Parameters
    ----------
    attention : {"linear", "softmax"}
        The attention that event and query tokens read with.
    width : int
        Width of a token inside the network.
    heads : int
        Attention heads; divides `width`.
    layers : int
        Blocks of attention and feed-forward.
    feed_forward : int
        Hidden width of the feed-forward part.
    feature_map : str
        Feature map of the linear attention. Reads meet ``Denominator.raise_()``, so the map must be
        strictly positive: ``"elu1"``.
    half_lives : tuple of float or None, length `heads`
        Half-life of each head's memory in days of real time; None is no decay. Both attentions apply it:
        as a decay of the state, or as the equal bias on the logits.
    head : HeadConfig
        What is forecast: one number for one target by default.
    """

    attention: Attention = "linear"
    width: int = 32
    heads: int = 4
    layers: int = 2
    feed_forward: int = 64
    feature_map: str = "elu1"
    half_lives: tuple[float | None, ...] = (7.0, 30.0, 91.0, None)
    head: HeadConfig = POINT

    def __post_init__(self) -> None:
        """Check the sizes against each other."""
        if self.attention not in ("linear", "softmax"):
            raise UsageError(f"attention={self.attention!r} is not known; use 'linear' or 'softmax'")
        for name in ("width", "heads", "layers", "feed_forward"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
        if self.width % self.heads:
            raise UsageError(
                f"width={self.width} is not a multiple of heads={self.heads}; change one of them"
            )
        if self.feature_map != "elu1":
            raise UsageError(
                f"feature_map={self.feature_map!r} may give empty reads; the forecaster takes 'elu1', "
                "which is strictly positive"
            )
        if len(self.half_lives) != self.heads:
            raise UsageError(
                f"half_lives has {len(self.half_lives)} entries for {self.heads} heads; give one per head "
                "(null for no decay)"
            )
        if any(h is not None and not 0 < h < float("inf") for h in self.half_lives):
            raise UsageError(
                f"half_lives={self.half_lives} must be positive, finite numbers of days, or null for no decay"
            )

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as plain JSON values; the usual head goes without saying."""
        values = {**asdict(self), "half_lives": list(self.half_lives), "head": self.head.to_dict()}
        if self.head.is_plain:
            del values["head"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NetworkConfig:
        """Read what :meth:`to_dict` gave.

        Raises
        ------
        UsageError
            If a key is missing or unknown, or a size is impossible.
        """
        known = {field.name for field in fields(cls)} - {"head"}
        if set(values) - {"head"} != known:
            raise UsageError(
                f"network configuration holds {sorted(values)}, expected {sorted(known)}; it was written by "
                "another version"
            )
        head = HeadConfig.from_dict(values["head"]) if "head" in values else POINT
        return cls(**{**values, "half_lives": tuple(values["half_lives"]), "head": head})


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained.

    Parameters
    ----------
    epochs : int
        Passes over the training sequences; the weights of the best validation epoch are kept.
    learning_rate : float
        Peak of the schedule of AdamW.
    weight_decay : float
        Decoupled weight decay of AdamW.
    batch_entities : int
        Whole sequences per step.
    gradient_clip : float
        Largest norm of a step's gradient.
    patience : int
        Stop after this many epochs without a better validation loss.
    interval : float
        Coverage that ``y_lower`` and ``y_upper`` aim at, from validation residuals.
    schedule : {"one_cycle", "constant", "cosine"}
        How the learning rate goes: up over a fifth of the steps and down over the rest; always the same; or
        up over `warm_up` and down along half a cosine.
    warm_up : float
        Share of the steps over which the rate of the cosine schedule rises; 0 for none.
    batching : {"random", "by_length"}
        Which sequences share a step: any, or such of similar length, which spares padding. Either way every
        sequence comes once in an epoch, in an order that the seed decides.
    segment_tokens : int, optional
        Read sequences in segments of this many tokens, the state carried from one to the next: forecasts are
        the same, memory is that of a segment, and gradients end at its border (truncated backpropagation
        through time). Whole sequences by default.
    device : str
        Where training runs: ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``. The result lies on the CPU.
    mixed_precision : bool
        Compute matrix products in bfloat16, on CUDA devices alone. Attention stays in float32.
    """

    epochs: int = 10
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    batch_entities: int = 4
    gradient_clip: float = 1.0
    patience: int = 6
    interval: float = 0.9
    schedule: Schedule = "one_cycle"
    warm_up: float = 0.1
    batching: Batching = "random"
    segment_tokens: int | None = None
    device: str = "cpu"
    mixed_precision: bool = False

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("epochs", "batch_entities", "patience"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("learning_rate", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be positive")
        if not self.weight_decay >= 0:
            raise UsageError(f"weight_decay={self.weight_decay} must not be negative")
        if not 0 < self.interval < 1:
            raise UsageError(f"interval={self.interval} must lie between 0 and 1")
        for name, known in (("schedule", get_args(Schedule)), ("batching", get_args(Batching))):
            if getattr(self, name) not in known:
                options = " or ".join(map(repr, known))
                raise UsageError(f"{name}={getattr(self, name)!r} is not known; use {options}")
        if not 0 <= self.warm_up < 1:
            raise UsageError(f"warm_up={self.warm_up} must be a share of the steps, from 0 to less than 1")
        if self.segment_tokens is not None and self.segment_tokens < 1:
            raise UsageError(
                f"segment_tokens={self.segment_tokens} must be at least 1, or None for whole sequences"
            )
        if self.device != "cpu" and not re.fullmatch(r"cuda(:\d+)?", self.device):
            raise UsageError(f"device={self.device!r} is not known; use 'cpu', 'cuda' or 'cuda:<number>'")
        if self.mixed_precision and self.device == "cpu":
            raise UsageError(
                "mixed_precision=True on device='cpu': bfloat16 is used on CUDA devices alone; choose "
                "device='cuda', or leave it off"
            )
