"""The usual way: softmax attention over a window of the last events, one window for each forecast."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.errors import ForecasterError, UsageError
from quantattn.forecasters.baselines._checks import require_count
from quantattn.forecasters.baselines._epochs import EpochBaseline, side_windows
from quantattn.forecasters.baselines.base import Inputs
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.streaming import NetworkStream
from quantattn.forecasters.training import train

_KEPT = 64
"""Windows that are streamed before their memories are thrown away."""


class SoftmaxWindowBaseline(EpochBaseline):
    """Forecast by the softmax twin from the last `window` visible events alone.

    Each forecast is a short sequence of its own: cost grows with forecasts times window. What has left the
    window is gone, the time since the event before it and the as-of features that came from older events
    included. So this is **another information set** than that of every other model wherever the history is
    longer than the window: `information_window` says so, and
    :func:`~quantattn.forecasters.baselines.windowed_information` names the sets. Never compare it
    with the others as if it had seen the same.

    Nulls are as in the twins: encoded as the training mean. A forecast without a visible event reads the
    start token alone.

    Parameters
    ----------
    window : int, default 128
        Events that a forecast reads, at most.
    width, heads, layers, feed_forward : int
        Sizes of the network; see :class:`~quantattn.forecasters.NetworkConfig`.
    half_lives : tuple of float or None, length `heads`
        Days in which a head's memory halves; None is no decay.
    epochs, batch_forecasts, patience : int
        Passes over the training rows, windows per step, and epochs without improvement before it stops.
    learning_rate, weight_decay, gradient_clip : float
        See :class:`~quantattn.forecasters.TrainingConfig`.
    seed : int, default 0
        Of the initial weights and the order of the steps.

    Attributes
    ----------
    network_ : AttentionNetwork
        In evaluation mode.
    target_ : TargetScale
        Of the training rows.
    constant_ : float or None
        The training target where all are equal; nothing is trained then, and it is the forecast.
    best_epoch_ : int or None
        The epoch, from 0, whose weights were kept.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", NeurIPS, equation 1.
    """

    name: ClassVar[str] = "softmax_window"
    inputs: ClassVar[Inputs] = "tokens"

    network_: AttentionNetwork

    def __init__(
        self,
        window: int = 128,
        width: int = 32,
        heads: int = 4,
        layers: int = 2,
        feed_forward: int = 64,
        half_lives: tuple[float | None, ...] = (7.0, 30.0, 91.0, None),
        epochs: int = 10,
        batch_forecasts: int = 64,
        patience: int = 6,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        gradient_clip: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.window = window
        self.width = width
        self.heads = heads
        self.layers = layers
        self.feed_forward = feed_forward
        self.half_lives = half_lives
        self.epochs = epochs
        self.batch_forecasts = batch_forecasts
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.seed = seed

    @property
    def information_window(self) -> int | None:
        """How many of the last visible events it reads."""
        return self.window

    def _check_parameters(self) -> None:
        for argument, least in (("window", 1), ("seed", 0)):
            require_count(self.name, argument, getattr(self, argument), least)
        if not isinstance(self.half_lives, tuple | list):
            raise ForecasterError(
                f"{self.name}: half_lives={self.half_lives!r} is not a row of days; give one per head"
            )
        self._configurations()

    def _train(self, table: SampleTable, rows: Integers, validation: Integers, scaled: Floats) -> int:
        network, training = self._configurations()
        self.network_, log = train(
            side_windows(table, rows, self.window),
            side_windows(table, validation, self.window),
            scaled,
            network=network,
            training=training,
            seed=self.seed,
        )
        return log.best_epoch

    def _configurations(self) -> tuple[NetworkConfig, TrainingConfig]:
        try:
            return NetworkConfig(
                attention="softmax",
                width=self.width,
                heads=self.heads,
                layers=self.layers,
                feed_forward=self.feed_forward,
                half_lives=tuple(self.half_lives),
            ), TrainingConfig(
                epochs=self.epochs,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                batch_entities=self.batch_forecasts,
                gradient_clip=self.gradient_clip,
                patience=self.patience,
            )
        except UsageError as error:
            raise ForecasterError(f"{self.name}: {error}") from error

    def _forecast(self, table: SampleTable, rows: Integers) -> Floats:
        found: dict[int, float] = {}
        for number, tokens in enumerate(side_windows(table, np.unique(rows), self.window)):
            # A name of its own for each window, and a new stream before their memories add up.
            if number % _KEPT == 0:
                stream = NetworkStream(self.network_)
            name = f"{number}"
            stream.write_sequence(name, tokens.events, tokens.event_times)
            found[int(tokens.rows[0])] = float(
                stream.read(name, tokens.queries[0], int(tokens.query_times[0]))[0]
            )
        return np.array([found[row] for row in rows.tolist()], dtype=np.float64)
