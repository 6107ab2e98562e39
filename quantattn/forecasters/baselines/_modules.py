"""Training of a small torch module in epochs, with early stopping on the validation side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines._checks import copied, first_line, require_count, require_positive
from quantattn.forecasters.baselines.table import Floats
from quantattn.forecasters.tokens import EntityTokens


@dataclass(frozen=True)
class Batch:
    """What a module is called with at once, and what it should have given.

    Parameters
    ----------
    inputs : tuple of Tensor
        Its positional arguments.
    target : Tensor of float32
        In units of the scaled target, of the shape that the module gives.
    mask : Tensor of bool
        Of the same shape; False for padding.
    """

    inputs: tuple[Tensor, ...]
    target: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Epochs:
    """How a module is trained: AdamW on the mean squared error of the scaled target.

    Parameters
    ----------
    epochs : int
        At most; the weights of the best validation epoch are kept, or of the last without validation.
    learning_rate, weight_decay : float
        Of AdamW.
    gradient_clip : float
        Largest norm of a step's gradient.
    patience : int
        Stop after this many epochs without a better validation loss.
    """

    epochs: int
    learning_rate: float
    weight_decay: float
    gradient_clip: float
    patience: int

    def check(self, name: str) -> None:
        """Refuse impossible values.

        Raises
        ------
        ForecasterError
            Naming the argument.
        """
        for argument in ("epochs", "patience"):
            require_count(name, argument, getattr(self, argument), 1)
        for argument in ("learning_rate", "gradient_clip"):
            require_positive(name, argument, getattr(self, argument))
        require_positive(name, "weight_decay", self.weight_decay, or_zero=True)


def _own(values: np.ndarray) -> Tensor:
    # Torch's own memory is aligned; over numpy's, equal runs would not always give equal bits.
    return torch.from_numpy(np.ascontiguousarray(values)).clone()


def token_batch(sequences: Sequence[EntityTokens], scaled: Floats) -> Batch:
    """Pad the sequences of several entities into one batch.

    Parameters
    ----------
    sequences : sequence of EntityTokens
        B of them, at least one.
    scaled : ndarray of float64, shape (n_samples,)
        Scaled target by row; only the rows of the queries are read.

    Returns
    -------
    Batch
        Inputs events (B, T, event width), queries (B, M, query width) and counts (B, M).
    """
    length = max(1, max(len(s.events) for s in sequences))
    most = max(1, max(len(s.queries) for s in sequences))
    size = len(sequences)
    events = np.zeros((size, length, sequences[0].events.shape[1]), np.float32)
    queries = np.zeros((size, most, sequences[0].queries.shape[1]), np.float32)
    counts, mask = np.zeros((size, most), np.int64), np.zeros((size, most), bool)
    target = np.zeros((size, most), np.float32)
    for b, tokens in enumerate(sequences):
        m = len(tokens.queries)
        events[b, : len(tokens.events)] = tokens.events
        queries[b, :m], counts[b, :m], mask[b, :m] = tokens.queries, tokens.counts, True
        target[b, :m] = scaled[tokens.rows]
    return Batch((_own(events), _own(queries), _own(counts)), _own(target), _own(mask))


def token_batches(sequences: Sequence[EntityTokens], scaled: Floats, size: int) -> list[Batch]:
    """Batch sequences of similar length together; see :func:`token_batch`."""
    ordered = sorted(sequences, key=lambda tokens: len(tokens.events))
    return [token_batch(ordered[i : i + size], scaled) for i in range(0, len(ordered), size)]


def row_batches(inputs: Floats, scaled: Floats, size: int) -> list[Batch]:
    """Cut rows, shape (m, k), and their scaled targets, shape (m,), into batches, in order."""
    batches = []
    for start in range(0, len(inputs), size):
        part = slice(start, start + size)
        target = _own(scaled[part].astype(np.float32))
        batches.append(
            Batch((_own(inputs[part].astype(np.float32)),), target, torch.ones_like(target, dtype=torch.bool))
        )
    return batches


def call(module: nn.Module, batch: Batch, name: str) -> Tensor:
    """Call a module, and refuse an output that is not one number for each target.

    Raises
    ------
    ForecasterError
        If it fails, or gives something else.
    """
    try:
        output = module(*batch.inputs)
    except Exception as error:
        shapes = [tuple(part.shape) for part in batch.inputs]
        raise ForecasterError(
            f"{name}: the module failed on inputs of shapes {shapes} ({first_line(error)}); "
            "correct its forward"
        ) from error
    if isinstance(output, Tensor) and output.shape == (*batch.target.shape, 1):
        output = output[..., 0]
    if not isinstance(output, Tensor) or output.shape != batch.target.shape:
        found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ForecasterError(
            f"{name}: the module gave {found}, not a tensor of shape {tuple(batch.target.shape)}; give one "
            "number for each forecast"
        )
    if output.is_complex():
        raise ForecasterError(f"{name}: the module gave complex numbers; give real ones")
    return output


def _loss(module: nn.Module, batch: Batch, name: str) -> tuple[Tensor, int]:
    error = (call(module, batch, name) - batch.target)[batch.mask]
    return error.square().sum(), error.numel()


def _mean_loss(module: nn.Module, batches: Sequence[Batch], name: str) -> float:
    # A copy: what a module keeps from call to call must not carry the validation side into training.
    module = copied(name, module).eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            loss, n = _loss(module, batch, name)
            total, count = total + float(loss), count + n
    return total / max(count, 1)


def train_module(
    module: nn.Module, batches: Sequence[Batch], validation: Sequence[Batch], how: Epochs, name: str
) -> int:
    """Train a module in place and leave it in evaluation mode with its best weights.

    Draws come from torch's global generator, which the caller seeds.

    Parameters
    ----------
    module : torch.nn.Module
        Fresh.
    batches, validation : sequence of Batch
        The second may be empty.
    how : Epochs
    name : str
        The model's name, for messages.

    Returns
    -------
    int
        The epoch, from 0, whose weights were kept.

    Raises
    ------
    ForecasterError
        If it has nothing to train, gives the wrong shape, or a loss is not finite.
    """
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    if not weights:
        raise ForecasterError(f"{name}: the module has no weights to train; register an estimator instead")
    optimizer = torch.optim.AdamW(weights, lr=how.learning_rate, weight_decay=how.weight_decay)
    best, best_loss, best_epoch = copy.deepcopy(module.state_dict()), float("inf"), 0
    for epoch in range(how.epochs):
        module.train()
        total = 0.0
        for place in torch.randperm(len(batches)).tolist():
            loss, n = _loss(module, batches[place], name)
            optimizer.zero_grad(set_to_none=True)
            (loss / max(n, 1)).backward()
            torch.nn.utils.clip_grad_norm_(weights, how.gradient_clip)
            optimizer.step()
            total += float(loss.detach())
        held_out = _mean_loss(module, validation, name) if validation else 0.0
        for side, value in (("training", total), ("validation", held_out)):
            if not np.isfinite(value):
                raise ForecasterError(
                    f"{name}: the {side} loss became {value} in epoch {epoch}; lower learning_rate "
                    f"(now {how.learning_rate})"
                )
        if not validation or held_out < best_loss:
            best, best_loss, best_epoch = copy.deepcopy(module.state_dict()), held_out, epoch
        if epoch - best_epoch >= how.patience:
            break
    module.load_state_dict(best)
    module.eval()
    return best_epoch
