"""Any torch module as a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._checks import copied, first_line, require_count
from quantattn.forecasters.baselines._columns import FittedColumns, Impute, fit_columns
from quantattn.forecasters.baselines._epochs import EpochBaseline, side_tokens, side_windows
from quantattn.forecasters.baselines._identity import fingerprint, made_by, parameter_texts
from quantattn.forecasters.baselines._modules import (
    Batch,
    Epochs,
    call,
    row_batches,
    token_batch,
    token_batches,
    train_module,
)
from quantattn.forecasters.baselines._randomness import isolated_randomness, reseed
from quantattn.forecasters.baselines.base import Inputs
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable

ModuleFactory = Callable[..., nn.Module]
"""Makes a fresh module from its input widths: ``(event_width, query_width)`` or ``(n_features,)``."""


class TorchModuleBaseline(EpochBaseline):
    """Forecast by a torch module, trained in epochs with early stopping on the validation rows.

    With ``reads="tokens"`` the module is called as ``module(events, queries, counts)`` with tensors of shapes
    (B, T, event width), (B, M, query width) and (B, M), and gives (B, M): query (b, m) may read the first
    ``counts[b, m]`` events of b. With ``reads="features"`` it is called as ``module(inputs)`` with (B, k) and
    gives (B,) or (B, 1). Its outputs are in units of the scaled target.

    Each forecast is one call with the events that are visible at it and no other, or its own row alone: a
    module that reads later tokens can spoil its training, and not see the future. Weights and draws are
    decided by the seed; the caller's random generators are put back. Nulls: tokens hold the training mean,
    columns are filled as `impute` says.

    Parameters
    ----------
    factory : callable
        From the input widths to a new module.
    label : str
        The model's name.
    reads : {"tokens", "features"}, default "tokens"
        What it reads.
    features : sequence of str, optional
        As-of features for ``reads="features"``; all by default.
    impute : {"mean", "median"}, default "mean"
        What stands in for a missing feature; columns are always standardised.
    window : int, optional
        Read the last so many events only: **another information set**, see `information_window`.
    epochs, patience : int
        Passes at most, and passes without a better validation loss before it stops.
    batch : int, default 4
        Sequences per step (64 or more make sense for rows and windows).
    learning_rate, weight_decay, gradient_clip : float
        Of AdamW, and the largest norm of a step's gradient.
    seed : int, default 0
        Of weights, draws and the order of the steps.

    Attributes
    ----------
    module_ : torch.nn.Module
        In evaluation mode.
    target_ : TargetScale
        Of the training rows.
    constant_ : float or None
        The training target where all are equal; nothing is trained then, and it is the forecast.
    best_epoch_ : int or None
        The epoch, from 0, whose weights were kept.
    """

    module_: nn.Module
    columns_: FittedColumns

    def __init__(
        self,
        factory: ModuleFactory,
        label: str,
        reads: str = "tokens",
        features: Sequence[str] | None = None,
        impute: Impute = "mean",
        window: int | None = None,
        epochs: int = 20,
        patience: int = 6,
        batch: int = 4,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        gradient_clip: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.factory = factory
        self.label = label
        self.reads = reads
        self.features = features
        self.impute = impute
        self.window = window
        self.epochs = epochs
        self.patience = patience
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.gradient_clip = gradient_clip
        self.seed = seed

    @property
    def name(self) -> str:  # type: ignore[override]
        """The label."""
        return self.label

    @property
    def inputs(self) -> Inputs:  # type: ignore[override]
        """What it reads, as the engine names it."""
        return "tokens" if self.reads == "tokens" else "table"

    @property
    def information_window(self) -> int | None:
        """How many of the last visible events it reads, if not all."""
        return self.window if self.reads == "tokens" else None

    def notes(self) -> dict[str, Any]:
        """Add the features that no training row has to what is always said."""
        found = super().notes()
        if self.reads == "features" and self.constant_ is None and self.columns_.unknown:
            found["features never known in training"] = list(self.columns_.unknown)
        return found

    def identity(self) -> dict[str, Any]:
        """Give the arguments and the factory's source, as JSON values."""
        arguments = {name: value for name, value in self.get_params().items() if name != "factory"}
        # The widths are known in a fold alone; any will do to see which class it makes.
        with isolated_randomness(self.seed):
            made = made_by(self.factory, *((8, 8) if self.reads == "tokens" else (8,)))
        return {
            "class": "torch.nn.Module",
            "parameters": parameter_texts(arguments),
            "code": fingerprint((self.factory, made, arguments)),
        }

    def _epochs(self) -> Epochs:
        return Epochs(self.epochs, self.learning_rate, self.weight_decay, self.gradient_clip, self.patience)

    def _check_parameters(self) -> None:
        self._epochs().check(self.name)
        for argument, least in (("batch", 1), ("seed", 0)):
            require_count(self.name, argument, getattr(self, argument), least)
        if self.window is not None:
            require_count(self.name, "window", self.window, 1)
        if self.reads not in ("tokens", "features"):
            raise ForecasterError(f"{self.name}: reads={self.reads!r} is unknown; use 'tokens' or 'features'")
        if self.reads == "features" and (self.window is not None or self.impute == "none"):
            raise ForecasterError(
                f"{self.name}: window={self.window!r} and impute={self.impute!r} do not go with features; a "
                "window is of tokens, and a module cannot read a missing value"
            )

    def _train(self, table: SampleTable, rows: Integers, validation: Integers, scaled: Floats) -> int:
        if self.reads == "features":
            self.columns_ = fit_columns(
                table, rows, features=self.features, impute=self.impute, scale=True, name=self.name
            )
        batches, held_out = (self._batches(table, side, scaled) for side in (rows, validation))
        widths = [part.shape[-1] for part in batches[0].inputs[:2]]
        with isolated_randomness(self.seed):
            self.module_ = self._made(widths)
            return train_module(self.module_, batches, held_out, self._epochs(), self.name)

    def _made(self, widths: Sequence[int]) -> nn.Module:
        try:
            module = self.factory(*widths)
            with isolated_randomness(self.seed):
                again = self.factory(*widths)
        except Exception as error:
            raise ForecasterError(
                f"{self.name}: the factory failed on the widths {list(widths)} ({first_line(error)}); "
                "it takes (event_width, query_width) for tokens and (n_features,) for features"
            ) from error
        if not isinstance(module, nn.Module) or module is getattr(self, "module_", None):
            raise ForecasterError(
                f"{self.name}: the factory gave {type(module).__name__}, not a new torch module; build one "
                f"at each call from the widths {list(widths)}"
            )
        if again is module or (isinstance(again, nn.Module) and _tensors(again) & _tensors(module)):
            raise ForecasterError(
                f"{self.name}: the factory gave the same module or the same weights twice, which would train "
                f"on from fold to fold; build new ones at each call from the widths {list(widths)}"
            )
        return copied(self.name, module)

    def _batches(self, table: SampleTable, rows: Integers, scaled: Floats) -> list[Batch]:
        if self.reads == "features":
            return row_batches(self.columns_.transform(table, rows), scaled[rows], self.batch)
        sequences = (
            side_tokens(table, rows) if self.window is None else side_windows(table, rows, self.window)
        )
        return token_batches(sequences, scaled, self.batch)

    def _forecast(self, table: SampleTable, rows: Integers) -> Floats:
        found: dict[int, float] = {}
        with isolated_randomness(self.seed), torch.inference_mode():
            for row, batch in self._alone(table, np.unique(rows), np.zeros(len(table))):
                reseed(self.seed)
                # A copy for each: what a module keeps from one call must not reach the forecast of another.
                module = copied(self.name, self.module_)
                found[row] = float(call(module, batch, self.name).reshape(-1)[0])
        return np.array([found[row] for row in rows.tolist()], dtype=np.float64)

    def _alone(self, table: SampleTable, rows: Integers, unknown: Floats) -> Any:
        """Give each row with a batch of its own, which holds what is visible at it and nothing more."""
        if self.reads == "features":
            inputs = self.columns_.transform(table, rows)
            for place, row in enumerate(rows.tolist()):
                yield row, row_batches(inputs[place : place + 1], np.zeros(1), 1)[0]
            return
        if self.window is not None:
            for tokens in side_windows(table, rows, self.window):
                yield int(tokens.rows[0]), token_batch([tokens], unknown)
            return
        assert table.sequences is not None
        for entity, positions in table.positions_by_entity(rows).items():
            tokens = table.sequences.tokens_of(entity)
            for place in table.sequences.queries(entity, rows[positions]).tolist():
                one = slice(place, place + 1)
                count = int(tokens.counts[place])
                prefix = replace(
                    tokens,
                    events=tokens.events[:count],
                    event_times=tokens.event_times[:count],
                    queries=tokens.queries[one],
                    query_times=tokens.query_times[one],
                    counts=tokens.counts[one],
                    rows=tokens.rows[one],
                )
                yield int(tokens.rows[place]), token_batch([prefix], unknown)


def _tensors(module: nn.Module) -> set[int]:
    """Give the places in memory of a module's weights and buffers."""
    return {part.data_ptr() for part in (*module.parameters(), *module.buffers()) if part.numel()}
