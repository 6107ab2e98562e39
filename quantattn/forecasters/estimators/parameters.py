"""The arguments of the estimators' constructor, and the configurations that they make."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from sklearn.base import BaseEstimator

from quantattn.errors import UsageError
from quantattn.forecasters.config import Attention, Batching, NetworkConfig, Schedule, TrainingConfig
from quantattn.forecasters.estimators.fitting import Aim, Weighting
from quantattn.forecasters.estimators.values import listed, plain, real, switch, whole
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.heads import HEADS, HeadConfig, HeadKind
from quantattn.forecasters.objectives import LOSSES, Loss


class ForecasterParameters(BaseEstimator):  # type: ignore[misc]
    """What the constructor stores; values are checked in ``fit``.

    Parameters
    ----------
    head : {"point", "gaussian", "quantile", "direction"}, default "point"
        What is forecast: a number; mean and variance; quantiles at `levels`, which never cross; or the
        probability that the target is positive.
    levels : tuple of float, default (0.05, 0.5, 0.95)
        Of the quantile head; other heads leave them alone.
    loss : str, optional
        ``"squared"`` (the default of the point head), ``"absolute"``, ``"huber"`` or ``"qlike"``; the other
        heads have one loss each: likelihood, pinball, cross-entropy.
    delta : float, default 1.0
        Where the Huber loss turns into a line, in standard deviations of the training targets.
    log_target : bool, optional
        Whether the target is the logarithm of a variance, for QLIKE. By default the dataset's labels say so.
    weights : {"volatility", "balanced"}, optional
        ``"volatility"`` weighs training targets by the inverse of their entity's trailing volatility,
        ``"balanced"`` lets both directions weigh the same. Measured on the training rows.
    volatility_window : int, default 20
        Last known targets that a trailing volatility is measured over.
    hidden : int, default 32
        Width of a token inside the network; a multiple of `heads`.
    heads, layers : int, default 4 and 2
        Attention heads and blocks.
    feed_forward : int, optional
        Hidden width of the feed-forward part; twice `hidden` by default.
    half_lives : tuple of float or None, default (7.0, 30.0, 91.0, None)
        Half-life of each attention head's memory in days; None is no decay.
    text_width : int, default 32
        Columns of hashed text; 0 leaves the text out.
    epochs, patience : int, default 10 and 6
        Most passes over the training rows, and how many without a better validation loss end them.
    learning_rate, weight_decay, gradient_clip : float, default 0.003, 0.01 and 1.0
        Of AdamW, and the largest norm of a gradient.
    schedule : {"one_cycle", "constant", "cosine"}, default "one_cycle"
        How the learning rate goes.
    warm_up : float, default 0.1
        Share of the steps over which the rate of the cosine schedule rises.
    batch_entities : int, default 4
        Sequences in a step, each with its whole history.
    batching : {"random", "by_length"}, default "random"
        Which sequences share a step.
    segment_tokens : int, optional
        Read sequences in segments of this many tokens with the state carried on; gradients end at their
        borders, forecasts are the same. For histories that do not fit into memory in one pass.
    device : str, default "cpu"
        Where to train: ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``.
    mixed_precision : bool, default False
        Train in bfloat16 where the device has it, which CUDA devices do.
    interval : float, default 0.9
        Coverage that `y_lower` and `y_upper` aim at; the quantile head shows its outermost levels.
    seed : int, default 0
        Decides the initial weights and the order of the sequences. Equal seeds give the twins equal initial
        weights, and equal bits on one machine with one number of threads.
    """

    attention: ClassVar[Attention]

    def __init__(
        self,
        head: HeadKind = "point",
        *,
        levels: tuple[float, ...] = (0.05, 0.5, 0.95),
        loss: Loss | None = None,
        delta: float = 1.0,
        log_target: bool | None = None,
        weights: Weighting | None = None,
        volatility_window: int = 20,
        hidden: int = 32,
        heads: int = 4,
        layers: int = 2,
        feed_forward: int | None = None,
        half_lives: tuple[float | None, ...] = (7.0, 30.0, 91.0, None),
        text_width: int = 32,
        epochs: int = 10,
        patience: int = 6,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        gradient_clip: float = 1.0,
        schedule: Schedule = "one_cycle",
        warm_up: float = 0.1,
        batch_entities: int = 4,
        batching: Batching = "random",
        segment_tokens: int | None = None,
        device: str = "cpu",
        mixed_precision: bool = False,
        interval: float = 0.9,
        seed: int = 0,
    ) -> None:
        self.head = head
        self.levels = levels
        self.loss = loss
        self.delta = delta
        self.log_target = log_target
        self.weights = weights
        self.volatility_window = volatility_window
        self.hidden = hidden
        self.heads = heads
        self.layers = layers
        self.feed_forward = feed_forward
        self.half_lives = half_lives
        self.text_width = text_width
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.schedule = schedule
        self.warm_up = warm_up
        self.batch_entities = batch_entities
        self.batching = batching
        self.segment_tokens = segment_tokens
        self.device = device
        self.mixed_precision = mixed_precision
        self.interval = interval
        self.seed = seed

    def configurations(self, names: tuple[str, ...]) -> tuple[NetworkConfig, TrainingConfig, Aim]:
        """Check the constructor's arguments and put them together.

        Parameters
        ----------
        names : tuple of str
            Of the targets.

        Raises
        ------
        UsageError
            If one of them is impossible, or two do not fit each other.
        """
        if self.head not in HEADS:
            raise UsageError(f"head={self.head!r} is not known; use one of {', '.join(map(repr, HEADS))}")
        given = self.get_params()
        hidden = whole(given, "hidden")
        head = HeadConfig(self.head, names, listed(given, "levels") if self.head == "quantile" else ())
        if hidden % max(1, whole(given, "heads")):
            raise UsageError(
                f"hidden={hidden} is not a multiple of heads={self.heads}; give each head the same width"
            )
        network = NetworkConfig(
            attention=self.attention,
            width=hidden,
            heads=whole(given, "heads"),
            layers=whole(given, "layers"),
            feed_forward=2 * hidden if self.feed_forward is None else whole(given, "feed_forward"),
            half_lives=listed(given, "half_lives", or_none=True),
            head=head,
        )
        training = TrainingConfig(
            epochs=whole(given, "epochs"),
            learning_rate=real(given, "learning_rate"),
            weight_decay=real(given, "weight_decay"),
            batch_entities=whole(given, "batch_entities"),
            gradient_clip=real(given, "gradient_clip"),
            patience=whole(given, "patience"),
            interval=real(given, "interval"),
            schedule=self.schedule,
            warm_up=real(given, "warm_up"),
            batching=self.batching,
            segment_tokens=None if self.segment_tokens is None else whole(given, "segment_tokens"),
            device=str(self.device),
            mixed_precision=switch(given, "mixed_precision"),
        )
        loss = LOSSES[self.head][0] if self.loss is None else self.loss
        window = whole(given, "volatility_window")
        aim = Aim(loss, real(given, "delta"), self.weights, window)
        aim.check(head)
        if not 0 <= whole(given, "seed") < 2**31:
            raise UsageError(f"seed={self.seed!r} must lie between 0 and {2**31 - 1}")
        if self.log_target is not None:
            switch(given, "log_target")
        for name in given:
            if name != "device":  # which is taken by its name
                plain(given, name)
        return network, training, aim

    def check_against(self, forecaster: FittedForecaster) -> None:
        """Refuse a network that these arguments do not make.

        Parameters
        ----------
        forecaster : FittedForecaster
            What was fitted or loaded.

        Raises
        ------
        UsageError
            If an argument is impossible, or another than that of the network.
        """
        fitted = forecaster.network.config
        network, _, _ = self.configurations(fitted.head.targets)
        own = {field.name: getattr(network, field.name) for field in fields(network)}
        pairs = {name: (value, getattr(fitted, name)) for name, value in own.items()}
        pairs["text_width"] = (whole(self.get_params(), "text_width"), forecaster.encoders.events.text_width)
        for name, (said, found) in pairs.items():
            if said != found:
                raise UsageError(
                    f"the arguments make {name}={said!r} and the fitted network has {found!r}; fit again "
                    "after set_params"
                )
