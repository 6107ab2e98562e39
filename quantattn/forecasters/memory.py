"""What a block remembers between two segments of a sequence: a state, or every key and value.

Memories are cut off from the gradient's graph: within a segment gradients are whole, at its border they end
(truncated backpropagation through time, Williams and Peng 1990).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quantattn.attention import AttentionState, Denominator, linear_attention, softmax_attention
from quantattn.forecasters.config import NetworkConfig


@dataclass(frozen=True)
class Cache:
    """Keys and values of all tokens so far.

    Parameters
    ----------
    key, value : Tensor, shape (B, H, T, head width)
        Of tokens that write and of those that do not.
    writes : Tensor of bool, shape (B, T)
        Which of them write.
    log_decay : Tensor, shape (B, H, T), or None
        Decay before each.
    """

    key: Tensor
    value: Tensor
    writes: Tensor
    log_decay: Tensor | None

    def extended(self, key: Tensor, value: Tensor, writes: Tensor, log_decay: Tensor | None) -> Cache:
        """Append the tokens of a segment."""
        decay = None
        if self.log_decay is not None and log_decay is not None:
            decay = torch.cat([self.log_decay, log_decay], dim=2)
        return Cache(
            torch.cat([self.key, key], dim=2),
            torch.cat([self.value, value], dim=2),
            torch.cat([self.writes, writes], dim=1),
            decay,
        )

    def detach(self) -> Cache:
        """Cut the cache off from the gradient's graph."""
        return Cache(self.key.detach(), self.value.detach(), self.writes, self.log_decay)


BlockMemory = AttentionState | Cache
"""Of one block: a state of fixed size for the linear attention, a growing cache for softmax."""


@dataclass(frozen=True)
class Memory:
    """What a network remembers of the first tokens of some sequences.

    Parameters
    ----------
    blocks : tuple of AttentionState or Cache
        By block.
    """

    blocks: tuple[BlockMemory, ...]


def linear_segment(
    config: NetworkConfig,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    writes: Tensor,
    log_decay: Tensor | None,
    memory: AttentionState | None,
    *,
    denominator: Denominator,
    chunk_size: int,
) -> tuple[Tensor, AttentionState]:
    """Read a segment behind a state; give the read and the detached state after it.

    Shapes are those of :meth:`~quantattn.forecasters.network.Block.attend`; counts are within the segment.
    """
    read = linear_attention(
        query,
        key,
        value,
        feature_map=config.feature_map,
        visible_counts=counts,
        key_mask=writes,
        log_decay=log_decay,
        initial_state=memory,
        return_state=True,
        denominator=denominator,
        chunk_size=chunk_size,
    )
    assert read.state is not None
    return read.output, read.state.detach()


def softmax_segment(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    writes: Tensor,
    log_decay: Tensor | None,
    memory: Cache | None,
) -> tuple[Tensor, Cache]:
    """Read a segment behind a cache; give the read and the detached cache after it."""
    batch, length = writes.shape
    if memory is None:
        whole, before = Cache(key, value, writes, log_decay), 0
    else:
        whole, before = memory.extended(key, value, writes, log_decay), memory.writes.shape[1]
    if counts is None:
        counts = torch.arange(1, length + 1, device=writes.device).expand(batch, -1)
    read = softmax_attention(
        query,
        whole.key,
        whole.value,
        visible_counts=counts + before,
        key_mask=whole.writes,
        log_decay=whole.log_decay,
    )
    return read, whole.detach()
