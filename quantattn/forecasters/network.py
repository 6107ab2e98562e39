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
        query, key, value = (self._heads(x) for x in (query, key, value))
        read = self.attend(query, key, value, counts, writes, log_decay)
        hidden = hidden + self.mix(read.transpose(1, 2).flatten(2))
        result: Tensor = hidden + self.contract(torch.relu(self.expand(self.feed_forward_norm(hidden))))
        return result

    def _heads(self, x: Tensor) -> Tensor:
        """Split the width into heads: (B, T, width) to (B, H, T, head width)."""
        heads: Tensor = x.unflatten(-1, (self.config.heads, -1))
        return heads.transpose(1, 2)


class AttentionNetwork(nn.Module):
    """Forecasts from token sequences: one real number for every query token.

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
        self.head = nn.Linear(config.width, 1)
        # What is linear in the as-of features need not pass through the attention.
        self.direct = nn.Linear(query_width, 1, bias=False)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        nn.init.zeros_(self.direct.weight)

    def embed(self, batch: TokenBatch) -> Tensor:
        """Give the merged embedded tokens; shape (B, T, width)."""
        hidden = self.event_embedding(batch.events)
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
        Tensor, shape (B, M)
            Forecasts in units of the scaled target; meaningless where ``query_mask`` is false.
        """
        hidden = self.embed(batch)
        decays = any(h is not None for h in self.config.half_lives)
        log_decay = batch.log_decay if decays else None
        *inner, last = self.blocks
        for block in inner:
            hidden = block(hidden, batch.writes, log_decay)
        # Behind the last block only the forecasts are wanted: its events write and read nothing more.
        read = self.final_norm(last(hidden, batch.writes, log_decay, batch.query_positions))
        forecasts: Tensor = (self.head(read) + self.direct(batch.queries))[..., 0]
        return forecasts
