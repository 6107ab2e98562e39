"""A gated recurrent network over the tokens of the attention models."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.forecasters.baselines._checks import require_count
from quantattn.forecasters.baselines._epochs import EpochBaseline, side_tokens
from quantattn.forecasters.baselines._gru import GruNetwork, forecasts_of
from quantattn.forecasters.baselines._modules import (
    Epochs,
    token_batches,
    train_module,
)
from quantattn.forecasters.baselines._randomness import isolated_randomness
from quantattn.forecasters.baselines.base import Inputs
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable


class GruBaseline(EpochBaseline):
    """Forecast from a GRU over the whole sequence of events, read at each forecast with its query token.

    Tokens, target scale and loss (squared error of the scaled target) are those of the attention networks;
    so is the information set. It is trained on whole sequences, with early stopping on the validation rows;
    without any, the last epoch is kept. Forecasts step through the events one after the other in float64, in
    an order of sums that nothing later can change. Nulls were encoded as the training mean by the fold's
    encoders; a forecast without a visible event reads a state of zeros. A constant training target is
    forecast as it is, and :meth:`notes` says so.

    Parameters
    ----------
    hidden : int, default 32
        Width of the state.
    epochs : int, default 20
        Passes over the training sequences, at most.
    learning_rate : float, default 3e-3
        Of AdamW.
    weight_decay : float, default 0.01
        Of AdamW.
    gradient_clip : float, default 1.0
        Largest norm of a step's gradient.
    patience : int, default 6
        Stop after this many epochs without a better validation loss.
    batch_entities : int, default 4
        Whole sequences per step.
    seed : int, default 0
        Of the initial weights and the order of the steps.

    Attributes
    ----------
    network_ : GruNetwork
        In evaluation mode.
    target_ : TargetScale
        Of the training rows.
    constant_ : float or None
        The training target where all are equal; nothing is trained then.
    best_epoch_ : int or None
        The epoch, from 0, whose weights were kept.

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
    Translation", EMNLP, equations 5 to 8, with the reset gate behind the product as torch has it.
    """

    name: ClassVar[str] = "gru"
    inputs: ClassVar[Inputs] = "tokens"

    network_: GruNetwork

    def __init__(
        self,
        hidden: int = 32,
        epochs: int = 20,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        gradient_clip: float = 1.0,
        patience: int = 6,
        batch_entities: int = 4,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.patience = patience
        self.batch_entities = batch_entities
        self.seed = seed

    def _epochs(self) -> Epochs:
        return Epochs(self.epochs, self.learning_rate, self.weight_decay, self.gradient_clip, self.patience)

    def _check_parameters(self) -> None:
        self._epochs().check(self.name)
        for argument, least in (("hidden", 1), ("batch_entities", 1), ("seed", 0)):
            require_count(self.name, argument, getattr(self, argument), least)

    def _train(self, table: SampleTable, rows: Integers, validation: Integers, scaled: Floats) -> int:
        batches, held_out = (
            token_batches(side_tokens(table, side), scaled, self.batch_entities)
            for side in (rows, validation)
        )
        events, queries, _ = batches[0].inputs
        with isolated_randomness(self.seed):
            self.network_ = GruNetwork(events.shape[2], queries.shape[2], self.hidden)
            return train_module(self.network_, batches, held_out, self._epochs(), self.name)

    def _forecast(self, table: SampleTable, rows: Integers) -> Floats:
        forecasts = np.empty(rows.size)
        for entity, positions in table.positions_by_entity(rows).items():
            assert table.sequences is not None
            tokens = table.sequences.tokens_of(entity)
            at = table.sequences.queries(entity, rows[positions])
            forecasts[positions] = forecasts_of(
                self.network_, tokens.events, tokens.queries[at], tokens.counts[at]
            )
        return forecasts
