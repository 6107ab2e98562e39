"""Training one network on whole sequences, with early stopping on purged validation forecasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quantattn.errors import DenominatorError, ForecasterError, UsageError
from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.objectives import SQUARED, Objective
from quantattn.forecasters.passes import answers, epoch_order, evaluate, forecast_outputs, merged
from quantattn.forecasters.schedules import learning_rates
from quantattn.forecasters.supervision import Supervision, supervise, with_targets
from quantattn.forecasters.tokens import EntityTokens

Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EpochLog:
    """What one epoch did.

    Parameters
    ----------
    epoch : int
        Counted from zero.
    training_loss, validation_loss : float
        Mean losses in units of the scaled target, squared errors by default; the second is NaN without
        validation.
    """

    epoch: int
    training_loss: float
    validation_loss: float


@dataclass(frozen=True)
class TrainingLog:
    """What a training run did.

    Parameters
    ----------
    epochs : tuple of EpochLog
        One entry per epoch.
    best_epoch : int
        The epoch whose weights were kept.
    tokens : int
        Event and query tokens that all training passes went over.
    seconds : float
        Wall time of the training passes, validation left out.
    """

    epochs: tuple[EpochLog, ...]
    best_epoch: int
    tokens: int
    seconds: float


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Seed torch and demand deterministic algorithms inside, leaving the caller's settings as they were."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        # No memory is read before it is written, here or in the attention; filling it would take a fifth of a
        # step and change no bit.
        memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn_only)
            memory.fill_uninitialized_memory = fill


def _diverged(what: str, epoch: int, learning_rate: float) -> ForecasterError:
    return ForecasterError(f"{what} in epoch {epoch}; lower learning_rate (now {learning_rate})")


@contextmanager
def _refused_divergence(epoch: int, learning_rate: float) -> Iterator[None]:
    """Report weights that have grown out of range as such, and not as the read that met them."""
    try:
        yield
    except DenominatorError as error:
        raise _diverged(f"the weights went out of range ({error})", epoch, learning_rate) from error


def evaluate_loss(network: AttentionNetwork, batches: Sequence[TokenBatch], scaled: Tensor) -> float:
    """Give the mean squared error over the queries of some batches, in units of the scaled target."""
    supervision = Supervision(SQUARED, scaled[:, None])
    return evaluate(network, batches, supervision, TrainingConfig(), scaled.device)


def train(
    sequences: Sequence[EntityTokens],
    validation: Sequence[EntityTokens],
    target: Floats64,
    *,
    network: NetworkConfig,
    training: TrainingConfig,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
    objective: Objective = SQUARED,
    weights: Floats64 | None = None,
    initial: Mapping[str, Tensor] | None = None,
) -> tuple[AttentionNetwork, TrainingLog]:
    """Train a network from fresh weights.

    Parameters
    ----------
    sequences : sequence of EntityTokens
        Training sequences: only training queries, and only events that these read.
    validation : sequence of EntityTokens
        Validation sequences; may be empty, then the last epoch is kept.
    target : ndarray of float64, shape (n_samples,) or (n_samples, targets)
        Scaled target by row of the samples frame; only rows of the queries given are read. A matrix may hold
        NaN where a target is missing.
    network, training : NetworkConfig, TrainingConfig
        Sizes, and how to train.
    seed : int
        Decides the initial weights and the order of the sequences; equal seeds give the twins equal
        initial weights.
    on_epoch : callable, optional
        Called with the epoch's number after each epoch.
    objective : Objective, optional
        The loss; the squared error by default.
    weights : ndarray of float64, shape (n_samples, targets), optional
        What each target weighs, not negative; all the same by default.
    initial : mapping of str to Tensor, optional
        Weights to begin from, by the names of the network's ``state_dict``; fresh ones by default.

    Returns
    -------
    network : AttentionNetwork
        In evaluation mode, on the CPU, with the weights of the best epoch.
    log : TrainingLog

    Raises
    ------
    ForecasterError
        If there is no training query, a target is not finite, or the loss becomes non-finite.
    UsageError
        If the loss does not fit the head, or the device is not there.

    Notes
    -----
    With ``training.segment_tokens`` a sequence is read in segments. Each adds its gradient, which ends at the
    segment's beginning, and the step is taken after the last: one segment makes the step of a whole pass.
    """
    device = _device(training.device)
    used = np.concatenate([np.empty(0, np.int64), *(s.rows for s in (*sequences, *validation))])
    supervision = supervise(np.asarray(target), weights, objective, network.head, used)
    sequences = with_targets(sequences, supervision)
    validation = with_targets(validation, supervision)
    if not sequences:
        raise ForecasterError("there is no training forecast; lengthen train_size or start earlier")
    with deterministic(seed):
        model = AttentionNetwork(network, sequences[0].events.shape[1], sequences[0].queries.shape[1])
        if initial is not None:
            model.load_state_dict(dict(initial))
        model, supervision = model.to(device), supervision.on(device)
        held_out = merged(validation, network, training.batch_entities)
        lengths = [len(s.events) + len(s.queries) for s in sequences]
        steps = -(-len(sequences) // training.batch_entities)
        optimizer = make_optimizer(model, training)
        schedule = learning_rates(optimizer, training, training.epochs * steps)
        best = {name: value.clone() for name, value in model.state_dict().items()}
        best_loss, best_epoch, tokens, seconds = float("inf"), -1, 0, 0.0
        log: list[EpochLog] = []
        for epoch in range(training.epochs):
            started = time.perf_counter()
            model.train()
            total, count = 0.0, 0.0
            with _refused_divergence(epoch, training.learning_rate):
                for chosen in epoch_order(lengths, training):
                    batch = merge([sequences[i] for i in chosen], network.half_lives).on(device)
                    loss, n = take_step(model, batch, supervision, training, optimizer)
                    schedule.step()
                    total += loss
                    count += n
                    tokens += batch.n_tokens
                seconds += time.perf_counter() - started
                training_loss = total / count
                validation_loss = (
                    evaluate(model, held_out, supervision, training, device) if held_out else float("nan")
                )
            for side, value in (("training", training_loss), ("validation", validation_loss)):
                if not np.isfinite(value) and (side == "training" or held_out):
                    raise _diverged(f"the {side} loss became {value}", epoch, training.learning_rate)
            log.append(EpochLog(epoch, training_loss, validation_loss))
            if not held_out or validation_loss < best_loss:
                best_loss, best_epoch = validation_loss, epoch
                best = {name: value.clone() for name, value in model.state_dict().items()}
            if on_epoch is not None:
                on_epoch(epoch)
            if epoch - best_epoch >= training.patience:
                break
        model.load_state_dict(best)
        model = model.cpu().eval()
    return model, TrainingLog(tuple(log), best_epoch, tokens, seconds)


def _device(name: str) -> torch.device:
    if name != "cpu" and not torch.cuda.is_available():
        raise UsageError(f"device={name!r}: torch finds no CUDA device here; use device='cpu'")
    return torch.device(name)


def make_optimizer(model: AttentionNetwork, training: TrainingConfig) -> torch.optim.AdamW:
    """Give AdamW over a network's weights (Loshchilov and Hutter 2019, algorithm 2)."""
    # foreach goes over all weights in one call: the same bits, fewer calls.
    return torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay, foreach=True
    )


def take_step(
    model: AttentionNetwork,
    batch: TokenBatch,
    supervision: Supervision,
    training: TrainingConfig,
    optimizer: torch.optim.Optimizer,
) -> tuple[float, float]:
    """Take one step of the optimiser; give the batch's loss, summed over its targets, and their weight."""
    optimizer.zero_grad(set_to_none=True)
    weight = _weight(batch, supervision)
    total = 0.0
    for part, raw in answers(model, batch, training):
        loss, _ = supervision.loss(model, part, raw)
        (loss / weight).backward()
        total += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip, foreach=True)
    optimizer.step()
    return total, weight


def _weight(batch: TokenBatch, supervision: Supervision) -> float:
    """Give the sum of the weights of a batch's targets."""
    if supervision.weights is None:
        return int(batch.query_mask.sum()) * supervision.targets.shape[1]
    rows = batch.query_rows.clamp(min=0)
    return float(supervision.weights[rows][batch.query_mask].sum())


def forecast_batch(
    network: AttentionNetwork, sequences: Sequence[EntityTokens], batch_entities: int
) -> dict[int, float]:
    """Forecast every query by the batch path.

    Parameters
    ----------
    network : AttentionNetwork
        A trained network of one output.
    sequences : sequence of EntityTokens
        Whole histories.
    batch_entities : int
        Sequences per pass.

    Returns
    -------
    dict of int to float
        Forecast in units of the scaled target, by row of the samples frame.
    """
    rows, raw = forecast_outputs(network, sequences, batch_entities)
    if network.outputs != 1:
        raise ForecasterError(
            f"the head {network.config.head.kind!r} gives {network.outputs} numbers for each forecast; use "
            "forecast_outputs"
        )
    return dict(zip(rows.tolist(), raw[:, 0].tolist(), strict=True))
