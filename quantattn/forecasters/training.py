"""Training one network on whole sequences, with early stopping on purged validation forecasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quantattn.errors import DenominatorError, ForecasterError
from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.network import AttentionNetwork
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
        Mean squared errors in units of the scaled target; the second is NaN without validation.
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _one_cycle(
    optimizer: torch.optim.Optimizer, peak: float, steps: int
) -> torch.optim.lr_scheduler.OneCycleLR:
    """Let the learning rate rise over a fifth of the steps and fall over the rest."""
    # At 5 steps a fifth is one step, between whose ends torch divides by zero.
    rise = 0.3 if steps == 5 else 0.2
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=max(2, steps), pct_start=rise)


def _diverged(what: str, epoch: int, learning_rate: float) -> ForecasterError:
    return ForecasterError(f"{what} in epoch {epoch}; lower learning_rate (now {learning_rate})")


@contextmanager
def _refused_divergence(epoch: int, learning_rate: float) -> Iterator[None]:
    """Report weights that have grown out of range as such, and not as the read that met them."""
    try:
        yield
    except DenominatorError as error:
        raise _diverged(f"the weights went out of range ({error})", epoch, learning_rate) from error


def _targets(batch: TokenBatch, scaled: Tensor) -> Tensor:
    return scaled[batch.query_rows.clamp(min=0)]


def _batches(sequences: Sequence[EntityTokens], config: NetworkConfig, size: int) -> list[TokenBatch]:
    return [merge(sequences[i : i + size], config.half_lives) for i in range(0, len(sequences), size)]


def _squared_error(network: AttentionNetwork, batch: TokenBatch, scaled: Tensor) -> tuple[Tensor, int]:
    error = (network(batch) - _targets(batch, scaled))[batch.query_mask]
    return error.square().sum(), error.numel()


def evaluate_loss(network: AttentionNetwork, batches: Sequence[TokenBatch], scaled: Tensor) -> float:
    """Give the mean squared error over the queries of some batches, in units of the scaled target."""
    network.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            loss, n = _squared_error(network, batch, scaled)
            total += float(loss)
            count += n
    return total / max(count, 1)


def train(
    sequences: Sequence[EntityTokens],
    validation: Sequence[EntityTokens],
    target: Floats64,
    *,
    network: NetworkConfig,
    training: TrainingConfig,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
) -> tuple[AttentionNetwork, TrainingLog]:
    """Train a network from fresh weights.

    Parameters
    ----------
    sequences : sequence of EntityTokens
        Training sequences: only training queries, and only events that these read.
    validation : sequence of EntityTokens
        Validation sequences; may be empty, then the last epoch is kept.
    target : ndarray of float64, shape (n_samples,)
        Scaled target by row of the samples frame; only rows of the queries given are read.
    network, training : NetworkConfig, TrainingConfig
        Sizes, and how to train.
    seed : int
        Decides the initial weights and the order of the sequences; equal seeds give the twins equal
        initial weights.
    on_epoch : callable, optional
        Called with the epoch's number after each epoch.

    Returns
    -------
    network : AttentionNetwork
        In evaluation mode, with the weights of the best epoch.
    log : TrainingLog

    Raises
    ------
    ForecasterError
        If there is no training query, a target is not finite, or the loss becomes non-finite.
    """
    sequences = [s for s in sequences if len(s.rows)]
    validation = [s for s in validation if len(s.rows)]
    if not sequences:
        raise ForecasterError("there is no training forecast; lengthen train_size or start earlier")
    used = np.concatenate([s.rows for s in (*sequences, *validation)])
    if not np.isfinite(target[used]).all():
        bad = used[~np.isfinite(target[used])][:3].tolist()
        raise ForecasterError(f"the target is not finite in sample rows {bad}; drop those samples")
    with deterministic(seed):
        scaled = torch.from_numpy(np.asarray(target, np.float32))
        model = AttentionNetwork(network, sequences[0].events.shape[1], sequences[0].queries.shape[1])
        held_out = _batches(validation, network, training.batch_entities)
        steps = -(-len(sequences) // training.batch_entities)
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        schedule = _one_cycle(optimizer, training.learning_rate, training.epochs * steps)
        best = {name: value.clone() for name, value in model.state_dict().items()}
        best_loss, best_epoch, tokens, seconds = float("inf"), -1, 0, 0.0
        log: list[EpochLog] = []
        for epoch in range(training.epochs):
            started = time.perf_counter()
            model.train()
            order = torch.randperm(len(sequences)).tolist()
            total, count = 0.0, 0
            with _refused_divergence(epoch, training.learning_rate):
                for step in range(steps):
                    chosen = order[step * training.batch_entities : (step + 1) * training.batch_entities]
                    batch = merge([sequences[i] for i in chosen], network.half_lives)
                    loss, n = _squared_error(model, batch, scaled)
                    optimizer.zero_grad(set_to_none=True)
                    (loss / n).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
                    optimizer.step()
                    schedule.step()
                    total += float(loss.detach())
                    count += n
                    tokens += batch.n_tokens
                seconds += time.perf_counter() - started
                training_loss = total / count
                validation_loss = evaluate_loss(model, held_out, scaled) if held_out else float("nan")
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
        model.eval()
    return model, TrainingLog(tuple(log), best_epoch, tokens, seconds)


def forecast_batch(
    network: AttentionNetwork, sequences: Sequence[EntityTokens], batch_entities: int
) -> dict[int, float]:
    """Forecast every query by the batch path.

    Parameters
    ----------
    network : AttentionNetwork
        A trained network.
    sequences : sequence of EntityTokens
        Whole histories.
    batch_entities : int
        Sequences per pass.

    Returns
    -------
    dict of int to float
        Forecast in units of the scaled target, by row of the samples frame.
    """
    network.eval()
    forecasts: dict[int, float] = {}
    with torch.inference_mode():
        for batch in _batches([s for s in sequences if len(s.rows)], network.config, batch_entities):
            values = network(batch)[batch.query_mask].double().tolist()
            forecasts.update(zip(batch.query_rows[batch.query_mask].tolist(), values, strict=True))
    return forecasts
