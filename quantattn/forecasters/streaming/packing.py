"""A network's weights as one flat float32 array, in the order in which the kernels walk them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from quantattn.forecasters.network import AttentionNetwork, Block


@dataclass(frozen=True)
class PackedNetwork:
    """Weights and sizes for the streaming kernels.

    Parameters
    ----------
    weights : ndarray of float32, shape (n,)
        Event embedding, start token, query embedding, direct weights; then per block: norm, projection,
        mix, norm, expand, contract; then final norm and head. Matrices are (in, out), but for the direct
        weights, which lie as (out, in).
    sizes : tuple of int, length 7
        event width, query width, width, heads, layers, feed-forward width, outputs.
    """

    weights: npt.NDArray[np.float32]
    sizes: tuple[int, int, int, int, int, int, int]


def _flat(tensor: torch.Tensor) -> npt.NDArray[np.float32]:
    return tensor.detach().to(torch.float32).contiguous().view(-1).numpy()


def _linear(layer: torch.nn.Linear) -> list[npt.NDArray[np.float32]]:
    return [_flat(layer.weight.t()), _flat(layer.bias)]


def _norm(layer: torch.nn.LayerNorm) -> list[npt.NDArray[np.float32]]:
    return [_flat(layer.weight), _flat(layer.bias)]


def pack(network: AttentionNetwork) -> PackedNetwork:
    """Pack a network for the streaming kernels.

    Parameters
    ----------
    network : AttentionNetwork
        The network; it is not changed.

    Returns
    -------
    PackedNetwork
    """
    parts = [*_linear(network.event_embedding), _flat(network.start), *_linear(network.query_embedding)]
    parts.append(_flat(network.direct.weight))
    for block in cast(Iterable[Block], network.blocks):
        parts += [
            *_norm(block.attention_norm),
            *_linear(block.projection),
            *_linear(block.mix),
            *_norm(block.feed_forward_norm),
            *_linear(block.expand),
            *_linear(block.contract),
        ]
    parts += [*_norm(network.final_norm), *_linear(network.head)]
    config = network.config
    return PackedNetwork(
        np.concatenate(parts),
        (
            network.event_width,
            network.query_width,
            config.width,
            config.heads,
            config.layers,
            config.feed_forward,
            network.outputs,
        ),
    )
