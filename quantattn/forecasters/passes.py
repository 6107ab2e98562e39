"""Passes of a network over batches: whole or in segments, in order, on the device and precision asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.forecasters.memory import Memory
from quantattn.forecasters.network import AttentionNetwork
from quantattn.forecasters.supervision import Supervision
from quantattn.forecasters.tokens import EntityTokens


def answers(
    network: AttentionNetwork, batch: TokenBatch, config: TrainingConfig
) -> Iterator[tuple[TokenBatch, Tensor]]:
    """Give the raw numbers at a batch's queries, segment by segment where the configuration asks for it.

    Parameters
    ----------
    network : AttentionNetwork
        On the device of the batch.
    batch : TokenBatch
        Merged sequences.
    config : TrainingConfig
        `segment_tokens` and `mixed_precision` are read.

    Yields
    ------
    batch : TokenBatch
        The batch, or the part of it that was read.
    raw : Tensor, shape (B, M, outputs)
        Raw numbers. Of a segment, the graph ends at its beginning; parts without queries are passed over.
    """
    kind = batch.events.device.type

    def low() -> torch.autocast:
        return torch.autocast(kind, dtype=torch.bfloat16, enabled=config.mixed_precision)

    if config.segment_tokens is None or config.segment_tokens >= batch.events.shape[1]:
        with low():
            raw = network.raw(batch)
        yield batch, raw
        return
    memory: Memory | None = None
    for part in batch.segments(config.segment_tokens):
        asks = bool(part.query_mask.any())
        with low(), torch.set_grad_enabled(torch.is_grad_enabled() and asks):
            raw, memory = network.advance(part, memory)
        if asks:
            yield part, raw


def evaluate(
    network: AttentionNetwork,
    batches: Sequence[TokenBatch],
    supervision: Supervision,
    config: TrainingConfig,
    device: torch.device,
) -> float:
    """Give the weighted mean loss over the queries of some batches, in units of the scaled target."""
    network.eval()
    total, weight = 0.0, 0.0
    with torch.inference_mode():
        for batch in batches:
            for part, raw in answers(network, batch.on(device), config):
                loss, n = supervision.loss(network, part, raw)
                total += float(loss)
                weight += n
    return total / weight if weight else float("nan")


def forecast_outputs(
    network: AttentionNetwork,
    sequences: Sequence[EntityTokens],
    batch_entities: int,
    segment_tokens: int | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Give the raw numbers of the head at every query by the batch path.

    Parameters
    ----------
    network : AttentionNetwork
        A trained network, on the CPU.
    sequences : sequence of EntityTokens
        Whole histories.
    batch_entities : int
        Sequences per pass.
    segment_tokens : int, optional
        Positions of a segment; whole sequences by default.

    Returns
    -------
    rows : ndarray of int64, shape (m,)
        Rows of the samples frame, rising.
    raw : ndarray of float64, shape (m, outputs)
        In units of the scaled targets; see :func:`~quantattn.forecasters.heads.distribution`.
    """
    network.eval()
    config = TrainingConfig(segment_tokens=segment_tokens)
    rows: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    found: list[npt.NDArray[np.float64]] = [np.empty((0, network.outputs))]
    with torch.inference_mode():
        for batch in merged([s for s in sequences if len(s.rows)], network.config, batch_entities):
            for part, raw in answers(network, batch, config):
                rows.append(part.query_rows[part.query_mask].numpy())
                found.append(raw[part.query_mask].double().numpy())
    order = np.argsort(np.concatenate(rows), kind="stable")
    return np.concatenate(rows)[order], np.concatenate(found)[order]


def merged(sequences: Sequence[EntityTokens], config: NetworkConfig, size: int) -> list[TokenBatch]:
    """Merge sequences in their order, so many at a time."""
    return [merge(sequences[i : i + size], config.half_lives) for i in range(0, len(sequences), size)]


def epoch_order(lengths: Sequence[int], config: TrainingConfig) -> list[list[int]]:
    """Deal the sequences of one epoch into steps, by torch's random numbers.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each sequence.
    config : TrainingConfig
        `batching` and `batch_entities` are read. By length, sequences of about one length share a step; which
        of equal length do, and the order of the steps, is left to chance.

    Returns
    -------
    list of list of int
        Places of the sequences, each once.
    """
    order = torch.randperm(len(lengths)).tolist()
    size = config.batch_entities
    if config.batching == "by_length":
        order.sort(key=lambda place: lengths[place])
    steps = [order[start : start + size] for start in range(0, len(order), size)]
    if config.batching == "by_length":
        return [steps[place] for place in torch.randperm(len(steps)).tolist()]
    return steps
