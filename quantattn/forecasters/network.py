"""The network: pre-norm blocks in which events write and forecasts read.

The linear forecaster and its softmax twin share tokens, sizes, head and initial weights. Only the call
in :meth:`Block.attend` differs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from quantattn.attention import Denominator, linear_attention, softmax_attention
from quantattn.forecasters.batches import TokenBatch
from quantattn.forecasters.config import NetworkConfig
from quantattn.forecasters.memory import BlockMemory, Cache, Memory, linear_segment, softmax_segment

DENOMINATOR = Denominator.raise_()
"""The policy of both twins: the start token is always visible, so no read is empty."""


CHUNK = 32
"""Rows of a chunk of the linear attention; at narrow heads shorter chunks are the faster ones."""


class Block(nn.Module):
    """Attention and feed-forward, each behind a layer norm and around a residual.

    Parameters
    ----------
    config : NetworkConfig
        Sizes and the attention.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.config = config
        self.attention_norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, config.feed_forward)
        self.contract = nn.Linear(config.feed_forward, width)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        counts: Tensor | None,
        writes: Tensor,
        log_decay: Tensor | None,
    ) -> Tensor:
        """Read the visible prefix; shapes (B, H, T, head width), counts (B, Tq) or None for causal order."""
        if self.config.attention == "linear":
            return linear_attention(
                query,
                key,
                value,
                feature_map=self.config.feature_map,
                visible_counts=counts,
                key_mask=writes,
                log_decay=log_decay,
                denominator=DENOMINATOR,
                chunk_size=CHUNK,
            ).output
        return softmax_attention(
            query, key, value, visible_counts=counts, key_mask=writes, log_decay=log_decay
        )

    def forward(
        self, hidden: Tensor, writes: Tensor, log_decay: Tensor | None, readers: Tensor | None = None
    ) -> Tensor:
        """Give the hidden tokens after this block.

        Parameters
        ----------
        hidden : Tensor, shape (B, T, width)
            Tokens in merged order.
        writes : Tensor of bool, shape (B, T)
            Which tokens write.
        log_decay : Tensor, shape (B, H, T), or None
            Decay before each token.
        readers : Tensor of int64, shape (B, M), optional
            Positions of the tokens that are wanted; all by default.

        Returns
        -------
        Tensor, shape (B, T, width) or (B, M, width)
        """
        hidden, query, key, value, counts = self._operands(hidden, readers)
        return self._finish(hidden, self.attend(query, key, value, counts, writes, log_decay))

    def advance(
        self,
        hidden: Tensor,
        writes: Tensor,
        log_decay: Tensor | None,
        readers: Tensor | None,
        memory: BlockMemory | None,
    ) -> tuple[Tensor, BlockMemory]:
        """Go on behind a memory: :meth:`forward` for one segment of a sequence.

        Parameters
        ----------
        hidden, writes, log_decay, readers
            As for :meth:`forward`, of the segment; `readers` are positions within it.
        memory : AttentionState or Cache, or None
            Of all tokens before; None at the beginning.

        Returns
        -------
        hidden : Tensor, shape (B, T, width) or (B, M, width)
        memory : AttentionState or Cache
            After the segment, cut off from the gradient's graph.
        """
        hidden, query, key, value, counts = self._operands(hidden, readers)
        onwards: BlockMemory
        if self.config.attention == "linear":
            assert not isinstance(memory, Cache)
            read, onwards = linear_segment(
                self.config, query, key, value, counts, writes, log_decay, memory,
                denominator=DENOMINATOR, chunk_size=CHUNK,
            )  # fmt: skip
        else:
            assert memory is None or isinstance(memory, Cache)
            read, onwards = softmax_segment(query, key, value, counts, writes, log_decay, memory)
        return self._finish(hidden, read), onwards

    def _operands(
        self, hidden: Tensor, readers: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Give the tokens that go on, their queries, all keys and values, and what each query sees."""
        width = hidden.shape[-1]
        normed = self.attention_norm(hidden)
        counts = None
        if readers is None:
            query, key, value = self.projection(normed).chunk(3, dim=-1)
        else:
            where = readers[..., None].expand(-1, -1, width)
            hidden = hidden.gather(1, where)
            weight, bias = self.projection.weight, self.projection.bias
            query = nn.functional.linear(normed.gather(1, where), weight[:width], bias[:width])
            key, value = nn.functional.linear(normed, weight[width:], bias[width:]).chunk(2, dim=-1)
            counts = readers + 1
        return hidden, self._heads(query), self._heads(key), self._heads(value), counts

    def _finish(self, hidden: Tensor, read: Tensor) -> Tensor:
        """Add what was read, (B, H, T, head width), and the feed-forward part."""
        hidden = hidden + self.mix(read.transpose(1, 2).flatten(2))
        result: Tensor = hidden + self.contract(torch.relu(self.expand(self.feed_forward_norm(hidden))))
        return result

    def _heads(self, x: Tensor) -> Tensor:
        """Split the width into heads: (B, T, width) to (B, H, T, head width)."""
        heads: Tensor = x.unflatten(-1, (self.config.heads, -1))
        return heads.transpose(1, 2)


class AttentionNetwork(nn.Module):
    """Forecasts from token sequences: the numbers of the head, one by default, for every query token.

    Parameters
    ----------
    config : NetworkConfig
        Sizes and the attention.
    event_width, query_width : int
        Widths of the event and query tokens.
    """

    def __init__(self, config: NetworkConfig, event_width: int, query_width: int) -> None:
        super().__init__()
        self.config = config
        self.event_width = event_width
        self.query_width = query_width
        self.event_embedding = nn.Linear(event_width, config.width)
        self.query_embedding = nn.Linear(query_width, config.width)
        self.start = nn.Parameter(torch.zeros(config.width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(config.width)
        self.outputs = config.head.outputs
        self.head = nn.Linear(config.width, self.outputs)
        # What is linear in the as-of features need not pass through the attention.
        self.direct = nn.Linear(query_width, self.outputs, bias=False)
        nn.init.zeros_(self.head.weight)
        with torch.no_grad():
            self.head.bias.copy_(config.head.initial_bias())
        nn.init.zeros_(self.direct.weight)

    def embed(self, batch: TokenBatch, *, from_start: bool = True) -> Tensor:
        """Give the merged embedded tokens; shape (B, T, width).

        Parameters
        ----------
        batch : TokenBatch
            Merged sequences, or a segment of them.
        from_start : bool, default True
            Whether position 0 is the start token.
        """
        hidden = self.event_embedding(batch.events)
        if from_start:
            hidden = torch.cat([self.start.expand(hidden.shape[0], 1, -1), hidden[:, 1:]], dim=1)
        # Padded queries go to one row behind the end, which is cut off again.
        length = hidden.shape[1]
        target = batch.query_positions.masked_fill(~batch.query_mask, length)
        target = target[..., None].expand(-1, -1, hidden.shape[-1])
        spare = hidden.new_zeros(hidden.shape[0], 1, hidden.shape[-1])
        return torch.cat([hidden, spare], dim=1).scatter(1, target, self.query_embedding(batch.queries))[
            :, :length
        ]

    def forward(self, batch: TokenBatch) -> Tensor:
        """Forecast at every query.

        Parameters
        ----------
        batch : TokenBatch
            Merged sequences.

        Returns
        -------
        Tensor, shape (B, M) or (B, M, outputs)
            Forecasts in units of the scaled target, or the raw numbers of a head that has more than one;
            meaningless where ``query_mask`` is false.
        """
        raw = self.raw(batch)
        return raw[..., 0] if self.outputs == 1 else raw

    def raw(self, batch: TokenBatch) -> Tensor:
        """Give the raw numbers of the head at every query; shape (B, M, outputs)."""
        hidden = self.embed(batch)
        log_decay = self._decay(batch)
        *inner, last = self.blocks
        for block in inner:
            hidden = block(hidden, batch.writes, log_decay)
        # Behind the last block only the forecasts are wanted: its events write and read nothing more.
        return self._answer(last(hidden, batch.writes, log_decay, batch.query_positions), batch)

    def advance(self, batch: TokenBatch, memory: Memory | None) -> tuple[Tensor, Memory]:
        """Go on behind a memory: the raw numbers at the queries of one segment.

        Parameters
        ----------
        batch : TokenBatch
            A segment of merged sequences, the start token in the first of them alone.
        memory : Memory or None
            Of the segments before; None for the first.

        Returns
        -------
        raw : Tensor, shape (B, M, outputs)
            As :meth:`raw` gives them for the whole sequences, up to rounding.
        memory : Memory
            After the segment; gradients end there.
        """
        hidden = self.embed(batch, from_start=memory is None)
        log_decay = self._decay(batch)
        after: list[BlockMemory] = []
        last = len(self.blocks) - 1
        for place, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            before = None if memory is None else memory.blocks[place]
            readers = batch.query_positions if place == last else None
            hidden, onwards = block.advance(hidden, batch.writes, log_decay, readers, before)
            after.append(onwards)
        return self._answer(hidden, batch), Memory(tuple(after))

    def _decay(self, batch: TokenBatch) -> Tensor | None:
        return batch.log_decay if any(h is not None for h in self.config.half_lives) else None

    def _answer(self, read: Tensor, batch: TokenBatch) -> Tensor:
        answer: Tensor = self.head(self.final_norm(read)) + self.direct(batch.queries)
        return answer
