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
        self, query: Tensor, key: Tensor, value: Tensor, writes: Tensor, log_decay: Tensor | None
    ) -> Tensor:
        """Read the visible prefix; shapes (B, H, T, head width)."""
        if self.config.attention == "linear":
            return linear_attention(
                query,
                key,
                value,
                feature_map=self.config.feature_map,
                key_mask=writes,
                log_decay=log_decay,
                denominator=DENOMINATOR,
            ).output
        return softmax_attention(query, key, value, key_mask=writes, log_decay=log_decay)

    def forward(self, hidden: Tensor, writes: Tensor, log_decay: Tensor | None) -> Tensor:
        """Give the hidden tokens after this block; shape (B, T, width)."""
        size, length, width = hidden.shape
        projected = self.projection(self.attention_norm(hidden))
        query, key, value = projected.view(size, length, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)
        read = self.attend(query, key, value, writes, log_decay)
        hidden = hidden + self.mix(read.transpose(1, 2).reshape(size, length, width))
        return hidden + self.contract(torch.relu(self.expand(self.feed_forward_norm(hidden))))


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
        for block in self.blocks:
            hidden = block(hidden, batch.writes, batch.log_decay if decays else None)
        where = batch.query_positions[..., None].expand(-1, -1, hidden.shape[-1])
        read = self.final_norm(hidden.gather(1, where))
        return (self.head(read) + self.direct(batch.queries))[..., 0]
